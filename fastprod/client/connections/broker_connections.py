"""BrokerConnections: opens, checks and watches the connections to brokers (contract P-G.4, P-G.5).

The I/O thread owns the sockets; this is the control thread's side of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod._core.io.channel import CloseReason
from fastprod.client.connections import disconnect_reasons as reasons
from fastprod.client.connections.addresses import Address
from fastprod.client.connections.api_versions import (
    HIGHEST_VERSION,
    ApiVersions,
    api_versions_request,
    parse_api_versions_response,
    retry_version,
    throttles_after_reply,
)
from fastprod.client.connections.connection_states import ClusterConnectionStates
from fastprod.client.connections.control_requests import ControlRequests, PendingRequest
from fastprod.client.connections.routes import Routes
from fastprod.client.engine_view import EngineView
from fastprod.client.metadata.metadata import Metadata
from fastprod.client.metrics.authentication_counters import AuthenticationCounters
from fastprod.config import ProducerConfig
from fastprod.errors import (
    AuthenticationError,
    KafkaError,
    NetworkError,
    UnsupportedVersionError,
    error_for_code,
)
from fastprod.log import Log
from fastprod.protocol.api_keys import API_VERSIONS, PRODUCE
from fastprod.protocol.field_types import SchemaError
from fastprod.records import Node
from fastprod.version import VERSION

if TYPE_CHECKING:
    from fastprod.client.connections.protocol_probe import ProtocolProbes
    from fastprod.client.connections.sasl_connections import SaslConnections
    from fastprod.client.sasl.credentials import Credentials

_LOG = Log(__name__)

LONGEST_SLEEP_MS: Final = 1_000
"""What is due is looked at at least so often."""

SOFTWARE_NAME: Final = "fastprod"


class BrokerConnections:
    """One producer's connections, by node id; the engine knows a node by its slot.

    Used by the control thread, but for what says otherwise. Times are ms of its clock.

    Attributes:
        unsupported: what a broker could not do for want of a version, at last; None: nothing.

    Args:
        engine: the native side.
        config: client_id, request_timeout_ms, max_receive_bytes.
        metadata: the cluster's nodes; is told why brokers cannot be reached.
        states: bookkeeping, this object's alone.
        clock_ms: monotonic ms.
        on_lost: ``on_lost(node_id, now_ms)``: a connection ended, or could not be made.
        on_ready: a connection is ready.
        count_throttle: told the throttle time of every answer, also 0.
        credentials: who we say we are; None: connections do not use SASL.
        counters: of authentications.

    Source: Java's NetworkClient.
    """

    def __init__(
        self,
        engine: EngineView,
        config: ProducerConfig,
        metadata: Metadata,
        states: ClusterConnectionStates,
        clock_ms: Callable[[], int],
        *,
        on_lost: Callable[[int, int], None],
        on_ready: Callable[[], None],
        count_throttle: Callable[[int], None],
        credentials: Credentials | None = None,
        counters: AuthenticationCounters | None = None,
    ) -> None:
        self._engine = engine
        self._client_id = config.client_id
        self._limits = reasons.Limits(
            config.request_timeout_ms, config.max_receive_bytes, config.security_protocol
        )
        self._routes = Routes(engine, config, states.current_address)
        self._requests = ControlRequests(engine, self.slot)
        self._metadata = metadata
        self._states = states
        self._clock_ms = clock_ms
        self._on_lost = on_lost
        self._on_ready = on_ready
        self._count_throttle = count_throttle
        self._slot_of: dict[int, int] = {}
        self._node_of: dict[int, int] = {}
        self._connected: dict[int, Node] = {}
        self._disconnect_reasons: dict[int, str] = {}
        self._refusals: dict[int, AuthenticationError] = {}
        self._closing: dict[int, tuple[KafkaError, bool]] = {}
        self._counters = counters or AuthenticationCounters()
        self._credentials = credentials
        self._generation = 0
        self._sasl: SaslConnections | None = None
        if credentials is not None:
            from fastprod.client.connections.sasl_connections import (  # noqa: PLC0415
                SaslConnections,
            )

            self._sasl = SaslConnections(
                self,
                engine,
                self._routes,
                credentials,
                config,
                self._limits,
                self._counters,
                clock_ms,
            )
        self._wanted: set[int] = set()
        self._addresses: dict[int, Address] = {}
        self._proven: set[int] = set()
        self._probes: ProtocolProbes | None = None
        self.unsupported: UnsupportedVersionError | None = None

    def slot(self, node_id: int) -> int:
        """The engine's number for a node, made at its first mention."""
        slot = self._slot_of.get(node_id)
        if slot is None:
            slot = self._slot_of[node_id] = self.new_slot(node_id)
        return slot

    def new_slot(self, node_id: int) -> int:
        """One more number for a node: for a spare connection."""
        slot = len(self._node_of)
        self._node_of[slot] = node_id
        return slot

    def node_id(self, slot: int) -> int:
        """The node that a number is for, be it of a spare connection."""
        return self._node_of[slot]

    def connected_node(self, node_id: int) -> Node:
        """A node as it was last connected to."""
        return self._connected[node_id]

    def newest(self, node: Node) -> Node:
        """A node where the newest metadata has it; as it is if that does not know it."""
        return self._metadata.cluster.node(node.id) or node

    def where(self, node_id: int) -> str:
        """Where a node was last connected at, and its id, for messages."""
        node = self._connected.get(node_id) or self._metadata.cluster.node(node_id)
        if node is None:
            return f"node {node_id}"
        known = f" (node {node_id})" if node_id >= 0 else ""  # else one of bootstrap_servers
        return f"{node.host}:{node.port}{known}"

    def is_ready(self, node_id: int) -> bool:
        """Whether the connection to a node can take Produce requests. Any thread."""
        slot = self._slot_of.get(node_id)
        return slot is not None and self._engine.is_node_ready(slot)

    def disconnect_reason(self, node_id: int) -> str:
        """Why a node cannot be used, as far as is known; "" once it can. Any thread."""
        return self._disconnect_reasons.get(node_id, "")

    def in_flight_count(self, node_id: int) -> int:
        """Requests in flight to a node."""
        return self._engine.flights(self.slot(node_id))

    def can_send_more(self, node_id: int) -> bool:
        """Whether a node takes requests now."""
        # The I/O thread alone knows what Produce answers say about it.
        if self._sasl is not None and self._sasl.is_busy(self.slot(node_id)):
            return False
        return not self._engine.is_throttled(self.slot(node_id))

    # Connections come and go.

    def connect(self, node: Node, now_ms: int) -> None:
        """Start to connect to a node.

        Blocks for DNS when its name has to be resolved, and for the disk when a certificate's file
        has changed.
        """
        slot = self.slot(node.id)
        self._connected[node.id] = node
        self._states.connecting(node, now_ms)
        try:
            self._addresses[node.id] = self._routes.open(slot, node, self.where(node.id))
        except OSError as error:
            text = f"DNS does not know the host of broker {node.host}:{node.port}: {error}"
            self._not_begun(node, text)
        except Exception as error:  # else it would count as connecting; its text may be secret
            kind = type(error).__name__
            text = f"a connection to broker {self.where(node.id)} cannot begin: {kind}"
            self._not_begun(node, text)

    def _not_begun(self, node: Node, text: str) -> None:
        """The connection that was to be made is not; it is tried again after the backoff."""
        now_ms = self._clock_ms()
        self._states.disconnected(node.id, now_ms)
        failure = NetworkError(text)
        _LOG.warning("%s", failure)
        self._note_reason(failure, node.id)
        self._on_lost(node.id, now_ms)

    def want(self, node_id: int) -> None:
        """Connect to a node as soon as its backoff is over."""
        self._wanted.add(node_id)

    def want_slot(self, slot: int) -> None:
        """The same for an ON_CONNECT_WANTED event."""
        self._wanted.add(self._node_of[slot])

    def connect_wanted(self, now_ms: int) -> int:
        """Connect to those that are wanted; returns ms to the next look."""
        delay_ms = LONGEST_SLEEP_MS
        for node_id in tuple(self._wanted):
            node = self._metadata.cluster.node(node_id)
            if node is None:
                continue  # the engine asks once: it stays wanted until metadata knows it again
            if self._is_probed(node_id):
                continue  # its connection has ended already, which is told behind the probe
            if self._states.can_connect(node_id, now_ms):
                self.connect(node, now_ms)
            if not self._states.is_disconnected(node_id):
                self._wanted.discard(node_id)
            else:
                delay_ms = min(delay_ms, self._states.connection_delay_ms(node_id, now_ms))
        return delay_ms

    def close_overdue(self, now_ms: int) -> int:
        """P-G.4.4: connecting, with the handshake, took too long. Returns ms to the next look."""
        for node_id in self._states.nodes_with_setup_timeout(now_ms):
            self._states.overdue(node_id)
            if self._is_probed(node_id):
                continue  # the same
            step = "" if self._sasl is None else self._sasl.step(self.slot(node_id))
            after_ms = self._states.connection_delay_ms(node_id, now_ms)
            error = NetworkError(self._routes.overdue_reason(self.where(node_id), after_ms, step))
            _LOG.warning("%s", error)
            self._note_reason(error, node_id)
            self._engine.close_connection(self.slot(node_id), timed_out=True)
        return min(self._states.setup_delay_ms(now_ms), LONGEST_SLEEP_MS)

    def close_all(self) -> None:
        """Close every connection there is."""
        for node_id, slot in self._slot_of.items():
            if not self._states.is_disconnected(node_id):
                self._engine.close_connection(slot)

    def on_connected(self, event: ControlEvent) -> None:
        """Authenticate if that is asked for; then ask the broker what it speaks."""
        if self._sasl is not None:
            self._sasl.begin(event.slot)
        else:
            self.authenticated(self._node_of[event.slot])

    def on_disconnected(self, event: ControlEvent) -> None:
        """Keep why the connection ended, and tell that it did."""
        if self._sasl is not None and self._sasl.is_spare(event.slot):
            self._sasl.on_spare_disconnected(event)
            return
        node_id = self._node_of[event.slot]
        if self._is_probed(node_id):
            return  # its end is known, and told when the probe has answered
        if node_id in self._closing or not self._states.is_preparing_connection(node_id):
            self._end(node_id, event)
        elif event.reason == CloseReason.CLOSE_TLS and self._routes.is_misconfigured(event):
            self._refuse(node_id, self._tls_text(node_id, event))
        elif not self._routes.has_tls and reasons.answers_in_tls(event):
            self._probing().told(node_id)
            self._end_preparation(node_id, event)
        elif event.reason != CloseReason.CLOSE_REMOTE or not self._may_probe(node_id):
            self._end(node_id, event)
        elif not self._probing().start(node_id, self._addresses[node_id], event):
            self._end_preparation(node_id, event)

    def _may_probe(self, node_id: int) -> bool:
        return not self._routes.has_proxy and node_id not in self._proven

    def _is_probed(self, node_id: int) -> bool:
        return self._probes is not None and self._probes.is_running(node_id)

    def _probing(self) -> ProtocolProbes:
        if self._probes is None:
            from fastprod.client.connections.protocol_probe import ProtocolProbes  # noqa: PLC0415

            self._probes = ProtocolProbes(
                self._routes.has_tls, self._clock_ms, lambda: self._engine.post(EventKind.ON_WAKE)
            )
        return self._probes

    def take_probe_answers(self) -> None:
        """Tell the ends of connections that waited for a probe's answer."""
        for node_id, event in () if self._probes is None else self._probes.take():
            self._end_preparation(node_id, event)

    def _end_preparation(self, node_id: int, event: ControlEvent) -> None:
        """The end of a connection to a node that may speak another protocol."""
        speaks_other = self._probing().speaks_other
        if not speaks_other(node_id):
            self._end(node_id, event)
            return
        where, ours = self.where(node_id), self._limits.security_protocol
        text = reasons.other_protocol_reason(where, ours)
        if all(speaks_other(node.id) for node in self._metadata.cluster.nodes):
            self._refuse(node_id, text)
        else:  # another one may be as it should be
            self._end(node_id, event, text)

    def _refuse(self, node_id: int, text: str) -> None:
        if self._sasl is not None:
            self._sasl.forget(self.slot(node_id))
        self.authentication_failed(node_id, AuthenticationError(text))

    def _end(self, node_id: int, event: ControlEvent, text: str | None = None) -> None:
        """`text`: why, if that is known better than `event` says."""
        now_ms = self._clock_ms()
        was_preparing = self._states.is_preparing_connection(node_id)
        is_told = event.timed_out and self._states.is_connecting(node_id)  # by `close_overdue`
        sasl_step = "" if self._sasl is None else self._sasl.forget(self.slot(node_id))
        closing = self._closing.pop(node_id, None)
        if closing is not None:
            self._on_refused(node_id, *closing)
            return
        failure = self._routes.proxy_failure(self.where(node_id), event)
        if isinstance(failure, AuthenticationError):
            self.authentication_failed(node_id, failure)
            return
        self._states.disconnected(node_id, now_ms)
        if event.reason == CloseReason.CLOSE_EXPIRED:
            return  # nothing was lost by it, and nothing has to be learnt
        if event.reason == CloseReason.CLOSE_TLS:
            text = self._tls_text(node_id, event)
        elif text is None:
            is_new = self._sasl is None and not self._requests.has_answers
            where, limits = self.where(node_id), self._limits
            text = reasons.connection_reason(
                where, event, limits, was_preparing, sasl_step, may_want_sasl=is_new
            )
        if failure is None and text is not None and not is_told:
            failure = NetworkError(text)
        if failure is not None:
            _LOG.warning("%s", failure)
            self._note_reason(failure, node_id)
        self._on_lost(node_id, now_ms)

    def _tls_text(self, node_id: int, event: ControlEvent) -> str:
        return self._routes.tls_reason(self.where(node_id), self._connected[node_id], event)

    def authentication_failed(self, node_id: int, error: AuthenticationError) -> None:
        """A connection ended because one side did not accept who the other is (P-G.4.6, P-H.7.2).

        Called when it is closed, in place of what else an ON_DISCONNECTED event means. All who wait
        for metadata get the error; it is tried again after a while, at most 5 times in 3 s, and
        records that expire meanwhile name the error as their cause.

        Args:
            node_id: the connection's node.
            error: names the broker and what to change; no secret is in it.
        """
        now_ms = self._clock_ms()
        self._states.authentication_failed(node_id, now_ms)
        _LOG.error("%s", error)
        self._counters.failed()
        self._note_reason(error, node_id)
        self._refusals[node_id] = error
        self._metadata.fatal_error(error)
        self._on_lost(node_id, now_ms)

    def refusal(self, node_id: int) -> AuthenticationError | None:
        """A copy of why authentication at a node failed the last time; None once it did not. Any
        thread."""
        error = self._refusals.get(node_id)
        return None if error is None else copy.copy(error)

    def forget_refusals(self) -> None:
        """What was refused may be accepted now: let callers wait again. Any thread."""
        self._refusals.clear()
        self._metadata.forget_fatal_error()

    # SASL (P-G.10); see `SaslConnections`.

    def do_sasl(self, now_ms: int) -> int:
        """Go on with what is due of it; returns ms to the next look."""
        if self._credentials is None or self._sasl is None:
            return LONGEST_SLEEP_MS
        if self._generation != self._credentials.generation:
            self._generation = self._credentials.generation
            self._states.retry_refused()
        return self._sasl.do_due(now_ms)

    def on_sasl_answer(self, data: bytes, pending: PendingRequest) -> None:
        """An answer to a frame of an exchange.

        Raises:
            SchemaError: it does not parse.
        """
        if self._sasl is not None:
            self._sasl.on_answer(data, pending)

    def on_swapped(self, event: ControlEvent) -> None:
        """A spare connection has taken a node's place."""
        if self._sasl is not None:
            self._sasl.on_swapped(event)

    def swapped(self, node_id: int, versions: ApiVersions) -> None:
        """A node has another connection, to a broker that speaks these versions."""
        self._states.ready(node_id, versions)

    def authenticated(self, node_id: int) -> None:
        """A connection may be used for the first time: ask the broker what it speaks."""
        self._counters.succeeded()
        self._states.checking_api_versions(node_id)
        self.ask_api_versions(node_id, HIGHEST_VERSION)

    def refuse(self, node_id: int, error: KafkaError, *, was_ready: bool) -> None:
        """Close a connection whose authentication failed; the rest follows when it is closed."""
        self._closing[node_id] = (error, was_ready)
        self._states.closing(node_id)
        self._engine.close_connection(self.slot(node_id))

    def _on_refused(self, node_id: int, error: KafkaError, was_ready: bool) -> None:
        if was_ready:
            self._counters.failed_again()
        if isinstance(error, AuthenticationError):
            self.authentication_failed(node_id, error)
            return
        now_ms = self._clock_ms()
        self._states.disconnected(node_id, now_ms)
        _LOG.warning("%s", error)
        self._note_reason(error, node_id)
        self._on_lost(node_id, now_ms)

    def on_protocol_error(self, event: ControlEvent) -> None:
        """Keep what was wrong with an answer; the I/O thread closes the connection."""
        node_id = self._node_of[event.slot]
        text = reasons.protocol_reason(self.where(node_id), event)
        _LOG.error("%s", text)
        if self._slot_of.get(node_id) == event.slot:  # else it is a spare one's
            self._states.closing(node_id)
            self._note_reason(NetworkError(text), node_id)

    def _note_reason(self, error: KafkaError, node_id: int) -> None:
        """Keep the reason for the errors of whoever waits, and for records that expire."""
        self._metadata.record_failure(error)
        self._disconnect_reasons[node_id] = str(error)
        self._engine.set_disconnect_reason(str(error), self.slot(node_id))

    # Requests of the control thread.

    def pick_version(self, node_id: int, api_key: int) -> int:
        """The version to ask a ready node in.

        Raises:
            UnsupportedVersionError: there is none; the text names the broker.
        """
        versions = self._states.api_versions(node_id)
        assert versions is not None
        try:
            return versions.pick(api_key)
        except UnsupportedVersionError as error:
            raise UnsupportedVersionError(f"broker {self.where(node_id)}: {error}") from None

    def send(
        self,
        frame: bytes,
        pending: PendingRequest,
        releases: bytes = b"",
        *,
        ending: int = 0,
        question: tuple[int, bytes, bytes, bytes] | None = None,
    ) -> int:
        """Send a request; returns the token that its answer will have: see `ControlRequests`."""
        return self._requests.send(frame, pending, releases, ending=ending, question=question)

    def forget(self, token: int) -> None:
        """A request that will not go, and has no answer."""
        self._requests.forget(token)

    def take_pending(self, event: ControlEvent) -> PendingRequest:
        """The request that an ON_RESPONSE event answers; it is no longer under way."""
        return self._requests.take(event)

    def refuse_answer(self, pending: PendingRequest, error: SchemaError) -> None:
        """An answer does not parse: its connection goes."""
        text = reasons.answer_reason(self.where(pending.node_id), pending.api_key, error)
        _LOG.error("%s", text)
        self._close_for(text, pending)

    def _close_for(self, text: str, pending: PendingRequest) -> None:
        """Close the connection of a request, because of its answer."""
        if pending.spare is not None and self._sasl is not None:
            self._sasl.lose_spare(pending.spare, text)
            return
        self._states.closing(pending.node_id)
        self._note_reason(NetworkError(text), pending.node_id)
        self._engine.close_connection(self.slot(pending.node_id))

    def throttle(self, pending: PendingRequest, throttle_ms: int) -> None:
        """P-G.8: leave the broker alone for so long; old versions waited before they answered."""
        self._count_throttle(throttle_ms)
        if throttle_ms > 0 and throttles_after_reply(pending.api_key, pending.version):
            self._states.throttle(pending.node_id, self._clock_ms() + throttle_ms)
            self._engine.throttle(self.slot(pending.node_id), throttle_ms)

    def ready_node(self, now_ms: int) -> Node | None:
        """Any node that a request may go to; metadata sees to it that there is one."""
        nodes = self._metadata.cluster.nodes
        if not nodes:
            return None
        found = self._states.least_loaded_node(
            nodes,
            now_ms,
            in_flight_count=self.in_flight_count,
            can_send_more=self.can_send_more,
        ).node
        if found is None or self._states.is_ready(found.id, now_ms):
            return found
        if not self._states.is_any_node_connecting() and self._states.can_connect(found.id, now_ms):
            self.connect(found, now_ms)
        return None

    # ApiVersions (P-G.5).

    def ask_api_versions(self, node_id: int, version: int, spare: int | None = None) -> None:
        """Ask what the broker speaks.

        Args:
            node_id: the node to ask.
            version: of the request.
            spare: the number of the spare connection to ask on; None: on the node's own.
        """
        frame = api_versions_request(version, 0, self._client_id, SOFTWARE_NAME, VERSION)
        self.send(frame, PendingRequest(API_VERSIONS, version, node_id, None, spare))

    def on_api_versions(self, data: bytes, pending: PendingRequest) -> None:
        """The broker said what it speaks: it is ready, or is asked again, or not usable.

        Raises:
            SchemaError: the answer does not parse.
        """
        _, found = parse_api_versions_response(pending.version, data)
        self._prove(pending.node_id)
        if found.error_code == 0:
            self.throttle(pending, found.throttle_ms)
            if pending.spare is None:
                self._become_ready(pending.node_id, found)
            elif self._sasl is not None:
                self._sasl.spare_ready(pending.spare, found)
            return
        version = retry_version(pending.version, found)
        if version is not None:
            self.ask_api_versions(pending.node_id, version, pending.spare)
            return
        error = error_for_code(found.error_code)
        text = f"broker {self.where(pending.node_id)} refused ApiVersions: {error}"
        _LOG.warning("%s", text)
        self._close_for(text, pending)

    def _prove(self, node_id: int) -> None:
        """It has answered: it speaks what we speak."""
        self._proven.add(node_id)
        if self._probes is not None:
            self._probes.forget(node_id)

    def _become_ready(self, node_id: int, found: ApiVersions) -> None:
        slot = self.slot(node_id)
        reason = ""
        try:
            produce_version = found.pick(PRODUCE)
        except UnsupportedVersionError as error:
            produce_version = -1  # what is sent to it fails with this (P-G.2.7)
            reason = f"broker {self.where(node_id)}: {error}"
            self.unsupported = UnsupportedVersionError(reason)
        self._states.ready(node_id, found)
        if self._refusals.pop(node_id, None) is not None and not self._refusals:
            self._metadata.forget_fatal_error()
        self._disconnect_reasons[node_id] = reason
        self._engine.set_disconnect_reason(reason, slot)
        self._engine.connection_ready(slot, produce_version)
        self._on_ready()

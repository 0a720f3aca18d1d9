"""BrokerConnections: opens, checks and watches the connections to brokers (contract P-G.4, P-G.5).

The I/O thread owns the sockets; this is the control thread's side of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Final, NamedTuple

from fastprod._core.engine.control_queue import ControlEvent
from fastprod._core.io.channel import CloseReason
from fastprod.client import disconnect_reasons as reasons
from fastprod.client.api_versions import (
    HIGHEST_VERSION,
    ApiVersions,
    api_versions_request,
    parse_api_versions_response,
    retry_version,
    throttles_after_reply,
)
from fastprod.client.connection_states import ClusterConnectionStates
from fastprod.client.engine_view import EngineView
from fastprod.client.metadata.metadata import Metadata
from fastprod.config import ProducerConfig
from fastprod.errors import KafkaError, NetworkError, UnsupportedVersionError, error_for_code
from fastprod.log import Log
from fastprod.protocol.api_keys import API_VERSIONS, PRODUCE
from fastprod.protocol.field_types import SchemaError
from fastprod.records import Node
from fastprod.version import VERSION

_LOG = Log(__name__)

LONGEST_SLEEP_MS: Final = 1_000
"""What is due is looked at at least so often."""

SOFTWARE_NAME: Final = "fastprod"


class PendingRequest(NamedTuple):
    """A control request under way."""

    api_key: int
    version: int
    node_id: int


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
    ) -> None:
        self._engine = engine
        self._client_id = config.client_id
        self._limits = reasons.Limits(config.request_timeout_ms, config.max_receive_bytes)
        self._metadata = metadata
        self._states = states
        self._clock_ms = clock_ms
        self._on_lost = on_lost
        self._on_ready = on_ready
        self._count_throttle = count_throttle
        self._tokens = itertools.count(1)
        self._pending: dict[int, PendingRequest] = {}
        self._slot_of: dict[int, int] = {}
        self._node_of: dict[int, int] = {}
        self._connected: dict[int, Node] = {}
        self._disconnect_reasons: dict[int, str] = {}
        self._wanted: set[int] = set()
        self.unsupported: UnsupportedVersionError | None = None

    def slot(self, node_id: int) -> int:
        """The engine's number for a node, made at its first mention."""
        slot = self._slot_of.get(node_id)
        if slot is None:
            slot = self._slot_of[node_id] = len(self._slot_of)
            self._node_of[slot] = node_id
        return slot

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
        return not self._engine.is_throttled(self.slot(node_id))

    # Connections come and go.

    def connect(self, node: Node, now_ms: int) -> None:
        """Start to connect to a node. Blocks for DNS when its name has to be resolved."""
        slot = self.slot(node.id)
        self._connected[node.id] = node
        self._states.connecting(node, now_ms)
        try:
            address = self._states.current_address(node.id)
        except OSError as error:
            self._states.disconnected(node.id, now_ms)
            failure = NetworkError(
                f"DNS does not know the host of broker {node.host}:{node.port}: {error}"
            )
            _LOG.warning("%s", failure)
            self._note_reason(failure, node.id)
            self._on_lost(node.id, now_ms)
            return
        self._engine.connect(slot, node.id, address.packed(), self.where(node.id))

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
            if node is not None and self._states.can_connect(node_id, now_ms):
                self.connect(node, now_ms)
            if node is None or not self._states.is_disconnected(node_id):
                self._wanted.discard(node_id)
            else:
                delay_ms = min(delay_ms, self._states.connection_delay_ms(node_id, now_ms))
        return delay_ms

    def close_overdue(self, now_ms: int) -> int:
        """P-G.4.4: what takes too long to connect counts as timed out. Returns ms to the next look.

        It is over with the transport's handshake.
        """
        for node_id in self._states.nodes_with_setup_timeout(now_ms):
            error = NetworkError(
                f"broker {self.where(node_id)} did not take the connection within "
                f"{self._states.connection_delay_ms(node_id, now_ms):,} ms "
                f"(socket_connection_setup_timeout_ms): does a firewall drop the packets?"
            )
            _LOG.warning("%s", error)
            self._note_reason(error, node_id)
            self._engine.close_connection(self.slot(node_id), timed_out=True)
        return 1_000 if self._states.is_any_node_connecting() else LONGEST_SLEEP_MS

    def close_all(self) -> None:
        """Close every connection there is."""
        for node_id, slot in self._slot_of.items():
            if not self._states.is_disconnected(node_id):
                self._engine.close_connection(slot)

    def on_connected(self, event: ControlEvent) -> None:
        """Ask the broker what it speaks."""
        self._states.checking_api_versions(self._node_of[event.slot])
        self._ask_api_versions(event.slot, HIGHEST_VERSION)

    def on_disconnected(self, event: ControlEvent) -> None:
        """Keep why the connection ended, and tell that it did."""
        node_id = self._node_of[event.slot]
        now_ms = self._clock_ms()
        was_preparing = self._states.is_preparing_connection(node_id)
        is_told = event.timed_out and self._states.is_connecting(node_id)  # by `close_overdue`
        self._states.disconnected(node_id, now_ms)
        if event.reason == CloseReason.CLOSE_EXPIRED:
            return  # nothing was lost by it, and nothing has to be learnt
        text = reasons.connection_reason(self.where(node_id), event, self._limits, was_preparing)
        if text is not None and not is_told:
            error = NetworkError(text)
            _LOG.warning("%s", text)
            self._note_reason(error, node_id)
        self._on_lost(node_id, now_ms)

    def on_protocol_error(self, event: ControlEvent) -> None:
        """Keep what was wrong with an answer; the I/O thread closes the connection."""
        node_id = self._node_of[event.slot]
        text = reasons.protocol_reason(self.where(node_id), event)
        _LOG.error("%s", text)
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

    def send(self, frame: bytes, pending: PendingRequest) -> int:
        """Send a request; returns the token that its answer will have."""
        token = next(self._tokens)
        self._pending[token] = pending
        self._engine.send_frame(self.slot(pending.node_id), token, frame)
        return token

    def take_pending(self, event: ControlEvent) -> PendingRequest:
        """The request that an ON_RESPONSE event answers; it is no longer under way."""
        return self._pending.pop(event.token)

    def refuse_answer(self, pending: PendingRequest, error: SchemaError) -> None:
        """An answer does not parse: its connection goes."""
        text = reasons.answer_reason(self.where(pending.node_id), pending.api_key, error)
        _LOG.error("%s", text)
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

    def _ask_api_versions(self, slot: int, version: int) -> None:
        frame = api_versions_request(version, 0, self._client_id, SOFTWARE_NAME, VERSION)
        self.send(frame, PendingRequest(API_VERSIONS, version, self._node_of[slot]))

    def on_api_versions(self, data: bytes, pending: PendingRequest) -> None:
        """The broker said what it speaks: it is ready, or is asked again, or not usable.

        Raises:
            SchemaError: the answer does not parse.
        """
        _, found = parse_api_versions_response(pending.version, data)
        if found.error_code == 0:
            self.throttle(pending, found.throttle_ms)
            self._become_ready(pending.node_id, found)
            return
        slot = self.slot(pending.node_id)
        version = retry_version(pending.version, found)
        if version is not None:
            self._ask_api_versions(slot, version)
            return
        error = error_for_code(found.error_code)
        text = f"broker {self.where(pending.node_id)} refused ApiVersions: {error}"
        _LOG.warning("%s", text)
        self._note_reason(NetworkError(text), pending.node_id)
        self._engine.close_connection(slot)

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
        self._disconnect_reasons[node_id] = reason
        self._engine.set_disconnect_reason(reason, slot)
        self._engine.connection_ready(slot, produce_version)
        self._on_ready()

"""NetworkClient: the control thread. Connections, ApiVersions, metadata, producer id.

The I/O thread owns the sockets and tells what is unusual by events; this one answers by commands.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from fastprod.api_versions import (
    API_VERSIONS,
    HIGHEST_VERSION,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
    ApiVersions,
    api_versions_request,
    parse_api_versions_response,
    retry_version,
    throttles_after_reply,
)
from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.cluster import LeaderHint
from fastprod.client.connections import ClusterConnectionStates
from fastprod.client.events import CloseReason, Event, EventKind
from fastprod.client.failure_log import FailureLog
from fastprod.client.metadata import Metadata, MetadataChanges
from fastprod.client.metadata_updater import MetadataUpdater, Step, check_partitions
from fastprod.client.metrics import ProducerMetrics
from fastprod.client.producer_id import UNSUPPORTED_VERSION, ProducerIdRequests, check_producer_id
from fastprod.client.trouble import Limits, answer_trouble, connection_trouble, protocol_trouble
from fastprod.config import ProducerConfig
from fastprod.errors import KafkaError, NetworkError, UnsupportedVersionError, error_for_code
from fastprod.frames import SchemaError
from fastprod.messages import (
    init_producer_id_request,
    metadata_request,
    parse_init_producer_id_response,
    parse_metadata_response,
)
from fastprod.records import Node
from fastprod.version import VERSION

_LOG = logging.getLogger(__name__)

NODE_READY: Final = 3
SOFTWARE_NAME: Final = "fastprod"
_LONGEST_SLEEP_MS: Final = 1_000
_DELAY_AFTER_ERROR_MS: Final = 100
_MOST_EVENTS: Final = 100
"""Events between two looks at what is due; each costs some 10 us."""


class EngineView(Protocol):
    """What this thread asks of the engine; see engine.pyi."""

    def connect(self, slot: int, node_id: int, address: bytes, name: str) -> None: ...
    def send_frame(self, slot: int, token: int, frame: bytes) -> None: ...
    def connection_ready(self, slot: int, produce_version: int) -> None: ...
    def close_connection(self, slot: int, timed_out: bool = False) -> None: ...
    def throttle(self, slot: int, throttle_ms: int) -> None: ...
    def set_producer_id(self, producer_id: int, epoch: int) -> None: ...
    def set_producer_id_trouble(self, text: str) -> None: ...
    def fail(self, code: int) -> None: ...
    def abort_pending(self, code: int) -> None: ...
    def metadata_seen(self) -> None: ...
    def set_trouble(self, text: str, slot: int) -> None: ...
    def set_topic(
        self, name: str, topic_id: bytes, leaders: list[tuple[int, int, int]]
    ) -> None: ...
    def set_leaders(self, name: str, leaders: list[tuple[int, int, int, int]]) -> None: ...
    def forget_leaders(self, name: str) -> None: ...
    def next_event(self, timeout_s: float | None) -> tuple[object, ...] | None: ...
    def post(self, kind: int, a: int = 0) -> None: ...
    def flights(self, slot: int) -> int: ...
    def is_throttled(self, slot: int) -> bool: ...
    def connection_state(self, slot: int) -> int: ...


class Listener(Protocol):
    """Who is told what a producer's callers must know."""

    def topics_changed(self, known: frozenset[str], removed: frozenset[str]) -> None:
        """These topics' metadata arrived or went."""

    def connections_changed(self) -> None:
        """A connection, or the producer id, is ready."""

    def failed_for_good(self, error: KafkaError) -> None:
        """The producer can send nothing any more."""


class _Pending(NamedTuple):
    """A control request under way."""

    api_key: int
    version: int
    node_id: int


class NetworkClient:
    """The control thread of one producer.

    Args:
        engine: the native side.
        config: the producer's settings.
        metadata: shared with the callers; its `wake` must be this object's `wake`.
        states: connection bookkeeping, this thread's alone.
        listener: told of topics and of the end.
        clock_ms: monotonic ms.
        metrics: asked every turn, told every throttle time; None: nobody measures.

    Threads: `start`, `wake`, `join` from any; the rest runs on the thread.
    Source: Java's NetworkClient, contract G.1, G.5, H.2, F.5.1.
    """

    def __init__(
        self,
        engine: EngineView,
        config: ProducerConfig,
        metadata: Metadata,
        states: ClusterConnectionStates,
        listener: Listener,
        clock_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
        metrics: ProducerMetrics | None = None,
    ) -> None:
        self._engine = engine
        self._config = config
        self._metadata = metadata
        self._states = states
        self._listener = listener
        self._clock_ms = clock_ms
        self._metrics = metrics
        self._tokens = itertools.count(1)
        self._pending: dict[int, _Pending] = {}
        self._metadata_token = 0
        self._slot_of: dict[int, int] = {}
        self._node_of: dict[int, int] = {}
        self._connected: dict[int, Node] = {}
        self._troubles: dict[int, str] = {}
        self._wanted: set[int] = set()
        self._updater = MetadataUpdater(
            metadata,
            states,
            in_flight_count=self._in_flight_count,
            can_send_more=self._can_send_more,
            rebootstraps=config.metadata_recovery_strategy == "rebootstrap",
            rebootstrap_trigger_ms=config.metadata_recovery_rebootstrap_trigger_ms,
            reconnect_backoff_ms=config.reconnect_backoff_ms,
            request_timeout_ms=config.request_timeout_ms,
        )
        self._hints: list[LeaderHint] = []
        self._hint_nodes: dict[int, Node] = {}
        self._producer_id = ProducerIdRequests(
            engine,
            ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
            is_wanted=config.enable_idempotence,
        )
        self._unsupported: UnsupportedVersionError | None = None
        self._failures = FailureLog()
        self._limits = Limits(config.request_timeout_ms, config.max_receive_bytes)
        self._is_stopped = False
        self._thread = threading.Thread(
            target=self._run,
            name=f"kafka-producer-network-thread | {config.client_id}",
            daemon=True,
        )

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Make the thread look at the metadata again. Any thread; never blocks."""
        self._engine.post(EventKind.WAKE)

    def warm(self, node_id: int) -> None:
        """Connect to a node although there is nothing to send yet. Any thread; never blocks."""
        self._engine.post(EventKind.WARM, node_id)

    def is_warm(self, node_id: int) -> bool:
        """Whether the connection to a node can take Produce requests. Any thread."""
        slot = self._slot_of.get(node_id)
        return slot is not None and self._engine.connection_state(slot) == NODE_READY

    def trouble(self, node_id: int) -> str:
        """Why a node cannot be used, as far as is known; "" once it can. Any thread."""
        return self._troubles.get(node_id, "")

    def producer_id_trouble(self) -> str:
        """Why there is no producer id, as far as is known; "" once there is. Any thread."""
        return self._producer_id.trouble

    def join(self, timeout_s: float | None) -> bool:
        """Wait for the thread's end; True if it ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        # As Java's Sender: one bad turn must not end the producer (F.1.1). Nor may it keep this
        # thread from its events: the end is one of them.
        while not self._is_stopped:
            delay_ms = _DELAY_AFTER_ERROR_MS
            try:
                delay_ms = self._do_what_is_due()
            except Exception:
                _LOG.exception("uncaught error in the producer's control thread")
            try:
                self._take_events(delay_ms)
            except Exception:
                _LOG.exception("uncaught error in the producer's control thread")
                time.sleep(_DELAY_AFTER_ERROR_MS / 1000)

    def _do_what_is_due(self) -> int:
        """Returns ms to the next look."""
        now_ms = self._clock_ms()
        self._failures.say_if_due(now_ms)
        self._apply_leader_hints()
        return min(
            self._maybe_update_metadata(now_ms),
            self._maybe_init_producer_id(now_ms),
            self._connect_wanted(now_ms),
            self._close_overdue(now_ms),
            _LONGEST_SLEEP_MS if self._metrics is None else self._metrics.roll(),
        )

    def _take_events(self, delay_ms: int) -> None:
        timeout_s = max(delay_ms, 0) / 1000
        for _ in range(_MOST_EVENTS):
            found = self._engine.next_event(timeout_s)
            if found is None:
                return
            self._on_event(Event(*found))  # type: ignore[arg-type]
            if self._is_stopped:
                return
            timeout_s = 0

    def _on_event(self, event: Event) -> None:
        match event.kind:
            case EventKind.RESPONSE:
                self._on_response(event)
            case EventKind.CONNECTED:
                self._states.checking_api_versions(self._node_of[event.slot])
                self._send_api_versions(event.slot, HIGHEST_VERSION)
            case EventKind.DISCONNECTED:
                self._on_disconnected(event)
            case EventKind.CONNECT_WANTED:
                self._wanted.add(self._node_of[event.slot])
            case EventKind.METADATA_WANTED:
                if event.topic is not None:  # it has records, even if it was forgotten (H.3)
                    self._metadata.add(event.topic, self._clock_ms())
                self._metadata.request_update()
            case EventKind.WARM:
                self._wanted.add(event.a)
            case EventKind.LEADER_HINT:
                self._on_leader_hint(event)
            case EventKind.PRODUCER_ID_WANTED:
                self._producer_id.want()
            case EventKind.FATAL:
                self._listener.failed_for_good(self._fatal_error(event.a))
            case EventKind.FAILED:
                self._failures.add(event, self._clock_ms())
            case EventKind.PROTOCOL_ERROR:
                node_id = self._node_of[event.slot]
                text = protocol_trouble(self._where(node_id), event)
                _LOG.error("%s", text)
                self._note_trouble(NetworkError(text), node_id)
            case EventKind.STOPPED:
                self._failures.say_if_due(self._clock_ms(), is_end=True)
                self._is_stopped = True

    def _fatal_error(self, code: int) -> KafkaError:
        if code == UNSUPPORTED_VERSION and self._unsupported is not None:
            return self._unsupported
        return error_for_code(code)

    # Slots and connections.

    def _slot(self, node_id: int) -> int:
        slot = self._slot_of.get(node_id)
        if slot is None:
            slot = self._slot_of[node_id] = len(self._slot_of)
            self._node_of[slot] = node_id
        return slot

    def _where(self, node_id: int) -> str:
        """Where a node was last connected at, and its id, for messages."""
        node = self._connected.get(node_id) or self._metadata.cluster.node(node_id)
        if node is None:
            return f"node {node_id}"
        known = f" (node {node_id})" if node_id >= 0 else ""  # else one of bootstrap_servers
        return f"{node.host}:{node.port}{known}"

    def _note_trouble(self, error: KafkaError, node_id: int) -> None:
        """Keep the reason for the errors of whoever waits, and for records that expire."""
        self._metadata.record_failure(error)
        self._troubles[node_id] = str(error)
        self._engine.set_trouble(str(error), self._slot(node_id))

    def _connect(self, node: Node, now_ms: int) -> None:
        slot = self._slot(node.id)
        self._connected[node.id] = node
        self._states.connecting(node, now_ms)
        try:
            address = self._states.current_address(node.id)
        except OSError as error:
            self._states.disconnected(node.id, now_ms)
            trouble = NetworkError(
                f"DNS does not know the host of broker {node.host}:{node.port}: {error}"
            )
            _LOG.warning("%s", trouble)
            self._note_trouble(trouble, node.id)
            self._updater.handle_disconnect(node.id, now_ms)
            return
        self._engine.connect(slot, node.id, address.packed(), self._where(node.id))

    def _connect_wanted(self, now_ms: int) -> int:
        delay_ms = _LONGEST_SLEEP_MS
        for node_id in tuple(self._wanted):
            node = self._metadata.cluster.node(node_id)
            if node is not None and self._states.can_connect(node_id, now_ms):
                self._connect(node, now_ms)
            if node is None or not self._states.state(node_id).is_disconnected:
                self._wanted.discard(node_id)
            else:
                delay_ms = min(delay_ms, self._states.connection_delay_ms(node_id, now_ms))
        return delay_ms

    def _close_overdue(self, now_ms: int) -> int:
        """G.4.4: what takes too long to connect counts as timed out."""
        for node_id in self._states.nodes_with_setup_timeout(now_ms):
            trouble = NetworkError(
                f"broker {self._where(node_id)} did not take the connection within "
                f"{self._states.connection_delay_ms(node_id, now_ms):,} ms "
                f"(socket_connection_setup_timeout_ms): does a firewall drop the packets?"
            )
            _LOG.warning("%s", trouble)
            self._note_trouble(trouble, node_id)
            self._engine.close_connection(self._slot(node_id), timed_out=True)
        return 1_000 if self._states.is_any_node_connecting() else _LONGEST_SLEEP_MS

    def _on_disconnected(self, event: Event) -> None:
        node_id = self._node_of[event.slot]
        now_ms = self._clock_ms()
        was_preparing = self._states.is_preparing_connection(node_id)
        is_told = event.d and self._states.is_connecting(node_id)  # by `_close_overdue`
        self._states.disconnected(node_id, now_ms)
        if event.a == CloseReason.EXPIRED:
            return  # nothing was lost by it, and nothing has to be learnt
        text = connection_trouble(self._where(node_id), event, self._limits, was_preparing)
        if text is not None and not is_told:
            trouble = NetworkError(text)
            _LOG.warning("%s", text)
            self._note_trouble(trouble, node_id)
        self._updater.handle_disconnect(node_id, now_ms)

    def _send(self, slot: int, frame: bytes, pending: _Pending) -> int:
        """Returns the token that the answer will have."""
        token = next(self._tokens)
        self._pending[token] = pending
        self._engine.send_frame(slot, token, frame)
        return token

    def _on_response(self, event: Event) -> None:
        pending = self._pending.pop(event.a)
        try:
            if pending.api_key == API_VERSIONS:
                self._on_api_versions(event, pending)
            elif pending.api_key == METADATA:
                self._on_metadata(event, pending)
            else:
                self._on_producer_id(event, pending)
        except SchemaError as error:
            text = answer_trouble(self._where(pending.node_id), pending.api_key, error)
            _LOG.error("%s", text)
            self._note_trouble(NetworkError(text), pending.node_id)
            self._engine.close_connection(event.slot)

    # ApiVersions (G.5).

    def _send_api_versions(self, slot: int, version: int) -> None:
        frame = api_versions_request(version, 0, self._config.client_id, SOFTWARE_NAME, VERSION)
        self._send(slot, frame, _Pending(API_VERSIONS, version, self._node_of[slot]))

    def _on_api_versions(self, event: Event, pending: _Pending) -> None:
        if event.data is None:
            return
        _, found = parse_api_versions_response(pending.version, event.data)
        if found.error_code != 0:
            version = retry_version(pending.version, found)
            if version is not None:
                self._send_api_versions(event.slot, version)
                return
            error = error_for_code(found.error_code)
            self._note_trouble(
                NetworkError(f"broker {self._where(pending.node_id)} refused ApiVersions: {error}"),
                pending.node_id,
            )
            self._engine.close_connection(event.slot)
            return
        self._throttle(pending, found.throttle_ms)
        self._ready(event.slot, pending.node_id, found)

    def _ready(self, slot: int, node_id: int, found: ApiVersions) -> None:
        trouble = ""
        try:
            produce_version = found.pick(PRODUCE)
        except UnsupportedVersionError as error:
            produce_version = -1  # what is sent to it fails with this (G.2.7)
            trouble = f"broker {self._where(node_id)}: {error}"
            self._unsupported = UnsupportedVersionError(trouble)
        self._states.ready(node_id, found)
        self._troubles[node_id] = trouble
        self._engine.set_trouble(trouble, slot)
        self._engine.connection_ready(slot, produce_version)
        self._listener.connections_changed()

    def _throttle(self, pending: _Pending, throttle_ms: int) -> None:
        """G.8: old versions waited before they answered; the metric is of both."""
        if self._metrics is not None:
            self._metrics.count_throttle(throttle_ms)
        if throttle_ms > 0 and throttles_after_reply(pending.api_key, pending.version):
            self._states.throttle(pending.node_id, self._clock_ms() + throttle_ms)
            self._engine.throttle(self._slot(pending.node_id), throttle_ms)

    # Metadata (H.2).

    def _in_flight_count(self, node_id: int) -> int:
        return self._engine.flights(self._slot(node_id))

    def _can_send_more(self, node_id: int) -> bool:
        # The I/O thread alone knows what Produce answers say about it.
        return not self._engine.is_throttled(self._slot(node_id))

    def _maybe_update_metadata(self, now_ms: int) -> int:
        """Do what the updater asks for; returns ms to the next look."""
        if self._updater.needs_rebootstrap(now_ms):
            for node_id, slot in self._slot_of.items():
                if not self._states.state(node_id).is_disconnected:
                    self._engine.close_connection(slot)
            self._updater.rebootstrap(now_ms)
        step = self._updater.maybe_update(now_ms)
        if step.step is Step.CONNECT:
            assert step.node is not None
            self._connect(step.node, now_ms)
        elif step.step is Step.SEND:
            assert step.node is not None
            assert step.request is not None
            self._send_metadata_request(step.node, step.request.topics, now_ms)
        return min(step.delay_ms, self._updater.time_to_rebootstrap_ms(now_ms))

    def _send_metadata_request(self, node: Node, topics: tuple[str, ...], now_ms: int) -> None:
        versions = self._states.api_versions(node.id)
        assert versions is not None
        try:
            version = versions.pick(METADATA)
        except UnsupportedVersionError as error:
            said = UnsupportedVersionError(f"broker {self._where(node.id)}: {error}")
            self._updater.handle_failed_request(now_ms, said)
            return
        frame = metadata_request(version, 0, self._config.client_id, topics)
        pending = _Pending(METADATA, version, node.id)
        self._metadata_token = self._send(self._slot(node.id), frame, pending)

    def _on_metadata(self, event: Event, pending: _Pending) -> None:
        if event.a != self._metadata_token:
            return  # given up with its connection, and another one is on its way
        now_ms = self._clock_ms()
        if event.data is None:
            if self._updater.is_in_progress:
                self._updater.handle_failed_request(now_ms)
            return
        try:
            response = parse_metadata_response(pending.version, event.data)
            check_partitions(response)
        except SchemaError:
            self._updater.handle_failed_request(now_ms)
            raise
        self._throttle(pending, response.throttle_ms)
        self._apply_leader_hints()  # they are older than the answer
        if self._metadata.is_closed:
            return
        answer = self._updater.handle_response(response, now_ms, apply=self._apply)
        if isinstance(answer, KafkaError):
            said = KafkaError(f"broker {self._where(pending.node_id)}: {answer}")
            _LOG.warning("%s", said)
            self._metadata.record_failure(said)
            self._engine.metadata_seen()

    def _apply(self, changes: MetadataChanges) -> None:
        """Before a waiting caller wakes, the engine knows what it waited for."""
        for topic in changes.changed_topics:
            self._apply_topic(topic)
        for topic in changes.forgotten_topics:  # if one has records still, it is asked for again
            self._engine.forget_leaders(topic)
        self._engine.metadata_seen()
        self._listener.topics_changed(changes.changed_topics, changes.removed_topics)

    def _apply_topic(self, topic: str) -> None:
        """Hand a topic's id and leaders to the engine."""
        cluster = self._metadata.cluster
        known = cluster.partitions(topic)
        if not known:
            return
        leaders = [(-1, -1, -1)] * (max(known) + 1)
        for index, partition in known.items():
            leader = cluster.node(partition.leader_id) if partition.leader_id >= 0 else None
            leaders[index] = (
                -1 if leader is None else self._slot(leader.id),
                partition.leader_epoch,
                partition.leader_id,
            )
        self._engine.set_topic(topic, cluster.topic_id(topic) or bytes(16), leaders)

    def _on_leader_hint(self, event: Event) -> None:
        """Keep a hint for the next look: those of one answer come together."""
        assert event.topic is not None
        self._hints.append(LeaderHint(event.topic, event.a, event.b, event.c))
        if event.data is not None:
            host = event.data.decode("utf-8", "replace")
            self._hint_nodes[event.b] = Node(event.b, host, event.slot)

    def _apply_leader_hints(self) -> None:
        """Take the hints there are (KIP-951), and hand over what they change."""
        if not self._hints:
            return
        hints, nodes = self._hints, self._hint_nodes
        self._hints, self._hint_nodes = [], {}
        leaders: dict[str, list[tuple[int, int, int, int]]] = {}
        for topic, partition, leader_id, epoch in self._metadata.apply_leader_hints(
            hints, nodes.values()
        ):
            told = (partition, self._slot(leader_id), epoch, leader_id)
            leaders.setdefault(topic, []).append(told)
        for topic, changed in leaders.items():
            self._engine.set_leaders(topic, changed)

    # Producer id (F.5.1).

    def _ready_node(self, now_ms: int) -> Node | None:
        """Any node that a request may go to; metadata sees to it that there is one."""
        nodes = self._metadata.cluster.nodes
        if not nodes:
            return None
        found = self._states.least_loaded_node(
            nodes,
            now_ms,
            in_flight_count=self._in_flight_count,
            can_send_more=self._can_send_more,
        ).node
        if found is None or self._states.is_ready(found.id, now_ms):
            return found
        if not self._states.is_any_node_connecting() and self._states.can_connect(found.id, now_ms):
            self._connect(found, now_ms)
        return None

    def _maybe_init_producer_id(self, now_ms: int) -> int:
        delay_ms = self._producer_id.delay_ms(now_ms)
        node = self._ready_node(now_ms) if delay_ms == 0 else None
        if node is None:
            return delay_ms or _LONGEST_SLEEP_MS  # a connection that is ready wakes us
        versions = self._states.api_versions(node.id)
        assert versions is not None
        try:
            version = versions.pick(INIT_PRODUCER_ID)
        except UnsupportedVersionError as error:
            self._unsupported = UnsupportedVersionError(f"broker {self._where(node.id)}: {error}")
            self._producer_id.unsupported(str(self._unsupported))
            self._listener.failed_for_good(self._unsupported)
            return _LONGEST_SLEEP_MS
        frame = init_producer_id_request(version, 0, self._config.client_id)
        self._producer_id.sent()
        self._send(self._slot(node.id), frame, _Pending(INIT_PRODUCER_ID, version, node.id))
        return _LONGEST_SLEEP_MS

    def _on_producer_id(self, event: Event, pending: _Pending) -> None:
        now_ms = self._clock_ms()
        where = self._where(pending.node_id)
        if event.data is None:
            why = f"the connection to broker {where} ended before it answered InitProducerId"
            self._producer_id.failed(why, now_ms)
            return
        try:
            answer = parse_init_producer_id_response(pending.version, event.data)
            check_producer_id(answer)
        except SchemaError as error:
            self._producer_id.failed(answer_trouble(where, pending.api_key, error), now_ms)
            raise
        self._throttle(pending, answer.throttle_ms)
        failure = self._producer_id.answered(answer, where, now_ms)
        if failure is not None:
            self._listener.failed_for_good(failure)
        elif answer.error_code == 0:
            self._listener.connections_changed()

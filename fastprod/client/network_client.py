"""NetworkClient: the control thread. What is due, what the I/O thread tells, and whom it concerns.

The I/O thread owns the sockets and tells what is unusual by events; this one answers by commands.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from fastprod._core.delivery.result import ERR_PURGED, ERR_TXN_ABORTED
from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.connections.broker_connections import LONGEST_SLEEP_MS, BrokerConnections
from fastprod.client.connections.connection_states import ClusterConnectionStates
from fastprod.client.connections.control_requests import PendingRequest
from fastprod.client.connections.disconnect_reasons import answer_reason
from fastprod.client.engine_view import EngineView
from fastprod.client.failure_log import FailureLog
from fastprod.client.log_thread import LOG_THREAD
from fastprod.client.metadata.leader_updates import LeaderUpdates
from fastprod.client.metadata.metadata import Metadata, MetadataChanges
from fastprod.client.metadata.metadata_answer import metadata_request, read_metadata
from fastprod.client.metadata.metadata_updater import MetadataUpdater, Step, check_partitions
from fastprod.client.metrics.metrics import ProducerMetrics
from fastprod.client.producer_id import (
    ProducerIdRequests,
    producer_id_request,
    read_producer_id,
)
from fastprod.client.purges import Purges
from fastprod.client.system_threads import threads
from fastprod.client.warm_topics import WarmTopics
from fastprod.config import ProducerConfig
from fastprod.error_codes import UNSUPPORTED_VERSION
from fastprod.errors import (
    AuthenticationError,
    IllegalStateError,
    KafkaError,
    ProducerClosedError,
    UnsupportedVersionError,
    error_for_code,
)
from fastprod.log import Log
from fastprod.protocol.api_keys import API_VERSIONS, INIT_PRODUCER_ID, METADATA
from fastprod.protocol.field_types import SchemaError
from fastprod.records import Node, TopicPartition

if TYPE_CHECKING:
    from fastprod.client.sasl.credentials import Credentials
    from fastprod.client.transactions.transaction_manager import TransactionManager
    from fastprod.client.transactions.transaction_requests import TransactionRequests

_LOG = Log(__name__)

_DELAY_AFTER_ERROR_MS: Final = 100
_MOST_EVENTS: Final = 100
"""Events between two looks at what is due; each costs some 10 us."""


class Listener(Protocol):
    """Who is told what a producer's callers must know."""

    def topics_changed(self, known: frozenset[str], removed: frozenset[str]) -> None:
        """These topics' metadata arrived or went."""

    def connections_changed(self) -> None:
        """A connection, or the producer id, is ready."""

    def failed_for_good(self, error: KafkaError) -> None:
        """The producer can send nothing any more."""

    def sending_changed(self, is_open: bool) -> None:
        """A transaction has begun, and records are welcome; or it ends, and they are not."""


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

    Attributes:
        transactions: the calls of a transactional producer; None: it is not one.

    Threads: `start`, `wake`, `join` from any; the rest runs on the thread.
    Source: Java's NetworkClient, contract P-G.1, P-H.2, P-F.5.1.
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
        self._listener = listener
        self._clock_ms = clock_ms
        self._metrics = metrics
        self._metadata_token = 0
        self._credentials: Credentials | None = None
        if config.sasl is not None:
            from fastprod.client.sasl.credentials import Credentials  # noqa: PLC0415

            self._credentials = Credentials(config.sasl, self.wake, config.client_id)
            metadata.name_waits(self._credentials.awaited)
        self._connections = BrokerConnections(
            engine,
            config,
            metadata,
            states,
            clock_ms,
            on_lost=self._connection_lost,
            on_ready=listener.connections_changed,
            count_throttle=self._count_throttle,
            credentials=self._credentials,
            counters=None if metrics is None else metrics.authentications,
        )
        self._updater = MetadataUpdater(
            metadata,
            states,
            in_flight_count=self._connections.in_flight_count,
            can_send_more=self._connections.can_send_more,
            rebootstraps=config.metadata_recovery_strategy == "rebootstrap",
            rebootstrap_trigger_ms=config.metadata_recovery_rebootstrap_trigger_ms,
            reconnect_backoff_ms=config.reconnect_backoff_ms,
            request_timeout_ms=config.request_timeout_ms,
        )
        self._leaders = LeaderUpdates(engine, metadata, self._connections.slot)
        self._producer_id = ProducerIdRequests(
            engine,
            ExponentialBackoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
            is_wanted=config.enable_idempotence and config.transactional_id is None,
        )
        self._states, self._is_stopped = states, False
        self._warm_topics = WarmTopics(config.warmup_topics, metadata, clock_ms())
        self.transactions, self._transaction_requests = self._make_transactions()
        self._failures, self.purges = FailureLog(), Purges(engine, self._has_ended)
        self._thread = threads().Thread(
            target=self._run,
            name=f"kafka-producer-network-thread | {config.client_id}",
            daemon=True,
        )

    def _make_transactions(
        self,
    ) -> tuple[TransactionManager | None, TransactionRequests | None]:
        """Both halves of a transactional producer, if it is one."""
        config = self._config
        if config.transactional_id is None:
            return None, None
        from fastprod.client.transactions.transaction_manager import (  # noqa: PLC0415
            TransactionManager,
        )
        from fastprod.client.transactions.transaction_requests import (  # noqa: PLC0415
            TransactionRequests,
        )

        manager = TransactionManager(
            config.transactional_id,
            config.transaction_timeout_ms,
            config.retry_backoff_ms,
            self._engine,
            wake=self.wake,
            open_gate=self._listener.sending_changed,
            on_fatal=self._listener.failed_for_good,
            clock_ms=self._clock_ms,
            is_refused=lambda: self._metadata.standing_error is not None,
        )
        return manager, TransactionRequests(
            manager,
            self._connections,
            self._states,
            config.client_id,
            config.request_timeout_ms,
            self._clock_ms,
        )

    def start(self) -> None:
        """Start the thread, and the one that fetches tokens if there is one."""
        if self._credentials is not None:
            self._credentials.start()
        self._thread.start()

    def wake(self) -> None:
        """Make the thread look at the metadata again. Any thread; never blocks."""
        self._engine.post(EventKind.ON_WAKE)

    def warm(self, node_id: int) -> None:
        """Connect to a node although there is nothing to send yet. Any thread; never blocks."""
        self._engine.post(EventKind.ON_WARM_WANTED, node_id)

    def is_warm(self, node_id: int) -> bool:
        """Whether the connection to a node can take Produce requests. Any thread."""
        return self._connections.is_ready(node_id)

    def disconnect_reason(self, node_id: int) -> str:
        """Why a node cannot be used, as far as is known; "" once it can. Any thread."""
        reason = self._connections.disconnect_reason(node_id)
        if reason or self._credentials is None or self.is_warm(node_id):
            return reason
        return self._credentials.awaited()

    def refusal(self, node_id: int) -> AuthenticationError | None:
        """Why authentication at a node failed the last time; None once it did not. Any thread."""
        return self._connections.refusal(node_id)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Authenticate as this user from now on. Any thread; never blocks.

        Raises:
            IllegalStateError: security_protocol or sasl_mechanism use no user name and password.
        """
        if self._credentials is None:
            raise IllegalStateError(
                f"security_protocol = {self._config.security_protocol} has no user name and "
                f"password to replace"
            )
        self._credentials.replace(username, password)
        self._connections.forget_refusals()

    def producer_id_error(self) -> str:
        """Why there is no producer id, as far as is known; "" once there is. Any thread."""
        return self._producer_id.error

    def why_no_coordinator(self) -> str:
        """Why transactional requests get no answer, as far as is known. Any thread."""
        requests = self._transaction_requests
        why = "" if requests is None else requests.why_waiting()
        return why or self._last_problem()

    def _last_problem(self) -> str:
        """Why no broker can be asked, as it is told who waits for metadata; these may still come
        by the connection to a bootstrap server."""
        failure = self._metadata.last_failure
        problem = "" if failure is None else str(failure)
        node_ids = [node.id for node in self._metadata.cluster.nodes]
        if not problem and not any(map(self.is_warm, node_ids)):
            problem = next(filter(None, map(self._connections.disconnect_reason, node_ids)), "")
        awaited = "" if self._credentials is None else self._credentials.awaited()
        return "; ".join(filter(None, [problem, awaited]))

    def join(self, timeout_s: float | None) -> bool:
        """Wait for the thread's end; True if it ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def close_login(self, deadline_s: float | None) -> None:
        """End the thread that fetches tokens; see `Credentials.close`. Any thread."""
        if self._credentials is not None:
            self._credentials.close(deadline_s)

    def _run(self) -> None:
        # As Java's Sender: one bad turn must not end the producer (P-F.1.1). Nor may it keep this
        # thread from its events: the end is one of them.
        LOG_THREAD.serve()
        while not self._is_stopped and not self._engine.abandoned:
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
        if self._credentials is not None:
            self._credentials.end()
        if self.transactions is not None:
            self.transactions.close(ProducerClosedError())

    def _do_what_is_due(self) -> int:
        """Returns ms to the next look."""
        now_ms = self._clock_ms()
        self._failures.say_if_due(now_ms)
        self._leaders.apply_hints()
        self._connections.take_probe_answers()
        self._connect_warm_leaders(now_ms)
        return min(
            self._do_transactions(now_ms),  # a caller waits for each of these
            self._connections.do_sasl(now_ms),
            self._maybe_update_metadata(now_ms),
            self._maybe_init_producer_id(now_ms),
            self._connections.connect_wanted(now_ms),
            self._connections.close_overdue(now_ms),
            LONGEST_SLEEP_MS if self._metrics is None else self._metrics.roll(),
        )

    def _take_events(self, delay_ms: int) -> None:
        timeout_s = max(delay_ms, 0) / 1000
        for _ in range(_MOST_EVENTS):
            found = self._engine.next_event(timeout_s)
            if found is None:
                return
            self._on_event(found)
            if self._is_stopped:
                return
            timeout_s = 0

    def _on_event(self, event: ControlEvent) -> None:
        match event.kind:
            case EventKind.ON_RESPONSE:
                self._on_response(event)
            case EventKind.ON_CONNECTED:
                self._connections.on_connected(event)
            case EventKind.ON_DISCONNECTED:
                self._connections.on_disconnected(event)
            case EventKind.ON_SWAPPED:
                self._connections.on_swapped(event)
            case EventKind.ON_CONNECT_WANTED:
                self._connections.want_slot(event.slot)
            case EventKind.ON_METADATA_WANTED:
                if event.topic is not None:  # it has records, even if it was forgotten (P-H.3)
                    self._metadata.add(event.topic, self._clock_ms())
                self._metadata.request_update()
            case EventKind.ON_WARM_WANTED:
                self._connections.want(event.node_id)
            case EventKind.ON_LEADER_HINT:
                self._leaders.add_hint(event)
            case EventKind.ON_PRODUCER_ID_WANTED:
                if self.transactions is None:  # else init_transactions asks
                    self._producer_id.want()
            case EventKind.ON_FATAL:
                self._on_fatal(self._fatal_error(event.code))
            case EventKind.ON_FAILED:
                if event.code not in (ERR_TXN_ABORTED, ERR_PURGED):  # the application asked for it
                    self._failures.add(event, self._clock_ms())
                if self.transactions is not None:
                    self.transactions.batch_failed(event)
            case (
                EventKind.ON_PARTITION_JOINED
                | EventKind.ON_TRANSACTION_DRAINED
                | EventKind.ON_QUESTION_REFUSED
            ):
                self._on_transaction(event)
            case EventKind.ON_PURGED:
                self.purges.answered(event.token, event.item_count)
            case EventKind.ON_PROTOCOL_ERROR:
                self._connections.on_protocol_error(event)
            case EventKind.ON_STOPPED:
                self._failures.say_if_due(self._clock_ms(), is_end=True)
                self._is_stopped = True

    def _has_ended(self) -> bool:
        return self._thread.ident is not None and not self._thread.is_alive()

    # Transactions (P-I).

    def _do_transactions(self, now_ms: int) -> int:
        requests = self._transaction_requests
        return LONGEST_SLEEP_MS if requests is None else requests.do_due(now_ms)

    def _on_transaction(self, event: ControlEvent) -> None:
        if self.transactions is None or self._transaction_requests is None:
            return
        if event.kind == EventKind.ON_QUESTION_REFUSED:
            self._transaction_requests.question_refused()
        elif event.kind == EventKind.ON_TRANSACTION_DRAINED:
            self._transaction_requests.drained(event.token)
            self.transactions.drained(event.token, event.item_count, event.code)
        elif event.topic is not None:
            self.transactions.partition_joined(TopicPartition(event.topic, event.partition))

    def _on_fatal(self, error: KafkaError) -> None:
        if self.transactions is None:
            self._listener.failed_for_good(error)
        else:
            self.transactions.fatal_error(error)

    def _count_throttle(self, throttle_ms: int) -> None:
        if self._metrics is not None:
            self._metrics.count_throttle(throttle_ms)

    def _fatal_error(self, code: int) -> KafkaError:
        unsupported = self._connections.unsupported
        if code == UNSUPPORTED_VERSION and unsupported is not None:
            return unsupported
        return error_for_code(code)

    # Answers.

    def _on_response(self, event: ControlEvent) -> None:
        pending = self._connections.take_pending(event)
        try:
            if pending.exchange is not None:
                if event.data is not None:
                    self._connections.on_sasl_answer(event.data, pending)
            elif pending.api_key == API_VERSIONS:
                if event.data is not None:
                    self._on_api_versions(event.data, pending)
            elif pending.api_key == METADATA:
                self._on_metadata(event, pending)
            elif self._transaction_requests is not None:
                self._transaction_requests.on_answer(event, pending)
            else:
                self._on_producer_id(event, pending)
        except SchemaError as error:
            self._connections.refuse_answer(pending, error)

    def _on_api_versions(self, data: bytes, pending: PendingRequest) -> None:
        self._connections.on_api_versions(data, pending)
        versions = self._states.api_versions(pending.node_id)
        if self.transactions is not None and versions is not None:
            self.transactions.learn_features(versions)

    def _connection_lost(self, node_id: int, now_ms: int) -> None:
        self._updater.handle_disconnect(node_id, now_ms)
        why = self._metadata.last_failure
        if isinstance(why, AuthenticationError) and self._transaction_requests is not None:
            self._transaction_requests.refused(copy.copy(why))

    # Metadata (P-H.2).

    def _maybe_update_metadata(self, now_ms: int) -> int:
        """Do what the updater asks for; returns ms to the next look."""
        if self._updater.needs_rebootstrap(now_ms):
            self._connections.close_all()
            self._updater.rebootstrap(now_ms)
        step = self._updater.maybe_update(now_ms)
        if step.step is Step.CONNECT:
            assert step.node is not None
            self._connections.connect(step.node, now_ms)
        elif step.step is Step.SEND:
            assert step.node is not None
            assert step.request is not None
            self._send_metadata_request(step.node, step.request.topics, now_ms)
        return min(step.delay_ms, self._updater.time_to_rebootstrap_ms(now_ms))

    def _send_metadata_request(self, node: Node, topics: tuple[str, ...], now_ms: int) -> None:
        try:
            version = self._connections.pick_version(node.id, METADATA)
        except UnsupportedVersionError as error:
            self._updater.handle_failed_request(now_ms, error)
            return
        frame = metadata_request(version, 0, self._config.client_id, topics)
        pending = PendingRequest(METADATA, version, node.id)
        self._metadata_token = self._connections.send(frame, pending)

    def _on_metadata(self, event: ControlEvent, pending: PendingRequest) -> None:
        if event.token != self._metadata_token:
            return  # given up with its connection, and another one is on its way
        now_ms = self._clock_ms()
        if event.data is None:
            if self._updater.is_in_progress:
                self._updater.handle_failed_request(now_ms)
            return
        try:
            response = read_metadata(pending.version, event.data)
            check_partitions(response)
        except SchemaError:
            self._updater.handle_failed_request(now_ms)
            raise
        self._connections.throttle(pending, response.throttle_time_ms)
        self._leaders.apply_hints()  # they are older than the answer
        if self._metadata.is_closed:
            return
        answer = self._updater.handle_response(response, now_ms, apply=self._apply)
        if isinstance(answer, KafkaError):
            said = KafkaError(f"broker {self._connections.where(pending.node_id)}: {answer}")
            _LOG.warning("%s", said)
            self._metadata.record_failure(said)
            self._engine.metadata_seen()

    def _apply(self, changes: MetadataChanges) -> None:
        """Before a waiting caller wakes, the engine knows what it waited for."""
        self._leaders.apply(changes)
        self._listener.topics_changed(changes.changed_topics, changes.removed_topics)

    def _connect_warm_leaders(self, now_ms: int) -> None:
        """Connect to the leaders of `warmup_topics`, once; else the first record asks (P-A.1.9)."""
        for leader in self._warm_topics.take_leaders():
            if self._states.can_connect(leader.id, now_ms):
                self._connections.connect(leader, now_ms)

    # Producer id (P-F.5.1).

    def _maybe_init_producer_id(self, now_ms: int) -> int:
        delay_ms = self._producer_id.delay_ms(now_ms)
        node = self._connections.ready_node(now_ms) if delay_ms == 0 else None
        if node is None:
            return delay_ms or LONGEST_SLEEP_MS  # a connection that is ready wakes us
        try:
            version = self._connections.pick_version(node.id, INIT_PRODUCER_ID)
        except UnsupportedVersionError as error:
            self._connections.unsupported = error
            self._producer_id.unsupported(str(error))
            self._listener.failed_for_good(error)
            return LONGEST_SLEEP_MS
        frame = producer_id_request(version, self._config.client_id)
        self._producer_id.sent()
        self._connections.send(frame, PendingRequest(INIT_PRODUCER_ID, version, node.id))
        return LONGEST_SLEEP_MS

    def _on_producer_id(self, event: ControlEvent, pending: PendingRequest) -> None:
        now_ms = self._clock_ms()
        where = self._connections.where(pending.node_id)
        if event.data is None:
            why = f"the connection to broker {where} ended before it answered InitProducerId"
            self._producer_id.failed(why, now_ms)
            return
        try:
            answer = read_producer_id(pending.version, event.data)
        except SchemaError as error:
            self._producer_id.failed(answer_reason(where, pending.api_key, error), now_ms)
            raise
        self._connections.throttle(pending, answer.throttle_time_ms)
        failure = self._producer_id.answered(answer, where, now_ms)
        if failure is not None:
            self._listener.failed_for_good(failure)
        elif answer.error_code == 0:
            self._listener.connections_changed()

"""KafkaProducer: the public producer. Records pass `_core/producer_base`."""

from __future__ import annotations

import atexit
import contextlib
import copy
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, Self

from fastprod._core.delivery.fork_watch import catch_up, run_in_child
from fastprod._core.engine.engine import Engine
from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.child_end import ChildEnd
from fastprod.client.connections.addresses import bootstrap_nodes, unresolved_nodes
from fastprod.client.connections.connection_states import ClusterConnectionStates
from fastprod.client.delivery_thread import DeliveryThread
from fastprod.client.engine_settings import engine_settings
from fastprod.client.log_thread import LOG_THREAD
from fastprod.client.metadata.metadata import Metadata
from fastprod.client.metrics.metrics import ProducerMetrics
from fastprod.client.network_client import NetworkClient
from fastprod.client.producer_events import ProducerEvents
from fastprod.client.system_threads import threads
from fastprod.client.warm_up import WarmUp
from fastprod.client.withdrawing_producer import WithdrawingProducer
from fastprod.config import ProducerConfig
from fastprod.deadline import checked_timeout, slice_s
from fastprod.error_codes import INVALID_PRODUCER_EPOCH, PRODUCER_FENCED
from fastprod.errors import (
    ApiError,
    ConfigError,
    FlushTimeoutError,
    KafkaError,
    ProducerClosedError,
    UndeliveredError,
)
from fastprod.log import Log, load_logging
from fastprod.plugins.plugged_send import PluggedSend, as_record, record_fields
from fastprod.producer_plugins import ProducerPlugins
from fastprod.records import PartitionInfo, ProducerRecord
from fastprod.security.secret import Secret, credential_fault, plain_text
from fastprod.topic_name import check_topic_name
from fastprod.transactional_producer import TransactionalProducer

_log = Log("fastprod.producer")

_EXIT_TIMEOUT_S = 10.0

_live: weakref.WeakSet[KafkaProducer] = weakref.WeakSet()


class KafkaProducer(TransactionalProducer, WithdrawingProducer):
    """Sends records to Kafka; one instance serves every thread of a process.

    Args:
        settings: a mapping of settings by Kafka's names, with dots or underscores.
        config: settings by names with underscores; `fastprod.config.describe()` lists all of them.
            Only `bootstrap_servers` is required.

    Raises:
        ConfigError: a setting is wrong, or no bootstrap server resolves.
        KafkaError: something else went wrong; what was made is closed again.

    Blocks: for DNS of the bootstrap servers only; connecting happens in the background, and so does
    what `warmup_topics` asks for. That fails silently but for the log: the first send that needs it
    tries again.
    Threads: every method from any thread. After `os.fork` the child's object is a new producer with
    the same settings; what was buffered, and its futures, stay the parent's.
    Source: org.apache.kafka.clients.producer.KafkaProducer; contract P-A.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, /, **config: Any) -> None:
        self._is_forked = self._closing = False
        self._closer: object = None
        self._go_on: Callable[[str | None], None] | None = None  # see BulkThread
        self._sasl_user: tuple[str, Secret] | None = None
        try:
            self._config = ProducerConfig(settings, **config)
        finally:
            del settings, config  # a report of a failure may show local variables
        self._plugins = ProducerPlugins()
        self._events = ProducerEvents(self)
        self._orphans: list[Engine] = []
        self._lock = threads().RLock()  # a signal handler may close while its own thread has it
        try:
            self._plugins.make(self._config)
            self._open()
        except BaseException as error:
            self._plugins.close(quietly=True)
            if isinstance(error, ConfigError) or not isinstance(error, Exception):
                raise
            raise KafkaError(f"Failed to construct kafka producer: {error}") from error
        _live.add(self)
        if self._engine.abandoned and not self._is_forked:
            self._after_fork_in_child()  # a signal handler forked meanwhile

    def _open(self) -> None:
        """Make the native side and its threads; again in the child of a fork."""
        config = self._config
        load_logging()
        _child_end.watch()
        if config.proxy is not None and config.proxy.resolves_names:
            nodes = unresolved_nodes(config.bootstrap_servers)
        else:
            nodes = bootstrap_nodes(config.bootstrap_servers, config.client_dns_lookup)
        engine = Engine(**engine_settings(config))
        self._delivery = DeliveryThread(engine, config.client_id)
        self._new_deadlines(config.client_id)
        metadata = self._metadata = Metadata(
            refresh_backoff=ExponentialBackoff(
                config.retry_backoff_ms, config.retry_backoff_max_ms
            ),
            max_age_ms=config.metadata_max_age_ms,
            max_idle_ms=config.metadata_max_idle_ms,
            clock_ms=lambda: time.monotonic_ns() // 1_000_000,
            wake=lambda: self._network_client.wake(),
            last_used_ms=self._last_used_ms,
            wait=lambda condition, seconds: self._wait(engine, condition, seconds),
        )
        metadata.bootstrap(*nodes)
        states = ClusterConnectionStates(
            ExponentialBackoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms),
            ExponentialBackoff(
                config.socket_connection_setup_timeout_ms,
                config.socket_connection_setup_timeout_max_ms,
            ),
        )
        metrics = self._metrics = ProducerMetrics(engine, config, metadata)
        self._network_client = NetworkClient(
            engine, config, metadata, states, self._events, metrics=metrics
        )
        self._is_forked = False  # from here on other threads use it
        self._attach(
            engine,
            is_simple=not self._plugins.see_records,
            ignores_keys=config.partitioner_ignore_keys,
            max_record_bytes=config.max_request_size,
            buffer_bytes=config.buffer_memory,
            max_block_ms=config.max_block_ms,
            takes_records=config.transactional_id is None,
        )
        try:
            if self._sasl_user is not None:  # in the child of a fork
                username, password = self._sasl_user
                self._network_client.set_sasl_credentials(username, password.reveal())
            engine.start()
            self._network_client.start()
            if self._closing:  # by a signal handler, meanwhile
                raise ProducerClosedError()
            if self._plugins.reporters is not None:
                self._plugins.reporters.start(self.metrics, config)
        except BaseException:
            self._detach()
            self._end(time.monotonic())
            raise

    @property
    def config(self) -> ProducerConfig:
        """The settings in force, with the generated client_id.  Never blocks."""
        return self._config

    def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """Return the topic's partitions, with leaders and replicas.

        Args:
            topic: topic name.

        Returns:
            One `PartitionInfo` for each partition, by number.

        Raises:
            ProducerClosedError: `close` was called.
            KafkaError: no metadata within max_block_ms, or the brokers refuse the topic.

        Blocks: up to max_block_ms if the topic is not known yet.  Threads: any.
        Source: KafkaProducer.partitionsFor; contract P-A.5.
        """
        self._require_open()
        self._await_topic(topic, None, self._config.max_block_ms)
        return self._metadata.known_cluster.partitions_for_topic(plain_text(topic))

    def warmup(self, *topics: str, timeout: float | None = None) -> None:
        """Fetch the topics' metadata, connect to their leaders and get the producer id.

        The first send to one of them is then as fast as every later one.

        Args:
            topics: topic names; none: only the producer id.
            timeout: seconds, 0 or more; default: max_block_ms.

        Raises:
            KafkaError: not all of it was there in time, and why.
            TypeError, ValueError: a timeout that is no number, or negative.

        Blocks: up to `timeout`; Ctrl-C gets through.  Threads: any.  Source: fastprod's own.
        """
        self._require_open()
        timeout = checked_timeout(timeout)
        longest_s = self._config.max_block_ms / 1000 if timeout is None else timeout
        timeout_s = min(longest_s, threading.TIMEOUT_MAX)
        deadline_s = time.monotonic() + timeout_s
        for topic in topics:
            left_ms = int((deadline_s - time.monotonic()) * 1000)
            self._await_topic(topic, None, max(0, left_ms))
        warm_up = WarmUp(self._engine, self._metadata, self._network_client, self._events)
        warm_up.wait(topics, deadline_s, timeout_s)

    def flush(self, timeout: float | None = None) -> None:
        """Send everything now, and wait until every record sent before is done.

        A record is done when its callbacks have run, too. Failed records raise nothing here: their
        futures have the errors.

        Args:
            timeout: seconds, 0 or more; default: no limit of its own (delivery_timeout_ms bounds
                it).

        Raises:
            FlushTimeoutError: not all were done in time; `undelivered_count` is the exact number.
            KafkaError: called from a delivery callback, which flush would wait for (KIP-1118).
            TypeError, ValueError: a timeout that is no number, or negative.

        Blocks: up to `timeout`; Ctrl-C gets through.  Threads: any but the delivery thread.
        Source: KafkaProducer.flush; contract P-A.7.
        """
        if self._delivery.is_current:
            raise KafkaError(
                "flush() was called from a delivery callback, and would wait for this very "
                "callback: call it from another thread"
            )
        catch_up()
        if self._is_forked:
            return
        timeout = checked_timeout(timeout)
        with self._metrics.timed("flush"):
            left = self._engine.flush(timeout)
        if left is not None:
            raise FlushTimeoutError(undelivered_count=left, waited_ms=(timeout or 0) * 1000)

    def set_sasl_credentials(self, username: str, password: str) -> None:
        """Authenticate as this user from now on: at the next connection, and the next time that a
        connection has to authenticate again.

        Connections that are there stay, and no record is lost or held up. Whom brokers refused
        before is tried at once. A child of `os.fork` keeps the user; a pickled copy has that of its
        settings.

        Args:
            username: of PLAIN or SCRAM, not empty.
            password: the user's, not empty; shown nowhere.

        Raises:
            ConfigError: one of both is empty, has a NUL or more than 32,767 bytes, or is no text
                that UTF-8 has.
            IllegalStateError: security_protocol or sasl_mechanism use no user name and password.
            ProducerClosedError: `close` was called.

        Never blocks.  Threads: any.  Source: fastprod's own; librdkafka's set_sasl_credentials.
        """
        value: Any = None
        try:
            self._require_open()
            for name, value in (("sasl_username", username), ("sasl_password", password)):
                if not isinstance(value, str):
                    raise ConfigError(f"{name} must be a str, not {type(value).__name__}", key=name)
                if not value:
                    raise ConfigError(f"{name} is empty", key=name)
                fault = credential_fault(value)
                if fault:
                    raise ConfigError(f"{name} {fault}", key=name)
            self._network_client.set_sasl_credentials(username, Secret(password))
            self._sasl_user = (username, Secret(password))
        finally:
            del password, value  # a report of a failure may show local variables

    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the producer's metrics, grouped and named as in Kafka and kafka-python.

        Returns:
            The caller's copy, as in {"producer-metrics": {"record-send-rate": 100.0, ...}, ...};
            `help("fastprod.client.metrics.metrics")` lists groups, names and units. After `close`:
            the last values.

        Never blocks; takes 30 us, and 3 us for each topic.  Threads: any.
        Source: KafkaProducer.metrics; contract P-A.6, P-K.
        """
        catch_up()
        return self._metrics.groups()

    def close(self, timeout: float | None = None) -> None:
        """Send what is queued, then end the threads; give up what cannot be sent in time.

        The futures of records that are given up have an error. A second call does nothing, except
        what Ctrl-C kept the first from doing.

        Args:
            timeout: seconds, 0 or more; default: no limit of its own (delivery_timeout_ms bounds
                it). 0 gives up at once.

        Raises:
            UndeliveredError: records were given up; `undelivered_count` is their exact number. The
                producer is closed all the same.
            TypeError, ValueError: a timeout that is no number, or negative.

        Blocks: up to `timeout`; Ctrl-C gets through.  In a delivery callback it is close(0).
        Threads: any.  Source: KafkaProducer.close; contract P-A.9.
        """
        timeout = checked_timeout(timeout)
        catch_up()
        closer = object()
        try:
            try:
                if not self._may_close(closer):
                    return
                if self._delivery.is_current:
                    _log.warning("close() in a delivery callback throws away what is left")
                    timeout = 0
                deadline_s = None if timeout is None else time.monotonic() + timeout
                if timeout != 0:
                    self._end_transaction(deadline_s)
                self._drain(timeout == 0, deadline_s)
            except BaseException:
                deadline_s = time.monotonic()  # Ctrl-C: end at once, then let it through (P-A.9.7)
                raise
            finally:
                if self._closer is closer:
                    self._end(deadline_s)
            self._plugins.close(quietly=False)
        except BaseException:
            if self not in _live and not self._plugins.is_closed:
                self._plugins.close(quietly=True)
            raise
        finally:
            if self._closer is closer and not self._plugins.is_closed:
                self._closer = None  # another call may
        if undelivered := int(self._engine.counters()["records_aborted"]):
            raise UndeliveredError(undelivered, self._events.fatal_error)

    def _begin_to_close(self) -> None:
        """Take nothing more, and let what is queued go; `close` does the rest."""
        with self._lock:
            manager = self._network_client.transactions
            if manager is not None and manager.state.is_ongoing:
                return  # it is to be aborted first
            if self._closer is None and not self._is_forked:
                self._closing = True
                self._detach()
                self._engine.close_accumulator()
                self._engine.stop(now=False)

    def _may_close(self, closer: object) -> bool:
        """Take nothing more; whether to end the threads is up to this closer."""
        with self._lock:
            if self._is_forked:
                self._is_forked, self._closer = False, True  # the threads are the parent's
            elif self._closer is None:
                self._closer = closer
            self._closing = True
            self._detach()
            self._metadata.listeners.tell()  # who awaits metadata sees `_closing`
            return self._closer is closer

    def _drain(self, discards: bool, deadline_s: float | None) -> None:
        """Let what is queued go, until the deadline."""
        self._engine.close_accumulator(discards=discards)
        self._engine.stop(now=discards)
        while not self._network_client.join(slice_s(deadline_s)):
            if deadline_s is not None and time.monotonic() >= deadline_s:
                return

    def _end(self, deadline_s: float | None) -> None:
        """End every thread, however far another call came."""
        engine = self._engine
        engine.close_accumulator(discards=True)
        engine.stop(now=True)
        engine.join()
        self._metadata.close()
        self._network_client.join(1.0)
        self._network_client.close_login(deadline_s)
        engine.close_deliveries()
        self._deadlines.end()
        self._delivery.end(deadline_s)
        self._metrics.freeze()
        LOG_THREAD.wait()
        _live.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as configuration: the copy is a new producer (Spark sends them to workers)."""
        config = self._config
        return _from_settings, (type(self), {n: getattr(config, n) for n in config.explicit})

    def __repr__(self) -> str:
        if "_config" not in self.__dict__:
            return f"<{type(self).__name__} without settings>"
        state = "closed" if self.closed and not self._is_forked else "open"
        return f"<{type(self).__name__} {self._config.client_id!r} {state}>"

    # What the compiled half calls.

    def _not_open(self) -> None:
        self._require_open()
        self._require_transaction()

    def _require_open(self) -> None:
        """Raise why the producer is closed, or make an engine for the child of a fork."""
        catch_up()
        if not self.closed:
            return
        error = self._events.fatal_error
        if error is not None and not self._closing:
            if error.code in (PRODUCER_FENCED, INVALID_PRODUCER_EPOCH):
                raise copy.copy(error)  # P-A.3.17
            raise KafkaError(
                f"the producer cannot go on: {error}; close it and make a new one",
                code=error.code,
                fatal=True,
            ) from error
        with self._lock:
            while self._is_forked and not self._closing:
                try:
                    self._open()
                except BaseException:
                    self._is_forked = not self._closing  # the next call tries again
                    raise
                self._is_forked = self._engine.abandoned  # by a signal handler, meanwhile
        if self.closed:
            raise ProducerClosedError()

    def _require_transaction(self) -> None:
        manager = self._network_client.transactions
        if manager is not None:
            manager.fail_if_not_ready_for_send()

    def _await_topic(self, topic: str, partition: int | None, timeout_ms: int) -> None:
        """Wait until the engine knows the topic (P-A.4)."""
        check_topic_name(topic)
        if self._go_on is not None:
            self._go_on(topic)
        with self._metrics.timed("metadata-wait"):
            self._metadata.wait_for_topic(topic, partition, timeout_ms)

    def _await_topics(
        self, wanted: Mapping[str, int | None], timeout_ms: int
    ) -> dict[str, KafkaError]:
        """`_await_topic` for several, asked for together; what it would raise, by topic."""
        errors: dict[str, KafkaError] = {}
        for topic in wanted:
            try:
                check_topic_name(topic)
                if self._go_on is not None:
                    self._go_on(topic)
            except ApiError as error:
                errors[topic] = error
        legal = {topic: wanted[topic] for topic in wanted if topic not in errors}
        with self._metrics.timed("metadata-wait"):
            return errors | self._metadata.wait_for_topics(legal, timeout_ms)

    def _wait(self, engine: Engine, condition: threading.Condition, seconds: float) -> None:
        condition.wait(seconds)
        if self._go_on is not None:
            self._go_on(None)
        if engine.abandoned:
            raise ProducerClosedError(
                "a signal handler forked while a call waited for metadata: only the parent gets "
                "the answer; in the child make the call again"
            )
        if self._closing:
            raise ProducerClosedError("Producer closed while send in progress")

    def _last_used_ms(self, topic: str) -> int | None:
        return int(self._engine.topic(topic).last_used_ns // 1_000_000) or None

    def _start_delivery(self) -> None:
        self._delivery.start()

    def _count_error(self, topic: str) -> None:
        self._metrics.count_error()

    def _send_record(
        self,
        topic: Any,
        value: Any,
        key: Any,
        headers: Any,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: Any,
        may_block: bool,
        awaits_topic: bool = True,
        spent_ms: int = 0,
    ) -> Any:
        """`send` with a ProducerRecord, or with plug-ins: the Python path."""
        if self._go_on is not None:
            self._go_on(None)
        is_plain = type(topic) is str and (partition is None or type(partition) is int)
        if self._plugins.only_serialize and is_plain and self._knows(topic, partition):
            rest = (partition, timestamp_ms, on_delivery, may_block, spent_ms)
            return self._send_serialized(topic, value, key, headers, *rest)
        record = as_record(topic, value, key, headers, partition, timestamp_ms)
        if not self._plugins.see_records:
            return self._send_bytes(*record_fields(record), on_delivery, may_block, spent_ms)
        budget_ms = self._config.max_block_ms - spent_ms if may_block and awaits_topic else 0
        return self._send_with_plugins(record, on_delivery, may_block, budget_ms, spent_ms)

    def _send_serialized(self, topic: str, value: Any, key: Any, headers: Any, *rest: Any) -> Any:
        """`_send_with_plugins` for serializers alone, where nothing waits: a third of its CPU."""
        try:
            self._require_open()
            self._require_transaction()
            fields = self._plugins.serialize_fields(topic, value, key, headers)
            return self._send_bytes(topic, *fields, *rest)
        except KafkaError:
            self._count_error(topic)
            raise

    def _send_with_plugins(
        self,
        record: ProducerRecord,
        on_delivery: Any,
        may_block: bool,
        budget_ms: int,
        spent_ms: int,
    ) -> Any:
        """Interceptors, metadata, serializers, partitioner, in that order (P-A.3)."""
        send = PluggedSend(self._plugins, record, on_delivery)
        topic, partition = send.record.topic, send.partition
        try:
            self._require_open()
            self._require_transaction()
            began_s = time.monotonic()
            if not self._is_settled(topic, partition):
                try:
                    self._await_topic(topic, partition, budget_ms)
                except ApiError as error:
                    return self._failed(topic, partition, error, send.on_delivery)
            waited_ms = spent_ms + int((time.monotonic() - began_s) * 1000)
            fields = send.fields(self._metadata.known_cluster)
            return self._send_bytes(*fields, send.on_delivery, may_block, waited_ms)
        except BaseException as error:
            send.failed(error)
            if isinstance(error, KafkaError):
                self._count_error(topic)
            raise
        finally:
            send.end()

    def _is_settled(self, topic: str, partition: int | None) -> bool:
        """Whether plug-ins can be asked about the topic without waiting for its metadata."""
        known = self._metadata.known_cluster
        return self._knows(topic, partition) and bool(known.partitions(topic))

    def _after_fork_in_child(self) -> None:
        """The engine is the parent's; the next use makes one of our own."""
        self._lock = threads().RLock()
        self._metrics.abandon()
        self._delivery = DeliveryThread(self._engine, self._config.client_id)
        if not self._closing:
            self._orphans.append(self._engine)
            self._is_forked, self._events = True, ProducerEvents(self)
            self._detach()


def _from_settings(kind: type[KafkaProducer], settings: dict[str, Any]) -> KafkaProducer:
    return kind(settings)


def _close_all() -> None:
    """At the end of the process: deliver what is left, within a bound."""
    catch_up()
    producers = list(_live)
    for producer in producers:
        producer._begin_to_close()
    deadline_s = time.monotonic() + _EXIT_TIMEOUT_S
    for producer in producers:
        with contextlib.suppress(ValueError, SystemExit):  # a logging handler's `sys.exit`
            try:
                producer.close(max(0.0, deadline_s - time.monotonic()))
            except (KafkaError, SystemExit) as error:  # or a plug-in's
                _log.error("at exit: %s", error)


def _after_fork() -> None:
    for producer in list(_live):
        producer._after_fork_in_child()


_child_end = ChildEnd(_close_all)
atexit.register(_close_all)
run_in_child(_after_fork)

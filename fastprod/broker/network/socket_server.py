"""SocketServer: the network layer of one node, from its listeners to its handlers (B-A1, B-A2,
B-A9).
"""

from __future__ import annotations

import functools
import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Final, NamedTuple

from fastprod._core.io.server_selector import ServerSelector
from fastprod.broker.config import BrokerConfig
from fastprod.broker.network.acceptor import Acceptor, Listener
from fastprod.broker.network.connection import Connection
from fastprod.broker.network.connection_quotas import ConnectionQuotas, parse_overrides
from fastprod.broker.network.handler_pool import KafkaRequestHandlerPool
from fastprod.broker.network.processor import Processor
from fastprod.broker.network.request import ParseHeader
from fastprod.broker.network.request_channel import RequestChannel
from fastprod.broker.network.request_handling import RequestHandler
from fastprod.broker.network.request_metrics import RequestMetrics
from fastprod.broker.threads.clock import Clock, SystemClock
from fastprod.broker.threads.joining import END_TIMEOUT_S
from fastprod.errors import IllegalStateError

_log = logging.getLogger(__name__)

_INT64_MAX: Final = 2**63 - 1


class Gauge(NamedTuple):
    """One measured value (B-A9).

    Attributes:
        name: Kafka's.
        tags: which listener, which Processor.
        value: now; ratios from 0 to 1.
    """

    name: str
    tags: dict[str, str]
    value: float


def _quotas(
    config: BrokerConfig, clock: Clock, inter_broker_name: str | None, control_name: str | None
) -> ConnectionQuotas:
    return ConnectionQuotas(
        clock,
        max_connections=config.max_connections,
        max_connections_per_ip=config.max_connections_per_ip,
        max_connections_per_ip_overrides=parse_overrides(config.max_connections_per_ip_overrides),
        max_connection_creation_rate=config.max_connection_creation_rate,
        quota_window_num=config.quota_window_num,
        quota_window_size_seconds=config.quota_window_size_seconds,
        inter_broker_listener_name=inter_broker_name,
        control_plane_listener_name=control_name,
    )


class SocketServer:
    """Accepts, reads and answers on one or more listeners.  Any thread may call.

    Every listener has an Acceptor and `num_network_threads` Processors of its own; all share one
    RequestChannel and its handlers.  With `num_io_threads` = 0 each Processor handles its requests
    itself (B-A11).  The listeners' ports are open once it is made; nobody is served before `start`.

    Args:
        listeners: one or more, with names of their own.
        handler: answers the requests.
        parse_header: reads a request's header.
        config: of the node.
        clock: for time stamps, rates and throttles; None: the system's.
        node_id: the node's.
        metrics: where requests are counted; None: its own.
        inter_broker_listener_name: exempt from the node's limits if there are others (B-A8.2).
        control_plane_listener_name: exempt in its place.
        disconnect_listeners: each is called once with every connection that ends (B-A3.13).
        new_connections_capacity_count: accepted sockets that a Processor lets wait.

    Attributes:
        quotas: the connections' limits; they can be changed at any time.
        request_channel: the requests on their way.
        metrics: of the requests.
        acceptors: by listener name.

    Raises:
        OSError: an address cannot be had, or no descriptor is left; nothing stays open.
        ValueError: no listener, two of one name, or a limit out of its range.
    """

    def __init__(
        self,
        listeners: Sequence[Listener],
        *,
        handler: RequestHandler,
        parse_header: ParseHeader,
        config: BrokerConfig | None = None,
        clock: Clock | None = None,
        node_id: int = 0,
        metrics: RequestMetrics | None = None,
        inter_broker_listener_name: str | None = None,
        control_plane_listener_name: str | None = None,
        disconnect_listeners: Sequence[Callable[[Connection], None]] = (),
        new_connections_capacity_count: int = 20,
    ) -> None:
        if not listeners:
            raise ValueError("a server needs one listener or more")
        self._config = config = config or BrokerConfig()
        self._clock = clock = clock or SystemClock()
        self._handler = handler
        self._parse_header = parse_header
        self._disconnect_listeners = tuple(disconnect_listeners)
        self._new_connections_capacity_count = new_connections_capacity_count
        self.metrics = metrics or RequestMetrics()
        self.quotas = _quotas(
            config, clock, inter_broker_listener_name, control_plane_listener_name
        )
        self.request_channel = RequestChannel(clock, config.queued_max_requests, node_id)
        self._lock = threading.Lock()
        self._enabled: Future[None] | None = None
        self._stopping = False
        self._are_gauges_removed = False
        self._settled = False
        self._starts_left = 0
        self._started_ns = 0
        self._processor_ids = itertools.count()
        self._processors: list[Processor] = []
        self._pool = (
            KafkaRequestHandlerPool(self.request_channel, handler, config.num_io_threads, clock)
            if config.num_io_threads > 0
            else None
        )
        self._processor_pool_bytes = _share_of_pool(config, len(listeners))
        self.acceptors: dict[str, Acceptor] = {}
        try:
            for listener in listeners:
                self.acceptors[listener.name] = self._make_acceptor(listener, node_id)
        except BaseException:
            self.shutdown()
            raise
        self.quotas.on_excess(self._wake_processors)

    def _make_acceptor(self, listener: Listener, node_id: int) -> Acceptor:
        self.quotas.add_listener(
            listener.name, listener.max_connections, listener.max_connection_creation_rate
        )
        processors = []
        for _ in range(self._config.num_network_threads):
            processors.append(self._make_processor(listener))
            self._processors.append(processors[-1])
        return Acceptor(listener, processors, self.quotas, self._config, self._clock, node_id)

    def _make_processor(self, listener: Listener) -> Processor:
        return Processor(
            next(self._processor_ids),
            listener.name,
            self.request_channel,
            self.quotas,
            self._config,
            self._clock,
            self._parse_header,
            self.metrics,
            inline_handler=self._handler if self._config.num_io_threads == 0 else None,
            disconnect_listeners=self._disconnect_listeners,
            new_connections_capacity_count=self._new_connections_capacity_count,
            selector=ServerSelector(
                self._config.socket_request_max_bytes, pool_bytes=self._processor_pool_bytes
            ),
            admission=listener.admission,
        )

    def _wake_processors(self) -> None:
        for processor in self._processors:
            processor.wake()

    # Starting.

    def enable_request_processing(
        self, ready: Mapping[str, Future[None]] | None = None
    ) -> Future[None]:
        """Start every listener when its future in `ready` is done; at once where there is none.

        Does not block.  Until then a listener's clients are connected, but not served (B-A2.8).

        Args:
            ready: listener name -> done when its clients can be authorized; a failed one
                shuts that listener down.

        Returns:
            Done when all listeners are started; failed as soon as one cannot be, or when the
            server stops before.

        Raises:
            IllegalStateError: it was called before, or the server stops.
            ValueError: `ready` names an unknown listener.
        """
        ready = dict(ready or {})
        unknown = ready.keys() - self.acceptors.keys()
        if unknown:
            raise ValueError(
                f"no listener {', '.join(sorted(unknown))}; there are {', '.join(self.acceptors)}"
            )
        with self._lock:
            if self._stopping:
                raise IllegalStateError("the server is stopped and cannot process requests")
            if self._enabled is not None:
                raise IllegalStateError("the server has been told to process requests before")
            enabled: Future[None] = Future()
            self._enabled = enabled
            self._starts_left = len(self.acceptors)
            self._started_ns = time.monotonic_ns()
        if self._pool is not None:
            self._pool.start()
        for name, acceptor in self.acceptors.items():
            if name in ready:
                ready[name].add_done_callback(functools.partial(self._on_ready, acceptor))
            else:
                self._start(acceptor)
        return enabled

    def start(self) -> None:
        """Serve on all listeners.  Returns when they are started.

        Raises:
            IllegalStateError: it was started or stopped before.
        """
        self.enable_request_processing().result()

    def _on_ready(self, acceptor: Acceptor, done: Future[None]) -> None:
        error = CancelledError() if done.cancelled() else done.exception()
        if error is None:
            self._start(acceptor)
        else:
            self._start_failed(acceptor, error)

    def _start(self, acceptor: Acceptor) -> None:
        try:
            acceptor.start()
        except Exception as error:
            self._start_failed(acceptor, error)
            return
        with self._lock:
            self._starts_left -= 1
            is_last = self._starts_left == 0
        if is_last:
            self._settle(None)

    def _start_failed(self, acceptor: Acceptor, error: BaseException) -> None:
        _log.error("listener %s is not started: %r", acceptor.listener.name, error)
        self._settle(error)
        try:
            acceptor.shutdown(END_TIMEOUT_S)
        except TimeoutError:
            _log.exception("listener %s does not end", acceptor.listener.name)

    def _settle(self, error: BaseException | None) -> None:
        """Finish the future of the start, once.  Not under the lock: that runs callbacks."""
        with self._lock:
            enabled = self._enabled
            if enabled is None or self._settled:
                return
            self._settled = True
        if error is None:
            enabled.set_result(None)
        else:
            enabled.set_exception(error)

    # Stopping.

    def begin_shutdown(self) -> None:
        """Tell every thread of the network to end; does not block (B-A2.9).  May be repeated."""
        with self._lock:
            self._stopping = True
        for acceptor in self.acceptors.values():
            acceptor.begin_shutdown()

    def shutdown(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """Close every port and connection and end every thread; may be repeated, also unstarted.

        A request that is being handled is finished first.

        Raises:
            TimeoutError: a thread still runs after `timeout_s`; everything else is closed.
        """
        deadline = time.monotonic() + timeout_s
        self.begin_shutdown()
        steps: list[Callable[[float], None]] = [
            *(acceptor.shutdown for acceptor in self.acceptors.values()),
            # Processors whose Acceptor could not be made.
            *(processor.shutdown for processor in self._processors),
        ]
        if self._pool is not None:
            steps.append(self._pool.shutdown)
        late: TimeoutError | None = None
        for step in steps:
            try:
                step(max(0.0, deadline - time.monotonic()))
            except TimeoutError as error:
                late = late or error
        self._settle(IllegalStateError("the server was stopped before it was started"))
        self._are_gauges_removed = True
        if late is not None:
            raise late

    def abandon(self) -> None:
        """In the child of a fork: close the inherited descriptors; the parent's stay as they are.

        No lock is taken: the thread that held it may not exist here.
        """
        self._stopping = self._are_gauges_removed = True
        for acceptor in self.acceptors.values():
            acceptor.abandon()

    # Faults.

    def set_reading(self, reads: bool, timeout_s: float = END_TIMEOUT_S) -> None:
        """Read nothing from any connection, or everything again; for tests of clients.

        Args:
            reads: what to do, also with later connections.
            timeout_s: how long to wait until that is so; 0, for the network's own threads: do
                not wait. Before the start there is nothing to wait for.

        Raises:
            TimeoutError: a network thread has been busy for `timeout_s` > 0.
        """
        orders = [(each, each.reading.order(reads)) for each in self._processors]
        self._wake_processors()
        if self._enabled is None or self._stopping:
            return
        deadline = time.monotonic() + timeout_s
        for processor, done in orders:
            if processor.has_ended:
                continue
            if not done.wait(max(0.0, deadline - time.monotonic())) and timeout_s > 0:
                raise TimeoutError(f"a network thread has been busy for {timeout_s} s")

    # What is so now.

    def bound_port(self, listener_name: str | None = None) -> int:
        """The port of a listener, or with None of the only or first one.

        Raises:
            ValueError: there is no such listener.
        """
        if listener_name is None:
            return next(iter(self.acceptors.values())).port
        if listener_name not in self.acceptors:
            raise ValueError(f"no listener {listener_name}; there are {', '.join(self.acceptors)}")
        return self.acceptors[listener_name].port

    @property
    def processors(self) -> tuple[Processor, ...]:
        """Of all listeners; their numbers can be read after the end too."""
        return tuple(self._processors)

    @property
    def connection_count(self) -> int:
        """Connections that are served now."""
        return sum(each.connection_count for each in self._processors)

    @property
    def expired_connections_killed_count(self) -> int:
        """Connections that were closed because they were idle (B-A4.4)."""
        return sum(each.expired_count for each in self._processors)

    @property
    def network_processor_avg_idle_ratio(self) -> float:
        """The mean of the Processors' idle ratios; 1.0 without any."""
        ratios = [self._idle_ratio(each) for each in self._processors if not each.has_ended]
        return sum(ratios) / len(ratios) if ratios else 1.0

    def _idle_ratio(self, processor: Processor) -> float:
        elapsed_ns = time.monotonic_ns() - self._started_ns
        if self._started_ns == 0 or elapsed_ns <= 0:
            return 1.0
        return min(1.0, processor.io_wait_ns / elapsed_ns)

    def gauges(self) -> list[Gauge]:
        """Every gauge of the network and its values now; none after `shutdown`."""
        if self._are_gauges_removed:
            return []
        found = [
            Gauge("NetworkProcessorAvgIdlePercent", {}, self.network_processor_avg_idle_ratio),
            Gauge("ExpiredConnectionsKilledCount", {}, self.expired_connections_killed_count),
            *self._pool_gauges(),
            Gauge("RequestQueueSize", {}, self.request_channel.request_queue_size),
            Gauge("ResponseQueueSize", {}, self.request_channel.response_queue_size),
            Gauge("broker-connection-accept-rate", {}, self.quotas.accept_rate()),
        ]
        if self._pool is not None:
            found.append(Gauge("RequestHandlerAvgIdlePercent", {}, self._pool.avg_idle_ratio))
        for name, acceptor in self.acceptors.items():
            found += self._listener_gauges(name, acceptor)
        for address, rate in self.quotas.ip_accept_rates().items():
            found.append(Gauge("connection-accept-rate", {"ip": address}, rate))
        for processor in self._processors:
            found += self._processor_gauges(processor)
        return found

    def _pool_gauges(self) -> list[Gauge]:
        """Of queued.max.request.bytes; without a bound everything is available, as in Kafka."""
        used = sum(each.held_bytes for each in self._processors)
        pool = self._processor_pool_bytes * len(self._processors)
        available = _INT64_MAX if pool < 0 else max(0, pool - used)
        return [
            Gauge("MemoryPoolAvailable", {}, available),
            Gauge("MemoryPoolUsed", {}, used),
        ]

    def _listener_gauges(self, name: str, acceptor: Acceptor) -> list[Gauge]:
        values = {
            "AcceptorBlockedPercent": acceptor.blocked_ratio,
            "connection-accept-rate": self.quotas.accept_rate(name),
            "connection-accept-throttle-time": self.quotas.throttle_time_ms(name),
            "ip-connection-accept-throttle-time": self.quotas.ip_throttle_time_ms(name),
        }
        return [Gauge(each, {"listener": name}, value) for each, value in values.items()]

    def _processor_gauges(self, processor: Processor) -> list[Gauge]:
        number = str(processor.id)
        values = {
            "connection-count": processor.connection_count,
            "connection-creation-total": processor.created_count,
            "connection-close-total": processor.closed_count,
            "failed-handshake-total": processor.failed_handshake_count,
            "incoming-byte-total": processor.incoming_bytes,
            "outgoing-byte-total": processor.outgoing_bytes,
        }
        tags = {"listener": processor.listener_name, "networkProcessor": number}
        return [
            Gauge("IdlePercent", {"networkProcessor": number}, self._idle_ratio(processor)),
            Gauge("ResponseQueueSize", {"processor": number}, processor.response_queue_size),
            *(Gauge(each, tags, value) for each, value in values.items()),
        ]


def _share_of_pool(config: BrokerConfig, listener_count: int) -> int:
    """Each Processor has its own part of queued.max.request.bytes (B-A4.6); -1: no bound."""
    pool_bytes = config.queued_max_request_bytes
    if pool_bytes < 0:
        return -1
    share = pool_bytes // (listener_count * config.num_network_threads)
    return max(share, config.socket_request_max_bytes)

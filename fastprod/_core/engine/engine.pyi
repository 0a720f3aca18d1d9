"""What Python sees of `engine`: one producer's accumulator and I/O thread."""

from collections.abc import Callable

from fastprod._core.engine.control_queue import ControlEvent
from fastprod._core.engine.figures import NodeFigures, TopicFigures
from fastprod._core.engine.histogram import LatencyHistogram
from fastprod._core.io.proxy_transport import ProxyPlan
from fastprod._core.tls.tls_context import TlsContext

CODECS: dict[str, int]
"""Codec number by the word of compression_type."""

class TopicRef:
    """One topic of one engine; made by `Engine.topic`.  Threads: any."""

    name: str
    @property
    def partition_count(self) -> int:
        """Partitions known; 0: metadata has not arrived."""
    @property
    def last_used_ns(self) -> int:
        """Monotonic ns when its last batch was opened; 0: never."""

class Engine:
    """The native side of one producer: accumulator, memory, results and the I/O thread.

    It knows no configuration; it is handed numbers, in the units of their names.

    Args:
        client_id: goes into every Produce request.
        buffer_bytes: size of the pool, a hard bound.
        max_receive_bytes: largest answer.
        transactional_id: goes into every Produce request; with it records are taken from
            `begin_transaction` on only. None: no transactions.
        force_poll: use poll(2) even where there is epoll.
        acks: -1, 0 or 1.
        compression: a key of `CODECS`.
        compression_level: of that codec; ignored by "none" and "snappy".
        linger_ms: None: adaptive.
        linger_bound_ms: longest linger, adaptive or not.
        batch_bytes: largest batch, header included.
        sticky_bytes: when a topic's sticky partition changes (P-C.5.1).
        adaptive_partitioning: weigh partitions by their queues (P-C.5.6).
        availability_timeout_ms: leave out slow brokers (P-C.5.7); 0: never.
        max_request_bytes: largest Produce request, unless one batch is larger.
        max_in_flight: requests under way to one broker.
        request_timeout_ms: longest wait for an answer.
        delivery_timeout_ms: longest life of a batch.
        retries: attempts after the first.
        retry_backoff_ms: pause before the first retry; it doubles.
        retry_backoff_max_ms: longest pause.
        max_idle_ms: an idle connection is closed after so long; -1: never.
        send_buffer_bytes: SO_SNDBUF; -1: the system's.
        receive_buffer_bytes: SO_RCVBUF; -1: the system's.
        idempotent: give batches sequence numbers (P-F.5).
        guarantee_order: one batch of a partition under way at a time (P-F.3.5).
        seed: of the sticky partitioner's choices.

    Raises:
        LookupError: the codec's library is not on this machine, or the level is not one of its.
        MemoryError: the pool cannot be reserved.
        OSError: no descriptor is left for the poller.

    Threads: any, but `next_event` (one, the control thread) and `run_deliveries` (one at a time).
    """

    def __init__(
        self,
        *,
        client_id: str,
        buffer_bytes: int,
        max_receive_bytes: int,
        transactional_id: str | None = None,
        force_poll: bool = False,
        acks: int,
        compression: str,
        compression_level: int,
        linger_ms: int | None,
        linger_bound_ms: int,
        batch_bytes: int,
        sticky_bytes: int,
        adaptive_partitioning: bool,
        availability_timeout_ms: int,
        max_request_bytes: int,
        max_in_flight: int,
        request_timeout_ms: int,
        delivery_timeout_ms: int,
        retries: int,
        retry_backoff_ms: int,
        retry_backoff_max_ms: int,
        max_idle_ms: int,
        send_buffer_bytes: int,
        receive_buffer_bytes: int,
        idempotent: bool,
        guarantee_order: bool,
        seed: int,
    ) -> None: ...
    def start(self) -> None:
        """Start the I/O thread.

        Raises:
            OSError: the system gives no thread.
        """

    # Commands to the I/O thread: queued, never block. Each wakes it.

    def connect(
        self,
        slot: int,
        node_id: int,
        address: bytes,
        name: str = "",
        tls: TlsContext | None = None,
        server_name: str = "",
        proxy: ProxyPlan | None = None,
        home: int = -1,
    ) -> None:
        """Open a connection to `address`, a sockaddr, for the node in `slot`.

        Args:
            slot: the node's.
            node_id: its id.
            address: a sockaddr.
            name: host:port, for errors.
            tls: a client's context, by which to connect; None: in plain TCP. The connection keeps
                what it needs of it.
            server_name: the host name or IP address whose certificate the broker must have, for
                `tls`; a name is told to the broker (SNI).
            proxy: what to say to a proxy at `address` to reach the broker; None: `address` is the
                broker's. The connection keeps it.
            home: the node's slot if this is a spare connection to it, in a slot of its own, which
                may take the place of the first one (`swap`); -1: it is the node's.
        """
    def send_frame(
        self,
        slot: int,
        token: int,
        frame: bytes,
        releases: bytes = b"",
        ending: int = 0,
        question: tuple[int, bytes, bytes, bytes] | None = None,
    ) -> None:
        """Send a whole request; a RESPONSE event with `token` follows in any case.

        Args:
            slot: the node's.
            token: the caller's name for the request.
            frame: size prefix included; the correlation id is filled in.
            releases: an answer that begins so, behind its correlation id, ends a `hold` of the node
                at once, before who sent the frame can; empty: none does.
            ending: the token of an `end_transaction`: it goes when all records of the transaction
                have arrived, and TRANSACTION_DRAINED is not told then. If one has failed, or there
                was none, or it is too late, TRANSACTION_DRAINED is told, and the frame forgotten
                without a RESPONSE. 0: it goes at once.
            question: about the transaction that this ends, as for `begin_transaction`. It is asked
                as soon as the request is answered, for 100 ms if no transaction begins, and the
                next `begin_transaction` with a question goes by what is known by then.
        """
    def connection_ready(self, slot: int, produce_version: int) -> None:
        """Let Produce requests of this version go to a node."""
    def close_connection(self, slot: int, timed_out: bool = False) -> None:
        """Close a node's connection; what is under way on it is lost."""
    def throttle(self, slot: int, throttle_ms: int) -> None:
        """Send no Produce request to a node for so long."""
    def hold(self, slot: int, is_held: bool) -> None:
        """Let no Produce request leave to a node, or let them leave again; a new connection may."""
    def swap(self, spare: int, produce_version: int) -> None:
        """Let a spare connection take the place of its node's, which is closed; nobody notices.

        Requests to the node wait until nothing is in flight on the old connection: not at all if
        nothing is, else about a round trip. An ON_SWAPPED event follows; or an ON_DISCONNECTED of
        the one of the two that is lost before. With acks=0 there is no knowing what is in flight:
        such a producer must not use this.

        Args:
            spare: its slot; connected with `home`, and authenticated.
            produce_version: the Produce version from then on; the broker may be another one.
        """
    def set_producer_id(self, producer_id: int, epoch: int) -> None:
        """Hand over the producer id that the I/O thread asked for."""
    def set_producer_id_error(self, text: str) -> None:
        """Say why there is no producer id, for records that fail before there is one."""
    def fail(self, code: int) -> None:
        """Fail everything, now and later, with a Kafka error code."""
    def abort_pending(self, code: int, token: int = 0, purged: int = 0) -> None:
        """Fail everything queued and in flight; later sends are welcome.

        Args:
            code: Kafka's, or a LocalError.
            token: of ON_PURGED, which answers; 0: nothing answers.
            purged: with a token: PURGE_QUEUED, PURGE_IN_FLIGHT, or their sum.
        """
    def begin_transaction(
        self,
        adds_implicitly: bool,
        question: tuple[int, bytes, bytes, bytes] | None = None,
    ) -> None:
        """Take records again: they belong to a new transaction.

        An engine with a transactional id takes none before, and none after its end.

        Args:
            adds_implicitly: a partition becomes part of it by its first Produce request (KIP-890);
                False: ON_PARTITION_JOINED asks for `add_partition` before its records go.
            question: whether the transaction before has ended at the brokers; no record goes before
                it has. (slot, frame, head, state): who is asked, DescribeTransactions, how the
                answer begins behind its throttle time, and how it goes on while it has not. Any
                other answer, or none, lets the records go; one with another head is told by
                QUESTION_REFUSED. None: there is nothing to wait for.
        """
    def add_partition(self, topic: str, partition: int) -> None:
        """A partition is part of the transaction: its records may go."""
    def abort_undrained(self, code: int, why: str) -> None:
        """Take no more records, and fail with `code` those that have never left; `why`: in words.

        What was sent and has no answer yet goes on until it has (P-D.10.2).
        """
    def end_transaction(self, token: int) -> None:
        """Take no more records, let none linger, and tell by ON_TRANSACTION_DRAINED with `token`,
        not 0, when every record has its outcome. ON_FAILED comes before, for each that failed."""
    def await_end(
        self, token: int, timeout_s: float, on_answer: Callable[[int, int, int], None]
    ) -> None:
        """Sleep until the outcome of the end with `token` is known, or EndTxn has its answer.

        Args:
            token: of `end_transaction`.
            timeout_s: seconds.
            on_answer: called here with `token`, and the producer id and epoch of an answer that
                says that the transaction has ended. The control thread gets the answer just before,
                and may be first to do what follows from it. One caller at a time is told; an answer
                that comes while nobody sleeps here, and any other one, go to the control thread
                alone.

        Blocks: up to `timeout_s`, without the GIL and without a look at signals.  Threads: any, but
        not in the child of a fork.
        """
    def end_known(self, token: int) -> None:
        """The outcome of this end is known: who sleeps in `await_end` goes on.  Never blocks."""
    def metadata_seen(self) -> None:
        """Metadata was looked at: the I/O thread asks again if it still misses a leader."""
    def set_disconnect_reason(self, text: str, slot: int) -> None:
        """Say why the node in `slot` cannot be used, for records that fail; "": it can."""
    def set_topic(self, name: str, topic_id: bytes, leaders: list[tuple[int, int, int]]) -> None:
        """Hand over what metadata says about a topic; takes effect for callers at once.

        Args:
            name: the topic.
            topic_id: 16 bytes, zero: unknown.
            leaders: (slot, leader epoch, node id) of partitions 0..n-1, each -1 if unknown.

        Raises:
            MemoryError: there is none for so many partitions.
        """
    def set_leaders(self, name: str, leaders: list[tuple[int, int, int, int]]) -> None:
        """Hand over new leaders of some partitions; the others, and how many there are, stay.

        Args:
            name: the topic.
            leaders: (partition, slot, leader epoch, node id), each but the first -1 if unknown.

        Raises:
            IndexError: `set_topic` told of no such partition.
            MemoryError: there is none for so many.
        """
    def forget_leaders(self, name: str) -> None:
        """Take every leader of a topic for unknown, if there is such a topic."""

    # Events from the I/O thread.

    def next_event(self, timeout_s: float | None) -> ControlEvent | None:
        """Take the oldest event.

        Args:
            timeout_s: 0: do not wait; None: no bound.

        Returns:
            None: there was none in time.

        Blocks: up to `timeout_s`, without the GIL.
        """
    def post(self, kind: int, node_id: int = 0) -> None:
        """Put an event into that queue: wakes who takes them.  Never blocks."""

    # Results.

    def run_deliveries(self, timeout_s: float | None) -> int:
        """Run the callbacks of every batch that is complete, here.

        Args:
            timeout_s: how long to wait for the first one; 0: not at all, None: no bound.

        Returns:
            Number of batches.

        Blocks: up to `timeout_s`, without the GIL, and as long as the callbacks take.
        """
    def flush(self, timeout_s: float | None) -> int | None:
        """Send everything at once and wait until all queued so far is complete.

        Returns:
            None: all is. Else records without an outcome when the time is over; 0: only callbacks
            have still to run.

        Blocks: up to `timeout_s`; Ctrl-C gets through within 50 ms.
        """
    def topic(self, name: str) -> TopicRef:
        """Return the topic, made if this is its first mention."""

    # The end.

    def close_accumulator(self, discards: bool = False) -> None:
        """Take nothing more; callers that wait for memory are released (P-A.9.3).

        Args:
            discards: what is queued will be thrown away, so its linger is not cut short.
        """
    def stop(self, now: bool) -> None:
        """End the I/O thread: at once, failing what is left, or when all is done."""
    def join(self) -> None:
        """Wait for the I/O thread's end.  Blocks, without the GIL, until `stop` has worked."""
    def close_deliveries(self) -> None:
        """Release who waits in `run_deliveries`."""
    def abandon(self) -> None:
        """In the child of a fork: let go of the parent's engine without touching its locks.

        Every engine is abandoned by itself.
        """

    # Figures, from any thread, each right by itself.

    @property
    def abandoned(self) -> bool:
        """Whether the process forked and this engine is the parent's: it does nothing any more."""
    @property
    def deliveries_closed(self) -> bool:
        """Whether `close_deliveries` was called."""
    @property
    def fatal_code(self) -> int:
        """Kafka's code of what ended the producer; 0: nothing."""
    def is_node_ready(self, slot: int) -> bool:
        """Whether Produce requests can go to a node."""
    @property
    def has_producer_id(self) -> bool:
        """Whether records can go as far as idempotence is concerned."""
    @property
    def in_flight_count(self) -> int:
        """Requests in flight to all nodes."""
    def is_throttled(self, slot: int) -> bool:
        """Whether a node has asked to be left alone for a time that is not over (P-G.8)."""
    def flights(self, slot: int) -> int:
        """Requests in flight to one node."""
    def counters(self) -> dict[str, int]:
        """Return the engine's totals and gauges by name: the fields of `Counters` in
        sender_state.pxd, and what `counters` in engine.pyx adds to them."""
    def measure(
        self, reset: bool
    ) -> tuple[
        dict[str, int],
        dict[str, int],
        dict[str, LatencyHistogram],
        list[NodeFigures],
        list[TopicFigures],
    ]:
        """Take every figure that `metrics()` is made of.

        Args:
            reset: maxima, those of histograms among them, count from here on.

        Returns:
            counters(); the maxima of `Maxima` (sender_state.pxd); the histograms queue_time,
            latency and ack_time; every node; every topic.  Totals count from the start of the
            engine.

        Never blocks; 2 us, and 0.2 us for each topic more.
        """

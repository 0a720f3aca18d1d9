"""Engine: makes and ends the native side, passes commands in and events out."""
import os
import weakref

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport strerror

from fastprod._core.accumulator cimport (
    Accumulator, Topic, accumulator_close, accumulator_destroy, accumulator_init,
    accumulator_add_topic, accumulator_kick, topic_set_partition_count,
)
from fastprod._core.buffer_pool cimport pool_callback_bytes, pool_close, pool_free_bytes
from fastprod._core.codecs cimport compressor_new
from fastprod._core.counters cimport copy_histogram, take_maximum
from fastprod._core.commands cimport LeaderUpdate
from fastprod._core.delivery cimport (
    incomplete_close, incomplete_last_number, incomplete_record_count, incomplete_wait,
)
from fastprod._core.event_queue cimport (
    DO_ABORT, DO_CLOSE, DO_CONNECT, DO_FAIL, DO_ID_TROUBLE, DO_LEADERS, DO_PRODUCER_ID, DO_READY,
    DO_RESET_ASKED, DO_SEND, DO_THROTTLE, DO_TOPIC_ID, DO_TROUBLE, Event,
    event_free, event_new, event_push, event_take,
)
from fastprod._core.future cimport deliver
from fastprod._core.io_thread cimport DRAIN_AND_STOP, STOP_NOW, IoThread, Maxima, Node
from fastprod._core.partitioner cimport sticky_set_partitions
from fastprod._core.sender cimport (
    io_abandon, io_destroy, io_init, sender_join, sender_start,
)
from fastprod._core.status cimport FP_OK, FP_TIMEDOUT, FpStatus, check
from fastprod._core.sync cimport (
    fp_add_i32, fp_load_i32, fp_load_i64, fp_ms_to_ns, fp_now_ns, fp_store_i32,
)

cdef enum:
    SLICE_NS = 50000000
    FOREVER = 0x7FFFFFFFFFFFFFFF
    LONGEST_S = 2000000000      # 63 years; in ns it still fits

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


_engines = weakref.WeakSet()


def _abandon_engines():
    """In the child of a fork: every engine, also one that is being closed, is the parent's."""
    for engine in list(_engines):
        engine.abandon()


os.register_at_fork(after_in_child=_abandon_engines)


cdef int64_t _deadline(object timeout_s):
    """CLOCK_MONOTONIC ns; None: never."""
    if timeout_s is None:
        return FOREVER
    return fp_now_ns() + <int64_t>(min(max(0.0, timeout_s), LONGEST_S) * 1e9)


cdef class TopicRef:
    """One topic of one engine."""

    @property
    def partition_count(self):
        """Partitions known; 0: no metadata yet."""
        return self.topic.partition_count

    @property
    def last_used_ns(self):
        """Monotonic ns when the last batch was opened; 0: never."""
        return fp_load_i64(&self.topic.last_used_ns)

    def counters(self):
        """Totals of the topic; see engine.pyi."""
        return {
            "records": self.topic.record_total,
            "bytes": self.topic.byte_total,
            "errors": self.topic.error_total,
            "retries": self.topic.retry_total,
            "compression_ratio": self.topic.ratio_milli / 1000.0,
        }

    cdef tuple measure(self, bint starts_anew):
        return (
            self.name, self.topic.record_total, self.topic.byte_total, self.topic.batch_total,
            self.topic.ratio_millionths, self.topic.retry_total, self.topic.error_total,
            copy_histogram(&self.topic.ack_time, starts_anew),
        )


cdef class Engine:
    """The native side of one producer. See engine.pyi."""

    def __cinit__(
        self, *, client_id, buffer_bytes, max_receive_bytes, force_poll=False, **settings
    ):
        self.client_id = client_id.encode()
        self.topics = {}
        self.extra_references = []
        check(accumulator_init(&self.accumulator, buffer_bytes))
        check(io_init(&self.io, &self.accumulator, force_poll, max_receive_bytes))
        self.is_ready = True
        self._set(settings)

    cdef int _set(self, dict settings) except -1:
        cdef Accumulator* a = &self.accumulator
        cdef IoThread* io = &self.io
        codec = CODECS[settings["compression"]]
        io.header.client_id = self.client_id
        io.header.client_id_size = len(self.client_id)
        io.header.acks = settings["acks"]
        io.header.timeout_ms = settings["request_timeout_ms"]
        io.max_in_flight = settings["max_in_flight"]
        io.adaptive = settings["linger_ms"] is None
        io.linger_ns = fp_ms_to_ns(settings["linger_bound_ms"])
        io.request_timeout_ns = fp_ms_to_ns(settings["request_timeout_ms"])
        io.delivery_timeout_ns = fp_ms_to_ns(settings["delivery_timeout_ms"])
        io.retry_backoff_ns = fp_ms_to_ns(settings["retry_backoff_ms"])
        io.retry_backoff_max_ns = fp_ms_to_ns(settings["retry_backoff_max_ms"])
        io.retries = settings["retries"]
        io.max_request_bytes = settings["max_request_bytes"]
        io.availability_timeout_ns = fp_ms_to_ns(settings["availability_timeout_ms"])
        io.max_idle_ns = -1
        if settings["max_idle_ms"] >= 0:
            io.max_idle_ns = fp_ms_to_ns(settings["max_idle_ms"])
        io.send_buffer_bytes = settings["send_buffer_bytes"]
        io.receive_buffer_bytes = settings["receive_buffer_bytes"]
        io.idempotent = settings["idempotent"]
        io.asked_producer_id = io.idempotent    # the control thread starts with it (A.1.5)
        io.guarantee_order = settings["guarantee_order"]
        a.batch_bytes = settings["batch_bytes"]
        a.record_bytes_cap = min(
            8 * <int64_t>a.batch_bytes,
            max(<int64_t>a.batch_bytes, <int64_t>a.pool.total_bytes // 16))
        a.codec = codec
        a.sticky_bytes = settings["sticky_bytes"]
        a.use_sticky_table = settings["adaptive_partitioning"]
        a.seed = settings["seed"]
        if codec != 0:
            io.sealer.compressor = compressor_new(codec, settings["compression_level"])
            if io.sealer.compressor == NULL:
                raise LookupError(settings["compression"])
        return 0

    def __dealloc__(self):
        if not self.is_ready or self.is_abandoned:
            return      # an inherited engine's locks may be held by threads that do not exist here
        if self.io.is_running:
            fp_store_i32(&self.accumulator.closed, 1)
            fp_store_i32(&self.io.stop, STOP_NOW)
            accumulator_kick(&self.accumulator)
            with nogil:
                sender_join(&self.io)
        incomplete_close(&self.accumulator.incomplete)
        deliver(&self.accumulator.incomplete, 0)
        io_destroy(&self.io)
        accumulator_destroy(&self.accumulator)

    def start(self):
        """Start the I/O thread."""
        _engines.add(self)
        failed = sender_start(&self.io)
        if failed:
            raise OSError(failed, f"the I/O thread did not start: {strerror(failed).decode()}")

    # An abandoned engine does nothing any more: a thread that does not exist may hold its locks.

    cdef int _command(self, int kind, int slot, int64_t a, int64_t b, bytes data) except -1:
        cdef Event* event
        cdef const uint8_t* bytes_at = NULL
        if self.is_abandoned:
            return 0
        if data is not None:
            bytes_at = data
        event = event_new(kind, slot, bytes_at, len(data) if data is not None else 0)
        if event == NULL:
            raise MemoryError("no memory for a command to the I/O thread")
        event.a = a
        event.b = b
        event_push(&self.io.commands, event)
        accumulator_kick(&self.accumulator)
        return 0

    def connect(self, int slot, int node_id, bytes address, str name=""):
        """Open a connection to `address`, a sockaddr; `name` is for errors."""
        self._command(DO_CONNECT, slot, node_id, len(address), address + name.encode() + b"\0")

    def send_frame(self, int slot, int64_t token, bytes frame):
        """Send a whole request; a RESPONSE event follows in any case."""
        self._command(DO_SEND, slot, token, 0, frame)

    def connection_ready(self, int slot, int produce_version):
        """Let Produce requests of this version go to a node."""
        self._command(DO_READY, slot, produce_version, 0, None)

    def close_connection(self, int slot, bint timed_out=False):
        """Close a node's connection."""
        self._command(DO_CLOSE, slot, timed_out, 0, None)

    def throttle(self, int slot, int64_t throttle_ms):
        """Send no Produce request to a node for so long."""
        self._command(DO_THROTTLE, slot, fp_ms_to_ns(throttle_ms), 0, None)

    def set_producer_id(self, int64_t producer_id, int epoch):
        """Hand over the producer id that was asked for."""
        self._command(DO_PRODUCER_ID, -1, producer_id, epoch, None)

    def set_producer_id_trouble(self, str text):
        """Say why there is no producer id."""
        self._command(DO_ID_TROUBLE, -1, 0, 0, text.encode() + b"\0")

    def fail(self, int code):
        """Fail everything, now and later."""
        self._command(DO_FAIL, -1, code, 0, None)

    def abort_pending(self, int code):
        """Fail everything queued; later sends are welcome."""
        self._command(DO_ABORT, -1, code, 0, None)

    def metadata_seen(self):
        """Metadata was looked at: a leader still missing is asked for again."""
        self._command(DO_RESET_ASKED, -1, 0, 0, None)

    def set_trouble(self, str text, int slot):
        """Say why a node cannot be used; empty: it can."""
        self._command(DO_TROUBLE, slot, 0, 0, text.encode() + b"\0" if text else None)

    def set_topic(self, str name, bytes topic_id, list leaders):
        """`leaders`: (slot, epoch, node id), each -1 if unknown, for partitions 0..n-1."""
        cdef TopicRef ref = self.topic_ref(name)
        cdef Topic* topic = ref.topic
        cdef int32_t count = len(leaders)
        cdef int32_t made
        cdef int32_t i
        cdef Event* event
        cdef int32_t* has_leader
        cdef LeaderUpdate* updates
        if topic_set_partition_count(topic, count) != 0:
            raise MemoryError(f"no memory for {count} partitions of topic {name!r}")
        made = topic.made_count     # those that are gone have no leader
        leaders = leaders + [(-1, -1, -1)] * (made - count)
        has_leader = <int32_t*>malloc((made + 1) * sizeof(int32_t))
        updates = <LeaderUpdate*>malloc((made + 1) * sizeof(LeaderUpdate))
        try:
            if has_leader == NULL or updates == NULL:
                raise MemoryError(f"no memory for the leaders of topic {name!r}")
            for i in range(made):
                updates[i].partition = topic.partitions[i]
                updates[i].slot = leaders[i][0]
                updates[i].epoch = leaders[i][1]
                updates[i].node_id = leaders[i][2]
                has_leader[i] = updates[i].slot >= 0
            if sticky_set_partitions(&topic.sticky, has_leader, count) != 0:
                raise MemoryError(f"no memory for the partitioner of topic {name!r}")
            event = event_new(DO_TOPIC_ID, -1, <const uint8_t*>topic_id, 16)
            if event != NULL:
                event.pointer = topic
            event_push(&self.io.commands, event)
            event = event_new(DO_LEADERS, -1, updates, made * sizeof(LeaderUpdate))
            event_push(&self.io.commands, event)
        finally:
            free(has_leader)
            free(updates)
        accumulator_kick(&self.accumulator)

    def forget_leaders(self, str name):
        """Nobody asks for the topic's metadata any more: who leads it is unknown."""
        cdef TopicRef ref = self.topics.get(name)
        if ref is not None:
            self.set_leaders(name, [(i, -1, -1, -1) for i in range(ref.topic.made_count)])

    def set_leaders(self, str name, list leaders):
        """`leaders`: (partition, slot, epoch, node id) of some of the topic's partitions."""
        cdef Topic* topic = self.topic_ref(name).topic
        cdef LeaderUpdate* updates
        cdef Event* event = event_new(DO_LEADERS, -1, NULL, 0)
        if event == NULL:
            raise MemoryError(f"no memory for the leaders of topic {name!r}")
        try:
            event.data = <uint8_t*>malloc((len(leaders) + 1) * sizeof(LeaderUpdate))
            if event.data == NULL:
                raise MemoryError(f"no memory for the leaders of topic {name!r}")
            updates = <LeaderUpdate*>event.data
            for i, (partition, slot, epoch, node_id) in enumerate(leaders):
                if not 0 <= partition < topic.made_count:
                    raise IndexError(f"topic {name!r} has no partition {partition}")
                updates[<size_t>i].partition = topic.partitions[<int32_t>partition]
                updates[<size_t>i].slot = slot
                updates[<size_t>i].epoch = epoch
                updates[<size_t>i].node_id = node_id
        except BaseException:
            event_free(event)
            raise
        event.size = len(leaders) * sizeof(LeaderUpdate)
        event_push(&self.io.commands, event)
        accumulator_kick(&self.accumulator)

    cdef TopicRef topic_ref(self, str name):
        cdef TopicRef ref = self.topics.get(name)
        cdef TopicRef made
        cdef bytes encoded
        if ref is None:
            encoded = name.encode()
            made = TopicRef.__new__(TopicRef)
            made.name = name
            made.engine = self
            ref = self.topics.setdefault(name, made)    # a collection may have run, and sent to it
            if ref is made:
                ref.topic = accumulator_add_topic(&self.accumulator, encoded, len(encoded))
                if ref.topic == NULL:
                    del self.topics[name]
                    raise MemoryError(f"no memory for topic {name!r}")
        return ref

    def topic(self, str name):
        """The topic, made if this is its first mention."""
        return self.topic_ref(name)

    def next_event(self, timeout_s):
        """(kind, slot, a, b, c, d, topic name or None, data or None), or None in time."""
        cdef int64_t deadline_ns = _deadline(timeout_s)
        cdef Event* event
        if self.is_abandoned:
            return None
        with nogil:
            event = event_take(&self.io.events, deadline_ns)
        if event == NULL:
            return None
        try:
            return (
                event.kind, event.slot, event.a, event.b, event.c, event.d,
                (<Topic*>event.pointer).name.decode() if event.pointer != NULL else None,
                (<bytes>(<char*>event.data)[:event.size]) if event.data != NULL else None,
            )
        finally:
            event_free(event)

    def post(self, int kind, int64_t a=0):
        """Put an event of our own into the control thread's queue: wakes it."""
        cdef Event* event
        if self.is_abandoned:
            return
        event = event_new(kind, -1, NULL, 0)
        if event != NULL:
            event.a = a
        event_push(&self.io.events, event)

    def run_deliveries(self, timeout_s):
        """Run the callbacks of every batch that is complete; returns how many batches."""
        if self.is_abandoned:
            return 0
        return deliver(
            &self.accumulator.incomplete, 0 if timeout_s == 0 else _deadline(timeout_s))

    def flush(self, timeout_s):
        """Wait until all sent so far is complete; None if it is. See engine.pyi."""
        cdef int64_t deadline_ns = _deadline(timeout_s)
        cdef int64_t until_ns
        cdef uint64_t last
        cdef FpStatus status = FP_TIMEDOUT
        if self.is_abandoned:
            return None
        last = incomplete_last_number(&self.accumulator.incomplete)
        fp_add_i32(&self.accumulator.flushing, 1)
        try:
            accumulator_kick(&self.accumulator)
            while True:
                until_ns = min(deadline_ns, fp_now_ns() + SLICE_NS)
                with nogil:
                    status = incomplete_wait(&self.accumulator.incomplete, last, until_ns)
                if status == FP_OK:
                    return None
                PyErr_CheckSignals()
                if self.is_abandoned:       # a signal handler forked, and this is the child
                    return None
                if fp_now_ns() >= deadline_ns:
                    return incomplete_record_count(&self.accumulator.incomplete, last)
        finally:
            fp_add_i32(&self.accumulator.flushing, -1)

    def close_accumulator(self, bint discards=False):
        """Take nothing more; blocked callers are released (A.9.3). See engine.pyi."""
        if self.is_abandoned:
            return
        with nogil:
            accumulator_close(&self.accumulator, discards)
            pool_close(&self.accumulator.pool)
            accumulator_kick(&self.accumulator)

    def stop(self, bint now):
        """End the I/O thread: at once, or when all is done."""
        fp_store_i32(&self.io.stop, STOP_NOW if now else DRAIN_AND_STOP)
        accumulator_kick(&self.accumulator)

    def join(self):
        """Wait for the I/O thread's end."""
        if self.is_abandoned:
            return
        with nogil:
            sender_join(&self.io)

    def close_deliveries(self):
        """Release who waits in `run_deliveries`."""
        if not self.is_abandoned:
            incomplete_close(&self.accumulator.incomplete)

    @property
    def deliveries_closed(self):
        """Whether `close_deliveries` was called."""
        return self.is_abandoned or self.accumulator.incomplete.closed

    def abandon(self):
        """In the child of a fork: this engine is the parent's."""
        self.is_abandoned = True
        io_abandon(&self.io)

    @property
    def abandoned(self):
        """Whether it is a parent process's."""
        return self.is_abandoned

    @property
    def incomplete_records(self):
        """Records without an outcome."""
        if self.is_abandoned:
            return 0
        return incomplete_record_count(&self.accumulator.incomplete, 0xFFFFFFFFFFFFFFFFULL)

    @property
    def incomplete_batches(self):
        """Batches without an outcome, or with callbacks still to run."""
        return self.accumulator.incomplete.batch_count

    @property
    def fatal_code(self):
        """Kafka's code of what ended the producer, or 0."""
        return fp_load_i32(&self.io.fatal_code)

    def connection_state(self, int slot):
        """NodeState of a node, as far as can be told from another thread."""
        if 0 <= slot < self.io.node_count and self.io.nodes[slot] != NULL:
            return self.io.nodes[slot].state
        return 0

    @property
    def has_producer_id(self):
        """Whether idempotence lets records go."""
        return not self.io.idempotent or self.io.producer_id >= 0

    @property
    def in_flight_count(self):
        """Requests in flight to all nodes."""
        total = 0
        for slot in range(self.io.node_count):
            if self.io.nodes[slot] != NULL:
                total += self.io.nodes[slot].flights.count
        return total

    def is_throttled(self, int slot):
        """Whether a node wants to be left alone now (G.8)."""
        if 0 <= slot < self.io.node_count and self.io.nodes[slot] != NULL:
            return self.io.nodes[slot].throttled_until_ns > fp_now_ns()
        return False

    def flights(self, int slot):
        """Requests in flight to one node, as far as can be told from another thread."""
        if 0 <= slot < self.io.node_count and self.io.nodes[slot] != NULL:
            return self.io.nodes[slot].flights.count
        return 0

    def counters(self):
        """Totals and gauges; see engine.pyi."""
        found = self.io.counters
        found = dict(found)
        found["buffer_total_bytes"] = self.accumulator.pool.total_bytes
        callback_bytes = available_bytes = 0
        if not self.is_abandoned:
            callback_bytes = pool_callback_bytes(&self.accumulator.pool)
            available_bytes = max(0, pool_free_bytes(&self.accumulator.pool) - callback_bytes)
        found["buffer_available_bytes"] = available_bytes
        found["buffer_callback_bytes"] = callback_bytes
        found["waiting_threads"] = fp_load_i32(&self.accumulator.pool.waiting)
        found["buffer_wait_ns"] = fp_load_i64(&self.accumulator.pool.wait_ns_total)
        found["buffer_exhausted"] = self.accumulator.pool.exhausted_total
        found["heap_bytes"] = self.accumulator.pool.heap_bytes
        found["io_wait_ns"] = fp_load_i64(&self.io.selector.io_wait_ns)
        found["polls"] = fp_load_i64(&self.io.selector.polls)
        found["producer_id"] = self.io.producer_id
        found["producer_epoch"] = self.io.producer_epoch
        found["connections"] = self.io.selector.channel_count
        return found

    def measure(self, bint starts_anew):
        """Everything that metrics() is made of. `starts_anew`: maxima count from here on."""
        cdef IoThread* io = &self.io
        cdef Maxima* maxima = &io.maxima
        return (
            self.counters(),
            {
                "largest_batch": take_maximum(&maxima.largest_batch, starts_anew),
                "largest_record": take_maximum(&maxima.largest_record, starts_anew),
                "longest_throttle_ms": take_maximum(&maxima.longest_throttle_ms, starts_anew),
            },
            {
                "queue_time": copy_histogram(&io.queue_time, starts_anew),
                "latency": copy_histogram(&io.latency, starts_anew),
                "ack_time": copy_histogram(&io.ack_time, starts_anew),
            },
            [
                measure_node(io.nodes[slot], starts_anew)
                for slot in range(io.node_count) if io.nodes[slot] != NULL
            ],
            [(<TopicRef>ref).measure(starts_anew) for ref in list(self.topics.values())],
        )


cdef tuple measure_node(Node* node, bint starts_anew):
    return (
        node.node_id, node.counters.requests, node.counters.request_bytes, node.counters.responses,
        node.counters.sent_bytes, node.counters.received_bytes, node.flights.count,
        take_maximum(&node.counters.largest_request, starts_anew),
        copy_histogram(&node.counters.latency, starts_anew),
    )

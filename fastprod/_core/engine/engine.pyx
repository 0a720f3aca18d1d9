"""Engine: makes and ends the native side, passes commands in and events out."""
import weakref

from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport strerror

from fastprod._core.bytes.buffer_pool cimport pool_close
from fastprod._core.bytes.fp_status cimport FP_OK, FP_TIMEDOUT, FpStatus, check
from fastprod._core.bytes.lent_value cimport values_release
from fastprod._core.bytes.sync cimport (
    fp_add_i32, fp_load_i32, fp_load_i32_acq, fp_load_i64, fp_ms_to_ns, fp_now_ns, fp_store_i32,
)
from fastprod._core.codec.compressor cimport (
    CODEC_GZIP, CODEC_LZ4, CODEC_NONE, CODEC_SNAPPY, CODEC_ZSTD, compressor_new,
)
from fastprod._core.delivery.future cimport deliver
from fastprod._core.delivery.result cimport (
    incomplete_close, incomplete_is_flushed, incomplete_last_number, incomplete_record_count,
    incomplete_wait,
)
from fastprod._core.delivery.wait_habit cimport note_wait
from fastprod._core.engine.accumulator cimport (
    ABORTING, Accumulator, BETWEEN_TRANSACTIONS, CLOSED, CLOSED_AND_DISCARDS, Topic,
    accumulator_add_topic, accumulator_close, accumulator_destroy, accumulator_init,
    accumulator_kick, accumulator_open, topic_set_partition_count,
)
from fastprod._core.drive.caller_drive cimport drive_flush, let_callers_drive
from fastprod._core.engine.control_commands cimport LeaderUpdate
from fastprod._core.engine.control_queue cimport (
    DO_ABORT, DO_ABORT_UNDRAINED, DO_ADD_PARTITION, DO_ASK_BEHIND, DO_BEGIN_TRANSACTION, DO_CLOSE,
    DO_CONNECT, DO_DISCONNECT_REASON, DO_END_TRANSACTION, DO_FAIL, DO_HOLD, DO_LEADERS,
    DO_PRODUCER_ID, DO_PRODUCER_ID_ERROR, DO_READY, DO_SEND, DO_SWAP, DO_THROTTLE, DO_TOPIC_ID,
    METADATA_REFRESHED, Event, event_free, event_new, event_push, event_take,
)
from fastprod._core.delivery.fork_watch import run_in_child
from fastprod._core.engine.control_queue import ControlEvent
from fastprod._core.transaction.awaited_end cimport awaited_end_take, awaited_end_tell
from fastprod._core.engine.figures cimport counters_of, node_figures, topic_figures
from fastprod._core.engine.histogram cimport copy_histogram, take_maximum
from fastprod._core.engine.sender cimport (
    io_abandon, io_destroy, io_init, sender_join, sender_start,
)
from fastprod._core.engine.sender_state cimport (
    DRAIN_AND_STOP, IoThread, NODE_READY, Node, STOP_NOW, node_known, node_seen,
)
from fastprod._core.engine.sticky_partitioner cimport sticky_set_partitions
from fastprod._core.io.layer cimport Layer

cdef enum:
    SLICE_NS = 50000000
    FOREVER = 0x7FFFFFFFFFFFFFFF
    LONGEST_S = 2000000000      # 63 years; in ns it still fits

CODECS = {
    "none": CODEC_NONE, "gzip": CODEC_GZIP, "snappy": CODEC_SNAPPY, "lz4": CODEC_LZ4,
    "zstd": CODEC_ZSTD,
}

_engines = weakref.WeakSet()


def _abandon_engines():
    """In the child of a fork: every engine, also one that is being closed, is the parent's."""
    for engine in list(_engines):
        engine.abandon()


run_in_child(_abandon_engines)


cdef int64_t _deadline(object timeout_s):
    """CLOCK_MONOTONIC ns; None: never."""
    return FOREVER if timeout_s is None else (
        fp_now_ns() + <int64_t>(min(max(0.0, timeout_s), LONGEST_S) * 1e9))


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


cdef class Engine:
    """The native side of one producer. See engine.pyi."""

    def __cinit__(
        self, *, client_id, buffer_bytes, max_receive_bytes, transactional_id=None,
        force_poll=False, **settings
    ):
        self.client_id = client_id.encode()
        self.transactional_id = None if transactional_id is None else transactional_id.encode()
        self.topics = {}
        check(accumulator_init(&self.accumulator, buffer_bytes))
        check(io_init(&self.io, &self.accumulator, force_poll, max_receive_bytes))
        let_callers_drive(&self.io)
        self.is_ready = True
        _engines.add(self)      # before it has a thread: its descriptors are the parent's already
        self._set(settings)

    cdef int _set(self, dict settings) except -1:
        cdef Accumulator* a = &self.accumulator
        cdef IoThread* io = &self.io
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
        idle_ms = settings["max_idle_ms"]
        io.max_idle_ns = fp_ms_to_ns(idle_ms) if idle_ms >= 0 else -1
        io.send_buffer_bytes = settings["send_buffer_bytes"]
        io.receive_buffer_bytes = settings["receive_buffer_bytes"]
        io.idempotent = settings["idempotent"]
        io.asked_producer_id = io.idempotent    # the control thread starts with it (P-A.1.5)
        if self.transactional_id is not None:
            io.is_transactional = True
            io.header.transactional_id = self.transactional_id
            io.header.transactional_id_size = len(self.transactional_id)
            a.closed = BETWEEN_TRANSACTIONS
        io.guarantee_order = settings["guarantee_order"]
        a.batch_bytes = settings["batch_bytes"]
        a.record_bytes_cap = min(
            8 * <int64_t>a.batch_bytes,
            max(<int64_t>a.batch_bytes, <int64_t>a.pool.total_bytes // 16))
        a.codec = CODECS[settings["compression"]]
        a.sticky_bytes = settings["sticky_bytes"]
        a.use_sticky_table = settings["adaptive_partitioning"]
        a.seed = settings["seed"]
        if a.codec != 0:
            io.sealer.compressor = compressor_new(a.codec, settings["compression_level"])
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
        values_release()

    def start(self):
        """Start the I/O thread."""
        if self.is_abandoned:       # a signal handler forked meanwhile, and this is the child
            return
        failed = sender_start(&self.io)
        if failed:
            raise OSError(failed, f"the I/O thread did not start: {strerror(failed).decode()}")

    # An abandoned engine does nothing any more: a thread that does not exist may hold its locks.

    cdef Event* _command(self, int kind, int slot, bytes data, int code=0) except NULL:
        """A command without its fields: to be filled in, then `_push`ed."""
        cdef const uint8_t* bytes_at = NULL if data is None else <const uint8_t*>data
        cdef Event* command = event_new(kind, slot, bytes_at, 0 if data is None else len(data))
        if command == NULL:
            raise MemoryError("no memory for a command to the I/O thread")
        command.code = code
        return command

    cdef void _push(self, Event* command, bint kicks=True):
        """Hand a command to the I/O thread; it may go without a kick if a later one sees to it."""
        if self.is_abandoned:
            event_free(command)
            return
        event_push(&self.io.commands, command)
        if kicks:
            accumulator_kick(&self.accumulator)

    def connect(
        self, int slot, int node_id, bytes address, str name="", Layer tls=None,
        str server_name="", Layer proxy=None, int home=-1,
    ):
        """Open a connection to `address`, a sockaddr. See engine.pyi."""
        cdef Event* command = self._command(
            DO_CONNECT, slot, b"%b%b\0%b\0" % (address, name.encode(), server_name.encode()))
        try:
            if tls is not None:
                command.tls = tls.hold()
            if proxy is not None:
                command.proxy = proxy.hold()
        except TypeError:
            event_free(command)
            raise
        command.node_id = node_id
        command.home = home if home >= 0 else slot
        command.address_bytes = len(address)
        self._push(command)

    def send_frame(
        self, int slot, int64_t token, bytes frame, bytes releases=b"", int64_t ending=0,
        question=None,
    ):
        """Send a whole request. See engine.pyi."""
        cdef Event* command
        if question is not None:
            command = self._question(DO_ASK_BEHIND, question)
            command.token = token
            self.has_asked = True
            self._push(command, False)
        command = self._command(DO_SEND, slot, frame + releases)
        command.token = token
        command.release_bytes = len(releases)
        command.ending = ending
        self._push(command)

    def connection_ready(self, int slot, int16_t produce_version):
        """Let Produce requests of this version go to a node."""
        cdef Event* command = self._command(DO_READY, slot, None)
        command.produce_version = produce_version
        self._push(command)

    def close_connection(self, int slot, bint timed_out=False):
        """Close a node's connection."""
        cdef Event* command = self._command(DO_CLOSE, slot, None)
        command.timed_out = timed_out
        self._push(command)

    def throttle(self, int slot, int64_t throttle_ms):
        """Send no Produce request to a node for so long."""
        cdef Event* command = self._command(DO_THROTTLE, slot, None)
        command.throttle_ns = fp_ms_to_ns(throttle_ms)
        self._push(command)

    def hold(self, int slot, bint is_held):
        """Let no Produce request leave to a node, or let them leave again. See engine.pyi."""
        cdef Event* command = self._command(DO_HOLD, slot, None)
        command.is_held = is_held
        self._push(command)

    def swap(self, int spare, int16_t produce_version):
        """Let a spare connection take the place of its node's. See engine.pyi."""
        cdef Event* command = self._command(DO_SWAP, spare, None)
        command.produce_version = produce_version
        self._push(command)

    def set_producer_id(self, int64_t producer_id, int16_t epoch):
        """Hand over the producer id that was asked for."""
        cdef Event* command = self._command(DO_PRODUCER_ID, -1, None)
        command.producer_id = producer_id
        command.producer_epoch = epoch
        self._push(command, self.io.producer_id < 0 or (    # nothing waits for another epoch
            fp_load_i32(&self.accumulator.closed) < BETWEEN_TRANSACTIONS))

    def set_producer_id_error(self, str text):
        """Say why there is no producer id."""
        self._push(self._command(DO_PRODUCER_ID_ERROR, -1, text.encode() + b"\0"))

    def fail(self, int code):
        """Fail everything, now and later."""
        self._push(self._command(DO_FAIL, -1, None, code))

    def abort_pending(self, int code, int64_t token=0, int64_t purged=0):
        """Fail everything pending, or what `purged` says; later sends are welcome. See the pyi."""
        cdef Event* command = self._command(DO_ABORT, -1, None, code)
        command.token, command.item_count = token, purged
        self._push(command)

    cdef Event* _question(self, int kind, object question) except NULL:
        """A command with a question, or None."""
        slot, frame, head, state = question or (-1, b"", b"", b"")
        cdef Event* command = self._command(kind, slot, frame + head + state)
        command.address_bytes, command.release_bytes = len(head), len(head) + len(state)
        return command

    def begin_transaction(self, bint adds_implicitly, question=None):
        """Take records, which belong to a new transaction. See engine.pyi."""
        cdef Event* command = self._question(DO_BEGIN_TRANSACTION, question)
        command.adds_implicitly, command.is_held = adds_implicitly, question is not None
        self._push(command, command.is_held and not self.has_asked)
        self.has_asked = False
        accumulator_open(&self.accumulator)

    def add_partition(self, str topic, int32_t partition):
        """A partition is part of the transaction: its records may go."""
        cdef Event* command = self._command(DO_ADD_PARTITION, -1, None)
        command.topic = self.topic_ref(topic).topic
        command.partition = partition
        self._push(command)

    def abort_undrained(self, int code, str why):
        """Take no more records, and fail those that have never left. See engine.pyi."""
        accumulator_close(&self.accumulator, ABORTING)
        self._push(self._command(DO_ABORT_UNDRAINED, -1, why.encode() + b"\0", code))

    def end_transaction(self, int64_t token):
        """Take no more records; tell when every one has its outcome. See engine.pyi."""
        cdef Event* command = self._command(DO_END_TRANSACTION, -1, None)
        command.token = token
        note_wait()
        accumulator_close(&self.accumulator, BETWEEN_TRANSACTIONS)
        self._push(command)

    def metadata_seen(self):
        """Metadata was looked at: a leader still missing is asked for again."""
        self._push(self._command(METADATA_REFRESHED, -1, None))

    def set_disconnect_reason(self, str text, int slot):
        """Say why a node cannot be used; empty: it can."""
        self._push(self._command(
            DO_DISCONNECT_REASON, slot, text.encode() + b"\0" if text else None))

    def set_topic(self, str name, bytes topic_id, list leaders):
        """`leaders`: (slot, epoch, node id), each -1 if unknown, for partitions 0..n-1."""
        cdef Topic* topic = self.topic_ref(name).topic
        cdef int32_t count = len(leaders)
        cdef int32_t made, i
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
                event.topic = topic
            event_push(&self.io.commands, event)
            event_push(
                &self.io.commands,
                event_new(DO_LEADERS, -1, updates, made * sizeof(LeaderUpdate)))
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
        cdef size_t size = len(leaders) * sizeof(LeaderUpdate)
        cdef Event* event = self._command(DO_LEADERS, -1, bytes(size))
        cdef LeaderUpdate* updates = <LeaderUpdate*>event.data
        try:
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
        event_push(&self.io.commands, event)
        accumulator_kick(&self.accumulator)

    cdef TopicRef topic_ref(self, str name):
        cdef TopicRef made, ref = self.topics.get(name)
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
        """The oldest event, or None in time. See engine.pyi."""
        cdef int64_t deadline_ns = 0 if timeout_s == 0 else _deadline(timeout_s)
        cdef Event* event
        if self.is_abandoned:
            return None
        with nogil:
            event = event_take(&self.io.events, deadline_ns)
        values_release()
        if event == NULL:
            return None
        try:
            return ControlEvent(
                event.kind, event.slot, event.token, event.node_id,
                event.topic.name.decode() if event.topic != NULL else None,
                event.partition, event.leader_epoch, event.port, event.code, event.item_count,
                event.reason, event.err, event.bad_size, bool(event.timed_out),
                event.fault, event.expected, event.got,
                (<bytes>(<char*>event.data)[:event.data_bytes]) if event.data != NULL else None,
                event.tls_verify, event.tls_reason)
        finally:
            event_free(event)

    def post(self, int kind, int node_id=0):
        """Put an event of our own into the control thread's queue: wakes it."""
        cdef Event* event
        if not self.is_abandoned:
            event = event_new(kind, -1, NULL, 0)
            if event != NULL:
                event.node_id = node_id
            event_push(&self.io.events, event)

    def await_end(self, int64_t token, timeout_s, on_answer):
        """Sleep until the end of a transaction, or the answer to EndTxn. See engine.pyi."""
        cdef int64_t deadline_ns = _deadline(timeout_s)
        cdef int64_t producer_id
        cdef int32_t producer_epoch
        cdef Event* answer
        with nogil:
            answer = awaited_end_take(&self.io.awaited_end, token, deadline_ns)
        if answer != NULL:
            producer_id, producer_epoch = answer.producer_id, answer.producer_epoch
            # First: a signal's handler that runs in `on_answer` may wait for the control thread,
            # which must not hear of the next transaction before.
            event_push(&self.io.events, answer)
            on_answer(token, producer_id, producer_epoch)

    def end_known(self, int64_t token):
        """The outcome of this end is known: who waits in `await_end` goes on."""
        if not self.is_abandoned:
            awaited_end_tell(&self.io.awaited_end, token)

    def run_deliveries(self, timeout_s):
        """Run the callbacks of every batch that is complete; returns how many batches."""
        if self.is_abandoned:
            return 0
        return deliver(
            &self.accumulator.incomplete, 0 if timeout_s == 0 else _deadline(timeout_s))

    def flush(self, timeout_s):
        """Wait until all sent so far is complete; None if it is. See engine.pyi."""
        cdef int64_t until_ns, deadline_ns = _deadline(timeout_s)
        cdef uint64_t last
        cdef FpStatus status = FP_TIMEDOUT
        if self.is_abandoned:
            return None
        last = incomplete_last_number(&self.accumulator.incomplete)
        if incomplete_is_flushed(&self.accumulator.incomplete, last):
            return None
        fp_add_i32(&self.accumulator.flushing, 1)
        try:
            while True:
                until_ns = min(deadline_ns, fp_now_ns() + SLICE_NS)
                with nogil:
                    drive_flush(&self.accumulator, last, until_ns)
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
        """Take nothing more; blocked callers are released (P-A.9.3). See engine.pyi."""
        if self.is_abandoned:
            return
        with nogil:
            accumulator_close(&self.accumulator, CLOSED_AND_DISCARDS if discards else CLOSED)
            pool_close(&self.accumulator.pool)
            accumulator_kick(&self.accumulator)

    def stop(self, bint now):
        """End the I/O thread: at once, or when all is done."""
        fp_store_i32(&self.io.stop, STOP_NOW if now else DRAIN_AND_STOP)
        accumulator_kick(&self.accumulator)

    def join(self):
        """Wait for the I/O thread's end."""
        if not self.is_abandoned:
            with nogil:
                sender_join(&self.io)
            values_release()

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
    def fatal_code(self):
        """Kafka's code of what ended the producer, or 0."""
        return fp_load_i32(&self.io.fatal_code)

    def is_node_ready(self, int slot):
        """Whether a node takes Produce requests, as far as can be told from another thread."""
        cdef Node* node = node_seen(&self.io, slot)
        return node != NULL and fp_load_i32_acq(&node.state) == NODE_READY

    @property
    def has_producer_id(self):
        """Whether idempotence lets records go."""
        is_known = fp_load_i64(&self.io.producer_id) >= 0
        return not self.io.idempotent or is_known or self.io.is_transactional

    @property
    def in_flight_count(self):
        """Requests in flight to all nodes."""
        return sum(self.flights(slot) for slot in range(fp_load_i32_acq(&self.io.node_count)))

    def is_throttled(self, int slot):
        """Whether a node wants to be left alone now (P-G.8)."""
        cdef Node* node = node_seen(&self.io, slot)
        return node != NULL and fp_load_i64(&node.throttled_until_ns) > fp_now_ns()

    def flights(self, int slot):
        """Requests in flight to one node, as far as can be told from another thread."""
        cdef Node* node = node_seen(&self.io, slot)
        return 0 if node == NULL else fp_load_i32_acq(&node.flights.count)

    def counters(self):
        """Totals and gauges; see engine.pyi."""
        return counters_of(&self.io, self.is_abandoned)

    def measure(self, bint reset):
        """Everything that metrics() is made of. `reset`: maxima count from here on."""
        cdef IoThread* io = &self.io
        return (
            self.counters(),
            {"largest_batch": take_maximum(&io.maxima.largest_batch, reset),
             "largest_record": take_maximum(&io.maxima.largest_record, reset),
             "longest_throttle_ms": take_maximum(&io.maxima.longest_throttle_ms, reset)},
            {"queue_time": copy_histogram(&io.queue_time, reset),
             "latency": copy_histogram(&io.latency, reset),
             "ack_time": copy_histogram(&io.ack_time, reset)},
            [
                node_figures(node_known(io, slot), reset)
                for slot in range(fp_load_i32_acq(&io.node_count))
                if node_known(io, slot) != NULL
            ],
            [
                topic_figures((<TopicRef>ref).name, (<TopicRef>ref).topic, reset)
                for ref in list(self.topics.values())
            ],
        )

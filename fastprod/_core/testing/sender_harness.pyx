"""SenderDoor: the sender's steps one by one, on an engine without an I/O thread, for tests.

The clock is the test's: batches are created at `now_ms`, and every step sees it.
"""
from cpython.bytes cimport PyBytes_AS_STRING
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memset

cimport cython

from fastprod._core.bytes.buffer_pool cimport Waiter, pool_cancel, pool_give, pool_queue, pool_take
from fastprod._core.bytes.fp_status cimport FP_BLOCKED, FP_EXHAUSTED, FP_OK, FpStatus, check
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.sync cimport fp_add_i32, fp_load_i32, fp_now_ns
from fastprod._core.delivery.future cimport RecordFuture, new_future
from fastprod._core.delivery.result cimport ERR_ABORTED
from fastprod._core.engine.accumulator cimport (
    Appended, Partition, PartitionList, Topic, accumulator_append, accumulator_kick,
    batch_estimate, batch_is_full,
)
from fastprod._core.engine.completion cimport (
    produce_answered, produce_failed, produce_unanswered,
)
from fastprod._core.engine.control_commands cimport obey_all, serve_transaction
from fastprod._core.engine.drain cimport node_drain
from fastprod._core.engine.engine cimport Engine, TopicRef
from fastprod._core.drive.gathering cimport gathering_check
from fastprod._core.engine.expiry cimport abort_all, expire
from fastprod._core.engine.in_flight cimport Request, request_free, request_new
from fastprod._core.engine.load_table cimport mark_busy, update_load
from fastprod._core.engine.node_connection cimport node_drop, node_in_slot, nodes_after_poll
from fastprod._core.engine.produce_codec cimport produce_encode
from fastprod._core.engine.ready_list cimport (
    look_at_touched, node_is_ready, take_announced, touch, touch_overdue,
)
from fastprod._core.engine.sender cimport sender_park, serve_node
from fastprod._core.engine.sender_state cimport IoThread, NODE_HANDSHAKE, Node
from fastprod._core.engine.sticky_partitioner cimport sticky_current, sticky_produced
from fastprod._core.engine.timer_heap cimport timer_next_ns
from fastprod._core.io.channel cimport CLOSE_LOCAL
from fastprod._core.io.selector cimport selector_poll, selector_register
from fastprod._core.io.tcp_transport cimport tcp_transport
from fastprod._core.records.record_batch cimport ProducerBatch, Record

cdef enum:
    MS = 1000000
    FAR = 1000000000


@cython.no_gc_clear
cdef class SenderDoor:
    """See sender_harness.pyi. Threads: one; the engine must not be started."""
    # OWNER of the requests under way, of the slabs it holds, and of its place in the pool's line.

    cdef Engine engine
    cdef dict requests
    cdef int next_handle
    cdef object now
    cdef Slab* held
    cdef Waiter waiter
    cdef readonly size_t need_bytes

    def __init__(self, Engine engine, now_ms=1000):
        self.engine = engine
        self.requests = {}
        self.now_ms = now_ms

    def __dealloc__(self):
        if self.engine is None:
            return
        self.hold_memory(0)
        self.leave_line()
        if self.requests:
            abort_all(&self.engine.io, ERR_ABORTED)
            for handle in list(self.requests):
                self.fail(handle)

    @property
    def now_ms(self):
        return self.now

    @now_ms.setter
    def now_ms(self, value):
        self.now = value
        self.engine.io.now_ns = <int64_t>(value * MS)

    cdef Partition* _partition(self, str topic, int index) except NULL:
        cdef TopicRef ref = self.engine.topic_ref(topic)
        if index >= ref.topic.made_count:
            raise IndexError(f"{topic} has {ref.topic.made_count} partitions")
        return ref.topic.partitions[index]

    def append(self, str topic, bytes value, bytes key=None, int partition=-1, timestamp_ms=1,
               bytes headers=None, size_t waited_for_bytes=0, bint looks=True, on_delivery=None):
        """A future, or None when the pool is exhausted: `need_bytes` says how much to wait for."""
        cdef Record record
        cdef Slab* extra = NULL
        cdef Appended appended
        cdef TopicRef ref = self.engine.topic_ref(topic)
        cdef FpStatus status
        cdef Partition* chosen
        cdef RecordFuture future = new_future(topic, NULL, 0)
        cdef void* attached = NULL
        record.value = <const uint8_t*>PyBytes_AS_STRING(value)
        record.value_size = len(value)
        record.key = NULL
        record.key_size = -1
        if key is not None:
            record.key = <const uint8_t*>PyBytes_AS_STRING(key)
            record.key_size = len(key)
        record.headers = NULL
        record.headers_size = 0
        if headers is not None:
            record.headers = <const uint8_t*>PyBytes_AS_STRING(headers)
            record.headers_size = <uint32_t>len(headers)
        record.timestamp_ms = timestamp_ms
        appended.known = NULL
        appended.waits = 0
        appended.owner = NULL
        future.timestamp_ms = timestamp_ms
        future.key_size = record.key_size
        future.value_size = record.value_size
        if on_delivery is not None:
            future.callbacks = on_delivery
            appended.future_result = &future.result_
            appended.future_index = &future.index
            attached = <PyObject*>future
        if waited_for_bytes > 0:
            check(pool_take(&self.engine.accumulator.pool, waited_for_bytes, False, &extra))
        status = accumulator_append(
            &self.engine.accumulator, ref.topic, partition, &record, 1, extra, attached, &appended)
        if status == FP_EXHAUSTED:
            self.need_bytes = appended.need_bytes
            return None
        check(status)
        if attached != NULL:
            Py_INCREF(future)
        else:
            future.result_ = appended.result
            future.index = appended.index
        if appended.index == 0:
            chosen = ref.topic.partitions[appended.partition]
            chosen.tail.created_ns = self.engine.io.now_ns
            chosen.tail.last_attempt_ns = self.engine.io.now_ns
        if looks:
            self._turn()    # the I/O thread has been woken
        return future

    def obey(self):
        """Carry out commands given to the engine (set_topic, set_producer_id, ...)."""
        obey_all(&self.engine.io)

    def connect(self, int slot, int produce_version=12):
        """Pretend that the node in `slot` is connected and ready."""
        cdef Node* node = node_in_slot(&self.engine.io, slot)
        node.state = 3
        node.produce_version = produce_version

    def connect_socket(self, int slot, int fd):
        """The node in `slot` is at the other end of a socket, which is ours from now on."""
        cdef Node* node = node_in_slot(&self.engine.io, slot)
        cdef int err = 0
        node.channel = selector_register(
            &self.engine.io.selector, fd, tcp_transport(), NULL, node, &err)
        if node.channel == NULL:
            raise OSError(err, "the socket was not taken")
        self.connect(slot)

    def connect_spare(self, int slot, int home, int fd):
        """As `connect_socket`, for a spare connection to the node in `home` that may be swapped."""
        cdef Node* node
        self.connect_socket(slot, fd)
        node = node_in_slot(&self.engine.io, slot)
        node.home = node_in_slot(&self.engine.io, home)
        node.state = NODE_HANDSHAKE

    def poll(self, int64_t max_idle_ns=-1):
        """What the sockets brought, without a wait."""
        check(selector_poll(&self.engine.io.selector, 0, max_idle_ns))
        nodes_after_poll(&self.engine.io)

    def disconnect(self, int slot):
        """The connection to the node in `slot` ends."""
        node_drop(&self.engine.io, node_in_slot(&self.engine.io, slot), CLOSE_LOCAL, 0, 0, False)

    def serve(self, int slot):
        """A node's part of one turn; returns how many requests it got."""
        before = self.engine.io.counters.produce_requests
        self._turn()
        serve_node(&self.engine.io, node_in_slot(&self.engine.io, slot))
        return self.engine.io.counters.produce_requests - before

    cdef int _turn(self) except -1:
        """What the I/O thread does before it serves the nodes, but for expiry."""
        gathering_check(&self.engine.io)
        obey_all(&self.engine.io)
        take_announced(&self.engine.io)
        touch_overdue(&self.engine.io)
        look_at_touched(&self.engine.io)
        if self.engine.io.is_transactional:
            serve_transaction(&self.engine.io)
        return 0

    cdef int64_t _next_wait_ns(self, PartitionList* parts, int64_t soonest_ns) except? -1:
        cdef Partition* p = parts.first
        while p != NULL:
            if p.wait.is_set:
                soonest_ns = min(soonest_ns, p.wait.due_ns)
            p = p.place_next
        return soonest_ns

    def ready(self, int slot):
        """(is the node ready, ms until it may be or None)."""
        cdef int64_t far = self.engine.io.now_ns + <int64_t>FAR * MS
        cdef int64_t wake_ns
        cdef Node* node = node_in_slot(&self.engine.io, slot)
        self._turn()
        self.engine.io.wake_ns = far
        is_ready = node_is_ready(&self.engine.io, node)
        wake_ns = self._next_wait_ns(&node.lingering, self.engine.io.wake_ns)
        wake_ns = self._next_wait_ns(&node.held, wake_ns)
        delay_ms = None if wake_ns == far else (wake_ns - self.engine.io.now_ns) / 1e6
        return is_ready, delay_ms

    def drain(self, int slot):
        """The handle of a request with what goes to the node now, or None."""
        cdef Node* node = node_in_slot(&self.engine.io, slot)
        cdef Request* request = request_new()
        self._turn()
        request.expects_response = True
        if not node_drain(&self.engine.io, node, request):
            request_free(request)
            return None
        request.version = node.produce_version
        request.sent_ns = self.engine.io.now_ns
        node.flights.produce_count += 1
        check(produce_encode(request, &self.engine.io.header))
        self.next_handle += 1
        self.requests[self.next_handle] = (<size_t>request, slot)
        return self.next_handle

    cdef dict _batch(self, ProducerBatch* batch):
        return {
            "topic": (<Partition*>batch.partition).topic.name.decode(),
            "partition": (<Partition*>batch.partition).index,
            "count": batch.count,
            "attempts": batch.attempts,
            "producer_id": batch.producer_id,
            "epoch": batch.producer_epoch,
            "sequence": batch.base_sequence if batch.has_sequence else None,
            "is_done": bool(batch.is_done),
            "is_retry": bool(batch.is_retry),
            "was_split": bool(batch.was_split),
            "is_full": bool(batch_is_full(&self.engine.accumulator, batch)),
            "estimate": batch_estimate(&self.engine.accumulator, batch),
            "backoff_ms": batch.backoff_ns / 1e6,
            "requests": batch.requests,
            "created_ms": batch.created_ns / 1e6,
        }

    def batches(self, int handle):
        """What is in a request, in the order of its frame."""
        cdef Request* request = <Request*><size_t>self.requests[handle][0]
        return [self._batch(request.batches[i]) for i in range(request.batch_count)]

    def frame(self, int handle):
        """The request's bytes, size prefix included."""
        cdef Request* request = <Request*><size_t>self.requests[handle][0]
        return b"".join([
            (<const char*>request.iov[i].iov_base)[:request.iov[i].iov_len]
            for i in range(request.iov_count)
        ])

    cdef Request* _take(self, int handle, Node** node) except NULL:
        pointer, slot = self.requests.pop(handle)
        node[0] = node_in_slot(&self.engine.io, slot)
        node[0].flights.produce_count -= 1
        return <Request*><size_t>pointer

    def answer(self, int handle, bytes payload):
        """Give a request its response, from behind the correlation id on."""
        cdef Node* node
        cdef Request* request = self._take(handle, &node)
        cdef const uint8_t* data = payload
        cdef FpStatus status = produce_answered(
            &self.engine.io, node, request, data, len(payload))
        if status != FP_OK:
            produce_failed(&self.engine.io, request, 13)
        request_free(request)
        return status == FP_OK

    def fail(self, int handle, int code=13):
        """The connection of a request was lost (13), or its time is over (7)."""
        cdef Node* node
        cdef Request* request = self._take(handle, &node)
        produce_failed(&self.engine.io, request, code)
        request_free(request)

    def sent_without_answer(self, int handle):
        """acks=0: the request has left."""
        cdef Node* node
        cdef Request* request = self._take(handle, &node)
        produce_unanswered(&self.engine.io, request)
        request_free(request)

    def expire(self):
        """Fail what is too old; returns ms until the next is, or None."""
        cdef IoThread* io = &self.engine.io
        self._turn()
        expire(io)
        if io.expiries.root == NULL:
            return None
        return (timer_next_ns(&io.expiries) - io.now_ns) / 1e6

    def throw_away(self):
        """The end of the I/O thread: everything is aborted, requests under way end."""
        self._turn()
        abort_all(&self.engine.io, ERR_ABORTED)
        for handle in sorted(self.requests):
            self.fail(handle)

    def pretend_waiting(self, RecordFuture future, int32_t count):
        """As if so many threads more, or fewer, waited for the batch of a record."""
        fp_add_i32(&future.result_.waiters, count)

    @property
    def gathering(self):
        """How many records the next request still waits for."""
        return fp_load_i32(&self.engine.accumulator.gathering)

    @property
    def kicks(self):
        """How often the I/O thread was woken, or told to look again."""
        return fp_load_i32(&self.engine.accumulator.kicks)

    def hold_memory(self, size_t size_bytes):
        """Take this much of the pool out of use, in place of what was held before."""
        pool_give(&self.engine.accumulator.pool, self.held)
        self.held = NULL
        if size_bytes > 0:
            check(pool_take(&self.engine.accumulator.pool, size_bytes, True, &self.held))

    def wait_in_line(self, size_t size_bytes):
        """Somebody waits for memory of the pool; False: it was there."""
        self.leave_line()
        cdef Slab* chain = NULL
        cdef FpStatus status = pool_queue(
            &self.engine.accumulator.pool, &self.waiter, size_bytes, False, &chain)
        if status == FP_BLOCKED:
            return True
        check(status)
        pool_give(&self.engine.accumulator.pool, chain)
        return False

    def leave_line(self):
        """Nobody waits any longer."""
        cdef Slab* chain = NULL
        if self.waiter.want_bytes > 0:
            if pool_cancel(
                    &self.engine.accumulator.pool, &self.waiter, False, &chain) == FP_OK:
                pool_give(&self.engine.accumulator.pool, chain)
            memset(&self.waiter, 0, sizeof(Waiter))

    def sleep_ms(self, int kick_count):
        """How long the I/O thread sleeps if so many kicks come while it has its last look."""
        cdef int32_t kicks = self.engine.accumulator.kicks
        self.engine.io.wake_ns = fp_now_ns() + 60 * 1000 * <int64_t>MS
        for _ in range(kick_count):
            accumulator_kick(&self.engine.accumulator)
        return sender_park(&self.engine.io, kicks) / 1e6

    def set_flushing(self, int count):
        """So many flushes are under way."""
        self.engine.accumulator.flushing = count

    def abort(self, int code):
        self._turn()
        abort_all(&self.engine.io, code)

    def place_without_key(self, str topic):
        """Somebody sends a record without a key: returns its partition."""
        cdef Topic* found = self.engine.topic_ref(topic).topic
        cdef int32_t chosen = sticky_current(&found.sticky)
        sticky_produced(&found.sticky, chosen, 1, False)
        mark_busy(&self.engine.io, found)
        return chosen

    def update_load(self):
        self._turn()
        self.engine.io.load_at_ns = 0
        update_load(&self.engine.io)

    def load_table(self, str topic):
        """Weights by partition as the adaptive partitioner has them; empty: all alike."""
        cdef Topic* found = self.engine.topic_ref(topic).topic
        cdef int32_t i, before = 0
        weights = {}
        for i in range(found.sticky.table_count):
            weights[found.sticky.table_partition[i]] = found.sticky.table_cumulative[i] - before
            before = found.sticky.table_cumulative[i]
        return weights

    def stamp(self, int slot, ready_ms, drained_ms):
        """When the node last had data, and when it last took any (P-C.5.7)."""
        cdef Node* node = node_in_slot(&self.engine.io, slot)
        node.last_ready_ns = <int64_t>(ready_ms * MS)
        node.last_drain_ns = <int64_t>(drained_ms * MS)

    def queue(self, str topic, int partition):
        """The batches waiting in a partition, first to go first."""
        cdef ProducerBatch* batch = self._partition(topic, partition).head
        found = []
        while batch != NULL:
            found.append(self._batch(batch))
            batch = batch.next
        return found

    def in_flight(self, str topic, int partition):
        """The partition's batches that were drained and are not complete, in sequence order."""
        cdef ProducerBatch* batch = self._partition(topic, partition).flight_first
        found = []
        while batch != NULL:
            found.append(self._batch(batch))
            batch = batch.flight_next
        return found

    def partition_state(self, str topic, int partition):
        cdef Partition* p = self._partition(topic, partition)
        return {
            "producer_id": p.producer_id,
            "epoch": p.producer_epoch,
            "next_sequence": p.next_sequence,
            "last_acked_sequence": p.last_acked_sequence,
            "last_acked_offset": p.last_acked_offset,
            "has_unresolved": bool(p.has_unresolved),
            "needs_bump": bool(p.needs_bump),
            "outstanding": p.outstanding,
            "muted": bool(p.muted),
            "leader_slot": p.leader_slot,
            "leader_epoch": p.leader_epoch,
            "is_listed": p.place != NULL,
        }

    def set_next_sequence(self, str topic, int partition, int sequence):
        """Put a partition near the wrap."""
        cdef Partition* p = self._partition(topic, partition)
        p.producer_id = self.engine.io.producer_id
        p.producer_epoch = self.engine.io.producer_epoch
        p.next_sequence = sequence
        p.last_acked_sequence = sequence - 1 if sequence > 0 else -1

    def mute(self, str topic, int partition, bint muted):
        cdef Partition* p = self._partition(topic, partition)
        p.muted = muted
        touch(&self.engine.io, p)

    def sticky_partition(self, str topic):
        return self.engine.topic_ref(topic).topic.sticky.partition

    def ratio_estimate(self, str topic):
        return self.engine.topic_ref(topic).topic.ratio_milli / 1000.0

    def events(self):
        """Events for the control thread so far."""
        found = []
        while True:
            event = self.engine.next_event(0)
            if event is None:
                return found
            found.append(event)

    @property
    def producer_epoch(self):
        return self.engine.io.producer_epoch

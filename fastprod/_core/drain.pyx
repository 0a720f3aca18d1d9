"""Bodies of ready, drain and expire; the contract is in drain.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport strlen

from fastprod._core.accumulator cimport (
    CLOSED, Partition, Topic, batch_estimate, batch_is_full, topic_observe_ratio,
)
from fastprod._core.completion cimport batch_fail, batch_release
from fastprod._core.counters cimport histogram_add, raise_maximum
from fastprod._core.delivery cimport ERR_EXPIRED, ERR_NO_CODEC, ERR_NO_ZSTD
from fastprod._core.event_queue cimport ON_PRODUCER_ID_WANTED, event_new, event_push
from fastprod._core.in_flight cimport Request, request_add_batch
from fastprod._core.io_thread cimport IoThread, Node
from fastprod._core.partitioner cimport sticky_set_load
from fastprod._core.produce_frame cimport PRODUCE_ZSTD_VERSION
from fastprod._core.producer_state cimport (
    flight_append, sequence_allows, sequence_assign, sequence_settle, sequence_unresolved,
)
from fastprod._core.record_batch cimport BATCH_HEADER_BYTES, ProducerBatch, batch_seal
from fastprod._core.status cimport FP_OK
from fastprod._core.sync cimport (
    fp_cas_ptr, fp_load_i32_acq, fp_load_ptr, fp_mutex_lock, fp_mutex_unlock, fp_store_i32,
    fp_xchg_ptr,
)

cdef enum HeadState:
    HEAD_BLOCKED = 0    # may not go now
    HEAD_ALONG = 1      # may go if the node gets a request anyway
    HEAD_DUE = 2        # is to go now

cdef enum:
    CODEC_ZSTD = 4
    LOAD_PERIOD_NS = 1000000
    NEVER = 0x7FFFFFFFFFFFFFFF


cdef Node* _home(IoThread* io, Partition* p) noexcept nogil:
    cdef int32_t slot = fp_load_i32_acq(&p.leader_slot)
    if 0 <= slot < io.node_count and io.nodes[slot] != NULL:
        return io.nodes[slot]
    return &io.limbo


cdef bint _enlist(IoThread* io, Partition* p) noexcept nogil:
    cdef Node* node = _home(io, p)
    cdef int32_t capacity
    cdef Partition** grown
    if node.active_count == node.active_capacity:
        capacity = max(16, node.active_capacity * 2)
        grown = <Partition**>realloc(node.active, capacity * sizeof(Partition*))
        if grown == NULL:
            return False
        node.active = grown
        node.active_capacity = capacity
    node.active[node.active_count] = p
    node.active_count += 1
    p.home_slot = node.slot
    return True


cdef void _mark_busy(IoThread* io, Topic* topic) noexcept nogil:
    cdef Topic** grown
    if topic.is_loaded or topic.partition_count < 2 or not io.accumulator.use_sticky_table:
        return
    if io.busy_count == io.busy_capacity:
        grown = <Topic**>realloc(io.busy, (io.busy_capacity + 16) * sizeof(Topic*))
        if grown == NULL:
            return
        io.busy = grown
        io.busy_capacity += 16
    io.busy[io.busy_count] = topic
    io.busy_count += 1
    topic.is_loaded = True


cdef void _put_back(IoThread* io, Partition* p) noexcept nogil:
    cdef void* top
    while True:
        top = fp_load_ptr(&io.accumulator.active_stack)
        p.next_active = <Partition*>top
        if fp_cas_ptr(&io.accumulator.active_stack, top, p):
            return


cdef void take_active(IoThread* io) noexcept nogil:
    cdef Partition* p
    cdef Partition* following
    if io.accumulator.active_stack == NULL:
        return
    p = <Partition*>fp_xchg_ptr(&io.accumulator.active_stack, NULL)
    while p != NULL:
        following = p.next_active
        p.next_active = NULL
        if not p.is_listed:
            if not _enlist(io, p):
                _put_back(io, p)    # no memory now: the next turn tries again
                p = following
                continue
            p.is_listed = True
            io.listed_count += 1
            _mark_busy(io, p.topic)
        if io.now_ns + io.delivery_timeout_ns < io.next_expiry_ns:
            io.next_expiry_ns = io.now_ns + io.delivery_timeout_ns
        p = following


cdef bint _is_idle(Partition* p) noexcept nogil:
    """Nothing queued and nothing in flight: off the list, in step with the callers' flag."""
    cdef bint idle = False
    if p.flight_first != NULL or p.outstanding > 0 or p.needs_bump:
        return False
    fp_mutex_lock(&p.lock)
    if p.head == NULL:
        p.is_active = False
        idle = True
    fp_mutex_unlock(&p.lock)
    return idle


cdef void _wake_by(IoThread* io, int64_t due_ns) noexcept nogil:
    if due_ns < io.wake_ns:
        io.wake_ns = due_ns


cdef void relist(IoThread* io, Node* node) noexcept nogil:
    cdef int32_t i = 0
    cdef Partition* p
    while i < node.active_count:
        p = node.active[i]
        if fp_load_i32_acq(&p.leader_slot) != p.home_slot and _home(io, p) != node:
            if _enlist(io, p):
                node.active_count -= 1
                node.active[i] = node.active[node.active_count]
                _wake_by(io, io.now_ns)     # the other node may have had its turn
                continue
        elif p.queue_count == 0 and _is_idle(p):
            p.is_listed = False
            io.listed_count -= 1
            node.active_count -= 1
            node.active[i] = node.active[node.active_count]
            continue
        i += 1


cdef bint _leader_changed(ProducerBatch* batch, int32_t epoch) noexcept nogil:
    """D.6.3: did a newer leader appear for the retry that is due?"""
    if epoch > batch.leader_epoch:
        batch.leader_epoch = epoch
        batch.attempts_at_change = batch.attempts
    return batch.attempts >= 1 and batch.attempts_at_change == batch.attempts


cdef bint _is_pressed(IoThread* io) noexcept nogil:
    """Every linger is off: memory is short, somebody flushes, or we are closing."""
    return (
        io.accumulator.pool.waiting > 0 or io.accumulator.flushing > 0
        or io.accumulator.closed == CLOSED
    )


cdef HeadState _head_state(IoThread* io, Node* node, Partition* p) noexcept nogil:
    """Under the partition's lock: what about the first batch of its queue? (D.5.2, D.7.2, D.7.4)"""
    cdef ProducerBatch* head = p.head
    cdef int64_t due_ns
    if head == NULL or p.muted:
        return HEAD_BLOCKED
    if not sequence_allows(io, p, head):
        return HEAD_BLOCKED
    if not _leader_changed(head, p.leader_epoch) and head.attempts > 0:
        due_ns = head.last_attempt_ns + head.backoff_ns
        if io.now_ns < due_ns:
            _wake_by(io, due_ns)
            return HEAD_BLOCKED
    if (head.is_retry or p.queue_count > 1 or head.result.urgent or _is_pressed(io)
            or batch_is_full(io.accumulator, head)):
        return HEAD_DUE
    if io.adaptive and node.flights.produce_count == 0:
        return HEAD_DUE
    due_ns = head.last_attempt_ns + io.linger_ns
    if io.now_ns >= due_ns:
        return HEAD_DUE
    _wake_by(io, due_ns)
    return HEAD_ALONG


cdef bint _lacks_producer_id(IoThread* io) noexcept nogil:
    if not io.idempotent or io.producer_id >= 0:
        return False
    if not io.asked_producer_id:
        io.asked_producer_id = True
        event_push(&io.events, event_new(ON_PRODUCER_ID_WANTED, -1, NULL, 0))
    return True


cdef bint node_is_ready(IoThread* io, Node* node) noexcept nogil:
    cdef int32_t i
    cdef Partition* p
    cdef HeadState state
    if node.active_count == 0 or _lacks_producer_id(io):
        return False
    for i in range(node.active_count):
        p = node.active[i]
        if p.has_unresolved or p.needs_bump:
            sequence_settle(io, p)
        if p.queue_count == 0:
            continue
        fp_mutex_lock(&p.lock)
        state = _head_state(io, node, p)
        fp_mutex_unlock(&p.lock)
        if state == HEAD_DUE:
            return True
    return False


cdef ProducerBatch* _take_head(
    IoThread* io, Node* node, Partition* p, int64_t taken_bytes, bint* is_over
) noexcept nogil:
    """Pop the head of the queue if it may go and fits (D.7.3); sets is_over when it does not."""
    cdef ProducerBatch* head = NULL
    fp_mutex_lock(&p.lock)
    if _head_state(io, node, p) != HEAD_BLOCKED:
        head = p.head
        if taken_bytes > 0 and (
            taken_bytes + batch_estimate(io.accumulator, head) > io.max_request_bytes
        ):
            is_over[0] = True
            head = NULL
    if head != NULL:
        head.is_closed = True
        p.head = head.next
        if p.head == NULL:
            p.tail = NULL
        head.next = NULL
        p.queue_count -= 1
    fp_mutex_unlock(&p.lock)
    return head


cdef bint _is_in_flight(Partition* p, ProducerBatch* batch) noexcept nogil:
    return batch.flight_prev != NULL or batch.flight_next != NULL or p.flight_first == batch


cdef bint _seal(IoThread* io, Node* node, Partition* p, ProducerBatch* batch) noexcept nogil:
    cdef bint was_sealed = batch.is_sealed
    if batch.codec == CODEC_ZSTD and 0 <= node.produce_version < PRODUCE_ZSTD_VERSION:
        batch_fail(io, batch, ERR_NO_ZSTD, node.produce_version, NULL, -1)
    elif batch_seal(batch, &io.sealer, &io.accumulator.pool) != FP_OK:
        batch_fail(io, batch, ERR_NO_CODEC, batch.codec, NULL, -1)
    else:
        if batch.codec != 0 and not was_sealed:
            topic_observe_ratio(p.topic, batch.wire_bytes, batch.record_bytes)
        return True
    if batch.has_sequence:
        sequence_unresolved(p)
    batch_release(io, batch)
    return False


cdef void _count_batch(IoThread* io, ProducerBatch* batch, Topic* topic) noexcept nogil:
    cdef int64_t size = BATCH_HEADER_BYTES + <int64_t>batch.wire_bytes
    cdef int64_t plain_size = BATCH_HEADER_BYTES + <int64_t>batch.record_bytes
    cdef int64_t ratio_millionths = 1000000 * size // plain_size
    io.counters.records_sent += batch.count
    io.counters.batches_sent += 1
    io.counters.batch_bytes += size
    io.counters.plain_bytes += plain_size
    io.counters.ratio_millionths += ratio_millionths
    io.counters.batch_record_bytes += batch.largest_record
    raise_maximum(&io.maxima.largest_batch, size)
    raise_maximum(&io.maxima.largest_record, batch.largest_record)
    if not batch.is_retry:
        histogram_add(&io.queue_time, io.now_ns - batch.created_ns, 1)
    topic.record_total += batch.count
    topic.byte_total += size
    topic.batch_total += 1
    topic.ratio_millionths += ratio_millionths


cdef bint node_drain(IoThread* io, Node* node, Request* request) noexcept nogil:
    cdef int64_t taken_bytes = 0
    cdef int32_t i, at = 0
    cdef Partition* p
    cdef ProducerBatch* batch
    cdef bint is_over = False
    for i in range(node.active_count):
        at = (node.cursor + i) % node.active_count
        p = node.active[at]
        if p.queue_count == 0:
            continue
        batch = _take_head(io, node, p, taken_bytes, &is_over)
        if is_over:
            break
        if batch == NULL:
            continue
        if not _seal(io, node, p, batch):
            continue        # before it has a sequence, which would be missed
        sequence_assign(io, p, batch)
        if not _is_in_flight(p, batch):
            flight_append(p, batch)
        request_add_batch(request, batch)
        batch.requests += 1
        batch.drained_ns = io.now_ns
        p.outstanding += 1
        p.muted = io.guarantee_order
        fp_store_i32(&batch.result.sent, 1)
        taken_bytes += BATCH_HEADER_BYTES + <int64_t>batch.wire_bytes
        _count_batch(io, batch, p.topic)
        _mark_busy(io, p.topic)
    node.cursor = at if is_over else at + 1
    return request.batch_count > 0


cdef ProducerBatch* _pop_expired(IoThread* io, Partition* p) noexcept nogil:
    cdef ProducerBatch* batch
    fp_mutex_lock(&p.lock)
    batch = p.head
    if batch != NULL and io.now_ns - batch.created_ns >= io.delivery_timeout_ns:
        p.head = batch.next
        if p.head == NULL:
            p.tail = NULL
        batch.next = NULL
        batch.is_closed = True
        p.queue_count -= 1
    else:
        if batch != NULL and batch.created_ns + io.delivery_timeout_ns < io.next_expiry_ns:
            io.next_expiry_ns = batch.created_ns + io.delivery_timeout_ns
        batch = NULL
    fp_mutex_unlock(&p.lock)
    return batch


cdef void _expire_batch(IoThread* io, Partition* p, ProducerBatch* batch) noexcept nogil:
    io.counters.expired += 1
    if batch.has_sequence:
        sequence_unresolved(p)      # was it written? (F.5.7)
    batch_fail(
        io, batch, ERR_EXPIRED, (io.now_ns - batch.created_ns) // 1000000, NULL, -1)


cdef void _expire_partition(IoThread* io, Partition* p) noexcept nogil:
    cdef ProducerBatch* batch = p.flight_first
    cdef ProducerBatch* following
    while batch != NULL:
        following = batch.flight_next
        if batch.requests > 0:
            if io.now_ns - batch.created_ns >= io.delivery_timeout_ns:
                _expire_batch(io, p, batch)     # its request keeps the slabs (D.8.4)
            elif batch.created_ns + io.delivery_timeout_ns < io.next_expiry_ns:
                io.next_expiry_ns = batch.created_ns + io.delivery_timeout_ns
        batch = following
    while True:
        batch = _pop_expired(io, p)
        if batch == NULL:
            break
        _expire_batch(io, p, batch)
        batch_release(io, batch)
    sequence_settle(io, p)


cdef Node* _node_at(IoThread* io, int32_t slot) noexcept nogil:
    """Nodes by slot; one past the last is limbo."""
    return &io.limbo if slot == io.node_count else io.nodes[slot]


cdef void expire(IoThread* io) noexcept nogil:
    cdef int32_t slot, i
    cdef Node* node
    if io.now_ns < io.next_expiry_ns:
        _wake_by(io, io.next_expiry_ns)
        return
    # A listed partition may get a batch that no listing announces: look again in time for it.
    io.next_expiry_ns = io.now_ns + io.delivery_timeout_ns if io.listed_count > 0 else NEVER
    for slot in range(io.node_count + 1):
        node = _node_at(io, slot)
        if node == NULL:
            continue
        for i in range(node.active_count):
            _expire_partition(io, node.active[i])
    _wake_by(io, io.next_expiry_ns)


cdef bint _is_slow(IoThread* io, Node* node) noexcept nogil:
    """C.5.7: it has had data for longer than it last took any."""
    return (
        io.availability_timeout_ns > 0
        and node.last_ready_ns - node.last_drain_ns > io.availability_timeout_ns
    )


cdef bint _load_topic(IoThread* io, Topic* topic) noexcept nogil:
    """True: every queue of the topic is empty."""
    cdef int32_t i, used = 0, waiting = 0, known = 0, length
    cdef Partition* p
    cdef Node* node
    for i in range(topic.partition_count):
        p = topic.partitions[i]
        node = _home(io, p)
        if node == &io.limbo:
            continue
        known += 1
        if _is_slow(io, node):
            continue
        length = p.queue_count
        io.load[used] = i
        io.load[io.load_capacity + used] = length
        waiting += length
        used += 1
    sticky_set_load(
        &topic.sticky, io.load, io.load + io.load_capacity, used, used == known)
    return waiting == 0 and used == known


cdef void update_load(IoThread* io) noexcept nogil:
    cdef int32_t i = 0
    cdef Topic* topic
    if io.busy_count == 0 or io.now_ns - io.load_at_ns < LOAD_PERIOD_NS:
        return
    io.load_at_ns = io.now_ns
    while i < io.busy_count:
        topic = io.busy[i]
        if topic.partition_count > io.load_capacity:
            free(io.load)
            io.load = <int32_t*>malloc(2 * topic.partition_count * sizeof(int32_t))
            io.load_capacity = topic.partition_count if io.load != NULL else 0
            if io.load == NULL:
                return
        if _load_topic(io, topic):
            topic.is_loaded = False
            io.busy_count -= 1
            io.busy[i] = io.busy[io.busy_count]
            continue
        i += 1


cdef void _abort_partition(IoThread* io, Partition* p, int32_t code) noexcept nogil:
    cdef ProducerBatch* batch
    cdef ProducerBatch* following
    # A broker's code without an answer to records is about the producer id.
    cdef const char* why = io.producer_id_trouble if code > 0 else NULL
    cdef int32_t why_size = -1 if why == NULL else <int32_t>strlen(why)
    fp_mutex_lock(&p.lock)
    batch = p.head
    p.head = NULL
    p.tail = NULL
    p.queue_count = 0
    fp_mutex_unlock(&p.lock)
    while batch != NULL:
        following = batch.next
        batch.next = NULL
        batch.is_closed = True
        if batch.has_sequence:
            sequence_unresolved(p)
        batch_fail(io, batch, code, 0, <const uint8_t*>why, why_size)
        batch_release(io, batch)
        batch = following
    while p.flight_first != NULL:
        if p.flight_first.has_sequence:
            sequence_unresolved(p)
        # Leaves the list; its request owns it.
        batch_fail(io, p.flight_first, code, 0, <const uint8_t*>why, why_size)
    sequence_settle(io, p)


cdef void abort_all(IoThread* io, int32_t code) noexcept nogil:
    cdef int32_t slot, i
    cdef Node* node
    take_active(io)
    for slot in range(io.node_count + 1):
        node = _node_at(io, slot)
        if node == NULL:
            continue
        for i in range(node.active_count):
            _abort_partition(io, node.active[i], code)

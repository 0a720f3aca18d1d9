"""Fails batches that are past their delivery timeout or aborted."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport strlen

from fastprod._core.bytes.sync cimport (
    fp_mutex_lock, fp_mutex_unlock, fp_store_i32_rel, fp_store_ptr,
)
from fastprod._core.delivery.result cimport ERR_EXPIRED
from fastprod._core.engine.accumulator cimport Partition, PartitionList
from fastprod._core.engine.completion cimport batch_fail, batch_release
from fastprod._core.engine.control_queue cimport PURGE_IN_FLIGHT, PURGE_QUEUED
from fastprod._core.engine.ready_list cimport (
    look_at_touched, node_at, queue_pop, take_announced, touch,
)
from fastprod._core.engine.sender_state cimport IoThread, Node
from fastprod._core.engine.sequences cimport sequence_settle, sequence_unresolved
from fastprod._core.engine.timer_heap cimport NEVER, Timer, timer_pop_due, timer_set
from fastprod._core.records.record_batch cimport ProducerBatch

cdef enum:
    UNKNOWN_SERVER_ERROR = -1   # the least of Kafka's codes; below are ours


cdef ProducerBatch* _pop_expired(IoThread* io, Partition* p, int64_t* next_ns) noexcept nogil:
    cdef ProducerBatch* batch = NULL
    fp_mutex_lock(&p.lock)
    if p.head != NULL:
        if io.now_ns - p.head.created_ns >= io.delivery_timeout_ns:
            batch = queue_pop(p)
        else:
            next_ns[0] = min(next_ns[0], p.head.created_ns + io.delivery_timeout_ns)
    fp_mutex_unlock(&p.lock)
    return batch


cdef void _expire_batch(IoThread* io, Partition* p, ProducerBatch* batch) noexcept nogil:
    io.counters.expired += 1
    if batch.has_sequence:
        sequence_unresolved(p)      # was it written? (P-F.5.7)
    batch_fail(
        io, batch, ERR_EXPIRED, (io.now_ns - batch.created_ns) // 1000000, NULL, -1)


cdef void _expire_partition(IoThread* io, Partition* p) noexcept nogil:
    cdef ProducerBatch* batch = p.flight_first
    cdef ProducerBatch* following
    cdef int64_t next_ns = NEVER
    while batch != NULL:
        following = batch.flight_next
        if batch.requests > 0:
            if io.now_ns - batch.created_ns >= io.delivery_timeout_ns:
                _expire_batch(io, p, batch)     # its request keeps the slabs (P-D.8.4)
            else:
                next_ns = min(next_ns, batch.created_ns + io.delivery_timeout_ns)
        batch = following
    while True:
        batch = _pop_expired(io, p, &next_ns)
        if batch == NULL:
            break
        _expire_batch(io, p, batch)
        batch_release(io, batch)
    sequence_settle(io, p)
    if next_ns != NEVER:
        timer_set(&io.expiries, &p.expiry, next_ns)
    touch(io, p)


cdef void expire(IoThread* io) noexcept nogil:
    cdef Timer* timer = timer_pop_due(&io.expiries, io.now_ns)
    while timer != NULL:
        _expire_partition(io, <Partition*>timer.owner)
        timer = timer_pop_due(&io.expiries, io.now_ns)


cdef void _claim(ProducerBatch* batch) noexcept nogil:
    """Those from `batch` on leave the queue: it is too late to take records back."""
    while batch != NULL:
        fp_store_ptr(&batch.result.batch, NULL)
        batch = batch.next


cdef void _abort_partition(IoThread* io, Partition* p, int32_t code) noexcept nogil:
    cdef ProducerBatch* batch
    cdef ProducerBatch* following
    # A broker's code without an answer to records is about the producer id.
    cdef const char* why = io.producer_id_error if code >= UNKNOWN_SERVER_ERROR else NULL
    cdef int32_t why_size = -1 if why == NULL else <int32_t>strlen(why)
    fp_mutex_lock(&p.lock)
    batch = p.head
    _claim(batch)
    p.head = NULL
    p.tail = NULL
    fp_store_i32_rel(&p.queue_count, 0)
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
    touch(io, p)


cdef void _abort_undrained(
    IoThread* io, Partition* p, int32_t code, const char* why
) noexcept nogil:
    """Those with a sequence are in front: they may have been written, and are sent again."""
    cdef ProducerBatch* batch
    cdef ProducerBatch* following
    cdef ProducerBatch* last = NULL
    cdef int32_t kept = 0
    cdef int32_t why_size = -1 if why == NULL else <int32_t>strlen(why)
    fp_mutex_lock(&p.lock)
    batch = p.head
    while batch != NULL and batch.has_sequence:
        last = batch
        batch = batch.next
        kept += 1
    _claim(batch)
    if last == NULL:
        p.head = NULL
    else:
        last.next = NULL
    p.tail = last
    fp_store_i32_rel(&p.queue_count, kept)
    fp_mutex_unlock(&p.lock)
    while batch != NULL:
        following = batch.next
        batch.next = NULL
        batch.is_closed = True
        batch_fail(io, batch, code, 0, <const uint8_t*>why, why_size)
        batch_release(io, batch)
        batch = following
    touch(io, p)


cdef ProducerBatch* _take_purged(Partition* p, int64_t purged) noexcept nogil:
    """Out of the queue, whose order stays; by `batch` it is known what has never left."""
    cdef ProducerBatch* first = NULL
    cdef ProducerBatch** end = &first
    cdef ProducerBatch** at
    cdef ProducerBatch* batch
    fp_mutex_lock(&p.lock)
    p.tail = NULL
    at = &p.head
    while at[0] != NULL:
        batch = at[0]
        if purged & (PURGE_QUEUED if batch.result.batch != NULL else PURGE_IN_FLIGHT):
            at[0] = batch.next
            batch.next = NULL
            end[0] = batch
            end = &batch.next
            fp_store_i32_rel(&p.queue_count, p.queue_count - 1)
        else:
            p.tail = batch
            at = &batch.next
    _claim(first)
    fp_mutex_unlock(&p.lock)
    return first


cdef void _purge_partition(IoThread* io, Partition* p, int32_t code, int64_t purged) noexcept nogil:
    cdef ProducerBatch* batch = _take_purged(p, purged)
    cdef ProducerBatch* following
    while batch != NULL:
        following = batch.next
        batch.next = NULL
        batch.is_closed = True
        _give_up(io, p, batch, code)
        batch_release(io, batch)
        batch = following
    batch = p.flight_first
    while batch != NULL and purged & PURGE_IN_FLIGHT:
        following = batch.flight_next
        if batch.requests != 0:
            _give_up(io, p, batch, code)    # its request keeps the slabs (P-D.8.4)
        batch = following
    sequence_settle(io, p)
    touch(io, p)


cdef void _give_up(IoThread* io, Partition* p, ProducerBatch* batch, int32_t code) noexcept nogil:
    if batch.has_sequence:
        sequence_unresolved(p)
    batch_fail(io, batch, code, 0, NULL, -1)


cdef void _abort_list(
    IoThread* io, PartitionList* parts, int32_t code, bint undrained_only, int64_t purged,
    const char* why
) noexcept nogil:
    cdef Partition* p = parts.first
    while p != NULL:
        if purged != 0:
            _purge_partition(io, p, code, purged)
        elif undrained_only:
            _abort_undrained(io, p, code, why)
        else:
            _abort_partition(io, p, code)
        p = p.place_next


cdef void _abort(
    IoThread* io, int32_t code, bint undrained_only, int64_t purged, const char* why
) noexcept nogil:
    cdef int32_t slot
    cdef Node* node
    take_announced(io)
    look_at_touched(io)
    for slot in range(io.node_count + 1):
        node = node_at(io, slot)
        if node != NULL:
            _abort_list(io, &node.due, code, undrained_only, purged, why)
            _abort_list(io, &node.lingering, code, undrained_only, purged, why)
            _abort_list(io, &node.held, code, undrained_only, purged, why)
            _abort_list(io, &node.resting, code, undrained_only, purged, why)
    look_at_touched(io)


cdef void abort_all(IoThread* io, int32_t code) noexcept nogil:
    _abort(io, code, False, 0, NULL)


cdef void abort_undrained(IoThread* io, int32_t code, const char* why) noexcept nogil:
    _abort(io, code, True, 0, why)


cdef int64_t purge(IoThread* io, int32_t code, int64_t purged) noexcept nogil:
    cdef int64_t failed = io.counters.records_failed
    _abort(io, code, False, purged, NULL)
    return io.counters.records_failed - failed

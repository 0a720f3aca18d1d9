"""Collects the due batches of one node into a Produce request, at most one a partition."""
from libc.stdint cimport int32_t, int64_t

from fastprod._core.bytes.fp_status cimport FP_OK, FpStatus
from fastprod._core.bytes.sync cimport fp_mutex_lock, fp_mutex_unlock, fp_store_i32
from fastprod._core.delivery.result cimport ERR_NO_CODEC, ERR_NO_ZSTD
from fastprod._core.engine.accumulator cimport (
    Partition, PartitionList, Topic, batch_estimate, topic_observe_ratio,
)
from fastprod._core.engine.completion cimport batch_fail, batch_release
from fastprod._core.engine.histogram cimport histogram_add, raise_maximum
from fastprod._core.engine.in_flight cimport Request, request_add_batch, request_reserve_batch
from fastprod._core.engine.produce_codec cimport PRODUCE_ZSTD_VERSION
from fastprod._core.engine.ready_list cimport (
    HEAD_ALONG, HEAD_DUE, HeadState, head_state, node_takes_along, queue_pop, rotate,
    touch,
)
from fastprod._core.engine.sender_state cimport IoThread, Node
from fastprod._core.engine.sequences cimport (
    flight_append, sequence_assign, sequence_unresolved, transaction_sent,
)
from fastprod._core.records.batch_removal cimport batch_remove
from fastprod._core.records.record_batch cimport (
    BATCH_HEADER_BYTES, ProducerBatch, batch_own, batch_seal,
)

cdef enum:
    CODEC_ZSTD = 4


cdef ProducerBatch* _take_head(
    IoThread* io, Partition* p, int64_t taken_bytes, bint* is_over
) noexcept nogil:
    """Pop the head of the queue if it may go and fits (P-D.7.3); sets is_over when it does not."""
    cdef ProducerBatch* head = NULL
    cdef int64_t due_ns
    cdef HeadState state
    fp_mutex_lock(&p.lock)
    state = head_state(io, p, &due_ns)
    if state == HEAD_DUE or state == HEAD_ALONG:
        if taken_bytes > 0 and (
            taken_bytes + batch_estimate(io.accumulator, p.head) > io.max_request_bytes
        ):
            is_over[0] = True
        else:
            head = queue_pop(p)
    fp_mutex_unlock(&p.lock)
    return head


cdef bint _is_in_flight(Partition* p, ProducerBatch* batch) noexcept nogil:
    return batch.flight_prev != NULL or batch.flight_next != NULL or p.flight_first == batch


cdef bint _seal(IoThread* io, Node* node, Partition* p, ProducerBatch* batch) noexcept nogil:
    cdef bint was_sealed = batch.is_sealed
    cdef FpStatus status = FP_OK
    if batch.result.removed.count > 0 and not was_sealed:
        status = batch_own(batch, &io.accumulator.pool)
        if status == FP_OK:
            batch_remove(batch, batch.result.removed.items, batch.result.removed.count)
    if batch.codec == CODEC_ZSTD and 0 <= node.produce_version < PRODUCE_ZSTD_VERSION:
        batch_fail(io, batch, ERR_NO_ZSTD, node.produce_version, NULL, -1)
    elif status != FP_OK or batch_seal(batch, &io.sealer, &io.accumulator.pool) != FP_OK:
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


cdef void _send(
    IoThread* io, Partition* p, ProducerBatch* batch, Request* request
) noexcept nogil:
    """Give a sealed batch its sequence and its place in the request, which has room for it."""
    sequence_assign(io, p, batch)
    if io.is_transactional:
        transaction_sent(io, p)
    if not _is_in_flight(p, batch):
        flight_append(p, batch)
    request_add_batch(request, batch)
    batch.requests += 1
    batch.drained_ns = io.now_ns
    p.outstanding += 1
    p.muted = io.guarantee_order
    fp_store_i32(&batch.result.sent, 1)
    _count_batch(io, batch, p.topic)


cdef bint _drain_list(
    IoThread* io, Node* node, PartitionList* parts, Request* request, int64_t* taken_bytes
) noexcept nogil:
    """One batch of each partition, the first come first; False: the request is full."""
    cdef int32_t _i, count = parts.count
    cdef Partition* p
    cdef ProducerBatch* batch
    cdef bint is_over = False
    for _i in range(count):
        p = parts.first
        if not request_reserve_batch(request):
            return False    # no memory: what does not fit stays where it is
        batch = _take_head(io, p, taken_bytes[0], &is_over)
        if is_over:
            return False
        rotate(p)
        touch(io, p)
        if batch == NULL:
            continue
        if not _seal(io, node, p, batch):
            continue        # before it has a sequence, which would be missed
        _send(io, p, batch, request)
        taken_bytes[0] += BATCH_HEADER_BYTES + <int64_t>batch.wire_bytes
    return True


cdef bint node_drain(IoThread* io, Node* node, Request* request) noexcept nogil:
    cdef int64_t taken_bytes = 0
    if _drain_list(io, node, &node.due, request, &taken_bytes) and node_takes_along(io, node):
        _drain_list(io, node, &node.lingering, request, &taken_bytes)
    return request.batch_count > 0

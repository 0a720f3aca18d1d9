"""Splits a batch that was too large, and puts its parts back in line (P-D.9)."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from fastprod._core.bytes.buffer_pool cimport pool_give, slab_from_heap
from fastprod._core.bytes.fp_status cimport FP_CORRUPT, FP_NOMEM, FP_OK, FpStatus
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.varint cimport varint_get
from fastprod._core.codec.compressor cimport codec_decompress
from fastprod._core.delivery.result cimport (
    Result, result_abandon, result_new_child, result_release, result_retain, result_split,
)
from fastprod._core.engine.accumulator cimport Partition
from fastprod._core.engine.sender_state cimport IoThread
from fastprod._core.engine.sequences cimport flight_insert_before, flight_remove, next_sequence
from fastprod._core.records.record_batch cimport (
    BATCH_HEADER_BYTES, ProducerBatch, Record, batch_add_slabs, batch_append, batch_free,
    batch_new, batch_room, record_size,
)

cdef enum:
    RECODING_SLACK_BYTES = 16       # a record's deltas may need more bytes under another base


cdef uint8_t* _gather(ProducerBatch* batch, size_t* size) noexcept nogil:
    """The records part as one malloc'ed block, as it is in the slabs."""
    cdef uint8_t* block
    cdef Slab* slab = batch.first
    size[0] = 0
    while slab != NULL:
        size[0] += slab.used
        slab = slab.next
    block = <uint8_t*>malloc(size[0] + 1)
    if block == NULL:
        return NULL
    size[0] = 0
    slab = batch.first
    while slab != NULL:
        memcpy(block + size[0], slab.base, slab.used)
        size[0] += slab.used
        slab = slab.next
    return block


cdef FpStatus _plain(ProducerBatch* batch, uint8_t** out, size_t* size) noexcept nogil:
    """The records part as it was before compression; a batch that was answered is sealed."""
    cdef uint8_t* packed = _gather(batch, size)
    cdef size_t packed_size = size[0]
    cdef FpStatus status
    if packed == NULL:
        return FP_NOMEM
    if batch.codec == 0:
        out[0] = packed
        return FP_OK
    status = codec_decompress(
        batch.codec, packed, packed_size, <size_t>batch.record_bytes + 1, out, size)
    free(packed)
    return status


cdef const uint8_t* _read(const uint8_t* p, const uint8_t* end, Record* record,
                          int64_t* timestamp_delta) noexcept nogil:
    """Parse one record of our own making; returns one past it, or NULL."""
    cdef int64_t size, ignored, length
    cdef const uint8_t* stop
    p = varint_get(p, end, 5, &size)
    if p == NULL or size < 1 or size > end - p:
        return NULL
    stop = p + size
    p = varint_get(p + 1, stop, 10, timestamp_delta)
    if p != NULL:
        p = varint_get(p, stop, 5, &ignored)
    if p != NULL:
        p = varint_get(p, stop, 5, &length)
    if p == NULL or length > stop - p:
        return NULL
    record.key = p
    record.key_size = <int32_t>length
    p = varint_get(p + max(<int64_t>0, length), stop, 5, &length)
    if p == NULL or length > stop - p:
        return NULL
    record.value = p
    record.value_size = <int32_t>length
    p += max(<int64_t>0, length)
    record.headers = p
    record.headers_size = <uint32_t>(stop - p)
    return stop


cdef int64_t _target_bytes(IoThread* io, ProducerBatch* batch) noexcept nogil:
    """P-D.9.7: a batch that a split made, or that is within batch.size already, is halved."""
    cdef int64_t target = io.accumulator.batch_bytes
    cdef int64_t size = BATCH_HEADER_BYTES + <int64_t>batch.record_bytes
    if batch.was_split or size <= target:
        target = max(BATCH_HEADER_BYTES + <int64_t>batch.largest_record, size // 2)
    return target


cdef ProducerBatch* _new_child(IoThread* io, ProducerBatch* parent, size_t room) noexcept nogil:
    cdef Slab* slab = slab_from_heap(&io.accumulator.pool, room)
    cdef Result* result = NULL
    cdef ProducerBatch* child = NULL
    if slab != NULL:
        result = result_new_child(parent.result)
    if result != NULL:
        child = batch_new(parent.partition, result, parent.codec, parent.created_ns)
    if child == NULL:
        if result != NULL:
            result_abandon(result)      # or a flush would wait for it for ever
            result_release(result)
        pool_give(&io.accumulator.pool, slab)
        return NULL
    batch_add_slabs(child, slab)
    child.was_split = True
    child.is_closed = True
    return child


cdef FpStatus _cut(
    IoThread* io, ProducerBatch* parent, const uint8_t* p, size_t size, ProducerBatch** first,
    uint32_t* children
) noexcept nogil:
    """Re-encode the records, in order, into children of at most the target size."""
    cdef const uint8_t* end = p + size
    cdef const uint8_t* after
    cdef int64_t target = _target_bytes(io, parent)
    cdef int64_t delta
    cdef Record record
    cdef uint32_t bytes_needed, body
    cdef ProducerBatch* child = NULL
    cdef ProducerBatch* before
    cdef size_t room
    while p < end:
        after = _read(p, end, &record, &delta)
        if after == NULL:
            return FP_CORRUPT
        record.timestamp_ms = parent.base_timestamp_ms + delta
        bytes_needed = 0
        if child != NULL:
            bytes_needed = record_size(
                &record, record.timestamp_ms - child.base_timestamp_ms, child.count, &body)
        if (child == NULL or bytes_needed > batch_room(child)
                or BATCH_HEADER_BYTES + child.record_bytes + bytes_needed > target):
            before = child
            room = <size_t>max(target, <int64_t>(after - p)) + RECODING_SLACK_BYTES
            child = _new_child(io, parent, room)
            if child == NULL:
                return FP_NOMEM
            if before == NULL:
                first[0] = child
            else:
                before.next = child
            children[0] += 1
            bytes_needed = record_size(&record, 0, 0, &body)
        batch_append(child, &record, bytes_needed, body)
        p = after
    return FP_OK


cdef FpStatus _publish(
    ProducerBatch* parent, ProducerBatch* first, uint32_t children
) noexcept nogil:
    """Sequences, in-flight places, and the parent's futures (P-D.9.3, P-D.9.5)."""
    cdef Partition* p = <Partition*>parent.partition
    cdef Result* result = parent.result
    cdef ProducerBatch* child = first
    cdef uint32_t i = 0, records = 0
    cdef int32_t sequence = parent.base_sequence
    result.children = <Result**>calloc(children, sizeof(Result*))
    result.child_first = <uint32_t*>calloc(children, sizeof(uint32_t))
    if result.children == NULL or result.child_first == NULL:
        return FP_NOMEM
    result.child_count = children
    while child != NULL:
        if parent.has_sequence:
            child.has_sequence = True
            child.producer_id = parent.producer_id
            child.producer_epoch = parent.producer_epoch
            child.base_sequence = sequence
            child.number = parent.number
            child.result.base_sequence = sequence
            sequence = next_sequence(sequence, <int32_t>child.count)
        flight_insert_before(p, child, parent)
        result_retain(child.result)
        result.children[i] = child.result
        result.child_first[i] = records
        records += child.count
        i += 1
        child = child.next
    flight_remove(p, parent)
    result_split(result)
    return FP_OK


cdef FpStatus batch_split(
    IoThread* io, ProducerBatch* batch, ProducerBatch** first
) noexcept nogil:
    cdef uint8_t* plain = NULL
    cdef size_t size = 0
    cdef uint32_t children = 0
    cdef FpStatus status = _plain(batch, &plain, &size)
    first[0] = NULL
    if status == FP_OK:
        status = _cut(io, batch, plain, size, first, &children)
        free(plain)
    if status == FP_OK:
        status = _publish(batch, first[0], children)
    if status != FP_OK:
        _undo(io, first[0])
        first[0] = NULL
    return status


cdef void _undo(IoThread* io, ProducerBatch* child) noexcept nogil:
    """Memory ran out half way: the parent stays as it was and fails as too large."""
    cdef ProducerBatch* next_child
    while child != NULL:
        next_child = child.next
        result_abandon(child.result)
        batch_free(child, &io.accumulator.pool)
        child = next_child

"""ProducerBatch: record batch v2, encoded in place in a chain of slabs (contract P-E, P-D.4).

The 61 header bytes are not in the slabs: they are written into the request's scratch when the
batch is drained, so that a new epoch or sequence costs nothing per record.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from fastprod._core.bytes.buffer_pool cimport BufferPool
from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.sync cimport fp_store_i32_rel
from fastprod._core.bytes.varint cimport varint_put, varint_size
from fastprod._core.codec.compressor cimport Compressor, Span
from fastprod._core.delivery.result cimport Incomplete, Result

cdef enum:
    BATCH_HEADER_BYTES = 61
    RECORD_OVERHEAD_BYTES = 21      # P-E.7.3: length 5, timestamp 10, offset 5, attributes 1

cdef struct Record:
    # One record's parts, for the duration of one call.
    # BORROWS all pointers. A size of -1 is a null key or value.
    const uint8_t* key
    const uint8_t* value
    const uint8_t* headers      # encoded, the count first; NULL: no headers
    int32_t key_size
    int32_t value_size
    uint32_t headers_size
    int64_t timestamp_ms

cdef struct ProducerBatch:
    # Records of one partition that travel together.
    #
    # OWNER    the partition's queue (guarded by Partition.lock), then the I/O thread.
    # FREED BY batch_free, once it is complete and no request holds it (P-D.8.4).
    void* partition             # borrowed Partition*
    Result* result              # one reference
    Slab* first                 # owned chain
    Slab* cursor                # the slab being written; slabs behind it are empty
    uint8_t* wpos               # next byte in `cursor`
    uint8_t* wend               # end of `cursor`
    uint32_t spare_bytes        # room in the slabs behind `cursor`
    uint32_t count              # records
    uint32_t record_bytes       # uncompressed bytes of all records
    uint32_t wire_bytes         # bytes of the records part once sealed
    uint32_t records_crc        # CRC-32C of the records part once sealed
    uint32_t largest_record     # bytes
    int64_t base_timestamp_ms
    int64_t max_timestamp_ms
    int64_t created_ns          # never changes, also across retries and splits
    int64_t last_attempt_ns
    int64_t drained_ns
    int64_t backoff_ns          # drawn once per re-enqueue (P-D.6.4)
    int32_t attempts
    int32_t last_code           # the Kafka code that the latest attempt ended with, or 0
    int32_t leader_epoch        # newest leader epoch this batch has seen (P-D.6.3), -1: none
    int32_t attempts_at_change  # `attempts` when that epoch appeared
    uint16_t codec
    bint is_closed              # takes no more records
    bint has_lent               # values that are not copied: its slabs are not full
    bint is_sealed              # compressed and summed
    bint is_done                # its result is complete
    bint is_retry               # re-enqueued at least once
    bint was_split              # made by a split
    bint has_sequence
    bint sequence_reset         # rewritten by an epoch bump
    bint is_uncertain           # it failed in a way that it may have been written all the same
    int32_t requests            # requests that hold its slabs now
    int64_t producer_id
    int16_t producer_epoch
    int32_t base_sequence
    int64_t number              # place among the partition's batches that have a sequence
    ProducerBatch* next         # partition queue
    ProducerBatch* flight_prev  # partition's in-flight list, in sequence order
    ProducerBatch* flight_next

cdef struct Sealer:
    # The I/O thread's fixed output scratch for compression.
    # OWNER the Sender.  THREADS the I/O thread.
    Compressor* compressor      # owned; NULL: no compression
    uint8_t* out                # owned
    size_t out_capacity
    Span* spans                 # owned
    int span_capacity


cdef inline uint32_t record_size(
    const Record* record, int64_t timestamp_delta, uint32_t index, uint32_t* body
) noexcept nogil:
    """Bytes `record` takes as number `index` of a batch with this base timestamp; *body gets the
    length field's value."""
    cdef uint32_t size = (
        1 + varint_size(timestamp_delta) + varint_size(index)
        + varint_size(record.key_size) + varint_size(record.value_size)
    )
    if record.key_size > 0:
        size += <uint32_t>record.key_size
    if record.value_size > 0:
        size += <uint32_t>record.value_size
    size += record.headers_size if record.headers != NULL else 1
    body[0] = size
    return size + varint_size(size)


cdef inline int64_t record_upper_bound(const Record* record) noexcept nogil:
    """Most bytes `record` can take in any batch, header of the batch included (P-E.7.3)."""
    cdef int64_t size = BATCH_HEADER_BYTES + RECORD_OVERHEAD_BYTES
    size += varint_size(record.key_size) + max(0, record.key_size)
    size += varint_size(record.value_size) + max(0, record.value_size)
    size += record.headers_size if record.headers != NULL else 1
    return size


cdef inline uint32_t batch_room(ProducerBatch* batch) noexcept nogil:
    """Bytes that it can take before it needs another slab."""
    return <uint32_t>(batch.wend - batch.wpos) + batch.spare_bytes


cdef ProducerBatch* batch_new(
    void* partition, Result* result, uint16_t codec, int64_t now_ns) noexcept nogil
cdef void batch_free(ProducerBatch* batch, BufferPool* pool) noexcept nogil
cdef void batch_add_slabs(ProducerBatch* batch, Slab* chain) noexcept nogil
# Bytes of the pool that it has, whether written or not.
cdef size_t batch_slab_bytes(ProducerBatch* batch) noexcept nogil
# The bytes of a record that does not fit into the slab that is being written.
cdef void batch_append_across(
    ProducerBatch* batch, const Record* record, uint32_t body) noexcept nogil


cdef inline uint8_t* record_put_head(
    ProducerBatch* batch, const Record* record, uint8_t* p, uint32_t body
) noexcept nogil:
    """All that stands before the key."""
    return record_put_numbers(
        varint_put(p, body), record, record.timestamp_ms - batch.base_timestamp_ms, batch.count)


cdef inline uint8_t* record_put_numbers(
    uint8_t* p, const Record* record, int64_t timestamp_delta, uint32_t index
) noexcept nogil:
    """What stands between the length and the key."""
    p[0] = 0
    p = varint_put(p + 1, timestamp_delta)
    p = varint_put(p, index)
    return varint_put(p, record.key_size)


cdef inline uint8_t* record_put_parts(uint8_t* p, const Record* record) noexcept nogil:
    """Key, value and headers."""
    if record.key_size > 0:
        memcpy(p, record.key, record.key_size)
        p += record.key_size
    p = varint_put(p, record.value_size)
    if record.value_size > 0:
        memcpy(p, record.value, record.value_size)
        p += record.value_size
    if record.headers != NULL:
        memcpy(p, record.headers, record.headers_size)
        return p + record.headers_size
    p[0] = 0
    return p + 1


cdef inline void batch_append(
    ProducerBatch* batch, const Record* record, uint32_t size, uint32_t body
) noexcept nogil:
    """Requires batch_room(batch) >= size."""
    batch_note_time(batch, record)
    if <size_t>(batch.wend - batch.wpos) < size:
        batch_append_across(batch, record, body)
    else:
        batch.wpos = record_put_parts(record_put_head(batch, record, batch.wpos, body), record)
    batch_note_record(batch, size)


cdef inline void batch_note_time(ProducerBatch* batch, const Record* record) noexcept nogil:
    if batch.count == 0:
        batch.base_timestamp_ms = record.timestamp_ms
        batch.max_timestamp_ms = record.timestamp_ms
    elif record.timestamp_ms > batch.max_timestamp_ms:
        batch.max_timestamp_ms = record.timestamp_ms


cdef inline void batch_note_record(ProducerBatch* batch, uint32_t size) noexcept nogil:
    batch.count += 1
    batch.record_bytes += size
    if size > batch.largest_record:
        batch.largest_record = size
    fp_store_i32_rel(<int32_t*>&batch.result.count, batch.count)

# As batch_append, but the value stays where it is, in `owner`, a reference to a bytes object, which
# is the batch's from now on. False: not done, since memory ran out, or its rest is too small.
# Requires: no codec, which would write into the slabs.
cdef bint batch_append_lent(
    ProducerBatch* batch, const Record* record, uint32_t size, uint32_t body, void* owner,
    BufferPool* pool
) noexcept nogil
# Copy what is lent, for who writes into the slabs. FP_OK or FP_NOMEM.
cdef FpStatus batch_own(ProducerBatch* batch, BufferPool* pool) noexcept nogil

# Append the first of `count` records as long as it is sure that they take no more than `most_bytes`
# and fit the slab at hand; returns how many, perhaps none where `batch_append` would take one.
# Requires: the batch has a record.
cdef uint32_t batch_append_run(
    ProducerBatch* batch, const Record* records, uint32_t count, int64_t most_bytes
) noexcept nogil

cdef void sealer_free(Sealer* sealer) noexcept nogil
# Compress if asked, sum, give unused slabs back. FP_OK; else the batch cannot be sent.
cdef FpStatus batch_seal(ProducerBatch* batch, Sealer* sealer, BufferPool* pool) noexcept nogil
# Write the 61 header bytes (P-E.1) with the batch's producer state; requires is_sealed.
cdef void batch_write_header(
    ProducerBatch* batch, uint8_t* out, bint is_transactional) noexcept nogil

"""Writes record batches (v2): opens, appends, seals.

Record v2 (P-E.3):
    length varint | attributes 0 | timestampDelta varlong | offsetDelta varint |
    keyLength varint, key | valueLength varint, value | headers: count varint, entries
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memmove

from fastprod._core.bytes.buffer_pool cimport (
    BufferPool, pool_give, pool_lend, slab_from_heap,
)
from fastprod._core.bytes.crc32c cimport crc32c_combine, crc32c_update
from fastprod._core.bytes.fp_status cimport FP_NOMEM, FP_OK, FP_UNSUPPORTED, FpStatus
from fastprod._core.bytes.lent_value cimport lent_new
from fastprod._core.bytes.slab cimport SLAB_REST, Slab
from fastprod._core.bytes.sync cimport fp_store_i32_rel
from fastprod._core.bytes.varint cimport varint_put
from fastprod._core.bytes.wire cimport fp_put_u16, fp_put_u32, fp_put_u64
from fastprod._core.codec.compressor cimport Span, compressor_bound, compressor_free, compressor_run
from fastprod._core.delivery.result cimport Result, result_release

cdef enum:
    LENGTH_BYTES = 2                # of most records
    SHORT_BODY = 64                 # below it the length takes one byte
    MOST_NUMBERS = 27               # of a body, what is neither key nor value nor headers
    LONGEST_PARTS = 8191 - 27       # with more the length may take three bytes


cdef ProducerBatch* batch_new(
    void* partition, Result* result, uint16_t codec, int64_t now_ns
) noexcept nogil:
    cdef ProducerBatch* batch = <ProducerBatch*>calloc(1, sizeof(ProducerBatch))
    if batch == NULL:
        return NULL
    batch.partition = partition
    batch.result = result
    batch.codec = codec
    batch.created_ns = now_ns
    batch.last_attempt_ns = now_ns
    batch.leader_epoch = -1
    batch.attempts_at_change = -1
    batch.producer_id = -1
    batch.producer_epoch = -1
    batch.base_sequence = -1
    return batch


cdef void batch_free(ProducerBatch* batch, BufferPool* pool) noexcept nogil:
    pool_give(pool, batch.first)
    result_release(batch.result)
    free(batch)


cdef void batch_add_slabs(ProducerBatch* batch, Slab* chain) noexcept nogil:
    cdef Slab* slab = chain
    cdef Slab* last
    if chain == NULL:
        return
    if batch.first == NULL:
        batch.first = chain
        batch.cursor = chain
        batch.wpos = chain.base
        batch.wend = chain.base + chain.size
        slab = chain.next
    else:
        last = batch.cursor
        while last.next != NULL:
            last = last.next
        last.next = chain
    while slab != NULL:
        batch.spare_bytes += slab.size
        slab = slab.next


cdef size_t batch_slab_bytes(ProducerBatch* batch) noexcept nogil:
    cdef size_t size = 0
    cdef Slab* slab = batch.first
    while slab != NULL:
        if slab.kind != SLAB_REST:
            size += slab.size
        slab = slab.next
    return size


cdef void _write(ProducerBatch* batch, const uint8_t* data, size_t size) noexcept nogil:
    """Copy bytes behind the cursor, across slab borders."""
    cdef size_t space
    cdef Slab* slab
    while size > 0:
        space = <size_t>(batch.wend - batch.wpos)
        if space == 0:
            slab = batch.cursor
            slab.used = slab.size
            slab = slab.next
            batch.cursor = slab
            batch.spare_bytes -= slab.size
            batch.wpos = slab.base
            batch.wend = slab.base + slab.size
            continue
        if space > size:
            space = size
        memcpy(batch.wpos, data, space)
        batch.wpos += space
        data += space
        size -= space


cdef void batch_append_across(
    ProducerBatch* batch, const Record* record, uint32_t body
) noexcept nogil:
    _write_to_value(batch, record, body)
    if record.value_size > 0:
        _write(batch, record.value, record.value_size)
    _write_headers(batch, record)


cdef void _write_to_value(
    ProducerBatch* batch, const Record* record, uint32_t body
) noexcept nogil:
    """All that stands before the value."""
    cdef uint8_t head[32]
    cdef uint8_t* p = record_put_head(batch, record, head, body)
    _write(batch, head, p - head)
    if record.key_size > 0:
        _write(batch, record.key, record.key_size)
    p = varint_put(head, record.value_size)
    _write(batch, head, p - head)


cdef void _write_headers(ProducerBatch* batch, const Record* record) noexcept nogil:
    cdef uint8_t none = 0
    if record.headers != NULL:
        _write(batch, record.headers, record.headers_size)
    else:
        _write(batch, &none, 1)


cdef bint batch_append_lent(
    ProducerBatch* batch, const Record* record, uint32_t size, uint32_t body, void* owner,
    BufferPool* pool
) noexcept nogil:
    cdef uint32_t behind = record.headers_size if record.headers != NULL else 1
    cdef Slab* rest = <Slab*>calloc(1, sizeof(Slab))
    cdef Slab* lent = NULL
    if rest != NULL:
        lent = lent_new(owner, record.value, <uint32_t>record.value_size)
    if lent == NULL:
        free(rest)
        return False
    batch_note_time(batch, record)
    _write_to_value(batch, record, body)
    _put_lent(batch, lent, rest, behind, pool)
    _write_headers(batch, record)
    batch_note_record(batch, size)
    return True


cdef void _put_lent(
    ProducerBatch* batch, Slab* lent, Slab* rest, uint32_t behind, BufferPool* pool
) noexcept nogil:
    """Behind the cursor comes the value, then what the cursor's slab still has; slabs that are not
    needed for the `behind` bytes go back."""
    cdef Slab* cursor = batch.cursor
    cdef Slab* last = rest
    cdef Slab* excess
    cdef size_t room
    cursor.used = <uint32_t>(batch.wpos - cursor.base)
    rest.kind = SLAB_REST
    rest.is_out = 1
    rest.base = batch.wpos
    rest.size = <uint32_t>(batch.wend - batch.wpos)
    rest.next = cursor.next
    lent.next = rest
    cursor.next = lent
    batch.cursor = rest
    batch.has_lent = True
    room = rest.size
    while room < behind:
        last = last.next
        room += last.size
    excess = last.next
    last.next = NULL
    batch.spare_bytes = <uint32_t>(room - rest.size)
    pool_lend(pool, lent.size, excess)


cdef FpStatus batch_own(ProducerBatch* batch, BufferPool* pool) noexcept nogil:
    cdef Slab* slab = batch.first
    cdef Slab* own
    if not batch.has_lent:
        return FP_OK
    own = slab_from_heap(pool, batch.record_bytes)
    if own == NULL:
        return FP_NOMEM
    batch.cursor.used = <uint32_t>(batch.wpos - batch.cursor.base)
    while slab != NULL:
        memcpy(own.base + own.used, slab.base, slab.used)
        own.used += slab.used
        slab = slab.next
    pool_give(pool, batch.first)
    batch.first = own
    batch.cursor = own
    batch.wpos = own.base + own.used
    batch.wend = own.base + own.size
    batch.spare_bytes = 0
    batch.has_lent = False
    return FP_OK


cdef uint32_t batch_append_run(
    ProducerBatch* batch, const Record* records, uint32_t count, int64_t most_bytes
) noexcept nogil:
    """Room for a length of two bytes, the body, then its length: no size is told in advance."""
    cdef uint8_t* p = batch.wpos
    cdef uint8_t* end = p + min(<int64_t>(batch.wend - p), most_bytes)
    cdef uint8_t* body
    cdef uint8_t* behind
    cdef const Record* record = records
    cdef int64_t parts, size
    cdef int64_t newest_ms = batch.max_timestamp_ms
    cdef uint32_t largest = batch.largest_record
    cdef uint32_t taken = 0
    while taken < count:
        record = &records[taken]
        parts = max(0, record.key_size) + <int64_t>max(0, record.value_size)
        if record.headers != NULL:
            parts += record.headers_size
        if parts > LONGEST_PARTS or end - p < parts + LENGTH_BYTES + MOST_NUMBERS:
            break
        body = p + LENGTH_BYTES
        behind = record_put_parts(record_put_numbers(
            body, record, record.timestamp_ms - batch.base_timestamp_ms, batch.count + taken),
            record)
        size = behind - body
        if size < SHORT_BODY:
            memmove(p + 1, body, size)
            behind -= 1
        varint_put(p, size)
        largest = max(largest, <uint32_t>(behind - p))
        newest_ms = max(newest_ms, record.timestamp_ms)
        p = behind
        taken += 1
    batch.record_bytes += <uint32_t>(p - batch.wpos)
    batch.wpos = p
    batch.largest_record = largest
    batch.max_timestamp_ms = newest_ms
    batch.count += taken
    fp_store_i32_rel(<int32_t*>&batch.result.count, batch.count)
    return taken


cdef void sealer_free(Sealer* sealer) noexcept nogil:
    compressor_free(sealer.compressor)
    free(sealer.out)
    free(sealer.spans)
    sealer.compressor = NULL
    sealer.out = NULL
    sealer.spans = NULL
    sealer.out_capacity = 0
    sealer.span_capacity = 0


cdef FpStatus batch_seal(ProducerBatch* batch, Sealer* sealer, BufferPool* pool) noexcept nogil:
    cdef Slab* slab
    cdef uint32_t crc = 0
    cdef FpStatus status
    batch.is_closed = True
    if batch.is_sealed:
        return FP_OK
    batch.cursor.used = <uint32_t>(batch.wpos - batch.cursor.base)
    pool_give(pool, batch.cursor.next)
    batch.cursor.next = NULL
    batch.spare_bytes = 0
    batch.wire_bytes = batch.record_bytes
    if batch.codec != 0:
        if sealer.compressor == NULL:
            return FP_UNSUPPORTED   # the header would name a codec that the bytes do not have
        status = _compress(batch, sealer, pool)
        if status != FP_OK:
            return status
    slab = batch.first
    while slab != NULL:
        crc = crc32c_update(crc, slab.base, slab.used)
        slab = slab.next
    batch.records_crc = crc
    batch.is_sealed = True
    return FP_OK


cdef FpStatus _compress(ProducerBatch* batch, Sealer* sealer, BufferPool* pool) noexcept nogil:
    cdef FpStatus status
    cdef size_t written = 0
    cdef int count = 0
    cdef Slab* slab = batch.first
    status = _reserve(batch, sealer)
    if status != FP_OK:
        return status
    while slab != NULL:
        sealer.spans[count].base = slab.base
        sealer.spans[count].size = slab.used
        count += 1
        slab = slab.next
    status = compressor_run(
        sealer.compressor, sealer.spans, count, sealer.out, sealer.out_capacity, &written)
    if status != FP_OK:
        return status
    batch.wire_bytes = <uint32_t>written
    return _copy_back(batch, sealer.out, written, pool)


cdef FpStatus _reserve(ProducerBatch* batch, Sealer* sealer) noexcept nogil:
    """Make the scratch as large as this batch may need; it grows to the largest batch and stays."""
    cdef size_t need = compressor_bound(sealer.compressor, batch.record_bytes)
    cdef int slabs = 0
    cdef Slab* slab = batch.first
    while slab != NULL:
        slabs += 1
        slab = slab.next
    if need > sealer.out_capacity:
        free(sealer.out)
        sealer.out = <uint8_t*>malloc(need)
        sealer.out_capacity = need if sealer.out != NULL else 0
    if slabs > sealer.span_capacity:
        free(sealer.spans)
        sealer.spans = <Span*>malloc(slabs * 2 * sizeof(Span))
        sealer.span_capacity = slabs * 2 if sealer.spans != NULL else 0
    if sealer.out == NULL or sealer.spans == NULL:
        return FP_NOMEM
    return FP_OK


cdef FpStatus _copy_back(
    ProducerBatch* batch, const uint8_t* data, size_t size, BufferPool* pool
) noexcept nogil:
    """Put the compressed bytes into the batch's own slabs; the rest goes back to the pool.

    Incompressible input may come out a little longer than it went in: a heap slab takes the excess.
    """
    cdef Slab* slab = batch.first
    cdef Slab* last = NULL
    cdef size_t part
    while slab != NULL and size > 0:
        part = min(size, <size_t>slab.size)
        memcpy(slab.base, data, part)
        slab.used = <uint32_t>part
        data += part
        size -= part
        last = slab
        slab = slab.next
    if size > 0:
        slab = slab_from_heap(pool, size)
        if slab == NULL:
            return FP_NOMEM
        memcpy(slab.base, data, size)
        slab.used = <uint32_t>size
        last.next = slab
    else:
        last.next = NULL
        pool_give(pool, slab)
    return FP_OK


cdef void batch_write_header(
    ProducerBatch* batch, uint8_t* out, bint is_transactional
) noexcept nogil:
    cdef uint32_t crc
    fp_put_u64(out, 0)
    fp_put_u32(out + 8, BATCH_HEADER_BYTES - 12 + batch.wire_bytes)
    fp_put_u32(out + 12, 0xFFFFFFFFU)
    out[16] = 2
    fp_put_u16(out + 21, batch.codec | (0x10 if is_transactional else 0))
    fp_put_u32(out + 23, batch.count - 1)
    fp_put_u64(out + 27, <uint64_t>batch.base_timestamp_ms)
    fp_put_u64(out + 35, <uint64_t>batch.max_timestamp_ms)
    fp_put_u64(out + 43, <uint64_t>batch.producer_id)
    fp_put_u16(out + 51, <uint16_t>batch.producer_epoch)
    fp_put_u32(out + 53, <uint32_t>batch.base_sequence)
    fp_put_u32(out + 57, batch.count)
    crc = crc32c_update(0, out + 21, BATCH_HEADER_BYTES - 21)
    fp_put_u32(out + 17, crc32c_combine(crc, batch.records_crc, batch.wire_bytes))

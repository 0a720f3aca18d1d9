"""Rewrites a batch in place without some of its records.

The base timestamp stays, as in a log that was compacted, so that no timestamp delta changes; and an
offset delta never grows. So what is written never overtakes what is still to be read.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memmove

from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.varint cimport unzigzag, varint_put, varint_size
from fastprod._core.records.record_batch cimport ProducerBatch

cdef struct Cursor:
    # A place in a chain of slabs.
    # BORROWS the slabs.
    Slab* slab
    uint8_t* at
    uint8_t* end


cdef inline void _start(Cursor* cursor, Slab* slab) noexcept nogil:
    cursor.slab = slab
    cursor.at = slab.base
    cursor.end = slab.base + slab.size


cdef inline void _reach(Cursor* cursor) noexcept nogil:
    """To the next slab, where this one is at its end; all but the last are full."""
    while cursor.at == cursor.end:
        _start(cursor, cursor.slab.next)


cdef void _skip(Cursor* source, uint32_t size) noexcept nogil:
    cdef uint32_t part
    while size > 0:
        _reach(source)
        part = min(size, <uint32_t>(source.end - source.at))
        source.at += part
        size -= part


cdef int64_t _take_varint(Cursor* source, uint32_t* size) noexcept nogil:
    """The next one, of our own making; adds its bytes to `size`."""
    cdef uint64_t value = 0
    cdef uint64_t byte = 0x80
    cdef int shift = 0
    while byte >= 0x80:
        _reach(source)
        byte = source.at[0]
        source.at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        size[0] += 1
    return unzigzag(value)


cdef void _reach_to_write(Cursor* out) noexcept nogil:
    while out.at == out.end:
        out.slab.used = out.slab.size
        _start(out, out.slab.next)


cdef void _put(Cursor* out, const uint8_t* data, uint32_t size) noexcept nogil:
    cdef uint32_t part
    while size > 0:
        _reach_to_write(out)
        part = min(size, <uint32_t>(out.end - out.at))
        memmove(out.at, data, part)
        out.at += part
        data += part
        size -= part


cdef void _move(Cursor* out, Cursor* source, uint32_t size) noexcept nogil:
    cdef uint32_t part
    while size > 0:
        _reach(source)
        part = min(size, <uint32_t>(source.end - source.at))
        _put(out, source.at, part)
        source.at += part
        size -= part


cdef void _keep(ProducerBatch* batch, Cursor* out, Cursor* source) noexcept nogil:
    """Move one record: length, attributes, timestamp delta, offset delta, then what is the
    caller's."""
    cdef uint8_t head[32]
    cdef uint8_t* p
    cdef uint32_t length_size = 0, head_size = 1
    cdef uint32_t length = <uint32_t>_take_varint(source, &length_size)
    cdef uint32_t body, size
    cdef int64_t delta
    _skip(source, 1)
    delta = _take_varint(source, &head_size)
    body = 1 + varint_size(delta) + varint_size(batch.count)
    _take_varint(source, &head_size)
    body += length - head_size
    p = varint_put(head, body)
    p[0] = 0
    p = varint_put(varint_put(p + 1, delta), batch.count)
    _put(out, head, <uint32_t>(p - head))
    _move(out, source, length - head_size)
    size = body + varint_size(body)
    if batch.count == 0 or batch.base_timestamp_ms + delta > batch.max_timestamp_ms:
        batch.max_timestamp_ms = batch.base_timestamp_ms + delta
    batch.count += 1
    batch.record_bytes += size
    batch.largest_record = max(batch.largest_record, size)


cdef void batch_remove(
    ProducerBatch* batch, const uint32_t* removed, uint32_t removed_count
) noexcept nogil:
    cdef Cursor source, out
    cdef Slab* slab
    cdef uint32_t i, at = 0, size, records = batch.count
    _start(&source, batch.first)
    _start(&out, batch.first)
    batch.count = 0
    batch.record_bytes = 0
    batch.largest_record = 0
    for i in range(records):
        if at < removed_count and removed[at] == i:
            at += 1
            size = 0
            _skip(&source, <uint32_t>_take_varint(&source, &size))
        else:
            _keep(batch, &out, &source)
    batch.cursor = out.slab
    batch.wpos = out.at
    batch.wend = out.end
    batch.spare_bytes = 0
    slab = out.slab.next
    while slab != NULL:
        batch.spare_bytes += slab.size
        slab = slab.next

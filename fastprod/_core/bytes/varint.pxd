"""Zigzag and unsigned varints (contract P-E.3.1, P-E.3.3), as inline leaves."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from fastprod._core.bytes.wire cimport fp_clz64


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int64_t unzigzag(uint64_t value) noexcept nogil:
    return <int64_t>(value >> 1) ^ -<int64_t>(value & 1)


cdef inline int uvarint_size(uint64_t value) noexcept nogil:
    """Bytes `uvarint_put` writes for `value`: 1..10. Records have many short ones."""
    if value < 0x80:
        return 1
    if value < 0x4000:
        return 2
    return (70 - fp_clz64(value)) // 7


cdef inline int varint_size(int64_t value) noexcept nogil:
    """Bytes `varint_put` writes for `value`: 1..10."""
    return uvarint_size(zigzag(value))


cdef inline uint8_t* uvarint_put(uint8_t* out, uint64_t value) noexcept nogil:
    """Write `value` at `out` (uvarint_size bytes must be there); return one past the end."""
    if value < 0x80:
        out[0] = <uint8_t>value
        return out + 1
    if value < 0x4000:
        out[0] = <uint8_t>(value | 0x80)
        out[1] = <uint8_t>(value >> 7)
        return out + 2
    while value >= 0x80:
        out[0] = <uint8_t>(value | 0x80)
        value >>= 7
        out += 1
    out[0] = <uint8_t>value
    return out + 1


cdef inline uint8_t* varint_put(uint8_t* out, int64_t value) noexcept nogil:
    """Write zigzag(value) at `out` (varint_size bytes must be there); return one past the end."""
    return uvarint_put(out, zigzag(value))


cdef inline const uint8_t* uvarint_get(
    const uint8_t* p, const uint8_t* end, int max_bytes, uint64_t* out
) noexcept nogil:
    """Read one unsigned varint of at most `max_bytes` (5 or 10) from [p, end).

    Returns one past its last byte, or NULL when it is cut short, longer than `max_bytes`,
    or does not fit 32 (`max_bytes` 5) or 64 bits.
    """
    cdef uint64_t value = 0
    cdef uint64_t byte
    cdef int i
    for i in range(max_bytes):
        if p >= end:
            return NULL
        byte = p[0]
        p += 1
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if max_bytes == 5 and (value >> 32) != 0:
                return NULL
            if max_bytes == 10 and i == 9 and byte > 1:
                return NULL
            out[0] = value
            return p
    return NULL


cdef inline const uint8_t* varint_get(
    const uint8_t* p, const uint8_t* end, int max_bytes, int64_t* out
) noexcept nogil:
    """Read one zigzag varint; see `uvarint_get`."""
    cdef uint64_t raw
    p = uvarint_get(p, end, max_bytes, &raw)
    if p != NULL:
        out[0] = unzigzag(raw)
    return p

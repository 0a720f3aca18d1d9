"""Doors for tests to the inline varints of varint.pxd; the engine cimports those directly."""
from libc.stdint cimport int64_t, uint8_t, uint64_t


def varint_size_for_test(int64_t value):
    return varint_size(value)


def uvarint_size_for_test(uint64_t value):
    return uvarint_size(value)


def varint_encode_for_test(int64_t value):
    cdef uint8_t out[10]
    cdef uint8_t* end = varint_put(out, value)
    return out[:end - out]


def uvarint_encode_for_test(uint64_t value):
    cdef uint8_t out[10]
    cdef uint8_t* end = uvarint_put(out, value)
    return out[:end - out]


def varint_decode_for_test(bytes data, int max_bytes):
    cdef const uint8_t* start = data
    cdef int64_t value = 0
    cdef const uint8_t* p = varint_get(start, start + len(data), max_bytes, &value)
    return None if p == NULL else (value, p - start)


def uvarint_decode_for_test(bytes data, int max_bytes):
    cdef const uint8_t* start = data
    cdef uint64_t value = 0
    cdef const uint8_t* p = uvarint_get(start, start + len(data), max_bytes, &value)
    return None if p == NULL else (value, p - start)

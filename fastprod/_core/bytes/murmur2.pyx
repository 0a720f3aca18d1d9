"""Kafka's murmur2 (contract P-C.4): which partition a key belongs to."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, uint8_t, uint32_t

from fastprod._core.bytes.wire cimport fp_get_u32_le

cdef enum:
    SEED = 0x9747B28CU
    M = 0x5BD1E995
    R = 24


cdef uint32_t murmur2(const uint8_t* p, size_t n) noexcept nogil:
    cdef uint32_t h = <uint32_t>SEED ^ <uint32_t>n
    cdef uint32_t k
    while n >= 4:
        k = fp_get_u32_le(p) * <uint32_t>M
        k ^= k >> R
        h = (h * <uint32_t>M) ^ (k * <uint32_t>M)
        p += 4
        n -= 4
    if n >= 3:
        h ^= <uint32_t>p[2] << 16
    if n >= 2:
        h ^= <uint32_t>p[1] << 8
    if n >= 1:
        h = (h ^ p[0]) * <uint32_t>M
    h = (h ^ (h >> 13)) * <uint32_t>M
    return h ^ (h >> 15)


def hash_key(key):
    cdef Py_buffer view
    cdef uint32_t h
    PyObject_GetBuffer(key, &view, PyBUF_SIMPLE)
    h = murmur2(<const uint8_t*>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return <int32_t>h

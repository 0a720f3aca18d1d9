"""Kafka's murmur2 (contract P-C.4)."""
from libc.stdint cimport uint8_t, uint32_t

# The 32 bits that Kafka reads as a signed int; a partition is (hash & 0x7fffffff) % count.
cdef uint32_t murmur2(const uint8_t* p, size_t n) noexcept nogil

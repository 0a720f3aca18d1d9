"""CRC-32C (Castagnoli) kernels, chosen once at import; `backend()` names the choice."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t

# `crc` is the finished CRC of the bytes before `p` (0 for none); returns the finished CRC.
cdef uint32_t crc32c_update(uint32_t crc, const uint8_t* p, size_t n) noexcept nogil

# Finished CRC of A+B from the finished CRCs of A and B; costs O(log len_b), no bytes read.
cdef uint32_t crc32c_combine(uint32_t crc_a, uint32_t crc_b, size_t len_b) noexcept nogil

# The same by the path of that name, one of backends(); else ValueError. For tests and benchmarks.
ctypedef uint32_t (*Crc32cUpdate)(uint32_t crc, const uint8_t* p, size_t n) noexcept nogil
cdef Crc32cUpdate crc32c_update_by(str path) except NULL
cdef uint32_t crc32c_combine_by(
    str path, uint32_t crc_a, uint32_t crc_b, uint64_t len_b) except? 0

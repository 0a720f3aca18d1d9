"""Decompression of whole blobs in every shape contract P-E.6 asks of a reader.

Each function gives a malloc'ed buffer that the caller frees. It grows as data appears, never
beyond `limit` (FP_TOO_LARGE). FP_CORRUPT: the bytes do not parse, or the end is missing.
The codec's table in loader must be filled.
"""
from libc.stdint cimport uint8_t

from fastprod._core.bytes.fp_status cimport FpStatus

# A plain copy: codec "none".
cdef FpStatus decompress_copy(
    const uint8_t* p, size_t n, size_t limit, uint8_t** out, size_t* out_size
) noexcept nogil

# One or more RFC 1952 members, any flags.
cdef FpStatus decompress_gzip(
    const uint8_t* p, size_t n, size_t limit, uint8_t** out, size_t* out_size
) noexcept nogil

# A xerial stream, several of them, or one bare block.
cdef FpStatus decompress_snappy(
    const uint8_t* p, size_t n, size_t limit, uint8_t** out, size_t* out_size
) noexcept nogil

# One or more LZ4 frames; linked blocks, content size and checksums included.
cdef FpStatus decompress_lz4(
    const uint8_t* p, size_t n, size_t limit, uint8_t** out, size_t* out_size
) noexcept nogil

# One or more Zstandard frames, with or without content size.
cdef FpStatus decompress_zstd(
    const uint8_t* p, size_t n, size_t limit, uint8_t** out, size_t* out_size
) noexcept nogil

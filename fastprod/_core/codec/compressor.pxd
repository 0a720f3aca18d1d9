"""Compression of the records part of a batch, by the C code inside well-kept packages."""
from libc.stdint cimport uint8_t

from fastprod._core.bytes.fp_status cimport FpStatus

cdef enum Codec:
    CODEC_NONE = 0
    CODEC_GZIP = 1
    CODEC_SNAPPY = 2
    CODEC_LZ4 = 3
    CODEC_ZSTD = 4
    CODEC_COUNT = 5

cdef struct Span:
    # BORROWS  `base`, `size` bytes long, for the duration of one call.
    const uint8_t* base
    size_t size

cdef struct Compressor:
    # One codec with its level and reusable contexts.
    #
    # OWNER    who called compressor_new.   FREED BY compressor_free.
    # THREADS  one at a time (the I/O thread).
    int codec
    int level
    void* context           # owned; the codec's own context, or NULL
    uint8_t* block          # owned; gather buffer for block codecs (snappy), or NULL

# 1 when the codec's symbols were found (NONE and SNAPPY always); 0 else.
cdef bint codec_available(int codec) noexcept nogil

# NULL when out of memory, the codec is not available, or `level` is not one of P-B's
# (ignored by none and snappy).
cdef Compressor* compressor_new(int codec, int level) noexcept nogil
cdef void compressor_free(Compressor* c) noexcept nogil

# Most bytes compressor_run can write for `n` input bytes.
cdef size_t compressor_bound(Compressor* c, size_t n) noexcept nogil

# Compress the concatenation of `count` spans into `out`: one complete frame as in contract P-E.6.
# FP_OK and *written; FP_TOO_LARGE when `capacity` < bound was too small; FP_CORRUPT on a codec
# error.
cdef FpStatus compressor_run(
    Compressor* c, const Span* spans, int count, uint8_t* out, size_t capacity, size_t* written
) noexcept nogil

# Decompress `n` bytes into a malloc'ed buffer that the caller frees. Grows as data appears, never
# beyond `limit` (FP_TOO_LARGE). FP_CORRUPT for bad input, FP_UNSUPPORTED for a missing codec.
cdef FpStatus codec_decompress(
    int codec, const uint8_t* p, size_t n, size_t limit, uint8_t** out, size_t* out_size
) noexcept nogil

"""The functions of zlib, LZ4F and Zstandard, as tables found at import (c/fp_codec_api.h)."""
from libc.stdint cimport uint8_t

cdef extern from "c/fp_codec_api.h" nogil:
    ctypedef struct fp_z_stream:
        const uint8_t* next_in
        unsigned int avail_in
        uint8_t* next_out
        unsigned int avail_out

    ctypedef struct fp_zlib_api:
        const char* (*version_text)() noexcept nogil
        int (*deflate_init)(
            fp_z_stream*, int, int, int, int, int, const char*, int
        ) noexcept nogil
        int (*deflate)(fp_z_stream*, int) noexcept nogil
        int (*deflate_reset)(fp_z_stream*) noexcept nogil
        int (*deflate_end)(fp_z_stream*) noexcept nogil
        unsigned long (*deflate_bound)(fp_z_stream*, unsigned long) noexcept nogil
        int (*inflate_init)(fp_z_stream*, int, const char*, int) noexcept nogil
        int (*inflate)(fp_z_stream*, int) noexcept nogil
        int (*inflate_reset)(fp_z_stream*) noexcept nogil
        int (*inflate_end)(fp_z_stream*) noexcept nogil

    ctypedef struct fp_lz4f_prefs:
        int block_size_id
        int block_mode
        int level

    ctypedef struct fp_lz4f_api:
        const char* (*version_text)() noexcept nogil
        unsigned int (*is_error)(size_t) noexcept nogil
        size_t (*compress_create)(void**, unsigned int) noexcept nogil
        size_t (*compress_free)(void*) noexcept nogil
        size_t (*compress_begin)(void*, void*, size_t, const fp_lz4f_prefs*) noexcept nogil
        size_t (*compress_update)(
            void*, void*, size_t, const void*, size_t, const void*
        ) noexcept nogil
        size_t (*compress_end)(void*, void*, size_t, const void*) noexcept nogil
        size_t (*decompress_create)(void**, unsigned int) noexcept nogil
        size_t (*decompress_free)(void*) noexcept nogil
        size_t (*decompress)(
            void*, void*, size_t*, const void*, size_t*, const void*
        ) noexcept nogil

    ctypedef struct fp_zstd_in:
        const void* src
        size_t size
        size_t pos
    ctypedef struct fp_zstd_out:
        void* dst
        size_t size
        size_t pos

    ctypedef struct fp_zstd_api:
        const char* (*version_text)() noexcept nogil
        unsigned int (*is_error)(size_t) noexcept nogil
        size_t (*bound)(size_t) noexcept nogil
        void* (*compress_create)() noexcept nogil
        size_t (*compress_free)(void*) noexcept nogil
        size_t (*compress_reset)(void*, int) noexcept nogil
        size_t (*compress_set)(void*, int, int) noexcept nogil
        size_t (*compress_pledge)(void*, unsigned long long) noexcept nogil
        size_t (*compress_whole)(void*, void*, size_t, const void*, size_t) noexcept nogil
        size_t (*compress_stream)(void*, fp_zstd_out*, fp_zstd_in*, int) noexcept nogil
        void* (*decompress_create)() noexcept nogil
        size_t (*decompress_free)(void*) noexcept nogil
        size_t (*decompress_stream)(void*, fp_zstd_out*, fp_zstd_in*) noexcept nogil

    int FP_Z_NO_FLUSH
    int FP_Z_FINISH
    int FP_Z_OK
    int FP_Z_STREAM_END
    int FP_Z_MEM_ERROR
    int FP_Z_BUF_ERROR
    int FP_Z_DEFLATED
    int FP_Z_MEM_LEVEL
    int FP_Z_GZIP_WINDOW_BITS
    unsigned int FP_LZ4F_VERSION
    int FP_LZ4F_64_KIB
    int FP_LZ4F_256_KIB
    int FP_LZ4F_INDEPENDENT
    size_t FP_LZ4F_HEADER_MAX
    int FP_LZ4F_LEVEL_FAST
    int FP_LZ4F_LEVEL_FASTER
    int FP_LZ4F_LEVEL_HC_MIN
    int FP_LZ4F_LEVEL_HC_MAX
    int FP_ZSTD_CONTINUE
    int FP_ZSTD_END
    int FP_ZSTD_RESET_SESSION
    int FP_ZSTD_LEVEL
    int FP_ZSTD_ERROR_MEMORY
    int FP_ZSTD_ERROR_DST_TOO_SMALL

# OWNER this module.   THREADS written under the import lock, read by any thread.
# A codec that was not found has a table of NULLs: test `version_text`.
cdef fp_zlib_api zlib_api
cdef fp_lz4f_api lz4f_api
cdef fp_zstd_api zstd_api

# Take a codec's functions from this file; False: it does not have them, and nothing has changed.
cdef bint load_codec(str codec, path) except -1

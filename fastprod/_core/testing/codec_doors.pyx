"""Doors to the codecs and to where their functions are found."""
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from fastprod._core.bytes.fp_status cimport FP_TOO_LARGE, FpStatus, check
from fastprod._core.codec.compressor cimport (
    Compressor, Span, codec_decompress, compressor_bound, compressor_free, compressor_new,
    compressor_run,
)
from fastprod._core.codec.loader cimport load_codec, lz4f_api, zlib_api, zstd_api

from fastprod._core.codec.compressor import _IDS
from fastprod._core.codec.loader import _found


def load_for_test(codec, path):
    """Take the codec's functions from this file; None: from nowhere, as if none were found."""
    if path is not None:
        return load_codec(codec, path)
    _found.pop(codec, None)
    if codec == "gzip":
        memset(&zlib_api, 0, sizeof(zlib_api))
    elif codec == "lz4":
        memset(&lz4f_api, 0, sizeof(lz4f_api))
    else:
        memset(&zstd_api, 0, sizeof(zstd_api))
    return True


def compress_many_for_test(codec, level, batches, capacities=None):
    """Run every batch through one compressor; None for a batch that its capacity cannot hold."""
    cdef Compressor* c = compressor_new(_IDS[codec], level)
    if c == NULL:
        raise ValueError(f"{codec} at level {level}: no such level, or the codec was not found")
    if capacities is None:
        capacities = [None] * len(batches)
    try:
        return [
            _compress(c, spans, capacity)
            for spans, capacity in zip(batches, capacities, strict=True)
        ]
    finally:
        compressor_free(c)


def compress_for_test(codec, level, spans):
    return compress_many_for_test(codec, level, [spans])[0]


def bound_for_test(codec, level, n):
    cdef Compressor* c = compressor_new(_IDS[codec], level)
    if c == NULL:
        raise ValueError(f"{codec} at level {level}: no such level, or the codec was not found")
    try:
        return compressor_bound(c, n)
    finally:
        compressor_free(c)


cdef bytes _compress(Compressor* c, list spans, capacity):
    cdef int count = len(spans)
    cdef Span* native = <Span*>malloc(max(count, 1) * sizeof(Span))
    cdef size_t size = 0
    cdef size_t room
    cdef size_t written = 0
    cdef uint8_t* out
    cdef FpStatus status
    cdef bytes span
    cdef int i
    for i in range(count):
        span = spans[i]
        native[i].base = <const uint8_t*><const char*>span
        native[i].size = len(span)
        size += native[i].size
    room = compressor_bound(c, size) if capacity is None else capacity
    out = <uint8_t*>malloc(max(room, <size_t>1))
    try:
        with nogil:
            status = compressor_run(c, native, count, out, room, &written)
        if status == FP_TOO_LARGE:
            return None
        check(status)
        return (<char*>out)[:written]
    finally:
        free(out)
        free(native)


def decompress_for_test(codec, bytes data, limit=1 << 30):
    cdef const uint8_t* p = <const uint8_t*><const char*>data
    cdef size_t n = len(data)
    cdef size_t most = limit
    cdef int number = _IDS[codec]
    cdef uint8_t* out = NULL
    cdef size_t size = 0
    cdef FpStatus status
    with nogil:
        status = codec_decompress(number, p, n, most, &out, &size)
    check(status)
    try:
        return (<char*>out)[:size]
    finally:
        free(out)

"""Compression by the C code of the zlib, lz4 and zstandard packages; snappy is our own."""
from libc.stdint cimport uint8_t, uint16_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from fastprod._core.bytes.fp_status cimport (
    FP_CORRUPT, FP_NOMEM, FP_OK, FP_TOO_LARGE, FP_UNSUPPORTED, FpStatus,
)
from fastprod._core.bytes.wire cimport fp_put_u32
from fastprod._core.codec.decompressor cimport (
    decompress_copy, decompress_gzip, decompress_lz4, decompress_snappy, decompress_zstd
)
from fastprod._core.codec.loader cimport (
    FP_LZ4F_256_KIB, FP_LZ4F_64_KIB, FP_LZ4F_HEADER_MAX, FP_LZ4F_INDEPENDENT, FP_LZ4F_LEVEL_FAST,
    FP_LZ4F_LEVEL_FASTER,
    FP_LZ4F_LEVEL_HC_MAX, FP_LZ4F_LEVEL_HC_MIN, FP_LZ4F_VERSION, FP_Z_BUF_ERROR, FP_Z_DEFLATED,
    FP_Z_FINISH, FP_Z_GZIP_WINDOW_BITS, FP_Z_MEM_LEVEL, FP_Z_NO_FLUSH, FP_Z_OK, FP_Z_STREAM_END,
    FP_ZSTD_CONTINUE, FP_ZSTD_END, FP_ZSTD_ERROR_DST_TOO_SMALL, FP_ZSTD_ERROR_MEMORY,
    FP_ZSTD_LEVEL, FP_ZSTD_RESET_SESSION, fp_lz4f_prefs, fp_z_stream, fp_zstd_in, fp_zstd_out,
    lz4f_api, zlib_api, zstd_api
)

from fastprod._core.codec import loader

cdef extern from "c/fp_snappy.h" nogil:
    size_t FP_SNAPPY_BLOCK
    size_t FP_SNAPPY_TABLE_SIZE
    size_t FP_XERIAL_HEADER
    const uint8_t* fp_xerial_header
    size_t fp_snappy_bound(size_t n) noexcept
    size_t fp_snappy_compress(const uint8_t* p, size_t n, uint8_t* out, uint16_t* table) noexcept

cdef enum:
    # zlib counts in unsigned int: longer input is fed in pieces.
    _ZLIB_PIECE = 1 << 30
    _LZ4_BLOCK = 64 * 1024
    _LZ4_DEFAULT_LEVEL = 9      # Kafka's default names the fast compressor (P-B)

cdef struct _Gather:
    # BORROWS  the spans.   Reads their concatenation block by block.
    const Span* spans
    int count
    int at              # the span that is being read
    size_t used         # bytes of it already read


cdef bint codec_available(int codec) noexcept nogil:
    if codec == CODEC_GZIP:
        return zlib_api.version_text != NULL
    if codec == CODEC_LZ4:
        return lz4f_api.version_text != NULL
    if codec == CODEC_ZSTD:
        return zstd_api.version_text != NULL
    return codec == CODEC_NONE or codec == CODEC_SNAPPY


cdef bint _level_is_sound(int codec, int level) noexcept nogil:
    if codec == CODEC_GZIP:
        return level == -1 or 1 <= level <= 9
    if codec == CODEC_LZ4:
        return 1 <= level <= 17
    if codec == CODEC_ZSTD:
        return -131072 <= level <= 22
    return True


cdef void* _gzip_context(int level) noexcept nogil:
    cdef fp_z_stream* stream = <fp_z_stream*>calloc(1, sizeof(fp_z_stream))
    if stream == NULL:
        return NULL
    if zlib_api.deflate_init(
        stream, level, FP_Z_DEFLATED, FP_Z_GZIP_WINDOW_BITS, FP_Z_MEM_LEVEL, 0,
        zlib_api.version_text(), <int>sizeof(fp_z_stream)
    ) != FP_Z_OK:
        free(stream)
        return NULL
    return stream


cdef void* _zstd_context(int level) noexcept nogil:
    cdef void* context = zstd_api.compress_create()
    if context != NULL and zstd_api.is_error(zstd_api.compress_set(context, FP_ZSTD_LEVEL, level)):
        zstd_api.compress_free(context)
        return NULL
    return context


cdef bint _make_context(Compressor* c) noexcept nogil:
    if c.codec == CODEC_GZIP:
        c.context = _gzip_context(c.level)
    elif c.codec == CODEC_SNAPPY:
        c.context = malloc(FP_SNAPPY_TABLE_SIZE * sizeof(uint16_t))
        c.block = <uint8_t*>malloc(FP_SNAPPY_BLOCK)
        return c.context != NULL and c.block != NULL
    elif c.codec == CODEC_LZ4:
        if lz4f_api.is_error(lz4f_api.compress_create(&c.context, FP_LZ4F_VERSION)):
            c.context = NULL
    elif c.codec == CODEC_ZSTD:
        c.context = _zstd_context(c.level)
    else:
        return True
    return c.context != NULL


cdef Compressor* compressor_new(int codec, int level) noexcept nogil:
    cdef Compressor* c
    if not codec_available(codec) or not _level_is_sound(codec, level):
        return NULL
    c = <Compressor*>calloc(1, sizeof(Compressor))
    if c == NULL:
        return NULL
    c.codec = codec
    c.level = level
    if not _make_context(c):
        compressor_free(c)
        return NULL
    return c


cdef void compressor_free(Compressor* c) noexcept nogil:
    if c == NULL:
        return
    if c.context != NULL:
        if c.codec == CODEC_GZIP:
            zlib_api.deflate_end(<fp_z_stream*>c.context)
            free(c.context)
        elif c.codec == CODEC_LZ4:
            lz4f_api.compress_free(c.context)
        elif c.codec == CODEC_ZSTD:
            zstd_api.compress_free(c.context)
        else:
            free(c.context)
    free(c.block)
    free(c)


cdef size_t compressor_bound(Compressor* c, size_t n) noexcept nogil:
    cdef size_t blocks
    if c.codec == CODEC_GZIP:
        # deflateBound speaks of one call; several leave a few bytes more.
        return zlib_api.deflate_bound(<fp_z_stream*>c.context, n) + (n >> 12) + 64
    if c.codec == CODEC_SNAPPY:
        blocks = n // FP_SNAPPY_BLOCK + 1
        return FP_XERIAL_HEADER + n + n // 6 + blocks * (4 + fp_snappy_bound(0))
    if c.codec == CODEC_LZ4:
        # Per block its size and at most its bytes; LZ4F wants room for two end marks.
        return FP_LZ4F_HEADER_MAX + n + 4 * (n // _LZ4_BLOCK + 1) + 16
    if c.codec == CODEC_ZSTD:
        return zstd_api.bound(n) + (n >> 10) + 64
    return n


cdef FpStatus compressor_run(
    Compressor* c, const Span* spans, int count, uint8_t* out, size_t capacity, size_t* written
) noexcept nogil:
    written[0] = 0
    if c.codec == CODEC_GZIP:
        return _run_gzip(c, spans, count, out, capacity, written)
    if c.codec == CODEC_SNAPPY:
        return _run_snappy(c, spans, count, out, capacity, written)
    if c.codec == CODEC_LZ4:
        return _run_lz4(c, spans, count, out, capacity, written)
    if c.codec == CODEC_ZSTD:
        return _run_zstd(c, spans, count, out, capacity, written)
    return _run_none(spans, count, out, capacity, written)


cdef FpStatus _run_none(
    const Span* spans, int count, uint8_t* out, size_t capacity, size_t* written
) noexcept nogil:
    cdef size_t at = 0
    cdef int i
    for i in range(count):
        if spans[i].size > capacity - at:
            return FP_TOO_LARGE
        if spans[i].size:
            memcpy(out + at, spans[i].base, spans[i].size)
        at += spans[i].size
    written[0] = at
    return FP_OK


cdef FpStatus _run_gzip(
    Compressor* c, const Span* spans, int count, uint8_t* out, size_t capacity, size_t* written
) noexcept nogil:
    cdef fp_z_stream* stream = <fp_z_stream*>c.context
    cdef size_t left
    cdef unsigned int room
    cdef int code
    cdef int i
    if zlib_api.deflate_reset(stream) != FP_Z_OK:
        return FP_CORRUPT
    room = <unsigned int>min(capacity, <size_t>0xFFFFFFFFU)
    stream.next_out = out
    stream.avail_out = room
    for i in range(count):
        left = spans[i].size
        stream.next_in = spans[i].base
        while left:
            stream.avail_in = <unsigned int>min(left, <size_t>_ZLIB_PIECE)
            left -= stream.avail_in
            code = zlib_api.deflate(stream, FP_Z_NO_FLUSH)
            if stream.avail_in:
                return FP_TOO_LARGE
            if code != FP_Z_OK:
                return FP_CORRUPT
    stream.avail_in = 0
    code = zlib_api.deflate(stream, FP_Z_FINISH)
    if code != FP_Z_STREAM_END:
        return FP_TOO_LARGE if code == FP_Z_OK or code == FP_Z_BUF_ERROR else FP_CORRUPT
    written[0] = room - stream.avail_out
    return FP_OK


cdef const uint8_t* _next_block(
    _Gather* g, uint8_t* scratch, size_t want, size_t* got
) noexcept nogil:
    """The next `want` bytes, fewer only at the end: in place when one span holds them, else
    gathered in `scratch`. NULL when nothing is left."""
    cdef size_t filled = 0
    cdef size_t piece
    cdef const uint8_t* here
    while g.at < g.count:
        piece = g.spans[g.at].size - g.used
        if piece == 0:
            g.at += 1
            g.used = 0
            continue
        here = g.spans[g.at].base + g.used
        if piece > want - filled:
            piece = want - filled
        g.used += piece
        if piece == want:
            got[0] = want
            return here
        memcpy(scratch + filled, here, piece)
        filled += piece
        if filled == want:
            break
    got[0] = filled
    return scratch if filled else NULL


cdef FpStatus _run_snappy(
    Compressor* c, const Span* spans, int count, uint8_t* out, size_t capacity, size_t* written
) noexcept nogil:
    cdef _Gather gather
    cdef size_t at = FP_XERIAL_HEADER
    cdef size_t n = 0
    cdef size_t made
    cdef const uint8_t* block
    gather.spans = spans
    gather.count = count
    gather.at = 0
    gather.used = 0
    if capacity < at:
        return FP_TOO_LARGE
    memcpy(out, fp_xerial_header, at)
    while True:
        block = _next_block(&gather, c.block, FP_SNAPPY_BLOCK, &n)
        if block == NULL:
            written[0] = at
            return FP_OK
        if capacity - at < 4 + fp_snappy_bound(n):
            return FP_TOO_LARGE
        made = fp_snappy_compress(block, n, out + at + 4, <uint16_t*>c.context)
        fp_put_u32(out + at, <unsigned int>made)
        at += 4 + made


cdef int _lz4_level(int level, bint small) noexcept nogil:
    if level == _LZ4_DEFAULT_LEVEL:
        return FP_LZ4F_LEVEL_FAST if small else FP_LZ4F_LEVEL_FASTER
    return min(max(level, FP_LZ4F_LEVEL_HC_MIN), FP_LZ4F_LEVEL_HC_MAX)


cdef FpStatus _run_lz4(
    Compressor* c, const Span* spans, int count, uint8_t* out, size_t capacity, size_t* written
) noexcept nogil:
    cdef bint small = _total(spans, count) <= _LZ4_BLOCK
    cdef fp_lz4f_prefs prefs
    cdef size_t at
    cdef size_t made
    cdef int i
    # LZ4F refuses a call whose worst case does not fit, so an error with less room than the
    # bound means that there was too little; it has no other reason to fail.
    memset(&prefs, 0, sizeof(prefs))
    # Larger blocks find more matches, which pays for looking for fewer: a seventh less time, about
    # the same size. What fits one small block is as Java's client writes it.
    prefs.block_size_id = FP_LZ4F_64_KIB if small else FP_LZ4F_256_KIB
    prefs.block_mode = FP_LZ4F_INDEPENDENT
    prefs.level = _lz4_level(c.level, small)
    made = lz4f_api.compress_begin(c.context, out, capacity, &prefs)
    if lz4f_api.is_error(made):
        return FP_TOO_LARGE if capacity < FP_LZ4F_HEADER_MAX else FP_CORRUPT
    at = made
    for i in range(count):
        if spans[i].size == 0:
            continue
        made = lz4f_api.compress_update(
            c.context, out + at, capacity - at, spans[i].base, spans[i].size, NULL
        )
        if lz4f_api.is_error(made):
            return _lz4_failure(c, spans, count, capacity)
        at += made
    made = lz4f_api.compress_end(c.context, out + at, capacity - at, NULL)
    if lz4f_api.is_error(made):
        return _lz4_failure(c, spans, count, capacity)
    written[0] = at + made
    return FP_OK


cdef FpStatus _lz4_failure(
    Compressor* c, const Span* spans, int count, size_t capacity
) noexcept nogil:
    return FP_TOO_LARGE if capacity < compressor_bound(c, _total(spans, count)) else FP_CORRUPT


cdef size_t _total(const Span* spans, int count) noexcept nogil:
    cdef size_t n = 0
    cdef int i
    for i in range(count):
        n += spans[i].size
    return n


cdef FpStatus _zstd_failure(size_t code) noexcept nogil:
    """zstd returns minus its error number."""
    if code == <size_t>(-FP_ZSTD_ERROR_DST_TOO_SMALL):
        return FP_TOO_LARGE
    if code == <size_t>(-FP_ZSTD_ERROR_MEMORY):
        return FP_NOMEM
    return FP_CORRUPT


cdef FpStatus _run_zstd(
    Compressor* c, const Span* spans, int count, uint8_t* out, size_t capacity, size_t* written
) noexcept nogil:
    cdef fp_zstd_in source
    cdef fp_zstd_out target
    cdef size_t code
    cdef int operation
    cdef int i
    zstd_api.compress_reset(c.context, FP_ZSTD_RESET_SESSION)
    if count == 1:
        code = zstd_api.compress_whole(c.context, out, capacity, spans[0].base, spans[0].size)
        if zstd_api.is_error(code):
            return _zstd_failure(code)
        written[0] = code
        return FP_OK
    # Knowing the size, zstd takes tables and a window that fit it instead of megabytes.
    code = zstd_api.compress_pledge(c.context, _total(spans, count))
    if zstd_api.is_error(code):
        return _zstd_failure(code)
    target.dst = out
    target.size = capacity
    target.pos = 0
    for i in range(max(count, 1)):
        source.src = spans[i].base if i < count else NULL
        source.size = spans[i].size if i < count else 0
        source.pos = 0
        operation = FP_ZSTD_END if i >= count - 1 else FP_ZSTD_CONTINUE
        while True:
            code = zstd_api.compress_stream(c.context, &target, &source, operation)
            if zstd_api.is_error(code):
                return _zstd_failure(code)
            if source.pos == source.size and (code == 0 or operation == FP_ZSTD_CONTINUE):
                break
            if target.pos == target.size:
                return FP_TOO_LARGE
    written[0] = target.pos
    return FP_OK


cdef FpStatus codec_decompress(
    int codec, const uint8_t* p, size_t n, size_t limit, uint8_t** out, size_t* out_size
) noexcept nogil:
    out[0] = NULL
    out_size[0] = 0
    if not codec_available(codec):
        return FP_UNSUPPORTED
    if codec == CODEC_GZIP:
        return decompress_gzip(p, n, limit, out, out_size)
    if codec == CODEC_SNAPPY:
        return decompress_snappy(p, n, limit, out, out_size)
    if codec == CODEC_LZ4:
        return decompress_lz4(p, n, limit, out, out_size)
    if codec == CODEC_ZSTD:
        return decompress_zstd(p, n, limit, out, out_size)
    return decompress_copy(p, n, limit, out, out_size)


_IDS = {
    "none": CODEC_NONE,
    "gzip": CODEC_GZIP,
    "snappy": CODEC_SNAPPY,
    "lz4": CODEC_LZ4,
    "zstd": CODEC_ZSTD,
}


describe = loader.describe


def available(name):
    return bool(codec_available(_IDS[name]))

"""Decompresses gzip, snappy, lz4 and zstd blobs, bounds-checked (P-E.6)."""
from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memset

from fastprod._core.bytes.fp_status cimport FP_CORRUPT, FP_NOMEM, FP_OK, FP_TOO_LARGE, FpStatus
from fastprod._core.bytes.wire cimport fp_get_u32
from fastprod._core.codec.loader cimport (
    FP_LZ4F_VERSION, FP_Z_GZIP_WINDOW_BITS, FP_Z_MEM_ERROR, FP_Z_NO_FLUSH, FP_Z_OK,
    FP_Z_STREAM_END, FP_ZSTD_ERROR_MEMORY, fp_z_stream, fp_zstd_in, fp_zstd_out, lz4f_api,
    zlib_api, zstd_api
)

cdef extern from "c/fp_snappy.h" nogil:
    size_t FP_XERIAL_HEADER
    size_t FP_SNAPPY_RATIO_MAX
    size_t fp_snappy_length(const uint8_t* p, size_t n, size_t* length) noexcept
    int fp_snappy_decode(
        const uint8_t* p, const uint8_t* end, uint8_t* out, size_t size
    ) noexcept
    int fp_xerial_starts(const uint8_t* p, size_t n) noexcept

cdef enum:
    _FIRST_OUTPUT_MIN = 4096
    _ZLIB_PIECE = 1 << 30       # zlib counts in unsigned int: longer input is fed in pieces

cdef enum _Format:
    _GZIP
    _SNAPPY
    _LZ4
    _ZSTD

cdef struct _Growing:
    # OWNER    one decompression, which hands `base` to its caller or frees it.
    uint8_t* base
    size_t size
    size_t capacity     # may exceed `limit`, to tell full from too large
    size_t limit


cdef FpStatus _grow(_Growing* g) noexcept nogil:
    """Make room for at least one more byte; FP_TOO_LARGE once the limit has been passed."""
    cdef size_t most = g.limit + 1 if g.limit + 1 > g.limit else g.limit
    cdef size_t capacity
    cdef uint8_t* base
    if g.size < g.capacity:
        return FP_OK
    if g.size >= most:
        return FP_TOO_LARGE
    capacity = g.capacity * 2 if g.capacity <= most // 2 else most
    base = <uint8_t*>realloc(g.base, capacity)
    if base == NULL:
        return FP_NOMEM
    g.base = base
    g.capacity = capacity
    return FP_OK


cdef FpStatus _inflate(const uint8_t* p, size_t n, _Growing* g) noexcept nogil:
    cdef fp_z_stream stream
    cdef FpStatus status
    memset(&stream, 0, sizeof(stream))
    if zlib_api.inflate_init(
        &stream, FP_Z_GZIP_WINDOW_BITS, zlib_api.version_text(), <int>sizeof(fp_z_stream)
    ) != FP_Z_OK:
        return FP_NOMEM
    status = _inflate_members(&stream, p, n, g)
    zlib_api.inflate_end(&stream)
    return status


cdef FpStatus _inflate_members(
    fp_z_stream* stream, const uint8_t* p, size_t n, _Growing* g
) noexcept nogil:
    cdef FpStatus status
    cdef unsigned int room
    cdef unsigned int piece
    cdef int code
    while True:
        status = _grow(g)
        if status != FP_OK:
            return status
        room = <unsigned int>min(g.capacity - g.size, <size_t>_ZLIB_PIECE)
        piece = <unsigned int>min(n, <size_t>_ZLIB_PIECE)
        stream.next_out = g.base + g.size
        stream.avail_out = room
        stream.next_in = p
        stream.avail_in = piece
        code = zlib_api.inflate(stream, FP_Z_NO_FLUSH)
        g.size += room - stream.avail_out
        p += piece - stream.avail_in
        n -= piece - stream.avail_in
        if code == FP_Z_STREAM_END:
            if n == 0:
                return FP_OK
            zlib_api.inflate_reset(stream)
        elif code != FP_Z_OK:
            # A buffer error is no progress with room to spare: the end is missing.
            return FP_NOMEM if code == FP_Z_MEM_ERROR else FP_CORRUPT


cdef FpStatus _reserve(_Growing* g, size_t capacity) noexcept nogil:
    cdef uint8_t* base
    if capacity < g.capacity * 2:
        capacity = g.capacity * 2
    base = <uint8_t*>realloc(g.base, capacity)
    if base == NULL:
        return FP_NOMEM
    g.base = base
    g.capacity = capacity
    return FP_OK


cdef FpStatus _unsnappy_block(const uint8_t* p, size_t n, _Growing* g) noexcept nogil:
    cdef size_t size = 0
    cdef size_t prefix = fp_snappy_length(p, n, &size)
    cdef FpStatus status
    if prefix == 0 or size // FP_SNAPPY_RATIO_MAX > n:
        return FP_CORRUPT
    if size > g.limit - g.size:
        return FP_TOO_LARGE
    if g.capacity - g.size < size:
        status = _reserve(g, g.size + size)
        if status != FP_OK:
            return status
    if not fp_snappy_decode(p + prefix, p + n, g.base + g.size, size):
        return FP_CORRUPT
    g.size += size
    return FP_OK


cdef FpStatus _unsnappy(const uint8_t* p, size_t n, _Growing* g) noexcept nogil:
    """A xerial stream, several of them, or one bare block."""
    cdef size_t size
    cdef FpStatus status
    if not fp_xerial_starts(p, n):
        return _unsnappy_block(p, n, g)
    while n:
        if fp_xerial_starts(p, n):
            p += FP_XERIAL_HEADER
            n -= FP_XERIAL_HEADER
            continue
        if n < 4:
            return FP_CORRUPT
        size = fp_get_u32(p)
        if size > n - 4:
            return FP_CORRUPT
        status = _unsnappy_block(p + 4, size, g)
        if status != FP_OK:
            return status
        p += 4 + size
        n -= 4 + size
    return FP_OK


cdef FpStatus _unlz4(const uint8_t* p, size_t n, _Growing* g) noexcept nogil:
    cdef void* context = NULL
    cdef FpStatus status
    if lz4f_api.is_error(lz4f_api.decompress_create(&context, FP_LZ4F_VERSION)):
        return FP_NOMEM
    status = _unlz4_frames(context, p, n, g)
    lz4f_api.decompress_free(context)
    return status


cdef FpStatus _unlz4_frames(
    void* context, const uint8_t* p, size_t n, _Growing* g
) noexcept nogil:
    cdef FpStatus status
    cdef size_t made
    cdef size_t used
    cdef size_t code
    while True:
        status = _grow(g)
        if status != FP_OK:
            return status
        made = g.capacity - g.size
        used = n
        code = lz4f_api.decompress(context, g.base + g.size, &made, p, &used, NULL)
        if lz4f_api.is_error(code):
            return FP_CORRUPT
        g.size += made
        p += used
        n -= used
        if code == 0 and n == 0:
            return FP_OK
        if made == 0 and used == 0:
            return FP_CORRUPT


cdef FpStatus _unzstd(const uint8_t* p, size_t n, _Growing* g) noexcept nogil:
    cdef void* context = zstd_api.decompress_create()
    cdef FpStatus status
    if context == NULL:
        return FP_NOMEM
    status = _unzstd_frames(context, p, n, g)
    zstd_api.decompress_free(context)
    return status


cdef FpStatus _unzstd_frames(
    void* context, const uint8_t* p, size_t n, _Growing* g
) noexcept nogil:
    cdef fp_zstd_in source
    cdef fp_zstd_out target
    cdef FpStatus status
    cdef size_t code
    source.src = p
    source.size = n
    source.pos = 0
    while True:
        status = _grow(g)
        if status != FP_OK:
            return status
        target.dst = g.base
        target.size = g.capacity
        target.pos = g.size
        code = zstd_api.decompress_stream(context, &target, &source)
        if zstd_api.is_error(code):
            return FP_NOMEM if code == <size_t>(-FP_ZSTD_ERROR_MEMORY) else FP_CORRUPT
        g.size = target.pos
        if source.pos == source.size:
            if code == 0:
                return FP_OK
            if target.pos < target.size:
                return FP_CORRUPT


cdef FpStatus _decompress(
    _Format format, const uint8_t* p, size_t n, size_t limit, uint8_t** out, size_t* out_size
) noexcept nogil:
    cdef _Growing g
    cdef FpStatus status
    out[0] = NULL
    out_size[0] = 0
    g.size = 0
    g.limit = limit
    g.capacity = max(<size_t>_FIRST_OUTPUT_MIN, min(8 * n, limit))
    g.base = <uint8_t*>malloc(g.capacity)
    if g.base == NULL:
        return FP_NOMEM
    if format == _GZIP:
        status = _inflate(p, n, &g)
    elif format == _SNAPPY:
        status = _unsnappy(p, n, &g)
    elif format == _LZ4:
        status = _unlz4(p, n, &g)
    else:
        status = _unzstd(p, n, &g)
    if status == FP_OK and g.size > g.limit:
        status = FP_TOO_LARGE
    if status != FP_OK:
        free(g.base)
        return status
    out[0] = g.base
    out_size[0] = g.size
    return FP_OK


cdef FpStatus decompress_copy(
    const uint8_t* p, size_t n, size_t limit, uint8_t** out, size_t* out_size
) noexcept nogil:
    if n > limit:
        return FP_TOO_LARGE
    out[0] = <uint8_t*>malloc(max(n, <size_t>1))
    if out[0] == NULL:
        return FP_NOMEM
    memcpy(out[0], p, n)
    out_size[0] = n
    return FP_OK


cdef FpStatus decompress_gzip(
    const uint8_t* p, size_t n, size_t limit, uint8_t** out, size_t* out_size
) noexcept nogil:
    return _decompress(_GZIP, p, n, limit, out, out_size)


cdef FpStatus decompress_snappy(
    const uint8_t* p, size_t n, size_t limit, uint8_t** out, size_t* out_size
) noexcept nogil:
    return _decompress(_SNAPPY, p, n, limit, out, out_size)


cdef FpStatus decompress_lz4(
    const uint8_t* p, size_t n, size_t limit, uint8_t** out, size_t* out_size
) noexcept nogil:
    return _decompress(_LZ4, p, n, limit, out, out_size)


cdef FpStatus decompress_zstd(
    const uint8_t* p, size_t n, size_t limit, uint8_t** out, size_t* out_size
) noexcept nogil:
    return _decompress(_ZSTD, p, n, limit, out, out_size)

/* The parts of zlib, LZ4F and Zstandard that we call, as tables of function pointers.
 *
 * The functions live in extension files of Python packages or in system libraries; no header and
 * no link is needed. Layouts and numbers below are the libraries' stable, documented ABI.
 * A table is filled from one handle only, so that versions never mix; it is written once, at
 * import, and read by any thread afterwards.
 */
#ifndef FP_CODEC_API_H
#define FP_CODEC_API_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* zlib: z_stream of the LP64 ABI. */
typedef struct {
    const uint8_t *next_in;
    unsigned avail_in;
    unsigned long total_in;
    uint8_t *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *msg;
    void *state;
    void *zalloc;
    void *zfree;
    void *opaque;
    int data_type;
    unsigned long adler;
    unsigned long reserved;
} fp_z_stream;

enum {
    FP_Z_NO_FLUSH = 0,
    FP_Z_FINISH = 4,
    FP_Z_OK = 0,
    FP_Z_STREAM_END = 1,
    FP_Z_MEM_ERROR = -4,
    FP_Z_BUF_ERROR = -5,
    FP_Z_DEFLATED = 8,
    FP_Z_MEM_LEVEL = 8,
    FP_Z_GZIP_WINDOW_BITS = 31 /* 15, plus 16: wrapped as gzip */
};

typedef struct {
    const char *(*version_text)(void);
    int (*deflate_init)(fp_z_stream *, int level, int method, int window_bits, int mem_level,
                        int strategy, const char *version, int stream_size);
    int (*deflate)(fp_z_stream *, int flush);
    int (*deflate_reset)(fp_z_stream *);
    int (*deflate_end)(fp_z_stream *);
    unsigned long (*deflate_bound)(fp_z_stream *, unsigned long n);
    int (*inflate_init)(fp_z_stream *, int window_bits, const char *version, int stream_size);
    int (*inflate)(fp_z_stream *, int flush);
    int (*inflate_reset)(fp_z_stream *);
    int (*inflate_end)(fp_z_stream *);
} fp_zlib_api;

/* LZ4F: LZ4F_preferences_t with its LZ4F_frameInfo_t. */
typedef struct {
    int block_size_id;
    int block_mode;
    int content_checksum;
    int frame_type;
    unsigned long long content_size;
    unsigned dict_id;
    int block_checksum;
    int level;
    unsigned auto_flush;
    unsigned favor_dec_speed;
    unsigned reserved[3];
} fp_lz4f_prefs;

enum {
    FP_LZ4F_VERSION = 100,
    FP_LZ4F_64_KIB = 4,
    FP_LZ4F_256_KIB = 5,
    FP_LZ4F_INDEPENDENT = 1,
    FP_LZ4F_HEADER_MAX = 19,
    FP_LZ4F_LEVEL_FAST = 0,
    FP_LZ4F_LEVEL_FASTER = -1, /* acceleration 2 */
    FP_LZ4F_LEVEL_HC_MIN = 3, /* 1 and 2 are the fast compressor in some versions */
    FP_LZ4F_LEVEL_HC_MAX = 12
};

typedef struct {
    unsigned (*version)(void);
    const char *(*version_text)(void);
    unsigned (*is_error)(size_t);
    size_t (*compress_create)(void **, unsigned version);
    size_t (*compress_free)(void *);
    size_t (*compress_begin)(void *, void *dst, size_t capacity, const fp_lz4f_prefs *);
    size_t (*compress_update)(void *, void *dst, size_t capacity, const void *src, size_t n,
                              const void *options);
    size_t (*compress_end)(void *, void *dst, size_t capacity, const void *options);
    size_t (*decompress_create)(void **, unsigned version);
    size_t (*decompress_free)(void *);
    size_t (*decompress)(void *, void *dst, size_t *dst_size, const void *src, size_t *src_size,
                         const void *options);
} fp_lz4f_api;

/* Zstandard: ZSTD_inBuffer and ZSTD_outBuffer. */
typedef struct {
    const void *src;
    size_t size;
    size_t pos;
} fp_zstd_in;

typedef struct {
    void *dst;
    size_t size;
    size_t pos;
} fp_zstd_out;

enum {
    FP_ZSTD_VERSION_MIN = 10400, /* ZSTD_compressStream2 became stable */
    FP_ZSTD_CONTINUE = 0,
    FP_ZSTD_END = 2,
    FP_ZSTD_RESET_SESSION = 1,
    FP_ZSTD_LEVEL = 100,
    FP_ZSTD_ERROR_MEMORY = 64,
    FP_ZSTD_ERROR_DST_TOO_SMALL = 70
};

typedef struct {
    unsigned (*version)(void);
    const char *(*version_text)(void);
    unsigned (*is_error)(size_t);
    size_t (*bound)(size_t);
    void *(*compress_create)(void);
    size_t (*compress_free)(void *);
    size_t (*compress_reset)(void *, int directive);
    size_t (*compress_set)(void *, int parameter, int value);
    size_t (*compress_pledge)(void *, unsigned long long size);
    size_t (*compress_whole)(void *, void *dst, size_t capacity, const void *src, size_t n);
    size_t (*compress_stream)(void *, fp_zstd_out *, fp_zstd_in *, int operation);
    void *(*decompress_create)(void);
    size_t (*decompress_free)(void *);
    size_t (*decompress_stream)(void *, fp_zstd_out *, fp_zstd_in *);
} fp_zstd_api;

/* memcpy because ISO C has no conversion from an object pointer to a function pointer. */
#define FP_SYMBOL(member, symbol)                   \
    do {                                            \
        void *found = dlsym(handle, symbol);        \
        if (found == NULL) return 0;                \
        memcpy(&t.member, &found, sizeof found);    \
    } while (0)

/* Each returns 1 and fills *api when the handle has every symbol in a fitting version, else 0. */
static inline int fp_zlib_load(fp_zlib_api *api, void *handle) {
    fp_zlib_api t;
    FP_SYMBOL(version_text, "zlibVersion");
    FP_SYMBOL(deflate_init, "deflateInit2_");
    FP_SYMBOL(deflate, "deflate");
    FP_SYMBOL(deflate_reset, "deflateReset");
    FP_SYMBOL(deflate_end, "deflateEnd");
    FP_SYMBOL(deflate_bound, "deflateBound");
    FP_SYMBOL(inflate_init, "inflateInit2_");
    FP_SYMBOL(inflate, "inflate");
    FP_SYMBOL(inflate_reset, "inflateReset");
    FP_SYMBOL(inflate_end, "inflateEnd");
    if (t.version_text()[0] != '1') return 0;
    *api = t;
    return 1;
}

static inline int fp_lz4f_load(fp_lz4f_api *api, void *handle) {
    fp_lz4f_api t;
    FP_SYMBOL(version, "LZ4F_getVersion");
    FP_SYMBOL(version_text, "LZ4_versionString");
    FP_SYMBOL(is_error, "LZ4F_isError");
    FP_SYMBOL(compress_create, "LZ4F_createCompressionContext");
    FP_SYMBOL(compress_free, "LZ4F_freeCompressionContext");
    FP_SYMBOL(compress_begin, "LZ4F_compressBegin");
    FP_SYMBOL(compress_update, "LZ4F_compressUpdate");
    FP_SYMBOL(compress_end, "LZ4F_compressEnd");
    FP_SYMBOL(decompress_create, "LZ4F_createDecompressionContext");
    FP_SYMBOL(decompress_free, "LZ4F_freeDecompressionContext");
    FP_SYMBOL(decompress, "LZ4F_decompress");
    if (t.version() != FP_LZ4F_VERSION) return 0;
    *api = t;
    return 1;
}

static inline int fp_zstd_load(fp_zstd_api *api, void *handle) {
    fp_zstd_api t;
    FP_SYMBOL(version, "ZSTD_versionNumber");
    FP_SYMBOL(version_text, "ZSTD_versionString");
    FP_SYMBOL(is_error, "ZSTD_isError");
    FP_SYMBOL(bound, "ZSTD_compressBound");
    FP_SYMBOL(compress_create, "ZSTD_createCCtx");
    FP_SYMBOL(compress_free, "ZSTD_freeCCtx");
    FP_SYMBOL(compress_reset, "ZSTD_CCtx_reset");
    FP_SYMBOL(compress_set, "ZSTD_CCtx_setParameter");
    FP_SYMBOL(compress_pledge, "ZSTD_CCtx_setPledgedSrcSize");
    FP_SYMBOL(compress_whole, "ZSTD_compress2");
    FP_SYMBOL(compress_stream, "ZSTD_compressStream2");
    FP_SYMBOL(decompress_create, "ZSTD_createDCtx");
    FP_SYMBOL(decompress_free, "ZSTD_freeDCtx");
    FP_SYMBOL(decompress_stream, "ZSTD_decompressStream");
    if (t.version() < FP_ZSTD_VERSION_MIN) return 0;
    *api = t;
    return 1;
}

#undef FP_SYMBOL

/* NULL `path`: the program itself. A handle whose functions are in use must never be closed. */
static inline void *fp_codec_open(const char *path) { return dlopen(path, RTLD_LAZY | RTLD_LOCAL); }

static inline void fp_codec_close(void *handle) { dlclose(handle); }

#endif

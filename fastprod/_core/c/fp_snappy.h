/* Raw Snappy blocks of up to 64 KiB in, any size out, and the xerial framing around them.
 *
 * Format: github.com/google/snappy/blob/main/format_description.txt; xerial stream: contract P-E.6.
 * Compression is greedy: one hash table of 16-bit positions, steps that widen while nothing is
 * found. The decoder trusts nothing: every length and offset is checked before it is used.
 */
#ifndef FP_SNAPPY_H
#define FP_SNAPPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fp_bits.h"

enum {
    FP_SNAPPY_BLOCK = 32 * 1024,  /* uncompressed bytes in one xerial block */
    FP_SNAPPY_TABLE_BITS_MIN = 8,
    FP_SNAPPY_TABLE_BITS_MAX = 14,
    FP_SNAPPY_TABLE_SIZE = 1 << FP_SNAPPY_TABLE_BITS_MAX,
    FP_SNAPPY_TAIL = 15,          /* the last bytes are never searched: loads may run past them */
    FP_XERIAL_HEADER = 16,
    FP_XERIAL_MAGIC = 8,
    FP_SNAPPY_RATIO_MAX = 22      /* no element makes more than 64 bytes out of 3 */
};

static const uint8_t fp_xerial_header[FP_XERIAL_HEADER] = {
    0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1};

/* Most bytes a block of `n` becomes; the slack also covers 16-byte stores past the end. */
static inline size_t fp_snappy_bound(size_t n) { return 32 + n + n / 6; }

static inline uint32_t fp_load32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline uint64_t fp_load64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return v; }
static inline void fp_copy16(uint8_t *to, const uint8_t *from) {
    uint8_t both[16];
    memcpy(both, from, 16);
    memcpy(to, both, 16);
}

/* How many bytes at `a` and `b` (b > a) agree before `end`. */
static inline size_t fp_snappy_agree(const uint8_t *a, const uint8_t *b, const uint8_t *end) {
    const uint8_t *start = b;
    while (end - b >= 8) {
        uint64_t differ = fp_load64(a) ^ fp_load64(b);
        if (differ != 0) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
            return (size_t)(b - start) + (size_t)(__builtin_ctzll(differ) >> 3);
#else
            return (size_t)(b - start) + (size_t)(__builtin_clzll(differ) >> 3);
#endif
        }
        a += 8;
        b += 8;
    }
    while (b < end && *a == *b) {
        a++;
        b++;
    }
    return (size_t)(b - start);
}

/* Write `n` >= 1 literal bytes; `room` is how many may be read at `p` without leaving the input. */
static inline uint8_t *fp_snappy_literal(uint8_t *out, const uint8_t *p, size_t n, size_t room) {
    size_t last = n - 1;
    if (n <= 16 && room >= 16) {
        *out = (uint8_t)(last << 2);
        fp_copy16(out + 1, p);
        return out + 1 + n;
    }
    if (last < 60) {
        *out++ = (uint8_t)(last << 2);
    } else if (last < 256) {
        *out++ = 60 << 2;
        *out++ = (uint8_t)last;
    } else {
        *out++ = 61 << 2;
        *out++ = (uint8_t)last;
        *out++ = (uint8_t)(last >> 8);
    }
    memcpy(out, p, n);
    return out + n;
}

/* Write a copy of `n` >= 4 bytes from `back` bytes ago. */
static inline uint8_t *fp_snappy_copy(uint8_t *out, size_t back, size_t n) {
    while (n > 11 || (n > 0 && (n < 4 || back >= 2048))) {
        size_t piece = n < 64 ? n : 64;
        *out++ = (uint8_t)(2 | (piece - 1) << 2);
        *out++ = (uint8_t)back;
        *out++ = (uint8_t)(back >> 8);
        n -= piece;
    }
    if (n > 0) {
        *out++ = (uint8_t)(1 | (n - 4) << 2 | (back >> 8) << 5);
        *out++ = (uint8_t)back;
    }
    return out;
}

/* Compress one block, 1 <= n <= 65535 bytes, into `out` (fp_snappy_bound(n) bytes must be there).
 * `table` is scratch of FP_SNAPPY_TABLE_SIZE entries. Returns the bytes written. */
static inline size_t fp_snappy_compress(const uint8_t *in, size_t n, uint8_t *out, uint16_t *table) {
    uint8_t *start = out;
    size_t left = n;
    for (; left >= 0x80; left >>= 7) *out++ = (uint8_t)(left | 0x80);
    *out++ = (uint8_t)left;

    int bits = FP_SNAPPY_TABLE_BITS_MIN;
    while (bits < FP_SNAPPY_TABLE_BITS_MAX && ((size_t)1 << bits) < n) bits++;
    memset(table, 0, sizeof *table << bits);
    size_t literal_from = 0;
    uint32_t misses = 0;
    /* Position 0 is what an empty slot says, so the search starts at 1. */
    for (size_t at = 1; at + FP_SNAPPY_TAIL <= n;) {
        uint32_t word = fp_load32(in + at);
        uint16_t *slot = table + ((word * 0x9E3779B1U) >> (32 - bits));
        size_t from = *slot;
        *slot = (uint16_t)at;
        if (fp_load32(in + from) != word) {
            at += 1 + (misses++ >> 5);
            continue;
        }
        misses = 0;
        if (at > literal_from)
            out = fp_snappy_literal(out, in + literal_from, at - literal_from, n - literal_from);
        size_t same = 4 + fp_snappy_agree(in + from + 4, in + at + 4, in + n);
        out = fp_snappy_copy(out, at - from, same);
        at += same;
        literal_from = at;
        if (at + FP_SNAPPY_TAIL <= n) {
            word = fp_load32(in + at - 1);
            table[(word * 0x9E3779B1U) >> (32 - bits)] = (uint16_t)(at - 1);
        }
    }
    if (literal_from < n) out = fp_snappy_literal(out, in + literal_from, n - literal_from, 0);
    return (size_t)(out - start);
}

/* Read the length in front of a raw block. Returns the bytes it takes, 0 when it is not sound. */
static inline size_t fp_snappy_length(const uint8_t *p, size_t n, size_t *length) {
    uint64_t value = 0;
    for (size_t i = 0; i < 5 && i < n; i++) {
        value |= (uint64_t)(p[i] & 0x7F) << (7 * i);
        if (p[i] < 0x80) {
            *length = (size_t)value;
            return value > 0xFFFFFFFFU ? 0 : i + 1;
        }
    }
    return 0;
}

/* Repeat what lies `back` bytes before `o`, `n` <= 64 bytes; `room` bytes may be written at `o`. */
static inline void fp_snappy_repeat(uint8_t *o, size_t back, size_t n, size_t room) {
    const uint8_t *from = o - back;
    if (back >= 16 && room >= 64) {
        for (size_t i = 0; i < n; i += 16) fp_copy16(o + i, from + i);
    } else if (back >= n) {
        memcpy(o, from, n);
    } else {
        for (size_t i = 0; i < n; i++) o[i] = from[i];
    }
}

/* Decode the elements [p, end) into exactly `size` bytes. Returns 1, or 0 when they do not fit. */
static inline int fp_snappy_decode(const uint8_t *p, const uint8_t *end, uint8_t *out, size_t size) {
    uint8_t *o = out;
    uint8_t *o_end = out + size;
    while (p < end) {
        uint32_t tag = *p++;
        size_t in_left = (size_t)(end - p);
        size_t room = (size_t)(o_end - o);
        size_t n, back;
        if ((tag & 3) == 0) {
            n = (tag >> 2) + 1;
            if (n <= 16 && in_left >= 16 && room >= 16) {
                fp_copy16(o, p);
            } else {
                if (n > 60) {
                    size_t extra = n - 60;
                    if (in_left < extra) return 0;
                    n = 1;
                    for (size_t i = 0; i < extra; i++) n += (size_t)p[i] << (8 * i);
                    p += extra;
                    in_left -= extra;
                }
                if (n > in_left || n > room) return 0;
                memcpy(o, p, n);
            }
            p += n;
            o += n;
            continue;
        }
        size_t width = (tag & 3) == 3 ? 4 : tag & 3;
        if (in_left < width) return 0;
        if (width == 1) {
            n = 4 + ((tag >> 2) & 7);
            back = (tag >> 5) << 8 | p[0];
        } else {
            n = 1 + (tag >> 2);
            back = p[0] | (size_t)p[1] << 8;
            if (width == 4) back |= (size_t)p[2] << 16 | (size_t)p[3] << 24;
        }
        p += width;
        if (back == 0 || back > (size_t)(o - out) || n > room) return 0;
        fp_snappy_repeat(o, back, n, room);
        o += n;
    }
    return o == o_end;
}

/* Whether a xerial stream starts at `p`. */
static inline int fp_xerial_starts(const uint8_t *p, size_t n) {
    return n >= FP_XERIAL_HEADER && memcmp(p, fp_xerial_header, FP_XERIAL_MAGIC) == 0;
}

#endif

/* CRC-32C (Castagnoli) in several ways; the machine decides at run time, and each way has a name.
 *
 * Registers are bit-reflected: bit 31 is the coefficient of x^0. "Multiply" here means a carry-less
 * product followed by one 64-bit CRC step, which gives a * b * x^33 modulo P. Constants are
 * therefore stored divided by x^33, so the hardware and the table do the same arithmetic.
 *
 * State: the tables below, written once by fp_crc32c_setup() and read-only afterwards. They are
 * static, so include this header from one translation unit of a program.
 */
#ifndef FP_CRC32C_H
#define FP_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "fp_bits.h"

#define FP_CRC32C_POLY 0x82F63B78U
#define FP_CRC32C_LANE_WORDS 128  /* longest lane: 3 KiB a round, 2 KiB of constants */
#define FP_CRC32C_LANES_MIN 96    /* below it one lane is done before three are merged */

typedef uint32_t (*fp_crc32c_update)(uint32_t crc, const uint8_t *p, size_t n); /* finished CRCs */
typedef uint32_t (*fp_crc32c_multiply)(uint32_t a, uint32_t b);

typedef struct {
    const char *name;
    fp_crc32c_update update;
    fp_crc32c_multiply multiply;
} fp_crc32c_path;

static uint32_t fp_crc32c_table[8][256];
static uint32_t fp_crc32c_power[64]; /* [i] = x^(8 * 2^i - 33): moves a CRC over 2^i bytes */
static uint32_t fp_crc32c_lane[FP_CRC32C_LANE_WORDS + 1][2]; /* [k] = over k and over 2k words */

static fp_crc32c_path fp_crc32c_paths[3]; /* the usable ones, fastest first */
static int fp_crc32c_path_count;

static inline uint32_t fp_crc32c_table_step(uint32_t crc, uint32_t low, uint32_t high) {
    low ^= crc;
    return fp_crc32c_table[7][low & 0xFF] ^ fp_crc32c_table[6][(low >> 8) & 0xFF] ^
           fp_crc32c_table[5][(low >> 16) & 0xFF] ^ fp_crc32c_table[4][low >> 24] ^
           fp_crc32c_table[3][high & 0xFF] ^ fp_crc32c_table[2][(high >> 8) & 0xFF] ^
           fp_crc32c_table[1][(high >> 16) & 0xFF] ^ fp_crc32c_table[0][high >> 24];
}

static inline uint32_t fp_crc32c_table_update(uint32_t crc, const uint8_t *p, size_t n) {
    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        crc = fp_crc32c_table_step(crc, fp_get_u32_le(p), fp_get_u32_le(p + 4));
    }
    for (; n != 0; n--, p++) crc = (crc >> 8) ^ fp_crc32c_table[0][(crc ^ *p) & 0xFF];
    return ~crc;
}

static inline uint32_t fp_crc32c_table_multiply(uint32_t a, uint32_t b) {
    uint64_t product = 0;
    for (int i = 0; i < 32; i++) product ^= ((uint64_t)b << i) & (0 - (uint64_t)((a >> i) & 1));
    return fp_crc32c_table_step(0, (uint32_t)product, (uint32_t)(product >> 32));
}

/* The instructions of each processor family, under one set of names, for the code below.
 * A state is as wide as the instruction's result, so that no widening sits between two steps. */
#if defined(__x86_64__)
#include <nmmintrin.h>
#include <wmmintrin.h>
#define FP_CRC32C_ONE_NAME "sse4.2"
#define FP_CRC32C_THREE_NAME "sse4.2+pclmul"
#define FP_CRC32C_ONE __attribute__((target("sse4.2")))
#define FP_CRC32C_THREE __attribute__((target("sse4.2,pclmul")))
typedef uint64_t fp_crc32c_state;
#define fp_crc32c_step8(c, v) ((fp_crc32c_state)_mm_crc32_u8((uint32_t)(c), v))
#define fp_crc32c_step16(c, v) ((fp_crc32c_state)_mm_crc32_u16((uint32_t)(c), v))
#define fp_crc32c_step32(c, v) ((fp_crc32c_state)_mm_crc32_u32((uint32_t)(c), v))
#define fp_crc32c_step64(c, v) _mm_crc32_u64(c, v)

static inline int fp_crc32c_can_step(void) { return __builtin_cpu_supports("sse4.2") != 0; }
static inline int fp_crc32c_can_multiply(void) { return __builtin_cpu_supports("pclmul") != 0; }

FP_CRC32C_THREE static inline uint64_t fp_crc32c_product(uint64_t a, uint64_t b) {
    __m128i x = _mm_cvtsi64_si128((long long)a), y = _mm_cvtsi64_si128((long long)b);
    return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(x, y, 0));
}

#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <arm_neon.h>
#define FP_CRC32C_ONE_NAME "armv8"
#define FP_CRC32C_THREE_NAME "armv8+pmull"
typedef uint32_t fp_crc32c_state;
#ifdef __clang__ /* its arm_acle.h hides the instructions before clang 16 without an -march */
#define FP_CRC32C_ONE __attribute__((target("crc")))
#define FP_CRC32C_THREE __attribute__((target("crc,aes")))
#define fp_crc32c_step8(c, v) __builtin_arm_crc32cb(c, v)
#define fp_crc32c_step16(c, v) __builtin_arm_crc32ch(c, v)
#define fp_crc32c_step32(c, v) __builtin_arm_crc32cw(c, v)
#define fp_crc32c_step64(c, v) __builtin_arm_crc32cd(c, v)
#else
#include <arm_acle.h>
#define FP_CRC32C_ONE __attribute__((target("+crc")))
#define FP_CRC32C_THREE __attribute__((target("+crc+crypto")))
#define fp_crc32c_step8(c, v) __crc32cb(c, v)
#define fp_crc32c_step16(c, v) __crc32ch(c, v)
#define fp_crc32c_step32(c, v) __crc32cw(c, v)
#define fp_crc32c_step64(c, v) __crc32cd(c, v)
#endif
#ifdef __APPLE__ /* every 64-bit Apple processor has both */
static inline int fp_crc32c_can_step(void) { return 1; }
static inline int fp_crc32c_can_multiply(void) { return 1; }
#else
#include <sys/auxv.h>
static inline int fp_crc32c_can_step(void) { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
static inline int fp_crc32c_can_multiply(void) { return (getauxval(AT_HWCAP) & HWCAP_PMULL) != 0; }
#endif

FP_CRC32C_THREE static inline uint64_t fp_crc32c_product(uint64_t a, uint64_t b) {
    return vgetq_lane_u64(vreinterpretq_u64_p128(vmull_p64((poly64_t)a, (poly64_t)b)), 0);
}
#endif

#ifdef FP_CRC32C_ONE_NAME
static inline uint64_t fp_crc32c_load64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8); /* not a cast: the address need not be aligned */
    return v;
}

static inline uint16_t fp_crc32c_load16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, 2);
    return v;
}

FP_CRC32C_ONE static inline fp_crc32c_state fp_crc32c_finish(
    fp_crc32c_state c, const uint8_t *p, size_t n
) {
    for (; n >= 8; n -= 8, p += 8) c = fp_crc32c_step64(c, fp_crc32c_load64(p));
    if (n & 4) { c = fp_crc32c_step32(c, fp_get_u32_le(p)); p += 4; }
    if (n & 2) { c = fp_crc32c_step16(c, fp_crc32c_load16(p)); p += 2; }
    if (n & 1) c = fp_crc32c_step8(c, *p);
    return c;
}

FP_CRC32C_ONE static inline uint32_t fp_crc32c_one_update(
    uint32_t crc, const uint8_t *p, size_t n
) {
    return ~(uint32_t)fp_crc32c_finish((fp_crc32c_state)(uint32_t)~crc, p, n);
}

/* One step takes three cycles but one can start in every cycle, so three lanes side by side hide
 * the latency. The first two are moved over what follows them and folded into the last word of the
 * third, which costs no step of its own. */
FP_CRC32C_THREE static inline uint32_t fp_crc32c_three_update(
    uint32_t crc, const uint8_t *p, size_t n
) {
    fp_crc32c_state a = (uint32_t)~crc, b, c;
    while (n >= FP_CRC32C_LANES_MIN) {
        size_t words = n / 24;
        if (words > FP_CRC32C_LANE_WORDS) words = FP_CRC32C_LANE_WORDS;
        size_t lane = words * 8;
        const uint32_t *over = fp_crc32c_lane[words];
        const uint8_t *last = p + lane - 8;
        b = c = 0;
        for (; p < last; p += 8) {
            a = fp_crc32c_step64(a, fp_crc32c_load64(p));
            b = fp_crc32c_step64(b, fp_crc32c_load64(p + lane));
            c = fp_crc32c_step64(c, fp_crc32c_load64(p + 2 * lane));
        }
        a = fp_crc32c_step64(a, fp_crc32c_load64(p));
        b = fp_crc32c_step64(b, fp_crc32c_load64(p + lane));
        a = fp_crc32c_step64(c, fp_crc32c_load64(p + 2 * lane) ^ fp_crc32c_product(a, over[1]) ^
                                    fp_crc32c_product(b, over[0]));
        p += 2 * lane + 8;
        n -= 3 * lane;
    }
    return ~(uint32_t)fp_crc32c_finish(a, p, n);
}

FP_CRC32C_THREE static inline uint32_t fp_crc32c_three_multiply(uint32_t a, uint32_t b) {
    return (uint32_t)fp_crc32c_step64(0, fp_crc32c_product(a, b));
}
#endif

static inline void fp_crc32c_fill_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t v = i;
        for (int bit = 0; bit < 8; bit++) v = (v >> 1) ^ (FP_CRC32C_POLY & (0 - (v & 1)));
        fp_crc32c_table[0][i] = v;
    }
    for (int k = 1; k < 8; k++) {
        for (int i = 0; i < 256; i++) {
            uint32_t v = fp_crc32c_table[k - 1][i];
            fp_crc32c_table[k][i] = (v >> 8) ^ fp_crc32c_table[0][v & 0xFF];
        }
    }
}

static inline void fp_crc32c_fill_powers(void) {
    uint32_t v = 1U << 31; /* x^0; each round divides by x: 8 - 33 is -25 */
    for (int i = 0; i < 25; i++) v = (v >> 31) ? ((v ^ FP_CRC32C_POLY) << 1) | 1 : v << 1;
    for (int i = 0; i < 64; i++) {
        fp_crc32c_power[i] = v;
        v = fp_crc32c_table_multiply(v, v);
    }
    v = fp_crc32c_power[3];
    for (int k = 1; k <= FP_CRC32C_LANE_WORDS; k++) {
        fp_crc32c_lane[k][0] = v;
        fp_crc32c_lane[k][1] = fp_crc32c_table_multiply(v, v);
        v = fp_crc32c_table_multiply(v, fp_crc32c_power[3]);
    }
}

/* Fill the tables and list the paths this machine can run. Call it once, before any other thread
 * can reach the rest. */
static inline void fp_crc32c_setup(void) {
    int count = 0;
    fp_crc32c_fill_tables();
    fp_crc32c_fill_powers();
#ifdef FP_CRC32C_ONE_NAME
    if (fp_crc32c_can_step() && fp_crc32c_can_multiply()) {
        fp_crc32c_paths[count++] = (fp_crc32c_path){
            FP_CRC32C_THREE_NAME, fp_crc32c_three_update, fp_crc32c_three_multiply};
    }
    if (fp_crc32c_can_step()) {
        fp_crc32c_paths[count++] = (fp_crc32c_path){
            FP_CRC32C_ONE_NAME, fp_crc32c_one_update, fp_crc32c_table_multiply};
    }
#endif
    fp_crc32c_paths[count++] = (fp_crc32c_path){
        "table", fp_crc32c_table_update, fp_crc32c_table_multiply};
    fp_crc32c_path_count = count;
}

/* Finished CRC of A+B from those of A and B: A's is moved over `len_b` bytes, one multiplication
 * for each bit set in `len_b`. */
static inline uint32_t fp_crc32c_combine(
    fp_crc32c_multiply multiply, uint32_t crc_a, uint32_t crc_b, uint64_t len_b
) {
    for (; len_b != 0; len_b &= len_b - 1) {
        crc_a = multiply(crc_a, fp_crc32c_power[__builtin_ctzll(len_b)]);
    }
    return crc_a ^ crc_b;
}

#endif

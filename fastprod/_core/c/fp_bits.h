/* Unaligned big-endian loads and stores, and leading zeros. */
#ifndef FP_BITS_H
#define FP_BITS_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FP_BE16(v) __builtin_bswap16(v)
#define FP_BE32(v) __builtin_bswap32(v)
#define FP_BE64(v) __builtin_bswap64(v)
#define FP_LE32(v) (v)
#else
#define FP_BE16(v) (v)
#define FP_BE32(v) (v)
#define FP_BE64(v) (v)
#define FP_LE32(v) __builtin_bswap32(v)
#endif

static inline void fp_put_u16(uint8_t *p, uint16_t v) { v = FP_BE16(v); memcpy(p, &v, 2); }
static inline void fp_put_u32(uint8_t *p, uint32_t v) { v = FP_BE32(v); memcpy(p, &v, 4); }
static inline void fp_put_u64(uint8_t *p, uint64_t v) { v = FP_BE64(v); memcpy(p, &v, 8); }
static inline uint16_t fp_get_u16(const uint8_t *p) { uint16_t v; memcpy(&v, p, 2); return FP_BE16(v); }
static inline uint32_t fp_get_u32(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return FP_BE32(v); }
static inline uint64_t fp_get_u64(const uint8_t *p) { uint64_t v; memcpy(&v, p, 8); return FP_BE64(v); }
static inline uint32_t fp_get_u32_le(const uint8_t *p) { uint32_t v; memcpy(&v, p, 4); return FP_LE32(v); }
static inline int fp_clz64(uint64_t v) { return __builtin_clzll(v); }

#endif

"""Big-endian loads and stores on raw pointers. Nothing is bounds-checked here."""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "c/fp_bits.h" nogil:
    void fp_put_u16(uint8_t* p, uint16_t v) noexcept
    void fp_put_u32(uint8_t* p, uint32_t v) noexcept
    void fp_put_u64(uint8_t* p, uint64_t v) noexcept
    uint16_t fp_get_u16(const uint8_t* p) noexcept
    uint32_t fp_get_u32(const uint8_t* p) noexcept
    uint64_t fp_get_u64(const uint8_t* p) noexcept
    uint32_t fp_get_u32_le(const uint8_t* p) noexcept
    int fp_clz64(uint64_t v) noexcept

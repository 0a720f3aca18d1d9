"""Doors for tests to the loads and stores of wire.pxd; the engine cimports those directly."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset


def put_for_test(uint64_t value):
    cdef uint8_t out[18]
    memset(out, 0, sizeof(out))
    fp_put_u16(out, <uint16_t>value)
    fp_put_u32(out + 2, <uint32_t>value)
    fp_put_u64(out + 6, value)
    fp_put_u32_le(out + 14, <uint32_t>value)
    return out[:2], out[2:6], out[6:14], out[14:18]


def get_for_test(bytes data, size_t offset):
    cdef const uint8_t* p = data
    if offset > <size_t>len(data) or <size_t>len(data) - offset < 8:
        raise ValueError(f"8 bytes are read at offset {offset}, but there are {len(data)}")
    p += offset
    return fp_get_u16(p), fp_get_u32(p), fp_get_u64(p), fp_get_u32_le(p)


def leading_zeros_for_test(uint64_t value):
    if value == 0:
        raise ValueError("the leading zeros of 0 are undefined: give 1 or more")
    return fp_clz64(value)

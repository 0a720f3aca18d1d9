"""Integers and decimals as text, in the forms of Java's toString.

Every `put` writes at `at`, where there must be room, and returns the end of what it wrote.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

cdef enum:
    DECIMAL_BYTES = 72      # the most that put_decimal writes, if -20 <= scale <= 38

cdef uint8_t* put_integer(uint8_t* at, int64_t number) noexcept nogil
cdef uint8_t* put_unsigned(uint8_t* at, uint64_t number) noexcept nogil
# The number padded with zeros to `width` digits, or more if it has more.
cdef uint8_t* put_padded(uint8_t* at, uint64_t number, int32_t width) noexcept nogil
# A 128-bit integer of this machine's byte order, times 10**-scale; java.math.BigDecimal.toString.
cdef uint8_t* put_decimal(uint8_t* at, const uint8_t* number, int32_t scale) noexcept nogil
cdef int32_t digit_count(uint64_t number) noexcept nogil

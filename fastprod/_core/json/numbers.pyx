"""Writes integers and decimals as text, as Java does."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memmove, memset

cdef extern from "c/fp_bits.h" nogil:
    int fp_clz64(uint64_t number)

cdef extern from *:
    """
    typedef unsigned __int128 fp_uint128;
    static const uint8_t FP_IS_LITTLE = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    """
    ctypedef unsigned long long fp_uint128
    const uint8_t FP_IS_LITTLE

cdef enum:
    SMALLEST_EXPONENT = -6      # of a decimal that is written without an E

cdef uint8_t _PAIRS[200]
cdef uint64_t _POWERS[20]


cdef void _fill_tables() noexcept:
    cdef int32_t i
    cdef uint64_t power = 1
    for i in range(100):
        _PAIRS[2 * i] = c'0' + i // 10
        _PAIRS[2 * i + 1] = c'0' + i % 10
    for i in range(20):
        _POWERS[i] = power
        power *= 10


_fill_tables()


cdef int32_t digit_count(uint64_t number) noexcept nogil:
    # 1233 / 4096 is log10(2), near enough for 64 bits.
    cdef int32_t guess = (64 - fp_clz64(number | 1)) * 1233 >> 12
    return guess + (number >= _POWERS[guess]) if number != 0 else 1


cdef void _put_digits(uint8_t* end, uint64_t number, int32_t count) noexcept nogil:
    """The last `count` digits, the last one before `end`."""
    cdef uint64_t rest
    while count >= 2:
        rest = number // 100
        end -= 2
        memcpy(end, _PAIRS + 2 * (number - rest * 100), 2)
        number = rest
        count -= 2
    if count:
        (end - 1)[0] = c'0' + <uint8_t>(number % 10)


cdef uint8_t* put_unsigned(uint8_t* at, uint64_t number) noexcept nogil:
    cdef int32_t count = digit_count(number)
    _put_digits(at + count, number, count)
    return at + count


cdef uint8_t* put_integer(uint8_t* at, int64_t number) noexcept nogil:
    if number >= 0:
        return put_unsigned(at, <uint64_t>number)
    at[0] = c'-'
    return put_unsigned(at + 1, 0 - <uint64_t>number)


cdef uint8_t* put_padded(uint8_t* at, uint64_t number, int32_t width) noexcept nogil:
    cdef int32_t count = max(width, digit_count(number))
    _put_digits(at + count, number, min(count, <int32_t>20))
    if count > 20:
        memset(at, c'0', count - 20)
    return at + count


cdef int32_t _wide_digits(uint8_t* at, uint64_t high, uint64_t low) noexcept nogil:
    """All digits of a number of 128 bits; how many there are."""
    cdef fp_uint128 number
    cdef fp_uint128 rest
    cdef uint8_t* begin = at
    if high == 0:
        return <int32_t>(put_unsigned(at, low) - at)
    number = (<fp_uint128>high << 64) | low
    rest = number // _POWERS[19]
    low = <uint64_t>(number - rest * _POWERS[19])
    at = put_unsigned(at, <uint64_t>rest)       # below 2**127 / 10**19, which 64 bits hold
    return <int32_t>(put_padded(at, low, 19) - begin)


cdef uint8_t* _put_scientific(uint8_t* at, int32_t count, int32_t exponent) noexcept nogil:
    """`count` digits are at `at` already."""
    if count > 1:
        memmove(at + 2, at + 1, count - 1)
        at[1] = c'.'
        at += 1
    at += count
    at[0] = c'E'
    at[1] = c'-' if exponent < 0 else c'+'
    return put_unsigned(at + 2, <uint64_t>(-exponent if exponent < 0 else exponent))


cdef uint8_t* put_decimal(uint8_t* at, const uint8_t* number, int32_t scale) noexcept nogil:
    cdef uint64_t words[2]
    cdef uint64_t low, high
    cdef int32_t count, zero_count
    memcpy(words, number, 16)
    low = words[0] if FP_IS_LITTLE else words[1]
    high = words[1] if FP_IS_LITTLE else words[0]
    if high >> 63:
        at[0] = c'-'
        at += 1
        low = 0 - low
        high = ~high + (low == 0)
    count = _wide_digits(at, high, low)
    if scale == 0:
        return at + count
    if scale < 0 or count - 1 - scale < SMALLEST_EXPONENT:
        return _put_scientific(at, count, count - 1 - scale)
    zero_count = scale + 1 - count      # to put in front
    if zero_count > 0:
        memmove(at + zero_count, at, count)
        memset(at, c'0', zero_count)
        count += zero_count
    memmove(at + count - scale + 1, at + count - scale, scale)
    at[count - scale] = c'.'
    return at + count + 1

"""Finds the shortest digits of floats (Schubfach) and writes them as Java does.

The digits are found by Schubfach (R. Giulietti, "The Schubfach way to render doubles", 2020): the
numbers that round to `c * 2**q` are an interval; scaled by a power of ten so that it holds one
integer or two, or one multiple of ten, which then has the fewest digits.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from fastprod._core.json.numbers cimport digit_count, put_unsigned

cdef extern from *:
    """
    static inline uint64_t fp_high64(uint64_t a, uint64_t b) {
        return (uint64_t)(((unsigned __int128)a * b) >> 64);
    }
    """
    uint64_t fp_high64(uint64_t a, uint64_t b) noexcept nogil

cdef enum:
    LOWEST_POWER = -292
    HIGHEST_POWER = 324
    DOUBLE_BITS = 52        # of a fraction
    FLOAT_BITS = 23
    DOUBLE_BIAS = 1075      # of an exponent, for a fraction that is an integer
    FLOAT_BIAS = 150

cdef struct Power:
    # The first 128 bits of a power of ten, rounded up.
    uint64_t high
    uint64_t low

cdef struct Decimal:
    uint64_t digits
    int32_t exponent

cdef Power _POWERS[HIGHEST_POWER - LOWEST_POWER + 1]


cdef int _fill_powers() except -1:
    for power in range(LOWEST_POWER, HIGHEST_POWER + 1):
        if power >= 0:
            exact, shift = 10 ** power, (10 ** power).bit_length() - 128
            bits = exact << -shift if shift <= 0 else -(-exact >> shift)
        else:
            divisor = 10 ** -power
            bits = -(-(1 << (127 + divisor.bit_length())) // divisor)
            if bits.bit_length() > 128:
                bits = -(-(1 << (126 + divisor.bit_length())) // divisor)
        _POWERS[power - LOWEST_POWER].high = bits >> 64
        _POWERS[power - LOWEST_POWER].low = bits & 0xFFFFFFFFFFFFFFFF
    return 0


_fill_powers()


cdef inline int32_t _log10_of_power_of_2(int32_t power, bint is_narrow) noexcept nogil:
    """floor(log10(2**power)), or of three quarters of it."""
    return (power * 1262611 - (524031 if is_narrow else 0)) >> 22


cdef inline int32_t _log2_of_power_of_10(int32_t power) noexcept nogil:
    return (power * 1741647) >> 19


cdef inline uint64_t _scaled_double(const Power* power, uint64_t c) noexcept nogil:
    """The product's upper part; its last bit is set if anything was cut off."""
    cdef uint64_t middle = power.high * c
    cdef uint64_t low = fp_high64(power.low, c)
    cdef uint64_t high = fp_high64(power.high, c)
    middle += low
    high += middle < low
    return high | (middle > 1)


cdef inline uint64_t _scaled_float(const Power* power, uint64_t c) noexcept nogil:
    """The same for 32 bits, where the first 64 bits of the power suffice."""
    cdef uint64_t rounded_up = power.high + (power.low != 0)
    cdef uint64_t high = fp_high64(rounded_up, c)
    cdef uint32_t middle = <uint32_t>((rounded_up * c) >> 32)
    return high | (middle > 1)


cdef inline Decimal _shortest(uint64_t c, int32_t q, bint is_narrow, bint is_float) noexcept nogil:
    """Of c * 2**q. `is_narrow`: the next number below is nearer than the one above."""
    cdef int32_t k = _log10_of_power_of_2(q, is_narrow)
    cdef int32_t shift = q + _log2_of_power_of_10(-k) + 1
    cdef const Power* power = &_POWERS[-k - LOWEST_POWER]
    cdef uint64_t is_odd = c & 1
    cdef uint64_t lower, middle, upper, s, tens
    cdef bint low_fits, high_fits
    cdef Decimal found
    c <<= 2
    if is_float:
        lower = _scaled_float(power, (c - 2 + is_narrow) << shift)
        middle = _scaled_float(power, c << shift)
        upper = _scaled_float(power, (c + 2) << shift)
    else:
        lower = _scaled_double(power, (c - 2 + is_narrow) << shift)
        middle = _scaled_double(power, c << shift)
        upper = _scaled_double(power, (c + 2) << shift)
    lower += is_odd
    upper -= is_odd
    s = middle >> 2
    if s >= 10:
        tens = s // 10
        low_fits = lower <= 40 * tens
        high_fits = 40 * tens + 40 <= upper
        if low_fits != high_fits:
            found.digits = tens + high_fits
            found.exponent = k + 1
            return found
    low_fits = lower <= 4 * s
    high_fits = 4 * s + 4 <= upper
    if low_fits == high_fits:       # both or none: the nearer one, or the even one
        high_fits = middle > 4 * s + 2 or (middle == 4 * s + 2 and (s & 1) != 0)
    found.digits = s + high_fits
    found.exponent = k
    return found


cdef inline void _drop_zeros(Decimal* number) noexcept nogil:
    if number.digits % 100000000 == 0:
        number.digits //= 100000000
        number.exponent += 8
    while number.digits % 10 == 0:
        number.digits //= 10
        number.exponent += 1


cdef uint8_t* _put(uint8_t* at, Decimal number) noexcept nogil:
    cdef int32_t count, point
    _drop_zeros(&number)
    count = digit_count(number.digits)
    point = count + number.exponent     # digits before the point
    if 0 < point <= 7:
        at = put_unsigned(at, number.digits)
        if point >= count:
            memset(at, c'0', point - count)
            at += point - count
            at[0] = c'.'
            at[1] = c'0'
            return at + 2
        memmove(at - count + point + 1, at - count + point, count - point)
        at[point - count] = c'.'
        return at + 1
    if -3 < point <= 0:
        at[0] = c'0'
        at[1] = c'.'
        memset(at + 2, c'0', -point)
        return put_unsigned(at + 2 - point, number.digits)
    put_unsigned(at + 1, number.digits)
    at[0] = at[1]
    at[1] = c'.'
    if count == 1:
        at[2] = c'0'
        count = 2
    at += count + 1
    at[0] = c'E'
    at += 1
    point -= 1
    if point < 0:
        at[0] = c'-'
        at += 1
        point = -point
    return put_unsigned(at, <uint64_t>point)


cdef uint8_t* _put_infinite(uint8_t* at, bint is_negative, bint is_nan) noexcept nogil:
    if is_nan:
        memcpy(at, b"NaN", 3)
        return at + 3
    if is_negative:
        at[0] = c'-'
        at += 1
    memcpy(at, b"Infinity", 8)
    return at + 8


cdef uint8_t* _put_zero(uint8_t* at) noexcept nogil:
    memcpy(at, b"0.0", 3)
    return at + 3


cdef uint8_t* put_double(uint8_t* at, double number) noexcept nogil:
    cdef uint64_t bits, fraction
    cdef int32_t exponent
    cdef Decimal whole
    memcpy(&bits, &number, 8)
    fraction = bits & ((<uint64_t>1 << DOUBLE_BITS) - 1)
    exponent = <int32_t>(bits >> DOUBLE_BITS) & 0x7FF
    if exponent == 0x7FF:
        return _put_infinite(at, bits >> 63, fraction != 0)
    if bits >> 63:
        at[0] = c'-'
        at += 1
    if exponent == 0:
        if fraction == 0:
            return _put_zero(at)
        return _put(at, _shortest(fraction, 1 - DOUBLE_BIAS, False, False))
    number = -number if number < 0 else number
    if 1.0 <= number < 9007199254740992.0 and <double><int64_t>number == number:
        whole.digits = <uint64_t>number
        whole.exponent = 0
        return _put(at, whole)
    return _put(at, _shortest(
        fraction | (<uint64_t>1 << DOUBLE_BITS), exponent - DOUBLE_BIAS,
        fraction == 0 and exponent > 1, False))


cdef uint8_t* put_float(uint8_t* at, float number) noexcept nogil:
    cdef uint32_t bits, fraction
    cdef int32_t exponent
    memcpy(&bits, &number, 4)
    fraction = bits & ((<uint32_t>1 << FLOAT_BITS) - 1)
    exponent = <int32_t>(bits >> FLOAT_BITS) & 0xFF
    if exponent == 0xFF:
        return _put_infinite(at, bits >> 31, fraction != 0)
    if bits >> 31:
        at[0] = c'-'
        at += 1
    if exponent == 0:
        if fraction == 0:
            return _put_zero(at)
        return _put(at, _shortest(fraction, 1 - FLOAT_BIAS, False, True))
    return _put(at, _shortest(
        fraction | (<uint32_t>1 << FLOAT_BITS), exponent - FLOAT_BIAS,
        fraction == 0 and exponent > 1, True))

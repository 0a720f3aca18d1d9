"""Floating-point numbers as the shortest text that reads back as the same number.

The form is that of Java's Double.toString and Float.toString: 1.0, 0.001, 1.0E7, NaN, -Infinity.
The digits are the fewest there are, as in Java since 19 (older ones write some more at times).
"""
from libc.stdint cimport uint8_t

cdef enum:
    FLOAT_BYTES = 32        # the most that is written

# Write at `at`, where there must be room; the end of what was written.
cdef uint8_t* put_double(uint8_t* at, double number) noexcept nogil
cdef uint8_t* put_float(uint8_t* at, float number) noexcept nogil

"""Dates and times as text, by patterns of java.time.format, and the offsets of zones."""
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    MOST_PARTS = 64
    TIME_OF_DAY_BYTES = 32  # the most that put_time_of_day writes

cdef struct TimePart:
    uint8_t kind
    uint8_t width
    uint8_t byte            # PART_BYTE

cdef struct TimeParts:
    TimePart parts[MOST_PARTS]
    int32_t count
    int32_t largest_bytes   # the most that put_time writes

cdef struct ZoneTable:
    # OWNER a ZoneOffsets.
    int64_t* starts_s       # since the epoch: from when on an offset holds
    int32_t* offsets_s      # one more: [0] is before the first start
    int32_t count           # of starts
    int64_t repeats_from_s  # later times are 400 years' multiples after those before

cdef class TimePattern:
    cdef TimeParts parts

cdef class ZoneOffsets:
    cdef ZoneTable table

# What to add to a UTC time in `zone`. `hint`: where the last one was found, 0 at first.
cdef int32_t zone_offset(const ZoneTable* zone, int64_t time_s, int32_t* hint) noexcept nogil
# Write at `at`, where there must be room; the end of what was written.
cdef uint8_t* put_time(
    uint8_t* at, const TimeParts* parts, int64_t day, int64_t nano_of_day, int32_t offset_s
) noexcept nogil
# HH:mm:ss and as many digits of a fraction as it has; the number itself if it is no time of day.
cdef uint8_t* put_time_of_day(uint8_t* at, int64_t number, int64_t units_per_s) noexcept nogil

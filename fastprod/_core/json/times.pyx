"""Writes times and dates as text, as Spark does."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from fastprod._core.json.numbers cimport put_integer, put_padded

cdef enum:
    PART_BYTE = 0
    PART_YEAR = 1           # with a sign from width + 1 digits on, if the width is 4 or more
    PART_YEAR_OF_CENTURY = 2
    PART_MONTH = 3
    PART_DAY = 4
    PART_HOUR = 5
    PART_MINUTE = 6
    PART_SECOND = 7
    PART_FRACTION = 8
    PART_OFFSET = 9         # Z if it is zero
    PART_OFFSET_DIGITS = 10
    YEAR_BYTES = 21
    DAYS_OF_400_YEARS = 146097
    DAY_S = 86400
    NANOS_PER_S = 1000000000

cdef extern from *:
    const int64_t FOR_EVER "INT64_MAX"

cdef dict _KINDS = {
    "y": PART_YEAR, "M": PART_MONTH, "d": PART_DAY, "H": PART_HOUR, "m": PART_MINUTE,
    "s": PART_SECOND, "S": PART_FRACTION, "X": PART_OFFSET, "x": PART_OFFSET_DIGITS,
}


cdef class TimePattern:
    """A compiled pattern."""

    def __cinit__(self, list parts):
        cdef TimePart* part
        if len(parts) > MOST_PARTS:
            raise ValueError(f"a pattern has up to {MOST_PARTS} parts, not {len(parts)}")
        for letter, width in parts:
            part = &self.parts.parts[self.parts.count]
            self.parts.count += 1
            if width == 0:
                part.kind = PART_BYTE
                part.byte = <uint8_t>ord(letter)
                self.parts.largest_bytes += 1
                continue
            if not 1 <= width <= 9:
                raise ValueError(f"a part of a pattern has 1..9 letters, not {width}")
            part.kind = _KINDS[letter]
            part.width = width
            if part.kind == PART_YEAR and width == 2:
                part.kind = PART_YEAR_OF_CENTURY
            self.parts.largest_bytes += YEAR_BYTES


cdef class ZoneOffsets:
    """What a zone's clocks are ahead of UTC, at any time."""

    def __cinit__(self, list starts_s, list offsets_s, repeats_from_s=None):
        cdef int32_t i
        cdef int32_t count = <int32_t>len(starts_s)
        if len(offsets_s) != count + 1 or sorted(set(starts_s)) != starts_s:
            raise ValueError("a zone has rising starts, and one offset more than those")
        if not all(-DAY_S < each < DAY_S for each in offsets_s):
            raise ValueError("an offset is less than a day")
        self.table.starts_s = <int64_t*>malloc((count + 1) * sizeof(int64_t))
        self.table.offsets_s = <int32_t*>malloc((count + 1) * sizeof(int32_t))
        if self.table.starts_s == NULL or self.table.offsets_s == NULL:
            raise MemoryError(f"no memory for the {count:,} offsets of a zone")
        self.table.count = count
        self.table.repeats_from_s = FOR_EVER if repeats_from_s is None else repeats_from_s
        for i in range(count):
            self.table.starts_s[i] = starts_s[i]
        for i in range(count + 1):
            self.table.offsets_s[i] = offsets_s[i]

    def __dealloc__(self):
        free(self.table.starts_s)
        free(self.table.offsets_s)


cdef int32_t zone_offset(const ZoneTable* zone, int64_t time_s, int32_t* hint) noexcept nogil:
    cdef int32_t low = 0
    cdef int32_t high = zone.count
    cdef int32_t middle = hint[0]
    if time_s >= zone.repeats_from_s:
        time_s = zone.repeats_from_s + (time_s - zone.repeats_from_s) % (
            <int64_t>DAYS_OF_400_YEARS * DAY_S)
    if (middle == 0 or zone.starts_s[middle - 1] <= time_s) and (
            middle == zone.count or time_s < zone.starts_s[middle]):
        return zone.offsets_s[middle]
    while low < high:
        middle = (low + high) // 2
        if zone.starts_s[middle] <= time_s:
            low = middle + 1
        else:
            high = middle
    hint[0] = low
    return zone.offsets_s[low]


cdef int64_t _civil(int64_t day, int32_t* month, int32_t* day_of_month) noexcept nogil:
    """The year of a day since the epoch, Gregorian at all times; years begin in March here."""
    cdef int64_t era, year
    cdef int32_t day_of_era, year_of_era, day_of_year, march_month
    day += 719468       # since 0000-03-01
    era = (day if day >= 0 else day - (DAYS_OF_400_YEARS - 1)) // DAYS_OF_400_YEARS
    day_of_era = <int32_t>(day - era * DAYS_OF_400_YEARS)
    year_of_era = (
        day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    march_month = (5 * day_of_year + 2) // 153
    day_of_month[0] = day_of_year - (153 * march_month + 2) // 5 + 1
    month[0] = march_month + 3 if march_month < 10 else march_month - 9
    year = year_of_era + era * 400
    return year + 1 if month[0] <= 2 else year


cdef uint8_t* _put_year(uint8_t* at, int64_t year, int32_t width) noexcept nogil:
    cdef uint64_t size = <uint64_t>year if year >= 0 else 0 - <uint64_t>year
    cdef uint8_t* begin = at
    if year < 0:
        at[0] = c'-'
        return put_padded(at + 1, size, width)
    if width < 4:
        return put_padded(at, size, width)
    at = put_padded(at + 1, size, width)        # behind the room of a sign
    if at - begin - 1 > width:
        begin[0] = c'+'
        return at
    return _shift_left(begin, at)


cdef inline uint8_t* _shift_left(uint8_t* begin, uint8_t* end) noexcept nogil:
    while begin + 1 < end:
        begin[0] = begin[1]
        begin += 1
    return begin


cdef inline uint8_t* _put_two(uint8_t* at, int32_t number) noexcept nogil:
    at[0] = <uint8_t>(c'0' + number // 10)
    at[1] = <uint8_t>(c'0' + number % 10)
    return at + 2


cdef uint8_t* _put_offset(uint8_t* at, int32_t offset_s, int32_t width) noexcept nogil:
    """1: +HH[mm], 2: +HHmm, 3: +HH:mm, 4: +HHmm[ss], 5: +HH:mm[:ss]."""
    cdef int32_t size_s = -offset_s if offset_s < 0 else offset_s
    cdef int32_t minute = size_s // 60 % 60
    cdef bint has_colons = width == 3 or width == 5
    # Java drops the sign of what it cuts down to nothing.
    at[0] = c'-' if offset_s < 0 and (width > 3 or size_s >= 60) else c'+'
    at = _put_two(at + 1, size_s // 3600)
    if width == 1 and minute == 0:
        return at
    if has_colons:
        at[0] = c':'
        at += 1
    at = _put_two(at, minute)
    if width < 4 or size_s % 60 == 0:
        return at
    if has_colons:
        at[0] = c':'
        at += 1
    return _put_two(at, size_s % 60)


cdef uint8_t* _put_fraction(uint8_t* at, int64_t nano, int32_t width) noexcept nogil:
    cdef int32_t dropped = 9 - width
    while dropped > 0:
        nano //= 10
        dropped -= 1
    return put_padded(at, <uint64_t>nano, width)


cdef uint8_t* put_time(
    uint8_t* at, const TimeParts* parts, int64_t day, int64_t nano_of_day, int32_t offset_s
) noexcept nogil:
    cdef int32_t month, day_of_month
    cdef int64_t year = _civil(day, &month, &day_of_month)
    cdef int32_t second = <int32_t>(nano_of_day // 1_000_000_000)
    cdef int64_t nano = nano_of_day - <int64_t>second * 1_000_000_000
    cdef const TimePart* part = &parts.parts[0]
    cdef const TimePart* end = part + parts.count
    cdef int32_t number
    while part < end:
        if part.kind == PART_BYTE:
            at[0] = part.byte
            at += 1
        elif part.kind == PART_YEAR:
            if part.width == 4 and 0 <= year <= 9999:
                at = _put_two(_put_two(at, <int32_t>year // 100), <int32_t>year % 100)
            else:
                at = _put_year(at, year, part.width)
        elif part.kind == PART_FRACTION:
            at = _put_fraction(at, nano, part.width)
        elif part.kind == PART_OFFSET and (
                offset_s == 0 or (part.width < 4 and -60 < offset_s < 60)):
            at[0] = c'Z'
            at += 1
        elif part.kind >= PART_OFFSET:
            at = _put_offset(at, offset_s, part.width)
        else:
            if part.kind == PART_MONTH:
                number = month
            elif part.kind == PART_DAY:
                number = day_of_month
            elif part.kind == PART_HOUR:
                number = second // 3600
            elif part.kind == PART_MINUTE:
                number = second // 60 % 60
            elif part.kind == PART_SECOND:
                number = second % 60
            else:
                number = <int32_t>(year % 100 if year >= 0 else -(year % 100))
            at = _put_two(at, number) if part.width == 2 else put_padded(
                at, <uint64_t>number, part.width)
        part += 1
    return at


cdef uint8_t* put_time_of_day(uint8_t* at, int64_t number, int64_t units_per_s) noexcept nogil:
    cdef int64_t second, nano
    cdef int32_t width = 9
    if not 0 <= number < DAY_S * units_per_s:   # no time of day
        return put_integer(at, number)
    second = number // units_per_s
    nano = (number - second * units_per_s) * (NANOS_PER_S // units_per_s)
    at = _put_two(at, <int32_t>(second // 3600))
    at[0] = c':'
    at = _put_two(at + 1, <int32_t>(second // 60 % 60))
    at[0] = c':'
    at = _put_two(at + 1, <int32_t>(second % 60))
    if nano == 0:
        return at
    while nano % 10 == 0:
        nano //= 10
        width -= 1
    at[0] = c'.'
    return put_padded(at + 1, <uint64_t>nano, width)

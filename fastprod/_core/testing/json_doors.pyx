"""Doors to the texts that JSON is made of."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memset

from fastprod._core.bytes.fp_status cimport FpStatus, check
from fastprod._core.json.float_text cimport put_double, put_float
from fastprod._core.json.numbers cimport put_decimal, put_integer, put_unsigned
from fastprod._core.json.text cimport put_json_base64, put_json_string
from fastprod._core.json.text_buffer cimport TextBuffer, text_free, text_put, text_put_byte
from fastprod._core.json.times cimport MOST_PARTS, TimePattern, ZoneOffsets, put_time, zone_offset

cdef enum:
    DAY_S = 86400
    PART_BYTES = 21         # more than any part of a time has


def decimal_text_for_test(bytes number, int scale):
    cdef uint8_t room[128]
    cdef uint8_t* end
    if len(number) != 16:
        raise ValueError("a decimal has 16 bytes")
    end = put_decimal(room, number, scale)
    return room[:end - room].decode("ascii")


def integer_text_for_test(number):
    cdef uint8_t room[128]
    cdef uint8_t* end
    if number > 0x7FFFFFFFFFFFFFFF:
        end = put_unsigned(room, <uint64_t>number)
    else:
        end = put_integer(room, <int64_t>number)
    return room[:end - room].decode("ascii")


def double_text_for_test(double number):
    cdef uint8_t room[64]
    cdef uint8_t* end = put_double(room, number)
    return room[:end - room].decode("ascii")


def float_text_for_test(double number):
    cdef uint8_t room[64]
    cdef uint8_t* end = put_float(room, <float>number)
    return room[:end - room].decode("ascii")


def time_text_for_test(TimePattern pattern, ZoneOffsets zone, int64_t time_s, int64_t nano):
    cdef int32_t hint = 0
    cdef int32_t offset_s
    cdef int64_t day
    cdef uint8_t room[MOST_PARTS * PART_BYTES]
    cdef uint8_t* end
    offset_s = zone_offset(&zone.table, time_s, &hint)
    day = (time_s + offset_s) // DAY_S - ((time_s + offset_s) % DAY_S < 0)
    end = put_time(
        room, &pattern.parts, day, (time_s + offset_s - day * DAY_S) * 1_000_000_000 + nano,
        offset_s)
    return room[:end - room].decode("ascii")


def json_text_for_test(bytes data, bint is_text):
    cdef TextBuffer text
    cdef FpStatus status
    memset(&text, 0, sizeof(text))
    try:
        if is_text:
            status = put_json_string(&text, data, len(data))
        else:
            status = put_json_base64(&text, data, len(data))
        check(status)
        return text.data[:text.at - text.data]
    finally:
        free(text.data)


def text_for_test(list pieces):
    cdef TextBuffer text
    cdef FpStatus status
    memset(&text, 0, sizeof(text))
    try:
        for piece in pieces:
            if isinstance(piece, int):
                status = text_put_byte(&text, <uint8_t><int>piece)
            else:
                status = text_put(&text, <const char*>piece, len(piece))
            check(status)
        return text.data[:text.at - text.data]
    finally:
        text_free(&text)

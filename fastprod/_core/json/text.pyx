"""Writes strings and bytes as JSON."""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from fastprod._core.bytes.fp_status cimport FP_NOMEM, FP_OK, FP_TOO_LARGE, FpStatus
from fastprod._core.json.text_buffer cimport TextBuffer, text_reserve

cdef enum:
    ESCAPE_BYTES = 6        # \u001F
    WORD_BYTES = 8
    LARGEST_BYTES = 0x7FFFFFFF

cdef extern from *:
    """
    #define FP_EACH(byte) (0x0101010101010101ULL * (byte))
    #define FP_HAS_ZERO(word) (((word) - FP_EACH(0x01)) & ~(word))
    /* Whether JSON takes all eight bytes as they are; at times it says no for nothing. */
    static inline int fp_is_plain(uint64_t word) {
        return (((word - FP_EACH(0x20)) | word | FP_HAS_ZERO(word ^ FP_EACH('"'))
                 | FP_HAS_ZERO(word ^ FP_EACH('\\\\'))) & FP_EACH(0x80)) == 0;
    }
    static const char FP_BASE64[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    """
    bint fp_is_plain(uint64_t word) noexcept nogil
    const char* FP_BASE64

cdef uint8_t _IS_PLAIN[256]
cdef uint8_t _SHORT[256]        # what follows the backslash, or 0
cdef const char* _HEX = "0123456789ABCDEF"


cdef int _fill_tables() except -1:
    for byte in range(0x20, 0x80):
        _IS_PLAIN[byte] = byte not in b'"\\'
    for byte, letter in zip(b'"\\\b\t\n\f\r', b'"\\btnfr'):
        _SHORT[byte] = letter
    return 0


_fill_tables()


cdef inline bint _continues(uint8_t byte) noexcept nogil:
    return byte & 0xC0 == 0x80


cdef int64_t _sequence(const uint8_t* data, int64_t size, int64_t* bad_size) noexcept nogil:
    """Bytes of the UTF-8 sequence at `data`; 0: it is none, one U+FFFD stands for `bad_size`."""
    cdef uint8_t first = data[0]
    bad_size[0] = 1
    if 0xC2 <= first <= 0xDF:
        return 2 if size >= 2 and _continues(data[1]) else 0
    if not 0xE0 <= first <= 0xF4 or size < 2 or not _continues(data[1]):
        return 0
    if (first == 0xE0 and data[1] < 0xA0) or (first == 0xF0 and data[1] < 0x90) or (
            first == 0xF4 and data[1] >= 0x90):
        return 0
    bad_size[0] = 2
    if size < 3 or not _continues(data[2]):
        return 0
    bad_size[0] = 3
    if first < 0xF0:
        return 0 if first == 0xED and data[1] >= 0xA0 else 3    # half of a surrogate pair
    return 4 if size >= 4 and _continues(data[3]) else 0


cdef uint8_t* _put_escape(uint8_t* at, uint8_t byte) noexcept nogil:
    at[0] = c'\\'
    if _SHORT[byte]:
        at[1] = _SHORT[byte]
        return at + 2
    memcpy(at + 1, b"u00", 3)
    at[4] = _HEX[byte >> 4]
    at[5] = _HEX[byte & 15]
    return at + ESCAPE_BYTES


cdef FpStatus put_json_string(
    TextBuffer* text, const uint8_t* data, int64_t size
) noexcept nogil:
    cdef const uint8_t* end = data + size
    cdef uint8_t* at
    cdef uint64_t word
    cdef int64_t count, bad_count
    if size < 0 or size > LARGEST_BYTES:
        return FP_TOO_LARGE
    # For what is left as it is, and for one escape.
    if text_reserve(text, size + ESCAPE_BYTES + 2) != FP_OK:
        return FP_NOMEM
    at = text.at
    at[0] = c'"'
    at += 1
    while data < end:
        while end - data >= WORD_BYTES:
            memcpy(&word, data, WORD_BYTES)
            if not fp_is_plain(word):
                break
            memcpy(at, &word, WORD_BYTES)
            at += WORD_BYTES
            data += WORD_BYTES
        while data < end and _IS_PLAIN[data[0]]:
            at[0] = data[0]
            at += 1
            data += 1
            if end - data >= WORD_BYTES and not (<uint64_t>data & (WORD_BYTES - 1)):
                break
        if data == end or _IS_PLAIN[data[0]]:
            continue
        if data[0] < 0x80:
            at = _put_escape(at, data[0])
            data += 1
        else:
            count = _sequence(data, end - data, &bad_count)
            if count:
                memcpy(at, data, count)
                at += count
                data += count
                continue        # no more than what it was reserved for
            memcpy(at, b"\xef\xbf\xbd", 3)
            at += 3
            data += bad_count
        text.at = at
        if text_reserve(text, (end - data) + ESCAPE_BYTES + 2) != FP_OK:
            return FP_NOMEM
        at = text.at
    at[0] = c'"'
    text.at = at + 1
    return FP_OK


cdef FpStatus put_json_base64(
    TextBuffer* text, const uint8_t* data, int64_t size
) noexcept nogil:
    cdef const uint8_t* end = data + size
    cdef uint8_t* at
    cdef uint64_t bits
    if size < 0 or size > LARGEST_BYTES:
        return FP_TOO_LARGE
    if text_reserve(text, (size + 2) // 3 * 4 + 2) != FP_OK:
        return FP_NOMEM
    at = text.at
    at[0] = c'"'
    at += 1
    while end - data >= 3:
        bits = <uint64_t>data[0] << 16 | <uint64_t>data[1] << 8 | data[2]
        at[0] = FP_BASE64[bits >> 18]
        at[1] = FP_BASE64[bits >> 12 & 63]
        at[2] = FP_BASE64[bits >> 6 & 63]
        at[3] = FP_BASE64[bits & 63]
        at += 4
        data += 3
    if data < end:
        bits = <uint64_t>data[0] << 16 | (<uint64_t>data[1] << 8 if end - data == 2 else 0)
        at[0] = FP_BASE64[bits >> 18]
        at[1] = FP_BASE64[bits >> 12 & 63]
        at[2] = FP_BASE64[bits >> 6 & 63] if end - data == 2 else c'='
        at[3] = c'='
        at += 4
    at[0] = c'"'
    text.at = at + 1
    return FP_OK

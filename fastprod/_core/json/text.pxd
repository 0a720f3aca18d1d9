"""Strings and bytes as JSON texts."""
from libc.stdint cimport int64_t, uint8_t

from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.json.text_buffer cimport TextBuffer

# In quotes, escaped as Jackson does it. What is not UTF-8 becomes U+FFFD as in Java's String.
cdef FpStatus put_json_string(
    TextBuffer* text, const uint8_t* data, int64_t size) noexcept nogil
# In quotes, base64 with padding, in one line.
cdef FpStatus put_json_base64(
    TextBuffer* text, const uint8_t* data, int64_t size) noexcept nogil

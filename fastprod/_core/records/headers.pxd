"""Record headers from Python pairs to wire bytes (contract P-E.3)."""
from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    # Room on a caller's stack that most headers fit.
    SMALL_HEADERS = 512

# `headers`, a sequence or mapping of (str, buffer or None), as a record holds them, count first.
cdef bytes encode_headers(object headers)
# The same into `out`, which has SMALL_HEADERS bytes, for the usual kind: a list or tuple of
# (str, bytes or None) tuples.  Returns the size; 0: `encode_headers` has to do it, with its errors.
cdef uint32_t encode_small_headers(object headers, uint8_t* out) except? 0

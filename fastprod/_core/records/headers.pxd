"""Record headers from Python pairs to wire bytes (contract P-E.3)."""
# `headers`, a sequence or mapping of (str, buffer or None), as a record holds them, count first.
cdef bytes encode_headers(object headers)

"""What a nogil leaf returns; `fp_status.check` alone turns it into an exception."""

cdef enum FpStatus:
    FP_OK = 0
    FP_BLOCKED = 1      # would block: come back when the descriptor is ready
    FP_EXHAUSTED = 2    # the pool has no memory now
    FP_TOO_LARGE = 3    # larger than a limit that waiting does not change
    FP_CLOSED = 4       # closed by us
    FP_IO = 5           # errno says what
    FP_PROTOCOL = 6     # the peer broke the protocol
    FP_CORRUPT = 7      # bytes do not parse, or a checksum differs
    FP_NOMEM = 8        # malloc failed
    FP_TIMEDOUT = 9     # a deadline passed
    FP_BUSY = 10        # the object already has one of these under way
    FP_UNSUPPORTED = 11     # no codec, no version

cdef int check(FpStatus status) except -1

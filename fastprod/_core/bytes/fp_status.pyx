"""The one place that turns an `FpStatus` into a Python exception."""

cdef dict _TEXT = {
    FP_BLOCKED: "the operation would block",
    FP_EXHAUSTED: "the buffer pool has no free memory",
    FP_TOO_LARGE: "the request is larger than the limit",
    FP_CLOSED: "the object is closed",
    FP_IO: "input/output failed",
    FP_PROTOCOL: "the peer broke the protocol",
    FP_CORRUPT: "the bytes are corrupt",
    FP_NOMEM: "the machine has no memory left",
    FP_TIMEDOUT: "the deadline passed",
    FP_BUSY: "another operation is under way",
    FP_UNSUPPORTED: "not supported here",
}


cdef int check(FpStatus status) except -1:
    """Return 0 for FP_OK, else raise. Call it after every lock is gone."""
    if status == FP_OK:
        return 0
    if status == FP_NOMEM:
        raise MemoryError(_TEXT[status])
    if status == FP_TIMEDOUT:
        raise TimeoutError(_TEXT[status])
    if status == FP_TOO_LARGE or status == FP_CORRUPT or status == FP_UNSUPPORTED:
        raise ValueError(_TEXT[status])
    raise OSError(_TEXT.get(status, f"status {<int>status}"))

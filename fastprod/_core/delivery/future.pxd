"""RecordFuture: (Result, index), and what its record looked like."""
from libc.stdint cimport int32_t, int64_t, uint32_t

from fastprod._core.delivery.result cimport Incomplete, Result


cdef class RecordFuture:
    # Threads: any. `callbacks` is guarded by the GIL.
    cdef Result* result_        # one reference; NULL: failed inside send, see `callbacks`
    cdef uint32_t index
    cdef int32_t key_size       # -1: null
    cdef int32_t value_size     # -1: null
    cdef int64_t timestamp_ms
    cdef object topic           # str
    # None, the caller's on_delivery alone, or a list of calls; the error when result_ is NULL
    cdef object callbacks
    cdef object outcome(self)
    cdef int wait_until_done(self, object timeout) except -1
    cdef bint _is_done(self)
    cdef int _check_fork(self) except -1
    cdef int _add(self, tuple call) except -1
    cdef int _call(self, tuple call, object found) except -1
    cdef int _call_both(self, object function, object found) except -1
    cdef object _partition(self)
    cdef list _calls(self)
    # Those attached to `result`, whose outcome is to be told; the record may have one of its own.
    cdef void run_callbacks(self, Result* result)
    cdef int _tell(self) except -1

cdef enum CallKind:
    CALL_BOTH = 0           # f(metadata, error): Kafka's Callback
    CALL_VALUE = 1          # f(metadata), on success
    CALL_ERROR = 2          # f(error), on failure
    CALL_FUTURE = 3         # f(future)

# Takes over one reference to `result`.
cdef RecordFuture new_future(object topic, Result* result, uint32_t index)
# Whether this thread runs callbacks of the results of `list` now.
cdef bint is_delivering(Incomplete* list) except -1
cdef int deliver(Incomplete* list, int64_t deadline_ns) except -1
# `start` is called once, before the first callback is attached to a result of `list`; None: never.
cdef void set_starter(Incomplete* list, object start)
# `function` makes an AsyncRecordFuture of a RecordFuture.
cdef void set_await(object function)
cdef int need_drain(Incomplete* list) except -1
# The ResultState from which on a result is done, as this thread sees it.
cdef int settled_state() except -1
# Raises ForkedFutureError if `result` was made before a fork whose child this is.
cdef int check_fork(Result* result) except -1
cdef RecordFuture failed_future(object topic, object partition, object error)
# What a callback raised is logged; Ctrl-C comes again once the other callbacks have run.
cdef int callback_failed(object error, object found) except -1

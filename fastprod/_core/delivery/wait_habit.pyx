"""Counts, for each thread, the records in a row that it has waited for, and who waits now."""
from libc.stdint cimport int32_t, int64_t

from fastprod._core.bytes.sync cimport fp_add_i32, fp_load_i32, fp_store_i32
from fastprod._core.delivery.result cimport (
    Incomplete, Result, result_drive, result_urge, result_wait,
)

cdef extern from *:
    """
    typedef struct {
        void *sent_to;
        int waited;
        int waits;
    } fp_habit;
    #ifdef __GLIBC__    /* keeps room for a few such bytes; another libc may refuse to load them */
    #define FP_TLS_MODEL __attribute__((tls_model("initial-exec")))
    #else
    #define FP_TLS_MODEL
    #endif
    static __thread fp_habit fp_own_habit FP_TLS_MODEL;
    static int32_t fp_waiting = 0;
    """
    ctypedef struct fp_habit:
        void* sent_to   # the list on which the result of its last record was
        int waited      # it has waited since
        int waits       # as note_send says
    fp_habit fp_own_habit   # this thread's; to ask for its place would be 3 % of a `send`
    # Of the process, atomic: threads that wait for records.
    int32_t fp_waiting

cdef enum:
    MOST_WAITS = 1000


cdef int32_t note_send(Incomplete* list) noexcept nogil:
    cdef fp_habit* own = &fp_own_habit
    if own.waited and own.sent_to == list:
        own.waits = min(own.waits + 1, MOST_WAITS)
    else:
        own.waits = 0
        own.sent_to = list
    own.waited = 0
    return own.waits if fp_load_i32(&fp_waiting) == 0 else 0


cdef void note_wait() noexcept nogil:
    fp_own_habit.waited = 1


cdef void wait_slice(Result* result, int64_t until_ns) noexcept nogil:
    if begin_wait():
        result_drive(result, until_ns)
    result_urge(result)
    result_wait(result, until_ns)


cdef bint begin_wait() noexcept nogil:
    return fp_add_i32(&fp_waiting, 1) == 1


cdef void end_wait() noexcept nogil:
    fp_add_i32(&fp_waiting, -1)


cdef void forget_waits() noexcept nogil:
    fp_store_i32(&fp_waiting, 0)

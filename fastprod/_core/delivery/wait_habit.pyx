"""Counts, for each thread, the records in a row that it has waited for."""
from libc.stdint cimport int32_t

from fastprod._core.delivery.result cimport Incomplete

cdef extern from *:
    """
    static __thread void *fp_sent_to = NULL;
    static __thread int fp_waited = 0;
    static __thread int fp_waits = 0;
    """
    # Of this thread:
    void* fp_sent_to    # the list on which the result of its last record was
    int fp_waited       # it has waited since
    int fp_waits        # as note_send says

cdef enum:
    MOST_WAITS = 1000


cdef int32_t note_send(Incomplete* list) noexcept nogil:
    global fp_sent_to, fp_waited, fp_waits
    if fp_waited and fp_sent_to == list:
        fp_waits = min(fp_waits + 1, MOST_WAITS)
    else:
        fp_waits = 0
        fp_sent_to = list
    fp_waited = 0
    return fp_waits


cdef void note_wait() noexcept nogil:
    global fp_waited
    fp_waited = 1

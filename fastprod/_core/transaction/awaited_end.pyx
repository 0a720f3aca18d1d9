"""Hands the answer to EndTxn to the caller that waits for it, past the control thread.

The control thread would read it first, with the GIL, and wake the caller then: two threads more to
wake up, some 80 us, of a commit that takes a millisecond. So a caller that sleeps in
`commit_transaction` gets the answer itself, if it says that all is well, passes it on, and does
what follows from it while the control thread wakes up. Every other answer takes the usual way.
"""
from libc.stdint cimport int16_t, int64_t, uint8_t
from libc.string cimport memset

from fastprod._core.bytes.sync cimport (
    fp_cond_broadcast, fp_cond_destroy, fp_cond_init, fp_cond_wait_until, fp_mutex_destroy,
    fp_mutex_init, fp_mutex_lock, fp_mutex_unlock, fp_now_ns,
)
from fastprod._core.bytes.wire cimport fp_get_u16, fp_get_u64
from fastprod._core.engine.control_queue cimport Event, event_free

cdef enum:
    # Of an answer to EndTxn of KIP-890: correlation id 4, no tags 1, throttle time 4, and so on.
    HEADER_TAGS_AT = 4
    ERROR_AT = 9
    PRODUCER_ID_AT = 11
    EPOCH_AT = 19
    TAGS_AT = 21
    WHOLE_BYTES = 22


cdef void awaited_end_init(AwaitedEnd* end) noexcept nogil:
    memset(end, 0, sizeof(AwaitedEnd))
    fp_mutex_init(&end.lock)
    fp_cond_init(&end.changed)


cdef void awaited_end_destroy(AwaitedEnd* end) noexcept nogil:
    event_free(end.answer)
    fp_cond_destroy(&end.changed)
    fp_mutex_destroy(&end.lock)


cdef bint has_ended_so(const uint8_t* data, int64_t size) noexcept nogil:
    return size >= ERROR_AT + 2 and data[ERROR_AT] == 0 and data[ERROR_AT + 1] == 0


cdef bint _reads_well(Event* answer) noexcept nogil:
    """Was it done, and is there a producer id? The event has it then. The control thread must not
    find anything wrong with it."""
    if answer.data_bytes != WHOLE_BYTES or answer.data[HEADER_TAGS_AT] or answer.data[TAGS_AT]:
        return False
    if not has_ended_so(answer.data, answer.data_bytes):
        return False
    answer.producer_id = <int64_t>fp_get_u64(answer.data + PRODUCER_ID_AT)
    answer.producer_epoch = <int16_t>fp_get_u16(answer.data + EPOCH_AT)
    return answer.producer_id >= 0 and answer.producer_epoch >= 0


cdef void awaited_end_sent(AwaitedEnd* end, int64_t ending, int64_t request) noexcept nogil:
    fp_mutex_lock(&end.lock)
    end.ending = ending
    end.request = request
    fp_mutex_unlock(&end.lock)


cdef bint awaited_end_offer(AwaitedEnd* end, Event* answer) noexcept nogil:
    cdef bint is_taken
    fp_mutex_lock(&end.lock)
    is_taken = (
        answer.token == end.request and end.ending != 0 and end.awaited == end.ending
        and _reads_well(answer))
    if answer.token == end.request:
        end.ending = 0
    if is_taken:
        end.answer = answer
        fp_cond_broadcast(&end.changed)
    fp_mutex_unlock(&end.lock)
    return is_taken


cdef Event* awaited_end_take(AwaitedEnd* end, int64_t ending, int64_t deadline_ns) noexcept nogil:
    cdef Event* answer = NULL
    cdef bint is_first
    fp_mutex_lock(&end.lock)
    is_first = end.awaited == 0
    if is_first:
        end.awaited = ending
    while end.told < ending and fp_now_ns() < deadline_ns:
        if is_first and end.answer != NULL:
            break
        fp_cond_wait_until(&end.changed, &end.lock, deadline_ns)
    if is_first:
        answer, end.answer = end.answer, NULL
        end.awaited = 0
    fp_mutex_unlock(&end.lock)
    return answer


cdef void awaited_end_tell(AwaitedEnd* end, int64_t ending) noexcept nogil:
    fp_mutex_lock(&end.lock)
    end.told = max(end.told, ending)
    fp_cond_broadcast(&end.changed)
    fp_mutex_unlock(&end.lock)

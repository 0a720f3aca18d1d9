"""Hands the answer to EndTxn to the caller that waits for it, past the control thread."""
from libc.stdint cimport int64_t, uint8_t

from fastprod._core.bytes.sync cimport fp_cond, fp_mutex
from fastprod._core.engine.control_queue cimport Event

cdef struct AwaitedEnd:
    # OWNER the engine.  THREADS any; guarded by `lock`.
    fp_mutex lock
    fp_cond changed
    int64_t awaited             # token of the end that a caller sleeps for; 0: none does
    int64_t told                # token of the latest end whose outcome is known
    int64_t ending              # token of the end whose request is under way
    int64_t request             # that request's
    Event* answer               # owned; for the caller that sleeps, or NULL

cdef void awaited_end_init(AwaitedEnd* end) noexcept nogil
cdef void awaited_end_destroy(AwaitedEnd* end) noexcept nogil
# This request ends the transaction of DO_END_TRANSACTION `ending`. THREADS who has the loop.
cdef void awaited_end_sent(AwaitedEnd* end, int64_t ending, int64_t request) noexcept nogil
# Does somebody sleep for this answer, and is it good? It is his then. THREADS who has the loop.
cdef bint awaited_end_offer(AwaitedEnd* end, Event* answer) noexcept nogil
# Sleep for an answer; the caller owns it, and passes it on to the control thread, which counts on
# it. NULL: there is none by the deadline, the outcome is known otherwise, or another one sleeps for
# it and the outcome has become known. THREADS any.
cdef Event* awaited_end_take(AwaitedEnd* end, int64_t ending, int64_t deadline_ns) noexcept nogil
# The outcome of this end is known: who waits goes on. THREADS any.
cdef void awaited_end_tell(AwaitedEnd* end, int64_t ending) noexcept nogil
# Does an answer to EndTxn of KIP-890 say that it was done?
cdef bint has_ended_so(const uint8_t* data, int64_t size) noexcept nogil

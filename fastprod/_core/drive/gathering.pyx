"""Lets threads that each wait for their record share a request with the next one.

An answer wakes all whose records were in it. The first of them would send its next record at once,
and the others theirs behind it: two requests where one would do, and each costs client and broker
far more than a record in it. So the next request leaves when as many records have come as threads
were woken or still wait, or when 0.4 ms, or 8 times what the last request took, have passed since
the last answer that woke some. It concerns threads that wait by `result` and the like, three or
more of them in one request, and a producer that was not given `linger_ms`.

Threads that do something else before they send again do not come in that time, and the others would
wait for them in vain, each time. So after a time that was lost, no request waits for more records
than came then, and for fewer than three not at all; now and then one tries again with all, the more
seldom the more often that was in vain (`GatherHabit`).

Nobody wakes the I/O thread for a record meanwhile: it wakes by itself at the end, or with the
last record. `accumulator_append` counts down `Accumulator.gathering`, and who does not count
the last one returns without a kick.

1. A caller announces its partition (a full fence), then looks at `gathering`.
2. We set `gathering` to 0 (a full fence), then take what was announced.
Whichever comes second sees the other: the caller kicks, or the record is seen.
"""
from libc.stdint cimport int32_t, int64_t

from fastprod._core.bytes.sync cimport fp_load_i32, fp_xchg_i32
from fastprod._core.engine.in_flight cimport Request
from fastprod._core.engine.ready_list cimport is_pressed, wake_by
from fastprod._core.engine.sender_state cimport GatherHabit, IoThread

cdef enum:
    FEWEST_WAITING = 3          # two are as fast without
    MOST_BATCHES = 16           # of a request: with more there is little to save for each
    LONGEST_NS = 400000
    ROUND_TRIPS = 8
    FIRST_TRIAL = 4             # requests after which all are waited for again
    LAST_TRIAL = 64


cdef int32_t _waiting(Request* request) noexcept nogil:
    """How many threads wait for its records."""
    cdef int32_t i, count = 0
    if request.batch_count > MOST_BATCHES:
        return 0
    for i in range(request.batch_count):
        if request.batches[i] != NULL and not request.batches[i].is_done:
            count += fp_load_i32(&request.batches[i].result.waiters)
    return count


cdef int32_t _expected(GatherHabit* habit, int32_t count) noexcept nogil:
    """How many of so many records come soon; 0: too few to wait for."""
    if habit.most > 0 and habit.kept_count >= habit.trial_after:
        habit.most = 0
    if habit.most == 0 or count <= habit.most:
        return count
    if habit.most < FEWEST_WAITING:
        habit.kept_count += 1
        return 0
    return habit.most


cdef void _learn(GatherHabit* habit, int32_t missing) noexcept nogil:
    """From one that waited until all had come, or its time was over."""
    if missing <= 0:
        if habit.most == 0:
            habit.trial_after = 0
        else:
            habit.kept_count += 1
        return
    if habit.most == 0:
        habit.trial_after = min(max(FIRST_TRIAL, 2 * habit.trial_after), LAST_TRIAL)
    habit.most = max(1, habit.awaited - missing)
    habit.kept_count = 0


cdef void gathering_begin(IoThread* io, Request* request) noexcept nogil:
    cdef Request* behind = request.next
    cdef int32_t count
    if not io.adaptive or io.is_transactional or not io.selector.loop.poller.is_exact:
        return
    count = _waiting(request)
    if count < FEWEST_WAITING:
        return
    while behind != NULL:
        count += _waiting(behind)
        behind = behind.next
    count = _expected(&io.gather_habit, count)
    if count == 0:
        return
    io.gather_habit.awaited = count
    io.gather_until_ns = io.now_ns + min(
        <int64_t>LONGEST_NS, ROUND_TRIPS * (io.now_ns - request.sent_ns))
    fp_xchg_i32(&io.accumulator.gathering, count)


cdef void gathering_check(IoThread* io) noexcept nogil:
    cdef bint is_cut_short
    cdef int32_t missing
    if io.gather_until_ns == 0:
        return
    is_cut_short = is_pressed(io)
    if (io.now_ns < io.gather_until_ns and fp_load_i32(&io.accumulator.gathering) > 0
            and not is_cut_short):
        wake_by(io, io.gather_until_ns)
        return
    io.gather_until_ns = 0
    missing = fp_xchg_i32(&io.accumulator.gathering, 0)
    if not is_cut_short:
        _learn(&io.gather_habit, missing)

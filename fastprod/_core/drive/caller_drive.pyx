"""Lets the caller that waits send its record and read the answer, while the I/O thread sleeps."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from fastprod._core.bytes.fp_status cimport FP_BLOCKED, FP_OK, FpStatus
from fastprod._core.bytes.sync cimport (
    fp_load_i32, fp_load_i32_acq, fp_mutex_lock, fp_mutex_try, fp_mutex_unlock, fp_now_ns,
    fp_store_i32,
)
from fastprod._core.delivery.result cimport (
    RESULT_PENDING, Result, result_drive, result_release, result_retain,
)
from fastprod._core.delivery.wait_habit cimport begin_wait, end_wait, note_wait
from fastprod._core.engine.accumulator cimport Accumulator, Partition, accumulator_kick
from fastprod._core.engine.control_commands cimport obey_small
from fastprod._core.drive.lent_socket cimport (
    lent_can_be, lent_drive, lent_heard, lent_is_there, lent_leave, lent_return, lent_watch,
)
from fastprod._core.drive.gathering cimport gathering_check
from fastprod._core.engine.load_table cimport update_load
from fastprod._core.engine.node_connection cimport node_count_bytes, node_drop, node_receive
from fastprod._core.engine.ready_list cimport look_at_touched, node_of, take_announced, touch
from fastprod._core.engine.sender cimport serve_node
from fastprod._core.engine.sender_state cimport IoThread, NODE_READY, Node, RUN
from fastprod._core.engine.timer_heap cimport timer_next_ns
from fastprod._core.io.channel cimport (
    Channel, channel_has_buffered, channel_is_sending, channel_read, channel_release_delivered,
    channel_touch,
)

cdef extern from "c/fp_poll.h" nogil:
    enum:
        FP_PAIR_FIRST
    int fp_poll_pair(int first, int second, int64_t timeout_ns) noexcept

cdef enum:
    PREFIX_BYTES = 4
    LONGEST_NS = 60000000000
    WAITS_TO_TRUST = 2      # who has waited for so many records will wait for this one, too


cdef void let_callers_drive(IoThread* io) noexcept nogil:
    io.accumulator.send_now = _send_now
    io.accumulator.io = io
    io.accumulator.incomplete.drive = _drive
    io.accumulator.incomplete.drive_argument = io


cdef void drive_flush(Accumulator* a, uint64_t last_number, int64_t deadline_ns) noexcept nogil:
    cdef Result* only
    cdef bint kicks = True
    note_wait()
    fp_mutex_lock(&a.incomplete.lock)
    only = a.incomplete.oldest
    if only != a.incomplete.newest or (only != NULL and only.number > last_number):
        only = NULL
    if only != NULL:
        result_retain(only)
    fp_mutex_unlock(&a.incomplete.lock)
    if only != NULL:
        if begin_wait():
            result_drive(only, deadline_ns)
        end_wait()
        kicks = fp_load_i32_acq(&only.state) == RESULT_PENDING
        result_release(only)
    if kicks:
        accumulator_kick(a)


cdef bint _take_loop(IoThread* io) noexcept nogil:
    """The loop is ours until _give_loop; False: it is not to be had now."""
    if not fp_mutex_try(&io.loop_lock):
        return False
    if io.is_turning and fp_load_i32(&io.stop) == RUN and io.fatal_code == 0:
        _begin(io)
        if obey_small(io):
            return True
    fp_mutex_unlock(&io.loop_lock)
    return False


cdef void _begin(IoThread* io) noexcept nogil:
    io.now_ns = fp_now_ns()
    io.wake_ns = io.now_ns + LONGEST_NS
    io.driven_ns = io.now_ns
    gathering_check(io)


cdef bint _needs_thread(IoThread* io, Node* node) noexcept nogil:
    """Is there something that the I/O thread has to see to before it wakes by itself?"""
    return (
        min(io.wake_ns, timer_next_ns(&io.waits), timer_next_ns(&io.expiries))
        < io.asleep_until_ns
        or 0 < io.gather_until_ns < io.asleep_until_ns
        or fp_load_i32(&io.stop) != RUN or io.fatal_code != 0
        or fp_load_i32_acq(&io.commands.count) > 0
        or io.selector.loop.due != NULL or io.touched != NULL
        or io.has_successors or io.postponed != NULL
        or (io.limbo.active_count > 0 and not io.asked_metadata)
        or (node.active_count > 0 and node.state != NODE_READY)
        or (io.is_transactional and _has_more_to_tell(io))
    )


cdef bint _has_more_to_tell(IoThread* io) noexcept nogil:
    """Is there something of the transaction for the control thread, or a question?"""
    return (
        io.joining != NULL or io.ending != 0
        or (io.transaction_is_held and not io.question_is_out)
    )


cdef void _give_loop(IoThread* io, Node* node) noexcept nogil:
    cdef bint kicks = _needs_thread(io, node)
    fp_mutex_unlock(&io.loop_lock)
    if kicks:
        accumulator_kick(io.accumulator)


cdef Node* _look(IoThread* io, Partition* p) noexcept nogil:
    """At all that has changed; returns who leads the partition. Limbo: that is the I/O thread's."""
    take_announced(io)
    if fp_load_i32_acq(&io.commands.count) > 0:
        return &io.limbo    # what was commanded before a partition was announced goes before it
    look_at_touched(io)
    update_load(io)
    return node_of(io, p)


cdef void _serve(IoThread* io, Node* node) noexcept nogil:
    if node == &io.limbo:
        return
    serve_node(io, node)
    if node.channel != NULL:
        node_count_bytes(node)


cdef bint _send_now(void* argument, Partition* p, int32_t waits) noexcept nogil:
    cdef IoThread* io = <IoThread*>argument
    cdef Node* node
    cdef bint is_left
    if io.is_transactional and waits < WAITS_TO_TRUST:
        return False    # those that follow go along: the first request of a transaction goes alone
    if not _take_loop(io):
        return False
    node = _look(io, p)
    if node.due.count + node.lingering.count > 1:
        # Others' batches would be packed here, too, and the GIL may be held: not by a caller.
        fp_mutex_unlock(&io.loop_lock)
        return False
    io.counters.caller_sends += 1
    # Before it is sent: the answer may come before sendmsg returns, and would wake the I/O thread.
    is_left = (
        waits >= WAITS_TO_TRUST and not io.is_transactional and node.flights.count == 0
        and lent_can_be(io, node) and lent_leave(io, node))
    _serve(io, node)
    if is_left and (node.flights.count != 1 or channel_is_sending(node.channel)):
        lent_watch(io)
    _give_loop(io, node)
    return True


cdef void _drive(void* argument, Result* result, int64_t deadline_ns) noexcept nogil:
    cdef IoThread* io = <IoThread*>argument
    cdef Partition* p = <Partition*>result.origin
    cdef Node* node
    # Behind the last answer of a transaction there is more to do than a caller may.
    if io.is_transactional or not _take_loop(io):
        return
    if fp_load_i32(&result.sent):
        node = node_of(io, p)
    else:
        fp_store_i32(&result.urgent, 1)
        touch(io, p)
        node = _look(io, p)
        _serve(io, node)
    if lent_can_be(io, node) and _is_awaited_there(io, node, result, deadline_ns):
        if lent_drive(io, node, result):
            io.counters.caller_waits += 1
            _wait_at_socket(io, node, result, deadline_ns)
    _give_loop(io, node)


cdef bint _is_awaited_there(
    IoThread* io, Node* node, Result* result, int64_t deadline_ns
) noexcept nogil:
    return (
        fp_load_i32(&result.state) == RESULT_PENDING and fp_load_i32(&result.sent)
        and node.flights.count > 0 and not channel_is_sending(node.channel)
        and io.is_turning and fp_load_i32(&io.stop) == RUN and io.now_ns < deadline_ns
    )


cdef void _wait_at_socket(
    IoThread* io, Node* node, Result* result, int64_t deadline_ns
) noexcept nogil:
    """While we sleep the loop is the I/O thread's again."""
    cdef int found
    while _is_awaited_there(io, node, result, deadline_ns):
        found = _sleep(io, node, deadline_ns - io.now_ns)
        if not lent_is_there(io):
            break
        if found & FP_PAIR_FIRST:
            _take_answers(io, node)
            if not lent_is_there(io):
                break
            look_at_touched(io)
            _serve(io, node)
        elif found == 0:
            break
    lent_return(io)


cdef int _sleep(IoThread* io, Node* node, int64_t most_ns) noexcept nogil:
    cdef int fd = node.channel.fd
    cdef int found
    _give_loop(io, node)
    found = fp_poll_pair(fd, io.lent.wake.read_fd, most_ns)
    fp_mutex_lock(&io.loop_lock)
    _begin(io)
    lent_heard(io)
    return found


cdef void _take_answers(IoThread* io, Node* node) noexcept nogil:
    """All that have arrived."""
    cdef Channel* ch = node.channel
    cdef FpStatus status = channel_read(ch, True)
    while status == FP_OK:
        channel_touch(ch, io.now_ns)
        node_receive(
            io, node, ch.rbuf + ch.rstart + PREFIX_BYTES,
            <uint32_t>(ch.rdelivered - PREFIX_BYTES))
        if node.channel != ch:
            return      # it was no answer, and the connection has ended
        channel_release_delivered(ch)
        if not channel_has_buffered(ch) and not ch.transport.has_pending(ch):
            return
        status = channel_read(ch, ch.transport.has_pending(ch))
    if status != FP_BLOCKED:
        node_drop(io, node, ch.close_reason, ch.err, ch.bad_size, False)

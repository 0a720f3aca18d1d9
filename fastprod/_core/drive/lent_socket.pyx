"""Lends a node's socket to a caller, and sees to it that it is never forgotten."""
from libc.stdint cimport int64_t, uint32_t

from fastprod._core.bytes.fp_status cimport FP_OK
from fastprod._core.bytes.sync cimport (
    fp_load_i32, fp_now_ns, fp_wake_clear, fp_wake_close, fp_wake_open, fp_wake_signal,
)
from fastprod._core.delivery.result cimport RESULT_PENDING, Result
from fastprod._core.engine.sender_state cimport IoThread, LentSocket, NODE_READY, Node
from fastprod._core.io.channel cimport (
    CH_OPEN, FP_POLL_IN, Channel, channel_is_sending, channel_watch, fp_poller,
)

cdef extern from "c/fp_poll.h" nogil:
    int fp_poller_add_timer(fp_poller* p) noexcept
    int fp_timer_set(int fd, int64_t deadline_ns) noexcept
    void fp_timer_close(int* noted) noexcept

cdef enum:
    # A caller that does not come to wait, against expectation, delays its answer by this at most.
    GUARD_NS = 4000000


cdef void lent_init(IoThread* io) noexcept nogil:
    io.lent.wake.read_fd = -1
    io.lent.wake.write_fd = -1
    io.lent.guard_fd = -1


cdef void lent_close(IoThread* io) noexcept nogil:
    fp_wake_close(&io.lent.wake)
    fp_timer_close(&io.lent.guard_fd)


cdef bint lent_is_there(IoThread* io) noexcept nogil:
    cdef Channel* ch = io.lent.node.channel
    return ch != NULL and ch.id == io.lent.channel_id and ch.state == CH_OPEN


cdef bint lent_can_be(IoThread* io, Node* node) noexcept nogil:
    cdef Channel* ch = node.channel
    if (io.lent.result != NULL or node.state != NODE_READY or ch == NULL or ch.state != CH_OPEN
            or channel_is_sending(ch) or ch.is_due):
        return False
    if io.lent.guard_fd < 0:
        io.lent.guard_fd = fp_poller_add_timer(io.selector.loop.poller)
    if io.lent.wake.read_fd < 0 and fp_wake_open(&io.lent.wake) != 0:
        return False
    return io.lent.guard_fd >= 0


cdef bint _lend(IoThread* io, Node* node) noexcept nogil:
    cdef Channel* ch = node.channel
    if io.lent.node == node and io.lent.channel_id == ch.id:
        return True
    lent_watch(io)
    if channel_watch(ch, ch.interest & ~<uint32_t>FP_POLL_IN) != FP_OK:
        return False
    io.lent.node = node
    io.lent.channel_id = ch.id
    return True


cdef bint lent_leave(IoThread* io, Node* node) noexcept nogil:
    cdef LentSocket* lent = &io.lent
    if lent.guard_ns < io.now_ns + GUARD_NS // 2:
        if fp_timer_set(lent.guard_fd, io.now_ns + GUARD_NS) != 0:
            return False
        lent.guard_ns = io.now_ns + GUARD_NS
    return _lend(io, node)


cdef bint lent_drive(IoThread* io, Node* node, Result* result) noexcept nogil:
    if not _lend(io, node):
        return False
    io.lent.result = result
    return True


cdef void lent_return(IoThread* io) noexcept nogil:
    io.lent.result = NULL
    if (not lent_is_there(io) or io.lent.node.flights.count > 0
            or channel_is_sending(io.lent.node.channel) or fp_now_ns() >= io.lent.guard_ns):
        lent_watch(io)


cdef void lent_watch(IoThread* io) noexcept nogil:
    cdef Channel* ch
    if io.lent.node != NULL and lent_is_there(io):
        ch = io.lent.node.channel
        channel_watch(ch, ch.interest | FP_POLL_IN)
    io.lent.node = NULL


cdef void lent_attend(IoThread* io) noexcept nogil:
    cdef LentSocket* lent = &io.lent
    if lent.node == NULL:
        return
    if lent.result == NULL:
        lent_watch(io)
    elif not lent.is_called and (
            fp_load_i32(&lent.result.state) != RESULT_PENDING or not io.is_turning
            or not lent_is_there(io)):
        lent.is_called = True
        fp_wake_signal(&lent.wake)


cdef void lent_heard(IoThread* io) noexcept nogil:
    if io.lent.is_called:
        io.lent.is_called = False
        fp_wake_clear(&io.lent.wake)

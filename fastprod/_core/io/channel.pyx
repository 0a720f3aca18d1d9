"""KafkaChannel: one non-blocking connection that moves size-prefixed frames (contract P-G.7)."""
from libc.errno cimport EAGAIN, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove

from fastprod._core.bytes.fp_status cimport (
    FP_BLOCKED,
    FP_BUSY,
    FP_CLOSED,
    FP_IO,
    FP_NOMEM,
    FP_OK,
    FP_PROTOCOL,
    FP_TOO_LARGE,
)
from fastprod._core.bytes.sync cimport fp_now_ns
from fastprod._core.bytes.wire cimport fp_get_u32

cdef extern from "c/fp_poll.h" nogil:
    int fp_poller_update(
        fp_poller* p, int fd, void* cookie, uint32_t before, uint32_t interest
    ) noexcept

cdef enum:
    PREFIX_BYTES = 4
    # Room for some seventy answers to Produce requests; only what arrives touches memory.
    FIRST_BUFFER_BYTES = 16 * 1024
    # Above this a buffer is cut when the frames have become small, and counts in the pool.
    SMALL_BUFFER_BYTES = 64 * 1024
    # Above this a buffer does not outlive its frame: a connection may then be idle for minutes.
    # It is twice the default max_request_size, so that usual frames never allocate.
    KEPT_BUFFER_BYTES = 2 * 1024 * 1024
    # A frame from this size on is given away with its buffer, a smaller one as a copy.
    TAKEN_BYTES = 32 * 1024
    # One channel may not starve the others of a poll.
    TURN_BYTES = 1024 * 1024

CLOSE_REASONS = tuple(reason.name.removeprefix("CLOSE_") for reason in CloseReason)


# Sending.

cdef bint channel_is_sending(Channel* ch) noexcept nogil:
    return ch.iov != NULL


cdef FpStatus channel_send(Channel* ch, fp_iovec* iov, int32_t count) noexcept nogil:
    cdef int64_t before = ch.sent_bytes
    cdef FpStatus status
    if ch.state != CH_OPEN:
        return FP_CLOSED
    if ch.broken:
        return FP_IO
    if ch.iov != NULL or ch.failed_send:
        ch.failed_send = True
        channel_make_due(ch)
        return FP_BUSY
    ch.iov = iov
    ch.iov_count = count
    status = channel_write(ch)
    if ch.sent_bytes != before:
        channel_touch(ch, fp_now_ns())
    if status == FP_BLOCKED:
        return channel_send_later(ch)
    return status


cdef FpStatus channel_send_later(Channel* ch) noexcept nogil:
    if channel_watch(ch, ch.interest | FP_POLL_OUT) != FP_OK:
        return FP_IO
    return FP_BLOCKED


cdef FpStatus channel_write(Channel* ch) noexcept nogil:
    cdef ssize_t n
    cdef size_t offered
    while True:
        channel_advance(ch, 0)
        if ch.iov_count == 0:
            return channel_finish_write(ch)
        n = ch.transport.send_iov(ch, ch.iov, ch.iov_count, &offered)
        if n == -EAGAIN:
            return FP_BLOCKED
        if n < 0:
            channel_break(ch, <int32_t>-n)
            return FP_IO
        ch.sent_bytes += n
        channel_advance(ch, <size_t>n)
        if <size_t>n < offered:
            return FP_BLOCKED   # the socket is full: asking again would only be told so


cdef FpStatus channel_finish_write(Channel* ch) noexcept nogil:
    """All is taken: it is sent when the transport keeps none of it back."""
    cdef ssize_t left = 0
    if ch.transport.flush != NULL:
        left = ch.transport.flush(ch)
    if left == -EAGAIN:
        return FP_BLOCKED
    if left < 0:
        channel_break(ch, <int32_t>-left)
        return FP_IO
    ch.iov = NULL
    return FP_OK


cdef void channel_advance(Channel* ch, size_t sent) noexcept nogil:
    """Consume `sent` bytes and every entry that is then empty."""
    while ch.iov_count > 0 and ch.iov.iov_len <= sent:
        sent -= ch.iov.iov_len
        ch.iov += 1
        ch.iov_count -= 1
    if sent > 0:
        ch.iov.iov_base = <uint8_t*>ch.iov.iov_base + sent
        ch.iov.iov_len -= sent


cdef void channel_break(Channel* ch, int32_t err) noexcept nogil:
    """Nothing more can be sent. What the peer sent before may still be read (P-G.7.5)."""
    ch.broken = True
    ch.err = err
    ch.iov = NULL
    ch.iov_count = 0
    channel_make_due(ch)


# Receiving. The buffer holds, from rstart to rend: the delivered frame, then what follows it.

cdef FpStatus channel_frame(Channel* ch, size_t* total) noexcept nogil:
    """Look at the frame behind the delivered one; `total` is its size, or what is known of it."""
    cdef size_t at = ch.rstart + ch.rdelivered
    cdef size_t have = ch.rend - at
    cdef int32_t size
    if have < PREFIX_BYTES:
        total[0] = PREFIX_BYTES
        return FP_BLOCKED
    size = <int32_t>fp_get_u32(ch.rbuf + at)
    if size < 0:
        ch.bad_size = size
        ch.close_reason = CLOSE_BAD_FRAME
        return FP_PROTOCOL
    if ch.max_receive_bytes >= 0 and size > ch.max_receive_bytes:
        ch.bad_size = size
        ch.close_reason = CLOSE_FRAME_TOO_LARGE
        return FP_TOO_LARGE
    total[0] = PREFIX_BYTES + <size_t>size
    return FP_OK if have >= total[0] else FP_BLOCKED


cdef bint channel_has_buffered(Channel* ch) noexcept nogil:
    cdef size_t total
    return channel_frame(ch, &total) != FP_BLOCKED


cdef FpStatus channel_read(Channel* ch, bint may_receive) noexcept nogil:
    cdef size_t total = 0
    cdef size_t asked
    cdef ssize_t n
    cdef int64_t turn_end = ch.received_bytes + TURN_BYTES
    cdef FpStatus status = channel_frame(ch, &total)
    cdef FpStatus room
    while status == FP_BLOCKED and may_receive:
        room = channel_make_room(ch, total)
        if room == FP_BLOCKED:
            return FP_BLOCKED
        if room != FP_OK:
            ch.close_reason = CLOSE_NO_MEMORY
            ch.err = ENOMEM
            return FP_NOMEM
        asked = ch.rcap - ch.rend
        n = ch.transport.receive(ch, ch.rbuf + ch.rend, asked)
        if n == -EAGAIN:
            return FP_BLOCKED
        if n <= 0:
            if ch.close_reason == CLOSE_NONE:
                ch.close_reason = CLOSE_REMOTE
            if n < 0:
                ch.err = <int32_t>-n
            return FP_IO
        ch.rend += <size_t>n
        ch.received_bytes += n
        status = channel_frame(ch, &total)
        # A broken channel reads up to the end of what the kernel still holds.
        if not ch.broken:
            may_receive = <size_t>n == asked and ch.received_bytes < turn_end
    if status == FP_OK:
        ch.unfinished_since_ns = 0
        ch.rdelivered = total
        # Halved by each smaller frame, so that a buffer is cut after a few of them and not
        # between the large frames of a mixed stream.
        ch.rusual = total if total > ch.rusual // 2 else ch.rusual // 2
    return status


cdef FpStatus channel_make_room(Channel* ch, size_t total) noexcept nogil:
    """Make room behind rend for a frame of `total` bytes, of which less has arrived.

    The buffer doubles while data arrives, up to the frame's size: whoever announces 2 GB and sends
    10 bytes gets the first buffer, no more. Each byte is moved at most once, to the front.
    FP_BLOCKED: the pool has no room for more; the bytes stay with the kernel, and so the sender
    comes to a halt.
    """
    cdef size_t held = ch.rend - ch.rstart
    cdef size_t expected = total if total > ch.rusual else ch.rusual
    cdef size_t capacity = ch.rcap
    cdef void* moved
    if ch.rstart > 0:
        if held > 0:
            memmove(ch.rbuf, ch.rbuf + ch.rstart, held)
        ch.rstart = 0
        ch.rend = held
    if capacity > SMALL_BUFFER_BYTES and expected <= capacity // 4:
        capacity = expected
    elif capacity == 0:
        capacity = ch.rusual    # its last buffer was given away with a frame, or was a large one
    elif held == capacity:
        capacity = capacity * 2 if capacity * 2 < total else total
    else:
        return FP_OK
    if capacity < FIRST_BUFFER_BYTES:
        capacity = FIRST_BUFFER_BYTES
    if capacity > SMALL_BUFFER_BYTES and capacity > ch.rcap and not channel_may_hold(ch, capacity):
        if ch.rcap > 0:
            return FP_BLOCKED
        capacity = FIRST_BUFFER_BYTES   # instead of the usual size
    moved = realloc(ch.rbuf, capacity)
    if moved == NULL:
        return FP_NOMEM
    ch.rbuf = <uint8_t*>moved
    ch.rcap = capacity
    channel_hold(ch)
    return FP_OK


# The pool: what all large receive buffers of a selector may take together.

cdef bint channel_may_hold(Channel* ch, size_t capacity) noexcept nogil:
    cdef int64_t others = ch.loop.held_bytes - <int64_t>ch.held
    if ch.unfinished_since_ns == 0:
        ch.unfinished_since_ns = fp_now_ns()
    # As in Kafka, what is left may be overdrawn by one frame, but not when nothing is left.
    if ch.loop.pool_bytes < 0 or (others == 0 and ch.loop.pool_bytes > 0):
        return True
    if others + <int64_t>capacity <= ch.loop.pool_bytes:
        return True
    ch.loop.is_short = True
    return False


cdef void channel_hold(Channel* ch) noexcept nogil:
    cdef size_t counted = ch.rcap if ch.rcap > SMALL_BUFFER_BYTES else 0
    ch.loop.held_bytes += <int64_t>counted - <int64_t>ch.held
    ch.held = counted


cdef void channel_hold_nothing(Channel* ch) noexcept nogil:
    ch.loop.held_bytes -= <int64_t>ch.held
    ch.held = 0
    ch.unfinished_since_ns = 0


cdef uint8_t* channel_take_delivered(Channel* ch, uint8_t** memory) noexcept nogil:
    cdef uint8_t* frame = ch.rbuf + ch.rstart
    cdef size_t size = ch.rdelivered
    cdef size_t rest = ch.rend - ch.rstart - size
    cdef size_t capacity = FIRST_BUFFER_BYTES
    cdef uint8_t* fresh = NULL
    if size < TAKEN_BYTES or rest > size // 4:
        memory[0] = <uint8_t*>malloc(size)
        if memory[0] == NULL:
            return NULL
        memcpy(memory[0], frame, size)
        return memory[0] + PREFIX_BYTES
    if rest > 0:
        capacity = max(capacity, rest)
        fresh = <uint8_t*>malloc(capacity)
        if fresh == NULL:
            return NULL
        memcpy(fresh, frame + size, rest)
    memory[0] = ch.rbuf
    ch.rbuf = fresh
    ch.rcap = capacity if rest > 0 else 0
    ch.rstart = 0
    ch.rend = rest
    ch.rdelivered = 0
    channel_hold(ch)
    return frame + PREFIX_BYTES


cdef void channel_release_delivered(Channel* ch) noexcept nogil:
    ch.rstart += ch.rdelivered
    ch.rdelivered = 0
    if ch.rstart < ch.rend:
        return
    ch.rstart = 0
    ch.rend = 0
    if ch.rcap > (SMALL_BUFFER_BYTES if ch.loop.pool_bytes >= 0 else KEPT_BUFFER_BYTES):
        free(ch.rbuf)
        ch.rbuf = NULL
        ch.rcap = 0
        channel_hold(ch)


# The loop's two lists and the poller.

cdef FpStatus channel_watch(Channel* ch, uint32_t interest) noexcept nogil:
    """Register another interest. FP_IO: the channel is broken."""
    cdef int err
    if interest == ch.interest:
        return FP_OK
    err = fp_poller_update(ch.loop.poller, ch.fd, ch, ch.interest, interest)
    if err != 0:
        channel_break(ch, err)
        return FP_IO
    ch.interest = interest
    return FP_OK


cdef void channel_make_due(Channel* ch) noexcept nogil:
    if not ch.is_due:
        ch.is_due = True
        ch.due_next = ch.loop.due
        ch.loop.due = ch


cdef void channel_enlist(Channel* ch, int64_t now_ns) noexcept nogil:
    """Put it behind the newest of the least-recently-used list."""
    ch.last_active_ns = now_ns
    ch.lru_next = NULL
    ch.lru_prev = ch.loop.newest
    if ch.loop.newest == NULL:
        ch.loop.oldest = ch
    else:
        ch.loop.newest.lru_next = ch
    ch.loop.newest = ch


cdef void channel_unlist(Channel* ch) noexcept nogil:
    if ch.lru_prev == NULL:
        ch.loop.oldest = ch.lru_next
    else:
        ch.lru_prev.lru_next = ch.lru_next
    if ch.lru_next == NULL:
        ch.loop.newest = ch.lru_prev
    else:
        ch.lru_next.lru_prev = ch.lru_prev


cdef void channel_touch(Channel* ch, int64_t now_ns) noexcept nogil:
    if ch.loop.newest == ch:
        ch.last_active_ns = now_ns
        return
    channel_unlist(ch)
    channel_enlist(ch, now_ns)


cdef void channel_inherit_idleness(Channel* ch, Channel* old) noexcept nogil:
    """Put `ch` right before `old` in the least-recently-used list."""
    channel_unlist(ch)
    ch.last_active_ns = old.last_active_ns
    ch.lru_prev = old.lru_prev
    ch.lru_next = old
    if old.lru_prev == NULL:
        old.loop.oldest = ch
    else:
        old.lru_prev.lru_next = ch
    old.lru_prev = ch

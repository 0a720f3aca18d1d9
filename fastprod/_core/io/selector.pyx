"""Selector: many channels, one thread, no idea what is in the frames (contract P-G.7)."""
from libc.errno cimport ENOMEM
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from fastprod._core.bytes.fp_status cimport FP_BLOCKED, FP_IO, FP_NOMEM, FP_OK, FpStatus, check
from fastprod._core.bytes.sync cimport (
    fp_fence,
    fp_load_i32,
    fp_mutex_init,
    fp_mutex_lock,
    fp_mutex_unlock,
    fp_now_ns,
    fp_store_i32,
    fp_store_i64,
    fp_wake_clear,
    fp_wake_close,
    fp_wake_open,
    fp_wake_signal,
    fp_xchg_i32,
)
from fastprod._core.io.channel cimport (
    CH_CLOSED,
    CH_CONNECTING,
    CH_OPEN,
    CLOSE_EXPIRED,
    CLOSE_FAILED_SEND,
    CLOSE_FRAME_TOO_LARGE,
    CLOSE_LOCAL,
    CLOSE_NONE,
    CLOSE_NOT_CONNECTED,
    CLOSE_OUTGROWN,
    CLOSE_REMOTE,
    FP_POLL_IN,
    FP_POLL_OUT,
    Channel,
    Transport,
    channel_enlist,
    channel_has_buffered,
    channel_hold_nothing,
    channel_make_due,
    channel_read,
    channel_release_delivered,
    channel_touch,
    channel_unlist,
    channel_watch,
    channel_write,
    fp_poller,
)

cdef extern from "c/fp_poll.h" nogil:
    fp_poller* fp_poller_new(int force_poll) noexcept
    void fp_poller_free(fp_poller* p) noexcept
    void fp_poller_abandon(fp_poller* p) noexcept
    int fp_poller_add(fp_poller* p, int fd, void* cookie, uint32_t interest) noexcept
    void fp_poller_remove(fp_poller* p, int fd, uint32_t interest) noexcept
    int fp_poller_wait(fp_poller* p, int64_t timeout_ns, int on_time) noexcept
    const char* fp_poller_name(const fp_poller* p) noexcept

cdef extern from "c/fp_sock.h" nogil:
    void fp_sock_tune(int fd, int32_t send_bytes, int32_t receive_bytes) noexcept
    int fp_sock_adopt(int fd) noexcept
    int fp_sock_open(const void* address) noexcept
    int fp_sock_connect(int fd, const void* address, uint32_t address_size) noexcept

cdef extern from "<unistd.h>" nogil:
    int posix_close "close"(int fd) noexcept

cdef enum:
    PREFIX_BYTES = 4
    # When the pool is exhausted a large frame has so long to arrive.
    UNFINISHED_NS = 1_000_000_000


# Life of the selector.

cdef FpStatus selector_init(Selector* s, bint force_poll, int64_t max_receive_bytes) noexcept nogil:
    memset(s, 0, sizeof(Selector))
    fp_mutex_init(&s.wake_lock)
    s.wake.read_fd = -1
    s.wake.write_fd = -1
    s.opening_fd = -1
    s.max_receive_bytes = max_receive_bytes
    s.loop.pool_bytes = -1
    s.next_id = 1
    s.loop.poller = fp_poller_new(force_poll)
    if s.loop.poller == NULL:
        return FP_IO
    if fp_wake_open(&s.wake) == 0 and fp_poller_add(
        s.loop.poller, s.wake.read_fd, NULL, FP_POLL_IN
    ) == 0:
        return FP_OK
    _free_all(s)
    return FP_IO


cdef void selector_destroy(Selector* s) noexcept nogil:
    while s.channel_count > 0:
        _close(s, s.channels[s.channel_count - 1], CLOSE_LOCAL, 0)
    _free_all(s)


cdef void selector_abandon(Selector* s) noexcept nogil:
    # 1. The parent's poller calls realloc: the old block is free. 2. Another thread forks. 3. Here
    # the pointer still names the old block. So nothing is freed, it stays with the parent's pages.
    cdef uint32_t i
    for i in range(s.channel_count):
        posix_close(s.channels[i].fd)
        if s.channels[i].fd == s.opening_fd:
            s.opening_fd = -1   # the fork came right after it had become a channel's
    if s.opening_fd >= 0:
        posix_close(s.opening_fd)
        s.opening_fd = -1       # a child of this child abandons again: its number is another's then
    fp_mutex_init(&s.wake_lock)
    fp_wake_close(&s.wake)
    fp_poller_abandon(s.loop.poller)
    _forget_all(s)


cdef void _free_all(Selector* s) noexcept nogil:
    _free_closed(s)
    fp_mutex_lock(&s.wake_lock)
    fp_wake_close(&s.wake)
    fp_mutex_unlock(&s.wake_lock)
    fp_poller_free(s.loop.poller)
    free(s.loop.spare_output)
    free(s.channels)
    free(s.connected)
    free(s.completed_sends)
    free(s.receives)
    free(s.disconnected)
    _forget_all(s)


cdef void _forget_all(Selector* s) noexcept nogil:
    """Keeps the counters, and the lock, which a late selector_wake may hold."""
    memset(&s.loop, 0, sizeof(s.loop))
    fp_store_i32(&s.parked, 0)
    s.channels = NULL
    s.channel_count = 0
    s.channel_capacity = 0
    s.connected = NULL
    s.connected_count = 0
    s.completed_sends = NULL
    s.completed_send_count = 0
    s.receives = NULL
    s.receive_count = 0
    s.disconnected = NULL
    s.disconnected_count = 0
    s.has_buffered = False
    s.list_capacity = 0
    s.closed = NULL


cdef void _free_closed(Selector* s) noexcept nogil:
    cdef Channel* ch
    while s.closed != NULL:
        ch = s.closed
        s.closed = ch.closed_next
        free(ch.rbuf)
        free(ch.text)
        free(ch)


cdef const char* selector_backend(Selector* s) noexcept nogil:
    return fp_poller_name(s.loop.poller)


# Channels come and go.

cdef Channel* selector_connect(
    Selector* s, const void* address, uint32_t address_size, int32_t send_buffer_bytes,
    int32_t receive_buffer_bytes, const Transport* transport, void* session, void* owner, int* err
) noexcept nogil:
    cdef Channel* ch
    cdef int refused
    cdef int fd = fp_sock_open(address)
    if fd < 0:
        err[0] = -fd
        return NULL
    s.opening_fd = fd
    fp_sock_tune(fd, send_buffer_bytes, receive_buffer_bytes)
    refused = fp_sock_connect(fd, address, address_size)
    # An immediate success is writable at once, so that the next poll finds it like any other.
    ch = _add(
        s, fd, CH_CONNECTING, FP_POLL_OUT if refused == 0 else 0, transport, session, owner, err)
    s.opening_fd = -1
    if ch == NULL:
        posix_close(fd)
    elif refused != 0:
        ch.err = refused
        channel_make_due(ch)
    return ch


cdef Channel* selector_register(
    Selector* s, int fd, const Transport* transport, void* session, void* owner, int* err
) noexcept nogil:
    err[0] = fp_sock_adopt(fd)
    if err[0] != 0:
        return NULL
    fp_sock_tune(fd, -1, -1)
    return _add(
        s, fd, CH_OPEN if session == NULL else CH_CONNECTING, FP_POLL_IN, transport, session,
        owner, err)


cdef Channel* _add(
    Selector* s, int fd, int32_t state, uint32_t interest, const Transport* transport,
    void* session, void* owner, int* err
) noexcept nogil:
    cdef uint32_t capacity = s.channel_capacity
    cdef Channel* ch
    if s.channel_count == capacity:
        capacity = capacity * 2 if capacity > 0 else 16
        if not _resize(<void**>&s.channels, capacity, sizeof(Channel*)):
            err[0] = ENOMEM
            return NULL
        s.channel_capacity = capacity
    ch = <Channel*>calloc(1, sizeof(Channel))
    if ch == NULL:
        err[0] = ENOMEM
        return NULL
    err[0] = fp_poller_add(s.loop.poller, fd, ch, interest)
    if err[0] != 0:
        free(ch)
        return NULL
    ch.fd = fd
    ch.transport = transport
    ch.session = session
    ch.state = state
    ch.interest = interest
    ch.max_receive_bytes = s.max_receive_bytes
    ch.owner = owner
    ch.loop = &s.loop
    ch.id = s.next_id
    s.next_id += 1
    ch.slot = s.channel_count
    s.channels[s.channel_count] = ch
    s.channel_count += 1
    channel_enlist(ch, fp_now_ns())
    return ch


cdef bint _resize(void** array, size_t count, size_t item_bytes) noexcept nogil:
    cdef void* moved = realloc(array[0], count * item_bytes)
    if moved == NULL:
        return False
    array[0] = moved
    return True


cdef void selector_close(Selector* s, Channel* ch) noexcept nogil:
    if ch.state != CH_CLOSED:
        _close(s, ch, CLOSE_LOCAL, 0)


cdef void _close(Selector* s, Channel* ch, int32_t reason, int32_t err) noexcept nogil:
    """Close the socket. The memory goes at the next poll: lists and users still point to it."""
    cdef Channel* last
    fp_poller_remove(s.loop.poller, ch.fd, ch.interest)
    ch.transport.hang_up(ch)
    ch.state = CH_CLOSED
    ch.close_reason = reason
    ch.err = err
    ch.interest = 0
    ch.iov = NULL
    ch.iov_count = 0
    channel_unlist(ch)
    channel_hold_nothing(ch)
    s.channel_count -= 1
    last = s.channels[s.channel_count]
    s.channels[ch.slot] = last
    last.slot = ch.slot
    ch.closed_next = s.closed
    s.closed = ch


cdef void selector_mute(Selector* s, Channel* ch, bint muted) noexcept nogil:
    ch.muted = muted
    if muted or ch.state != CH_OPEN:
        return
    channel_watch(ch, ch.interest | FP_POLL_IN)
    if _has_more(ch):
        _read_again(s, ch)


cdef void selector_limit(Selector* s, Channel* ch, int64_t max_bytes) noexcept nogil:
    cdef int64_t most = s.max_receive_bytes
    ch.max_receive_bytes = most if max_bytes < 0 or 0 <= most < max_bytes else max_bytes
    # A look ahead may have found a frame that was too large until now.
    if ch.state != CH_CLOSED and ch.close_reason == CLOSE_FRAME_TOO_LARGE:
        ch.close_reason = CLOSE_NONE


# Polling.

cdef FpStatus selector_poll(Selector* s, int64_t timeout_ns, int64_t max_idle_ns) noexcept nogil:
    cdef FpStatus status = _begin(s)
    if status == FP_OK:
        status = _look(s, timeout_ns, max_idle_ns, False, NULL)
    else:
        fp_store_i32(&s.parked, 0)
    return status


cdef FpStatus selector_poll_until_event(
    Selector* s, int64_t timeout_ns, int64_t max_idle_ns
) noexcept nogil:
    cdef int64_t end_ns = fp_now_ns() + timeout_ns
    cdef int64_t left_ns = timeout_ns
    cdef bint has_moved = True
    cdef FpStatus status = _begin(s)
    while status == FP_OK and has_moved and not _has_event(s):
        status = _look(s, left_ns, max_idle_ns, True, &has_moved)
        # Without room in the pool the caller has to say what has been given back.
        if s.loop.is_short or fp_load_i32(&s.parked) == 0:
            break
        if timeout_ns >= 0:
            left_ns = end_ns - fp_now_ns()
            if left_ns <= 0:
                break
    fp_store_i32(&s.parked, 0)
    return status


cdef bint _has_event(Selector* s) noexcept nogil:
    return s.receive_count > 0 or s.completed_send_count > 0 or s.disconnected_count > 0


cdef FpStatus _look(
    Selector* s, int64_t timeout_ns, int64_t max_idle_ns, bint stays_parked, bint* has_moved
) noexcept nogil:
    """Wait once, and move what is ready; `has_moved`, unless NULL: whether anything was."""
    cdef int64_t started_ns = fp_now_ns()
    cdef int64_t now_ns
    cdef int ready_count
    cdef int i
    cdef void* cookie
    cdef bint has_due = s.loop.due != NULL
    fp_store_i64(&s.idle_ns, s.idle_ns - started_ns)
    if s.owner_lock != NULL:
        fp_mutex_unlock(s.owner_lock)
    ready_count = fp_poller_wait(
        s.loop.poller, 0 if has_due else timeout_ns, s.ends_on_time)
    if not stays_parked:
        fp_store_i32(&s.parked, 0)
    if s.owner_lock != NULL:
        fp_mutex_lock(s.owner_lock)
    now_ns = fp_now_ns()
    s.polls += 1
    s.io_wait_ns += now_ns - started_ns
    fp_store_i64(&s.idle_ns, s.idle_ns + now_ns)
    if has_moved != NULL:
        has_moved[0] = has_due or ready_count > 0
    if ready_count < 0:
        return FP_IO
    s.has_buffered = False
    # First: what closes here must not also have completed a send in this poll.
    if s.loop.is_short:
        _make_pool_room(s, now_ns)
    _visit_due(s, now_ns)
    for i in range(ready_count):
        cookie = s.loop.poller.ready[i].cookie
        if cookie == NULL:
            fp_wake_clear(&s.wake)
        else:
            _visit(s, <Channel*>cookie, s.loop.poller.ready[i].ready, now_ns)
    if max_idle_ns >= 0 and s.loop.oldest != NULL:
        if now_ns - s.loop.oldest.last_active_ns > max_idle_ns:
            _disconnect(s, s.loop.oldest, CLOSE_EXPIRED, 0)
    return FP_OK


cdef FpStatus _begin(Selector* s) noexcept nogil:
    """End the validity of the last poll's lists."""
    cdef Channel** link = &s.loop.due
    cdef Channel* ch
    cdef uint32_t i
    for i in range(s.receive_count):
        if s.receives[i].channel.state == CH_OPEN:
            channel_release_delivered(s.receives[i].channel)
    s.connected_count = 0
    s.completed_send_count = 0
    s.receive_count = 0
    s.disconnected_count = 0
    while link[0] != NULL:
        ch = link[0]
        if ch.state == CH_CLOSED or _waits_for_unmute(ch):
            link[0] = ch.due_next
            ch.is_due = False
        else:
            link = &ch.due_next
    _free_closed(s)
    if s.list_capacity < s.channel_capacity:
        return _grow_lists(s)
    return FP_OK


cdef void _make_pool_room(Selector* s, int64_t now_ns) noexcept nogil:
    """Close whoever has been at its frame the longest, if that is long.

    Else the others wait: a fast sender gives its room back soon, and until then the poll does not
    sleep, because theirs is ready to be read. Nobody is slow while frames that were delivered fill
    the pool.
    """
    cdef Channel* oldest = NULL
    cdef Channel* ch
    cdef uint32_t i
    s.loop.is_short = False
    for i in range(s.channel_count):
        ch = s.channels[i]
        if ch.unfinished_since_ns == 0 and ch.held == 0:
            continue
        # 0: the rest of a frame in too large a buffer.
        if ch.unfinished_since_ns == 0 or s.loop.pool_bytes == 0:
            ch.unfinished_since_ns = now_ns
        if oldest == NULL or ch.unfinished_since_ns < oldest.unfinished_since_ns:
            oldest = ch
    if oldest != NULL and now_ns - oldest.unfinished_since_ns > UNFINISHED_NS:
        _disconnect(s, oldest, CLOSE_OUTGROWN, 0)


cdef bint _waits_for_unmute(Channel* ch) noexcept nogil:
    return ch.state == CH_OPEN and ch.muted and not ch.broken and not ch.failed_send


cdef FpStatus _grow_lists(Selector* s) noexcept nogil:
    cdef size_t capacity = s.channel_capacity
    if (
        not _resize(<void**>&s.connected, capacity, sizeof(Channel*))
        or not _resize(<void**>&s.completed_sends, capacity, sizeof(Channel*))
        or not _resize(<void**>&s.receives, capacity, sizeof(Receive))
        or not _resize(<void**>&s.disconnected, capacity, sizeof(Channel*))
    ):
        return FP_NOMEM
    s.list_capacity = s.channel_capacity
    return FP_OK


cdef void _visit_due(Selector* s, int64_t now_ns) noexcept nogil:
    cdef Channel* ch = s.loop.due
    cdef Channel* following
    s.loop.due = NULL
    while ch != NULL:
        following = ch.due_next
        ch.is_due = False
        _visit(s, ch, 0, now_ns)
        ch = following


cdef void _visit(Selector* s, Channel* ch, uint32_t ready, int64_t now_ns) noexcept nogil:
    if ch.state == CH_CONNECTING:
        _finish_connect(s, ch, now_ns)
    elif ch.state == CH_OPEN:
        if ch.failed_send:
            _disconnect(s, ch, CLOSE_FAILED_SEND, 0)
        elif _read(s, ch, ready, now_ns) and ready & FP_POLL_OUT:
            _write(s, ch, now_ns)


cdef void _disconnect(Selector* s, Channel* ch, int32_t reason, int32_t err) noexcept nogil:
    _close(s, ch, reason, err)
    ch.reported = True
    s.disconnected[s.disconnected_count] = ch
    s.disconnected_count += 1


cdef void _lose(Selector* s, Channel* ch) noexcept nogil:
    """It is broken, and what could be read has been."""
    _disconnect(s, ch, CLOSE_REMOTE if ch.close_reason == CLOSE_NONE else ch.close_reason, ch.err)


cdef void _finish_connect(Selector* s, Channel* ch, int64_t now_ns) noexcept nogil:
    cdef uint32_t wants = 0
    cdef FpStatus status
    if ch.err != 0:         # of connect, or of the poller
        _disconnect(s, ch, CLOSE_NOT_CONNECTED, ch.err)
        return
    status = ch.transport.handshake(ch, &wants)
    if status == FP_BLOCKED:
        channel_touch(ch, now_ns)
        channel_watch(ch, wants)
        return
    if status != FP_OK:
        _disconnect(s, ch, ch.close_reason, ch.err)
        return
    ch.state = CH_OPEN
    channel_touch(ch, now_ns)
    channel_watch(ch, FP_POLL_IN)
    if ch.transport.has_pending(ch):
        _read_again(s, ch)
    s.connected[s.connected_count] = ch
    s.connected_count += 1


cdef bint _read(Selector* s, Channel* ch, uint32_t ready, int64_t now_ns) noexcept nogil:
    """Deliver at most one frame. False: the channel has been closed."""
    cdef bint readable = (ready & FP_POLL_IN) != 0
    cdef FpStatus status
    if ch.muted:
        if ch.broken:
            _lose(s, ch)
            return False
        if readable:
            channel_watch(ch, ch.interest & ~<uint32_t>FP_POLL_IN)
        return True
    if ch.rdelivered > 0:
        return True
    status = channel_read(ch, readable or ch.broken or ch.transport.has_pending(ch))
    if status == FP_OK:
        channel_touch(ch, now_ns)
        s.receives[s.receive_count].channel = ch
        s.receives[s.receive_count].data = ch.rbuf + ch.rstart + PREFIX_BYTES
        s.receives[s.receive_count].size = <uint32_t>(ch.rdelivered - PREFIX_BYTES)
        s.receive_count += 1
        if ch.broken or _has_more(ch):
            _read_again(s, ch)
    elif status != FP_BLOCKED:
        _disconnect(s, ch, ch.close_reason, ch.err)
        return False
    elif ch.broken:
        _lose(s, ch)
        return False
    else:
        if readable:
            channel_touch(ch, now_ns)
        if ch.transport.has_pending(ch):
            _read_again(s, ch)
    return True


cdef bint _has_more(Channel* ch) noexcept nogil:
    """There is something to read that no readiness will tell of."""
    return channel_has_buffered(ch) or ch.transport.has_pending(ch)


cdef void _read_again(Selector* s, Channel* ch) noexcept nogil:
    """More may be delivered without new readiness: the next poll must not sleep (P-G.7.3)."""
    s.has_buffered = True
    channel_make_due(ch)


cdef void _write(Selector* s, Channel* ch, int64_t now_ns) noexcept nogil:
    """Go on with the send under way; without one, the interest was left on for the next, or the
    transport has bytes of its own."""
    cdef bint is_idle = ch.iov == NULL
    cdef FpStatus status = channel_write(ch)
    if is_idle:
        if status == FP_OK:
            channel_watch(ch, ch.interest & ~<uint32_t>FP_POLL_OUT)
        return
    channel_touch(ch, now_ns)
    if status == FP_OK:
        s.completed_sends[s.completed_send_count] = ch
        s.completed_send_count += 1


# Waking. The poller 1. parks, 2. looks for work, 3. sleeps; a waker 1. publishes work, 2. looks at
# `parked`. With a full fence between 1 and 2 on both sides at least one of them sees the other. Of
# several wakers the exchange lets one write. A write that comes late, when the poller has gone on
# by itself, ends some later wait for nothing, which harms nobody.

cdef void selector_wake(Selector* s) noexcept nogil:
    if fp_load_i32(&s.parked) != 0 and fp_xchg_i32(&s.parked, 0) != 0:
        fp_mutex_lock(&s.wake_lock)     # the write may be so late that the selector is gone
        if s.wake.write_fd >= 0:
            fp_wake_signal(&s.wake)
        fp_mutex_unlock(&s.wake_lock)


cdef void selector_park(Selector* s) noexcept nogil:
    fp_store_i32(&s.parked, 1)
    fp_fence()


# What Python sees.

def poll_backend(bint force_poll=False) -> str:
    """See the .pyi."""
    cdef Selector selector
    check(selector_init(&selector, force_poll, -1))
    name = selector_backend(&selector).decode()
    selector_destroy(&selector)
    return name

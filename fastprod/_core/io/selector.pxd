"""Selector: many channels, one thread, no idea what is in the frames (contract P-G.7)."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.bytes.sync cimport fp_mutex, fp_wake
from fastprod._core.io.channel cimport Channel, ChannelLoop, Transport

cdef struct Receive:
    # One complete frame, size prefix stripped.
    # BORROWS `data` from the channel's buffer: valid until the next selector_poll.
    Channel* channel
    const uint8_t* data
    uint32_t size

cdef struct Selector:
    # OWNER    one I/O loop (client Sender, broker Processor).   FREED BY selector_destroy.
    # THREADS  the polling thread; selector_wake from any thread.
    # The four lists are valid from one selector_poll to the next. A channel is never both in
    # `disconnected` and in another list. The struct must not move: channels point into it.
    ChannelLoop loop            # holds the poller: epoll, or poll(2) if there is none or if forced
    fp_wake wake                # readable when somebody called selector_wake
    fp_mutex wake_lock          # held to write to `wake` and to close it
    int32_t parked              # atomic: 1 while the poller may sleep
    # Polls end at their time-out, if the poller can (`is_exact`), not at the next millisecond.
    bint ends_on_time
    fp_mutex* owner_lock        # borrowed; held by who polls, but not while it sleeps; or NULL
    int64_t max_receive_bytes   # frame limit of every new channel, < 0: none
    Channel** channels          # owned; `channel_count` live channels
    uint32_t channel_count
    uint32_t channel_capacity
    uint64_t next_id
    Channel** connected         # channels that became CH_OPEN: their transport is ready
    uint32_t connected_count
    Channel** completed_sends   # channels whose blocked send finished
    uint32_t completed_send_count
    Receive* receives           # at most one per channel
    uint32_t receive_count
    Channel** disconnected      # closed by the peer, by an error, by expiry (not by selector_close)
    uint32_t disconnected_count
    bint has_buffered           # a complete frame is waiting in some buffer: do not sleep
    int opening_fd              # -1, or a socket that is about to be a channel's: for a fork
    int64_t polls               # counters for metrics
    int64_t io_wait_ns
    # The same, atomic. Below 0 while a poll waits: the clock's time is to be added then. In one
    # number, so that no reader sees a wait that ends twice, or not at all.
    int64_t idle_ns
    uint32_t list_capacity      # private: entries each of the four lists can hold
    Channel* closed             # private: owned; freed by the next selector_poll

# FP_NOMEM, or FP_IO with errno when there is no descriptor left; then nothing is held.
cdef FpStatus selector_init(Selector* s, bint force_poll, int64_t max_receive_bytes) noexcept nogil
# May be repeated; selector_wake is harmless afterwards, and the counters stay.
cdef void selector_destroy(Selector* s) noexcept nogil

# After a fork, in the child: close the inherited descriptors without touching the kernel's epoll
# set, which the parent still uses, and without shutting a connection down. Frees nothing: the
# parent's thread may have been anywhere.
cdef void selector_abandon(Selector* s) noexcept nogil

# "epoll" or "poll".
cdef const char* selector_backend(Selector* s) noexcept nogil

# Start a non-blocking connect (TCP_NODELAY, SO_KEEPALIVE; buffer sizes unless -1). NULL with *err
# set when not even a socket could be made. Success or failure of the connect itself, immediate
# ones included, and of the transport's handshake is reported by a selector_poll (`connected` or
# `disconnected`). `transport` has to live as long as the channel. `session`, the transport's own,
# is the channel's from here on; with NULL as the answer it is still the caller's.
cdef Channel* selector_connect(
    Selector* s, const void* address, uint32_t address_size, int32_t send_buffer_bytes,
    int32_t receive_buffer_bytes, const Transport* transport, void* session, void* owner, int* err
) noexcept nogil

# Adopt an accepted, connected descriptor; the selector owns it from here on. Without a `session` of
# the transport it is open at once and not listed in `connected`; with one the handshake comes
# first. NULL with *err: descriptor and session are still the caller's.
cdef Channel* selector_register(
    Selector* s, int fd, const Transport* transport, void* session, void* owner, int* err
) noexcept nogil

# Close at once, as CLOSE_LOCAL; not listed in `disconnected`. The Channel stays readable until the
# next selector_poll.
cdef void selector_close(Selector* s, Channel* ch) noexcept nogil

# Stop or resume reading. No system call unless bytes arrive while the channel is muted, so that a
# server may mute for the time of each request.
cdef void selector_mute(Selector* s, Channel* ch, bint muted) noexcept nogil

# Take frames of at most `max_bytes` from one channel from its next frame on; < 0, or more than the
# selector's own limit: that. A larger one closes it as soon as its size is known.
cdef void selector_limit(Selector* s, Channel* ch, int64_t max_bytes) noexcept nogil

# Wait up to `timeout_ns` (0: do not wait; < 0: no bound) for readiness, move bytes, fill the lists.
# With `max_idle_ns` >= 0 at most one channel, the least recently used, is expired per poll
# (P-G.3.1). It may return early and empty-handed (a wake, a signal, an interest dropped late).
# FP_IO with errno: the poller itself failed. FP_NOMEM: no room for the lists. Both leave the lists
# empty.
cdef FpStatus selector_poll(Selector* s, int64_t timeout_ns, int64_t max_idle_ns) noexcept nogil

# The same, for a loop that costs more than a look at the sockets: after selector_park it goes on,
# with `parked` set, while there is only a part of a frame, and ends with an entry in `receives`,
# `completed_sends` or `disconnected`, with a wake, at its time-out, or when nothing has moved or
# the pool is exhausted.
cdef FpStatus selector_poll_until_event(
    Selector* s, int64_t timeout_ns, int64_t max_idle_ns
) noexcept nogil

# Interrupt a sleeping poll, from any thread: one write to a descriptor, and only if it sleeps
# (`parked`). The waker publishes its work with a full fence before it calls this.
cdef void selector_wake(Selector* s) noexcept nogil

# Before sleeping the polling thread sets `parked` and must then look for work once more:
# selector_park() sets it with a full fence; selector_poll clears it.
cdef void selector_park(Selector* s) noexcept nogil

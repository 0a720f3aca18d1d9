"""KafkaChannel: one non-blocking connection that moves size-prefixed frames."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from fastprod._core.bytes.fp_status cimport FpStatus

cdef extern from "c/fp_sock.h" nogil:
    ctypedef struct fp_iovec:       # struct iovec
        void* iov_base
        size_t iov_len

cdef extern from "c/fp_poll.h" nogil:
    enum:
        FP_POLL_IN
        FP_POLL_OUT
    ctypedef struct fp_ready:
        void* cookie
        uint32_t ready
    ctypedef struct fp_poller:
        int epoll_fd                # -1: poll(2)
        int is_exact
        fp_ready* ready

cdef enum ChannelState:
    CH_CONNECTING = 0       # up to the end of the transport's handshake
    CH_OPEN = 1
    CH_CLOSED = 2

cpdef enum CloseReason:
    # Why a channel ended (contract P-G.7.8).
    CLOSE_NONE = 0
    CLOSE_NOT_CONNECTED = 1     # refused or unreachable: `err` is the errno of connect
    CLOSE_REMOTE = 2            # end of stream, or reset: `err` is 0 or the errno
    CLOSE_EXPIRED = 3           # idle longer than the limit
    CLOSE_FAILED_SEND = 4       # a second send was set while one was under way
    CLOSE_LOCAL = 5             # closed by the owner
    CLOSE_BAD_FRAME = 6         # a negative frame size
    CLOSE_FRAME_TOO_LARGE = 7   # a frame larger than max_receive; `bad_size` holds it
    CLOSE_NO_MEMORY = 8         # malloc failed for a frame within the limit
    CLOSE_OUTGROWN = 9          # its unfinished frame was the oldest when the pool was exhausted
    CLOSE_TLS = 10              # TLS failed: `tls_verify`, `tls_reason` and `text` say how
    CLOSE_PROXY = 11            # the proxy did not connect: `text` (word=value) and `err` say why

cdef struct Channel         # below

cdef struct Transport:
    # How a channel's bytes get to the other side: by a socket, and what lies over it. None of its
    # functions may block.
    #
    # OWNER    the module that makes it; constant.   THREADS the one that polls the channel.

    # The socket is ready for the first time, or is ready as `wants` asked: go on with what comes
    # before the first byte of the user. FP_OK: the channel is open. FP_BLOCKED: again when the
    # socket is ready for `wants[0]` (FP_POLL_IN or FP_POLL_OUT). FP_IO: the connection cannot be;
    # `close_reason` and `err` of the channel say why.
    FpStatus (*handshake)(Channel* ch, uint32_t* wants) noexcept nogil
    # Send from the entries, which stay as they are: bytes taken, or minus the errno; -EAGAIN: none
    # for now. `offered` is how many could be taken at once; if fewer were, the socket is full.
    ssize_t (*send_iov)(Channel* ch, fp_iovec* iov, int32_t count, size_t* offered) noexcept nogil
    # Give to the socket what was taken and is not there yet: 0: nothing is left; or minus the
    # errno; -EAGAIN: some is. NULL: what is taken is in the socket.
    ssize_t (*flush)(Channel* ch) noexcept nogil
    # Bytes received, 0 at the end of the stream, or minus the errno; -EAGAIN: none for now. Fewer
    # than `size`: there are no more for now. It may set `close_reason` with what ends the stream.
    ssize_t (*receive)(Channel* ch, void* buffer, size_t size) noexcept nogil
    # Whether `receive` has bytes that the poller does not know of.
    bint (*has_pending)(Channel* ch) noexcept nogil
    # Tell the peer, close the descriptor and free what the transport keeps of the channel.
    void (*hang_up)(Channel* ch) noexcept nogil

cdef struct ChannelLoop:
    # What the channels of one selector share.
    # OWNER    the Selector, of which it is a part.
    # THREADS  the thread that polls the selector.
    # BORROWS  the channels in its two lists; a channel leaves them before it is freed.
    fp_poller* poller           # owned by the Selector
    Channel* due                # to be visited by the next poll whatever the poller says
    Channel* oldest             # least recently used; next one by lru_next
    Channel* newest
    int64_t pool_bytes          # what large receive buffers may take together, < 0: no bound
    int64_t held_bytes          # what they take
    bint is_short               # a buffer could not grow in the last poll
    void* spare_output          # owned; a buffer that the transport's sends take turns in, or NULL

cdef struct Channel:
    # OWNER    the Selector.   FREED BY the Selector, at the poll after it was closed.
    # THREADS  the thread that polls the selector.
    # BORROWS  `iov` from whoever called channel_send, until that send has completed.
    int fd                      # -1 once closed
    const Transport* transport  # borrowed; how its bytes move
    void* session               # owned; what the transport keeps of it, until hang_up; or NULL
    int32_t state               # ChannelState
    int32_t close_reason        # CloseReason, valid when state is CH_CLOSED
    int32_t err                 # errno that closed it, or 0
    int32_t tls_verify          # of CLOSE_TLS: OpenSSL's X509_V_ERR_ of a certificate, or 0
    int32_t tls_reason          # of CLOSE_TLS: OpenSSL's SSL_R_, an alert's is 1000 + its number
    char* text                  # owned; of CLOSE_TLS and CLOSE_PROXY: key=value in lines, or NULL
    uint32_t slot               # index in Selector.channels
    uint32_t interest           # readiness now registered; may lag behind `muted` and `iov`
    int64_t max_receive_bytes   # a larger frame closes it, < 0: no limit (set by selector_limit)
    bint muted                  # reads are off (set by selector_mute)
    bint failed_send            # a send was set while busy: close at the next poll
    bint reported               # the disconnect has been listed
    void* owner                 # cookie of the selector's user
    fp_iovec* iov               # the send under way, or NULL
    int32_t iov_count           # entries left in `iov`
    int64_t sent_bytes          # total over the channel's life
    int64_t received_bytes      # total over the channel's life
    uint8_t* rbuf               # owned; receive buffer
    size_t rcap                 # bytes allocated
    size_t rstart               # first byte not yet delivered
    size_t rend                 # one past the last byte read
    size_t rdelivered           # bytes of the frame delivered in this poll (freed at the next)
    int64_t bad_size            # the frame size that closed the channel
    int64_t last_active_ns      # of any read or write readiness
    uint64_t id                 # unique over the selector's life
    # Private to channel.pyx and selector.pyx:
    ChannelLoop* loop           # borrowed from the Selector
    Channel* due_next
    Channel* lru_prev
    Channel* lru_next
    Channel* closed_next        # in the list of channels to be freed at the next poll
    size_t rusual               # decaying maximum of the sizes of the frames delivered
    size_t held                 # its part of loop.held_bytes
    int64_t unfinished_since_ns     # when its frame became a large one; 0: it is none
    bint is_due                 # in loop.due
    bint broken                 # a write failed: deliver what can be read, then close with `err`

# Start sending `count` iovecs (a whole frame, size prefix included). The entries are consumed in
# place. FP_OK: all bytes are in the socket. FP_BLOCKED: the rest goes out during polls and the
# channel shows up in Selector.completed_sends. FP_IO: failed; frames that can still be read are
# delivered, one per poll, then the channel shows up in Selector.disconnected (contract P-G.7.5; at
# the very next poll if it is muted or there are none). FP_BUSY: a send was under way (P-G.7.4: the
# channel closes with CLOSE_FAILED_SEND at the next poll). FP_CLOSED: not open. `iov` is free again
# after every answer but FP_BLOCKED; then it is borrowed until the channel shows up in
# completed_sends or disconnected, or is closed.
cdef FpStatus channel_send(Channel* ch, fp_iovec* iov, int32_t count) noexcept nogil

cdef bint channel_is_sending(Channel* ch) noexcept nogil

# The frame delivered by the last poll, once, for keeps: its payload, whose size is the Receive's,
# and in `memory` what the caller has to free(). NULL: no memory; nothing has changed. The Receive
# must not be read any more.
cdef uint8_t* channel_take_delivered(Channel* ch, uint8_t** memory) noexcept nogil

# `ch` counts as idle for as long as `old`, which it takes the place of and which is to be closed.
cdef void channel_inherit_idleness(Channel* ch, Channel* old) noexcept nogil

# For selector.pyx alone:

# Send what is left of `iov`, and of what the transport keeps. FP_OK: nothing is left. FP_BLOCKED.
# FP_IO: the channel is broken.
cdef FpStatus channel_write(Channel* ch) noexcept nogil

# Take the next frame out of the buffer or, with `may_receive`, out of the socket. FP_OK: it lies
# behind the size prefix at rbuf + rstart and is `rdelivered` bytes long, prefix included.
# FP_BLOCKED: none yet. Anything else: the channel has to be closed for `close_reason`.
cdef FpStatus channel_read(Channel* ch, bint may_receive) noexcept nogil

# Can channel_read decide something about what is behind the delivered frame without readiness?
cdef bint channel_has_buffered(Channel* ch) noexcept nogil

# Give back the frame delivered in the last poll.
cdef void channel_release_delivered(Channel* ch) noexcept nogil

# The channel is closed: its buffer counts no longer.
cdef void channel_hold_nothing(Channel* ch) noexcept nogil

cdef void channel_make_due(Channel* ch) noexcept nogil
cdef FpStatus channel_watch(Channel* ch, uint32_t interest) noexcept nogil
cdef void channel_enlist(Channel* ch, int64_t now_ns) noexcept nogil
cdef void channel_touch(Channel* ch, int64_t now_ns) noexcept nogil
cdef void channel_unlist(Channel* ch) noexcept nogil

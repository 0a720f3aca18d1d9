"""TlsSession: one connection's SSL object, and the encrypted bytes that wait for its socket."""
from libc.stdint cimport int32_t, uint8_t

from fastprod._core.io.channel cimport Channel
from fastprod._core.io.layer cimport LayerTicket
from fastprod._core.tls.tls_profile cimport TlsProfile

cdef enum SessionEnd:
    # Why nothing more can be read.
    END_NONE = 0
    END_CLOSED = 1          # the peer closed, with or without saying so in TLS
    END_SOCKET = 2          # `err` says what happened to it
    END_TLS = 3             # the channel's tls_* say what is wrong

cdef struct TlsSession:
    # OWNER    its channel.   FREED BY the transport's hang_up, or who could not make the channel.
    # THREADS  the one that polls the channel.
    # BORROWS  `ticket` from the node.
    void* ssl               # owned; SSL
    TlsProfile* profile     # held
    LayerTicket* ticket     # where tickets go, or NULL
    char* host              # owned; that was asked for, or NULL
    Channel* channel        # NULL before the first step of the handshake
    uint8_t* out            # owned; encrypted, not yet in the socket; NULL: nothing
    size_t out_start
    size_t out_end
    size_t out_capacity
    int32_t end             # SessionEnd
    int32_t err             # errno of the socket, or 0
    int32_t reads_left      # recv() that this turn may still make
    bint is_open            # the handshake is over
    bint is_drained         # the socket had less than it was asked for
    bint may_hold           # SSL may have bytes that were not asked for
    char* certificate       # owned; of the peer, described, once it was refused; or NULL

# A session for a channel that is to be made. `host`: whom to ask for and, if the profile says so,
# to verify, or "". `ticket` may be NULL. NULL: no memory, or no such host name.
cdef TlsSession* tls_session_new(
    TlsProfile* profile, const char* host, LayerTicket* ticket
) noexcept nogil
# NULL is ignored.
cdef void tls_session_free(TlsSession* session) noexcept nogil
# Give what is encrypted to the socket: 0: all of it is there; or minus the errno, -EAGAIN: later.
cdef ssize_t tls_session_flush(TlsSession* session) noexcept nogil
# Append to what is to be given to the socket; False: no memory.
cdef bint tls_session_put(TlsSession* session, const void* data, size_t size) noexcept nogil
# Throw away what the socket does not take.
cdef void tls_session_drop_output(TlsSession* session) noexcept nogil

# How OpenSSL is to call the two: once, under the GIL, before the first session.
cdef int tls_session_prepare() except -1
# For the SSL_CTX of clients (verify, tickets) and of servers that ask for certificates (verify).
cdef int tls_verify(int ok, void* store_context) noexcept nogil
cdef int tls_new_ticket(void* ssl, void* session) noexcept nogil

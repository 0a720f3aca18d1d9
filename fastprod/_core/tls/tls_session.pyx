"""Makes SSL objects, and moves their encrypted bytes from and to the socket.

OpenSSL reads and writes through a BIO of our own. What it writes is collected, so that several
records leave by one system call, and so that writing never stops in the middle of a record. What
it reads is as much as there is, and after a short read it is told that there is no more, so that
an answer costs one system call.
"""
from libc.errno cimport EAGAIN, ENOMEM
from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, strcmp, strdup, strlen

from fastprod._core.io.channel cimport fp_iovec
from fastprod._core.io.layer cimport (
    LayerTicket, layer_hold, layer_release, layer_ticket_clear,
)
from fastprod._core.tls.openssl cimport (
    FP_TLS_BIO_CTRL_FLUSH, FP_TLS_BIO_RETRY_ANY, FP_TLS_BIO_RETRY_READ, FP_TLS_BIO_TYPE,
    FP_TLS_CTRL_SET_TLSEXT_HOSTNAME, FP_TLS_NO_PARTIAL_WILDCARDS,
    FP_TLS_SENT_AND_RECEIVED_SHUTDOWN, openssl,
)
from fastprod._core.tls.peer_certificate cimport describe_certificate

cdef extern from "c/fp_sock.h" nogil:
    ssize_t fp_sock_send(int fd, fp_iovec* iov, int32_t count, size_t* offered) noexcept
    ssize_t fp_sock_receive(int fd, void* buffer, size_t size) noexcept

cdef extern from "<arpa/inet.h>" nogil:
    int inet_pton(int family, const char* text, void* address)

cdef extern from "<sys/socket.h>" nogil:
    int AF_INET
    int AF_INET6

cdef enum:
    # What a turn of sending encrypts at once (SEND_BYTES in tls_transport), and what frames it.
    OUTPUT_BYTES = 160 * 1024
    # A peer that makes us write (key updates) and does not read is given up at this.
    MOST_OUTPUT_BYTES = 16 * 1024 * 1024
    CERTIFICATE_BYTES = 2048

cdef void* _method = NULL       # BIO_METHOD; for the process's life


cdef int tls_session_prepare() except -1:
    global _method
    if _method == NULL:
        _method = openssl.BIO_meth_new(FP_TLS_BIO_TYPE, b"fastprod socket")
        if _method == NULL:
            raise MemoryError("no memory for TLS")
        openssl.BIO_meth_set_write(_method, _bio_write)
        openssl.BIO_meth_set_read(_method, _bio_read)
        openssl.BIO_meth_set_ctrl(_method, _bio_ctrl)
    return 0


# The session's life.

cdef TlsSession* tls_session_new(
    TlsProfile* profile, const char* host, LayerTicket* ticket
) noexcept nogil:
    cdef TlsSession* session = <TlsSession*>calloc(1, sizeof(TlsSession))
    if session == NULL:
        return NULL
    layer_hold(&profile.layer)
    session.profile = profile
    session.ticket = ticket
    session.host = strdup(host)
    session.ssl = openssl.SSL_new(profile.ctx)
    if session.host == NULL or session.ssl == NULL or not _set_up(session):
        openssl.ERR_clear_error()
        tls_session_free(session)
        return NULL
    return session


cdef bint _set_up(TlsSession* session) noexcept nogil:
    cdef void* bio = openssl.BIO_new(_method)
    if bio == NULL:
        return False
    openssl.BIO_set_data(bio, session)
    openssl.BIO_set_init(bio, 1)
    openssl.SSL_set_bio(session.ssl, bio, bio)
    openssl.SSL_set_ex_data(session.ssl, 0, session)
    if session.profile.is_server:
        openssl.SSL_set_accept_state(session.ssl)
        return True
    openssl.SSL_set_connect_state(session.ssl)
    if not _name_host(session):
        return False
    if _fits(session.ticket, session):
        openssl.SSL_set_session(session.ssl, session.ticket.session)
    return True


cdef bint _name_host(TlsSession* session) noexcept nogil:
    """Whom to ask for (a name alone, RFC 6066), and whose certificate it must be."""
    cdef uint8_t address[16]
    cdef size_t size = strlen(session.host)
    cdef void* parameters = openssl.SSL_get0_param(session.ssl)
    if size == 0:
        return not session.profile.checks_host_name
    if session.host[size - 1] == c'.':
        session.host[size - 1] = 0
    if inet_pton(AF_INET, session.host, address) == 1 or inet_pton(
        AF_INET6, session.host, address
    ) == 1:
        return not session.profile.checks_host_name or openssl.X509_VERIFY_PARAM_set1_ip_asc(
            parameters, session.host) == 1
    if openssl.SSL_ctrl(
        session.ssl, FP_TLS_CTRL_SET_TLSEXT_HOSTNAME, 0, session.host
    ) != 1:
        return False
    if not session.profile.checks_host_name:
        return True
    openssl.X509_VERIFY_PARAM_set_hostflags(parameters, FP_TLS_NO_PARTIAL_WILDCARDS)
    return openssl.SSL_set1_host(session.ssl, session.host) == 1


cdef void tls_session_free(TlsSession* session) noexcept nogil:
    if session == NULL:
        return
    if session.ssl != NULL:
        # What became of this connection says nothing about the next one's ticket.
        openssl.SSL_set_shutdown(session.ssl, FP_TLS_SENT_AND_RECEIVED_SHUTDOWN)
        openssl.SSL_free(session.ssl)
    tls_session_drop_output(session)
    layer_release(&session.profile.layer)
    free(session.host)
    free(session.certificate)
    free(session)


# Encrypted bytes. While there are any they lie in a buffer that the channels of a selector share.

cdef bint tls_session_put(TlsSession* session, const void* data, size_t size) noexcept nogil:
    if not _has_room(session, size):
        return False
    memcpy(session.out + session.out_end, data, size)
    session.out_end += size
    return True


cdef bint _has_room(TlsSession* session, size_t size) noexcept nogil:
    cdef size_t wanted = session.out_end + size
    cdef size_t capacity = session.out_capacity
    cdef void* moved
    if wanted <= capacity:
        return True
    if session.out == NULL and wanted <= OUTPUT_BYTES:
        moved = session.channel.loop.spare_output
        session.channel.loop.spare_output = NULL
        if moved == NULL:
            moved = malloc(OUTPUT_BYTES)
        capacity = OUTPUT_BYTES
    elif wanted > MOST_OUTPUT_BYTES:
        return False
    else:
        capacity = max(wanted, capacity * 2)
        moved = realloc(session.out, capacity)
    if moved == NULL:
        return False
    session.out = <uint8_t*>moved
    session.out_capacity = capacity
    return True


cdef void tls_session_drop_output(TlsSession* session) noexcept nogil:
    if session.out == NULL:
        return
    if session.out_capacity == OUTPUT_BYTES and session.channel.loop.spare_output == NULL:
        session.channel.loop.spare_output = session.out
    else:
        free(session.out)
    session.out = NULL
    session.out_start = 0
    session.out_end = 0
    session.out_capacity = 0


cdef ssize_t tls_session_flush(TlsSession* session) noexcept nogil:
    cdef fp_iovec iov
    cdef size_t offered = 0
    cdef ssize_t n
    if session.out == NULL:
        return 0
    while session.out_start < session.out_end:
        iov.iov_base = session.out + session.out_start
        iov.iov_len = session.out_end - session.out_start
        n = fp_sock_send(session.channel.fd, &iov, 1, &offered)
        if n < 0:
            return n
        session.out_start += <size_t>n
        if <size_t>n < offered:
            return -EAGAIN      # the socket is full: asking again would only be told so
    tls_session_drop_output(session)
    return 0


# The BIO: what OpenSSL takes for the network.

cdef int _bio_write(void* bio, const char* data, int size) noexcept nogil:
    cdef TlsSession* session = <TlsSession*>openssl.BIO_get_data(bio)
    openssl.BIO_clear_flags(bio, FP_TLS_BIO_RETRY_ANY)
    if size <= 0:
        return 0
    if not tls_session_put(session, data, <size_t>size):
        session.err = ENOMEM
        return -1
    return size


cdef int _bio_read(void* bio, char* data, int size) noexcept nogil:
    cdef TlsSession* session = <TlsSession*>openssl.BIO_get_data(bio)
    cdef ssize_t n = -EAGAIN
    openssl.BIO_clear_flags(bio, FP_TLS_BIO_RETRY_ANY)
    if size <= 0:
        return 0
    if not session.is_drained and session.reads_left > 0:
        session.reads_left -= 1
        n = fp_sock_receive(session.channel.fd, data, <size_t>size)
    if n == -EAGAIN:
        session.is_drained = True
        openssl.BIO_set_flags(bio, FP_TLS_BIO_RETRY_READ)
        return -1
    if n < 0:
        session.end = END_SOCKET
        session.err = <int32_t>-n
        return -1
    if n == 0:
        session.end = END_CLOSED
    session.is_drained = n < size
    return <int>n


cdef long _bio_ctrl(void* bio, int command, long number, void* pointer) noexcept nogil:
    return 1 if command == FP_TLS_BIO_CTRL_FLUSH else 0


# What OpenSSL tells.

cdef int tls_verify(int ok, void* store_context) noexcept nogil:
    """A certificate was checked; if it is refused it is described while it is there."""
    cdef void* ssl
    cdef void* certificate
    cdef TlsSession* session
    if ok:
        return ok
    ssl = openssl.X509_STORE_CTX_get_ex_data(
        store_context, openssl.SSL_get_ex_data_X509_STORE_CTX_idx())
    session = <TlsSession*>openssl.SSL_get_ex_data(ssl, 0)
    certificate = openssl.X509_STORE_CTX_get_current_cert(store_context)
    if certificate != NULL and session.certificate == NULL:
        session.certificate = <char*>malloc(CERTIFICATE_BYTES)
        if session.certificate != NULL:
            describe_certificate(certificate, session.certificate, CERTIFICATE_BYTES)
    return 0


# Tickets.

cdef bint _fits(LayerTicket* ticket, TlsSession* session) noexcept nogil:
    return (
        ticket != NULL and ticket.session != NULL and ticket.layer == &session.profile.layer
        and strcmp(ticket.host, session.host) == 0
        and openssl.SSL_SESSION_is_resumable(ticket.session)
    )


cdef int tls_new_ticket(void* ssl, void* session) noexcept nogil:
    """1: `session` is ours now."""
    cdef TlsSession* ours = <TlsSession*>openssl.SSL_get_ex_data(ssl, 0)
    cdef char* host
    if ours == NULL or ours.ticket == NULL:
        return 0
    host = strdup(ours.host)
    if host == NULL:
        return 0
    layer_ticket_clear(ours.ticket)
    ours.ticket.session = session
    ours.ticket.layer = layer_hold(&ours.profile.layer)
    ours.ticket.host = host
    return 1

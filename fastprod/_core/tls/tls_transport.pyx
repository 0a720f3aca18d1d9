"""Moves a channel's bytes through OpenSSL.

kTLS: where a kernel has it, it would take the place of the BIO in tls_session.pyx after the
handshake (`_shake_hands` returning FP_OK). No machine of ours has such a kernel, so it is not here.
"""
from libc.errno cimport EAGAIN, EPROTO
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport malloc
from libc.string cimport memcpy

from fastprod._core.bytes.fp_status cimport FP_BLOCKED, FP_IO, FP_OK, FpStatus
from fastprod._core.io.channel cimport (
    CLOSE_NOT_CONNECTED, CLOSE_REMOTE, CLOSE_TLS, Channel, FP_POLL_IN, FP_POLL_OUT, Transport,
    channel_watch, fp_iovec,
)
from fastprod._core.io.layer cimport ChannelLayer, LayerUse
from fastprod._core.tls.openssl cimport (
    FP_TLS_LIB_SSL, FP_TLS_WANT_READ, FP_TLS_WANT_WRITE, FP_TLS_ZERO_RETURN, openssl,
)
from fastprod._core.tls.tls_session cimport (
    END_CLOSED, END_NONE, END_SOCKET, END_TLS, TlsSession, tls_session_drop_output,
    tls_session_flush, tls_session_free, tls_session_new, tls_session_put,
)

cdef extern from "c/fp_sock.h" nogil:
    int fp_sock_connected(int fd) noexcept
    void fp_sock_close(int* noted) noexcept

cdef enum:
    RECORD_BYTES = 16 * 1024    # the most that one record holds
    # A piece from this size on is encrypted where it lies; smaller ones are gathered.
    DIRECT_BYTES = 4 * 1024
    # What is encrypted before the socket is given it: it stays in the processor's cache.
    SEND_BYTES = 128 * 1024
    # A turn's recv(): a flood of records without content ends with it.
    HANDSHAKE_READS = 64
    FAILURE_BYTES = 4096
    # OpenSSL's reasons: a certificate that was refused; a first record that is none of TLS.
    CERTIFICATE_VERIFY_FAILED = 134
    HTTP_REQUEST = 156
    WRONG_VERSION_NUMBER = 267


# Failures.

cdef void _keep_failure(Channel* ch, TlsSession* session) noexcept nogil:
    """Take what OpenSSL says: the first thing that its SSL part said, or else the very first."""
    cdef bint is_new = openssl.OpenSSL_version_num() >= 0x30000000
    cdef unsigned long found = 0
    cdef unsigned long code
    cdef unsigned long library
    cdef bint is_ssl = False
    cdef const char* said
    cdef const char* words = ""
    cdef const char* verified = ""
    cdef const char* certificate = ""
    while True:
        code = openssl.ERR_get_error()
        if code == 0:
            break
        library = (code >> 23) & 0xFF if is_new else (code >> 24) & 0xFF
        if found == 0 or (library == FP_TLS_LIB_SSL and not is_ssl):
            found = code
            is_ssl = library == FP_TLS_LIB_SSL
    session.end = END_TLS
    ch.close_reason = CLOSE_TLS
    ch.err = EPROTO
    if found != 0:
        ch.tls_reason = <int32_t>(found & (0x7FFFFF if is_new else 0xFFF))
        said = openssl.ERR_reason_error_string(found)
        if said != NULL:
            words = said
    if ch.tls_reason == CERTIFICATE_VERIFY_FAILED:
        ch.tls_verify = <int32_t>openssl.SSL_get_verify_result(session.ssl)
        verified = openssl.X509_verify_cert_error_string(ch.tls_verify)
    if ch.text == NULL:
        ch.text = <char*>malloc(FAILURE_BYTES)
    if session.certificate != NULL:
        certificate = session.certificate
    if ch.text != NULL:
        snprintf(ch.text, FAILURE_BYTES, "reason=%s\nverified=%s\n%s", words, verified,
                 certificate)


cdef int32_t _end_of(Channel* ch, TlsSession* session, int result) noexcept nogil:
    """Why an SSL function gave `result` <= 0: END_NONE: it wants to be asked again."""
    cdef int error = openssl.SSL_get_error(session.ssl, result)
    if error == FP_TLS_WANT_READ or error == FP_TLS_WANT_WRITE:
        return END_NONE
    if error == FP_TLS_ZERO_RETURN:
        session.end = END_CLOSED
    elif session.err != 0:
        session.end = END_SOCKET
    elif session.end == END_NONE:
        _keep_failure(ch, session)
    openssl.ERR_clear_error()
    return session.end


# The transport.

cdef FpStatus _handshake(Channel* ch, uint32_t* wants) noexcept nogil:
    cdef TlsSession* session = <TlsSession*>ch.session
    cdef int err
    if session.channel == NULL:
        err = 0 if session.profile.is_server else fp_sock_connected(ch.fd)
        if err != 0:
            ch.close_reason = CLOSE_NOT_CONNECTED
            ch.err = err
            return FP_IO
        session.channel = ch
    return _shake_hands(ch, session, wants)


cdef FpStatus _shake_hands(Channel* ch, TlsSession* session, uint32_t* wants) noexcept nogil:
    cdef int result
    cdef ssize_t flushed
    session.is_drained = False
    session.reads_left = HANDSHAKE_READS
    openssl.ERR_clear_error()
    result = openssl.SSL_do_handshake(session.ssl)
    if result != 1:
        _end_of(ch, session, result)
        if session.end == END_TLS and session.profile.is_server:
            _answer_plaintext(ch, session)
    flushed = tls_session_flush(session)
    if flushed < 0 and flushed != -EAGAIN:
        tls_session_drop_output(session)    # what the peer said before it left can still be read
    if session.end == END_TLS:
        return FP_IO
    if session.end != END_NONE:
        ch.close_reason = CLOSE_REMOTE
        ch.err = session.err
        return FP_IO
    wants[0] = FP_POLL_IN
    if flushed == -EAGAIN:
        wants[0] = FP_POLL_OUT if result == 1 else FP_POLL_IN | FP_POLL_OUT
        return FP_BLOCKED
    if result != 1:
        return FP_BLOCKED
    session.is_open = True
    session.may_hold = True
    return FP_OK


cdef void _answer_plaintext(Channel* ch, TlsSession* session) noexcept nogil:
    """OpenSSL says nothing to a client that does not speak TLS: tell it (protocol_version)."""
    cdef uint8_t alert[7]
    if ch.tls_reason != WRONG_VERSION_NUMBER and ch.tls_reason != HTTP_REQUEST:
        return
    if session.out != NULL:
        return
    alert[0] = 21
    alert[1] = 3
    alert[2] = 3
    alert[3] = 0
    alert[4] = 2
    alert[5] = 2
    alert[6] = 70
    tls_session_put(session, alert, sizeof(alert))


cdef bint _encrypt(Channel* ch, TlsSession* session, const void* data, size_t size) noexcept nogil:
    """The BIO takes everything; False: this connection can send nothing any more."""
    cdef int result = openssl.SSL_write(session.ssl, data, <int>size)
    if result == <int>size:
        return True
    if _end_of(ch, session, result) == END_NONE:
        _keep_failure(ch, session)
    return False


cdef ssize_t _gather(Channel* ch, TlsSession* session, fp_iovec* iov, int32_t count) noexcept nogil:
    """Encrypt some SEND_BYTES of the entries; how many, or -EPROTO."""
    cdef uint8_t gathered[RECORD_BYTES]
    cdef size_t held = 0
    cdef size_t taken = 0
    cdef size_t at = 0
    cdef size_t part
    cdef int32_t i = 0
    while i < count and taken < SEND_BYTES:
        part = iov[i].iov_len - at
        if part >= DIRECT_BYTES:
            if held > 0 and not _encrypt(ch, session, gathered, held):
                return -EPROTO
            held = 0
            part = min(part, max(<size_t>RECORD_BYTES, SEND_BYTES - taken))
            if not _encrypt(ch, session, <uint8_t*>iov[i].iov_base + at, part):
                return -EPROTO
        else:
            part = min(part, RECORD_BYTES - held)
            memcpy(gathered + held, <uint8_t*>iov[i].iov_base + at, part)
            held += part
            if held == RECORD_BYTES:
                if not _encrypt(ch, session, gathered, held):
                    return -EPROTO
                held = 0
        taken += part
        at += part
        if at == iov[i].iov_len:
            i += 1
            at = 0
    if held > 0 and not _encrypt(ch, session, gathered, held):
        return -EPROTO
    return <ssize_t>taken


cdef ssize_t _send_iov(
    Channel* ch, fp_iovec* iov, int32_t count, size_t* offered
) noexcept nogil:
    cdef TlsSession* session = <TlsSession*>ch.session
    cdef ssize_t flushed = tls_session_flush(session)
    cdef ssize_t taken
    offered[0] = 0
    if flushed < 0:
        return flushed
    openssl.ERR_clear_error()
    taken = _gather(ch, session, iov, count)
    flushed = tls_session_flush(session)
    if taken < 0:
        return taken
    if flushed < 0 and flushed != -EAGAIN:
        return flushed
    offered[0] = <size_t>taken if flushed == 0 else <size_t>taken + 1
    return taken


cdef ssize_t _flush(Channel* ch) noexcept nogil:
    return tls_session_flush(<TlsSession*>ch.session)


cdef ssize_t _receive(Channel* ch, void* buffer, size_t size) noexcept nogil:
    cdef TlsSession* session = <TlsSession*>ch.session
    cdef size_t done = 0
    cdef int result
    if session.end != END_NONE:
        return _told(session)
    session.is_drained = False
    session.reads_left = 4 + <int32_t>(size // DIRECT_BYTES)
    openssl.ERR_clear_error()
    while done < size:
        result = openssl.SSL_read(
            session.ssl, <uint8_t*>buffer + done, <int>min(size - done, <size_t>0x40000000))
        if result <= 0:
            _end_of(ch, session, result)
            break
        done += <size_t>result
    session.may_hold = done == size
    if session.out != NULL and tls_session_flush(session) == -EAGAIN:
        channel_watch(ch, ch.interest | FP_POLL_OUT)    # an answer of TLS itself
    if done == 0:
        return _told(session)
    return <ssize_t>done


cdef ssize_t _told(TlsSession* session) noexcept nogil:
    """What reading says when it brought nothing."""
    if session.end == END_NONE:
        return -EAGAIN
    if session.end == END_TLS:
        return -EPROTO
    return -session.err


cdef bint _has_pending(Channel* ch) noexcept nogil:
    cdef TlsSession* session = <TlsSession*>ch.session
    if session.end != END_NONE:
        return True
    # It also counts a record that is not all there: `may_hold` says that it is another one.
    return session.may_hold and openssl.SSL_has_pending(session.ssl)


cdef void _hang_up(Channel* ch) noexcept nogil:
    cdef TlsSession* session = <TlsSession*>ch.session
    if session.is_open and session.end < END_SOCKET:
        openssl.ERR_clear_error()
        # In the middle of a record nothing else can be said.
        if tls_session_flush(session) == 0:
            openssl.SSL_shutdown(session.ssl)
            tls_session_flush(session)
        openssl.ERR_clear_error()
    tls_session_free(session)
    ch.session = NULL
    fp_sock_close(&ch.fd)


cdef Transport _tls
_tls.handshake = _handshake
_tls.send_iov = _send_iov
_tls.flush = _flush
_tls.receive = _receive
_tls.has_pending = _has_pending
_tls.hang_up = _hang_up


cdef const Transport* tls_transport() noexcept nogil:
    return &_tls


# The layer.

cdef void* _new_session(ChannelLayer* layer, LayerUse* use) noexcept nogil:
    return tls_session_new(<TlsProfile*>layer, use.host, use.ticket)


cdef void _free_session(void* session) noexcept nogil:
    tls_session_free(<TlsSession*>session)


cdef void _free_ticket(void* session) noexcept nogil:
    openssl.SSL_SESSION_free(session)


cdef void tls_layer_set_up(TlsProfile* profile) noexcept nogil:
    profile.layer.transport = &_tls
    profile.layer.new_session = _new_session
    profile.layer.free_session = _free_session
    profile.layer.free_ticket = _free_ticket

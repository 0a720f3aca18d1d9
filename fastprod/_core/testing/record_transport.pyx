"""A transport that keeps bytes back, as TLS does: for tests of what stands above transports.

Bytes travel in records: their number, big-endian in two bytes, then up to 1,000 bytes, each of
them inverted. Before the first one the client says H and the server h; or w, and then the client
says W as soon as it can write, and waits for the h once more.
"""
from libc.errno cimport EAGAIN, EPROTO
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free

from fastprod._core.bytes.fp_status cimport FP_BLOCKED, FP_IO, FP_OK, FpStatus
from fastprod._core.io.channel cimport (
    CLOSE_NOT_CONNECTED, Channel, FP_POLL_IN, FP_POLL_OUT, Transport, fp_iovec,
)

cdef extern from "c/fp_sock.h" nogil:
    int fp_sock_connected(int fd) noexcept
    ssize_t fp_sock_send(int fd, fp_iovec* iov, int32_t count, size_t* offered) noexcept
    ssize_t fp_sock_receive(int fd, void* buffer, size_t size) noexcept
    void fp_sock_close(int* noted) noexcept

cdef enum:
    MOST_DESCRIPTORS = 4096
    HEADER_BYTES = 2
    RECORD_BYTES = 1000

cdef enum Step:
    TO_SAY_HELLO = 0
    TO_HEAR_HELLO = 1
    TO_WRITE = 2

cdef struct Session:
    # OWNER `_sessions`, by descriptor.   FREED BY _hang_up.
    int32_t step
    uint8_t incoming[HEADER_BYTES + RECORD_BYTES]
    size_t come             # of the record under way, header included
    size_t left             # of its bytes, decoded, at the end of `incoming`: not handed on yet
    uint8_t outgoing[HEADER_BYTES + RECORD_BYTES]
    size_t out_bytes        # of the record under way; 0: there is none
    size_t out_sent

cdef Session* _sessions[MOST_DESCRIPTORS]


cdef bint _say(int fd, uint8_t word) noexcept nogil:
    cdef fp_iovec iov
    cdef size_t offered
    iov.iov_base = &word
    iov.iov_len = 1
    return fp_sock_send(fd, &iov, 1, &offered) == 1


cdef FpStatus _refuse(Channel* ch, int32_t err) noexcept nogil:
    ch.close_reason = CLOSE_NOT_CONNECTED
    ch.err = err
    return FP_IO


cdef FpStatus _record_handshake(Channel* ch, uint32_t* wants) noexcept nogil:
    cdef Session* session = _sessions[ch.fd]
    cdef uint8_t word = 0
    cdef ssize_t n
    cdef int err
    wants[0] = FP_POLL_IN
    if session == NULL:
        err = fp_sock_connected(ch.fd)
        if err != 0:
            return _refuse(ch, err)
        session = <Session*>calloc(1, sizeof(Session))
        _sessions[ch.fd] = session
    if session.step != TO_HEAR_HELLO:
        if not _say(ch.fd, c'H' if session.step == TO_SAY_HELLO else c'W'):
            return _refuse(ch, EPROTO)
        session.step = TO_HEAR_HELLO
        return FP_BLOCKED
    n = fp_sock_receive(ch.fd, &word, 1)
    if n == -EAGAIN:
        return FP_BLOCKED
    if n == 1 and word == c'h':
        return FP_OK
    if n == 1 and word == c'w':
        session.step = TO_WRITE
        wants[0] = FP_POLL_OUT
        return FP_BLOCKED
    return _refuse(ch, EPROTO)


cdef ssize_t _record_send(
    Channel* ch, fp_iovec* iov, int32_t count, size_t* offered
) noexcept nogil:
    """One record of the first entry that is not empty; it counts once the socket has all of it."""
    cdef Session* session = _sessions[ch.fd]
    cdef fp_iovec rest
    cdef size_t i, size, ignored
    cdef ssize_t n
    while count > 1 and iov.iov_len == 0:
        iov += 1
        count -= 1
    size = min(iov.iov_len, <size_t>RECORD_BYTES)
    offered[0] = size
    if session.out_bytes == 0:
        session.outgoing[0] = <uint8_t>(size >> 8)
        session.outgoing[1] = <uint8_t>(size & 0xFF)
        for i in range(size):
            session.outgoing[HEADER_BYTES + i] = ~(<uint8_t*>iov.iov_base)[i]
        session.out_bytes = HEADER_BYTES + size
        session.out_sent = 0
    while session.out_sent < session.out_bytes:
        rest.iov_base = session.outgoing + session.out_sent
        rest.iov_len = session.out_bytes - session.out_sent
        n = fp_sock_send(ch.fd, &rest, 1, &ignored)
        if n < 0:
            return n
        session.out_sent += <size_t>n
    session.out_bytes = 0
    return <ssize_t>size


cdef ssize_t _next_record(Channel* ch, Session* session) noexcept nogil:
    """1: `left` bytes are there; else what the socket said."""
    cdef size_t wanted = HEADER_BYTES
    cdef size_t size = 0, i
    cdef ssize_t n
    while True:
        if session.come >= HEADER_BYTES:
            size = <size_t>session.incoming[0] << 8 | session.incoming[1]
            wanted = HEADER_BYTES + size
        if session.come == wanted and session.come > HEADER_BYTES:
            break
        n = fp_sock_receive(ch.fd, session.incoming + session.come, wanted - session.come)
        if n <= 0:
            return n
        session.come += <size_t>n
    for i in range(size):
        session.incoming[HEADER_BYTES + i] = ~session.incoming[HEADER_BYTES + i]
    session.left = size
    return 1


cdef ssize_t _record_receive(Channel* ch, void* buffer, size_t size) noexcept nogil:
    cdef Session* session = _sessions[ch.fd]
    cdef uint8_t* out = <uint8_t*>buffer
    cdef size_t done = 0
    cdef ssize_t n
    while done < size:
        if session.left == 0:
            n = _next_record(ch, session)
            if n <= 0:
                return n if done == 0 else <ssize_t>done
        out[done] = session.incoming[session.come - session.left]
        done += 1
        session.left -= 1
        if session.left == 0:
            session.come = 0
    return <ssize_t>done


cdef bint _record_has_pending(Channel* ch) noexcept nogil:
    return _sessions[ch.fd].left > 0


cdef void _record_hang_up(Channel* ch) noexcept nogil:
    free(_sessions[ch.fd])
    _sessions[ch.fd] = NULL
    fp_sock_close(&ch.fd)


cdef Transport _record
_record.handshake = _record_handshake
_record.send_iov = _record_send
_record.receive = _record_receive
_record.has_pending = _record_has_pending
_record.hang_up = _record_hang_up


cdef const Transport* record_transport() noexcept nogil:
    return &_record

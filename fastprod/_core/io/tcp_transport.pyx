"""Moves a channel's bytes by plain socket calls."""
from libc.stdint cimport int32_t, uint32_t

from fastprod._core.bytes.fp_status cimport FP_IO, FP_OK, FpStatus
from fastprod._core.io.channel cimport CLOSE_NOT_CONNECTED, Channel, Transport, fp_iovec

cdef extern from "c/fp_sock.h" nogil:
    int fp_sock_connected(int fd) noexcept
    ssize_t fp_sock_send(int fd, fp_iovec* iov, int32_t count, size_t* offered) noexcept
    ssize_t fp_sock_receive(int fd, void* buffer, size_t size) noexcept
    void fp_sock_close(int* noted) noexcept


cdef FpStatus _handshake(Channel* ch, uint32_t* wants) noexcept nogil:
    """There is none: the socket connected, or it did not."""
    cdef int err = fp_sock_connected(ch.fd)
    if err == 0:
        return FP_OK
    ch.close_reason = CLOSE_NOT_CONNECTED
    ch.err = err
    return FP_IO


cdef ssize_t _send_iov(
    Channel* ch, fp_iovec* iov, int32_t count, size_t* offered
) noexcept nogil:
    return fp_sock_send(ch.fd, iov, count, offered)


cdef ssize_t _receive(Channel* ch, void* buffer, size_t size) noexcept nogil:
    return fp_sock_receive(ch.fd, buffer, size)


cdef bint _has_pending(Channel* ch) noexcept nogil:
    return False        # what the kernel holds, the poller tells


cdef void _hang_up(Channel* ch) noexcept nogil:
    fp_sock_close(&ch.fd)


cdef Transport _tcp
_tcp.handshake = _handshake
_tcp.send_iov = _send_iov
_tcp.receive = _receive
_tcp.has_pending = _has_pending
_tcp.hang_up = _hang_up


cdef const Transport* tcp_transport() noexcept nogil:
    return &_tcp

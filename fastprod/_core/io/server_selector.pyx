"""The Selector for a server's loop in Python (see the .pyi)."""
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer,
)
from libc.errno cimport ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free

from collections import namedtuple

cimport cython

from fastprod._core.io.channel import CLOSE_REASONS as _CLOSE_REASONS

from fastprod._core.bytes.fp_status cimport FP_BLOCKED, FP_BUSY, FP_OK, FpStatus, check
from fastprod._core.bytes.sync cimport fp_load_i64, fp_now_ns
from fastprod._core.io.channel cimport (
    Channel, channel_send, channel_take_delivered, fp_iovec,
)
from fastprod._core.io.selector cimport (
    Receive, Selector, selector_abandon, selector_backend, selector_close, selector_destroy,
    selector_init, selector_limit, selector_mute, selector_park, selector_poll_until_event,
    selector_register, selector_wake,
)
from fastprod._core.io.tcp_transport cimport tcp_transport
from fastprod._core.tls.openssl cimport openssl
from fastprod._core.tls.tls_context cimport TlsContext
from fastprod._core.tls.tls_profile cimport TlsProfile
from fastprod._core.tls.tls_session cimport TlsSession, tls_session_free, tls_session_new
from fastprod._core.tls.tls_transport cimport tls_transport

SENT = 0
PENDING = 1
FAILED = 2

Disconnect = namedtuple("Disconnect", "channel_id reason err bad_size tls_text", defaults=("",))
PollEvents = namedtuple("PollEvents", "completed_sends receives disconnected")


cdef enum:
    COUNTED_BYTES = 64 * 1024   # a smaller frame does not count in the pool

cdef class ServerSelector


@cython.final
@cython.freelist(64)
@cython.no_gc
cdef class Frame:
    """See the .pyi."""
    # OWNER of `memory`. BORROWS room of the pool of `counted_by`, if that is not None.
    cdef ServerSelector counted_by
    cdef uint8_t* memory
    cdef uint8_t* data      # BORROWS `memory`
    cdef Py_ssize_t size
    cdef readonly uint64_t channel_id

    def __init__(self, *args, **kwargs):
        raise TypeError("a Frame is received, not made")

    def __dealloc__(self):
        free(self.memory)
        if self.counted_by is not None:
            self.counted_by.taken_bytes -= self.size

    def __len__(self):
        return self.size

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, False, flags)


cdef int64_t _ns_of(double ms) noexcept nogil:
    """-1: no bound. A century is none either, and the sum of two does not overflow."""
    if not 0 <= ms < 3.2e12:
        return -1
    return <int64_t>(ms * 1e6)


cdef Frame _take(Receive* receive):
    """None: there is no memory for it."""
    cdef Frame frame = Frame.__new__(Frame)
    frame.data = channel_take_delivered(receive.channel, &frame.memory)
    if frame.data == NULL:
        return None
    frame.size = receive.size
    frame.channel_id = receive.channel.id
    return frame


cdef _count(Frame frame, ServerSelector selector):
    if frame.size >= COUNTED_BYTES:
        frame.counted_by = selector
        selector.taken_bytes += frame.size


@cython.final
cdef class _Send:
    """The parts of one frame while they are written."""
    # OWNER of `views`, which hold the parts, and of `iov`, which points into them.
    cdef Py_buffer* views
    cdef fp_iovec* iov
    cdef int32_t count      # views that are held

    def __cinit__(self, parts):
        cdef int32_t size = <int32_t>len(parts)
        self.views = <Py_buffer*>calloc(size + 1, sizeof(Py_buffer))
        self.iov = <fp_iovec*>calloc(size + 1, sizeof(fp_iovec))
        if self.views == NULL or self.iov == NULL:
            raise MemoryError(f"no memory for a frame of {size} parts")
        for part in parts:
            PyObject_GetBuffer(part, &self.views[self.count], PyBUF_SIMPLE)
            self.iov[self.count].iov_base = self.views[self.count].buf
            self.iov[self.count].iov_len = <size_t>self.views[self.count].len
            self.count += 1

    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.count):
            PyBuffer_Release(&self.views[i])
        free(self.views)
        free(self.iov)


@cython.final
cdef class ServerSelector:
    """See the .pyi."""
    # OWNER of the selector. THREADS: see the .pyi.
    cdef Selector s
    cdef dict alive         # id -> address of its Channel
    cdef dict sends         # id -> _Send, while the channel borrows it
    cdef int64_t pool_bytes             # < 0: no bound
    cdef int64_t taken_bytes            # of large frames that somebody holds; under the GIL

    def __cinit__(
        self, int64_t max_receive_bytes=-1, bint force_poll=False, int64_t pool_bytes=-1
    ):
        self.alive = {}
        self.sends = {}
        self.pool_bytes = pool_bytes
        check(selector_init(&self.s, force_poll, max_receive_bytes))

    def __dealloc__(self):
        selector_destroy(&self.s)

    @property
    def backend(self):
        self._check_open()
        return selector_backend(&self.s).decode()

    @property
    def channel_count(self):
        return len(self.alive)

    @property
    def held_bytes(self):
        return self.s.loop.held_bytes + self.taken_bytes

    @property
    def io_wait_ns(self):
        cdef int64_t idle_ns = fp_load_i64(&self.s.idle_ns)
        return idle_ns if idle_ns >= 0 else idle_ns + fp_now_ns()

    cdef Channel* _channel(self, channel_id) except NULL:
        return <Channel*><uintptr_t>self.alive[channel_id]

    cdef _check_open(self):
        if self.s.loop.poller == NULL:
            raise ValueError("the selector is closed")

    def register(self, int fd, TlsContext tls=None):
        cdef int err = 0
        cdef TlsSession* session = NULL
        cdef Channel* ch
        self._check_open()
        if tls is not None:
            if not tls.server_side:
                raise ValueError("this TLS context is a client's")
            session = tls_session_new(<TlsProfile*>tls.layer, b"", NULL)
            if session == NULL:
                raise MemoryError("no memory for a connection by TLS")
        ch = selector_register(
            &self.s, fd, tcp_transport() if session == NULL else tls_transport(), session, NULL,
            &err)
        if ch == NULL:
            tls_session_free(session)
            raise OSError(err, "the connection cannot be watched")
        self.alive[ch.id] = <uintptr_t>ch
        return ch.id

    def poll(self, double timeout_ms, double max_idle_ms=-1):
        cdef int64_t max_idle_ns = _ns_of(max_idle_ms)
        cdef int64_t timeout_ns
        cdef FpStatus status
        cdef Channel* ch
        cdef uint32_t i
        cdef list completed = []
        cdef list receives = []
        cdef list disconnected = []
        self._check_open()
        timeout_ns = self._until_expiry(_ns_of(timeout_ms), max_idle_ns)
        if self.pool_bytes >= 0:
            self.s.loop.pool_bytes = max(0, self.pool_bytes - self.taken_bytes)
        with nogil:
            status = selector_poll_until_event(&self.s, timeout_ns, max_idle_ns)
        check(status)
        for i in range(self.s.disconnected_count):
            ch = self.s.disconnected[i]
            disconnected.append(
                Disconnect(
                    ch.id, _CLOSE_REASONS[ch.close_reason], ch.err, ch.bad_size,
                    "" if ch.text == NULL else ch.text.decode("ascii", "replace")))
            self._forget(ch.id)
        for i in range(self.s.completed_send_count):
            completed.append(self.s.completed_sends[i].id)
            self.sends.pop(self.s.completed_sends[i].id, None)
        for i in range(self.s.receive_count):
            frame = _take(&self.s.receives[i])
            if frame is not None:
                if self.pool_bytes >= 0:
                    _count(frame, self)
                receives.append(frame)
                continue
            ch = self.s.receives[i].channel
            disconnected.append(Disconnect(ch.id, "NO_MEMORY", ENOMEM, 0, ""))
            self.close_channel(ch.id)
        return PollEvents(completed, receives, disconnected)

    cdef int64_t _until_expiry(self, int64_t timeout_ns, int64_t max_idle_ns) noexcept:
        """The timeout, cut to the moment at which the next channel expires."""
        cdef int64_t left_ns
        if max_idle_ns < 0 or self.s.loop.oldest == NULL:
            return timeout_ns
        left_ns = max(self.s.loop.oldest.last_active_ns + max_idle_ns + 1 - fp_now_ns(), 0)
        return left_ns if timeout_ns < 0 or left_ns < timeout_ns else timeout_ns

    def park(self):
        selector_park(&self.s)

    cdef _forget(self, channel_id):
        self.alive.pop(channel_id, None)
        self.sends.pop(channel_id, None)

    def send(self, channel_id, parts):
        cdef Channel* ch = self._channel(channel_id)
        cdef _Send sending = _Send(parts)
        cdef FpStatus status
        with nogil:
            status = channel_send(ch, sending.iov, sending.count)
        if status == FP_OK:
            return SENT
        if status == FP_BLOCKED:
            self.sends[channel_id] = sending
            return PENDING
        if status == FP_BUSY:
            raise RuntimeError(f"channel {channel_id} has a send pending")
        return FAILED

    def mute(self, channel_id, bint muted):
        selector_mute(&self.s, self._channel(channel_id), muted)

    def limit(self, channel_id, int64_t max_bytes):
        selector_limit(&self.s, self._channel(channel_id), max_bytes)

    def close_channel(self, channel_id):
        if channel_id in self.alive:
            selector_close(&self.s, self._channel(channel_id))
            self._forget(channel_id)

    def least_recently_used(self):
        return None if self.s.loop.oldest == NULL else self.s.loop.oldest.id

    def bytes_of(self, channel_id):
        cdef Channel* ch = self._channel(channel_id)
        return ch.received_bytes, ch.sent_bytes

    def peer_certificate(self, channel_id):
        cdef Channel* ch = self._channel(channel_id)
        cdef TlsSession* session
        cdef void* certificate
        cdef uint8_t* end
        cdef int size
        if ch.transport != tls_transport() or ch.session == NULL:
            return None
        session = <TlsSession*>ch.session
        certificate = openssl.peer_certificate(session.ssl)
        if certificate == NULL:
            return None
        try:
            size = openssl.i2d_X509(certificate, NULL)
            if size <= 0:
                return None
            der = bytearray(size)
            end = der
            openssl.i2d_X509(certificate, &end)
            return bytes(der)
        finally:
            openssl.X509_free(certificate)

    def wake(self):
        selector_wake(&self.s)

    def close(self):
        selector_destroy(&self.s)
        self.alive.clear()
        self.sends.clear()

    def abandon(self):
        selector_abandon(&self.s)
        self.alive.clear()
        self.sends.clear()

"""A Python door to the Selector, for tests and benchmarks (see the .pyi)."""
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

import socket
import struct
import sys
from collections import namedtuple

from fastprod._core.io.channel import CLOSE_REASONS as _CLOSE_REASONS
from fastprod.client.connections.addresses import Address

from fastprod._core.bytes.fp_status cimport (
    FP_BLOCKED,
    FP_BUSY,
    FP_CLOSED,
    FP_IO,
    FP_OK,
    FP_PROTOCOL,
    FP_TIMEDOUT,
    FpStatus,
    check,
)
from fastprod._core.bytes.sync cimport fp_add_i64, fp_fence, fp_load_i64, fp_now_ns, fp_store_i64
from fastprod._core.io.channel cimport (
    Channel, Transport, channel_is_sending, channel_send, fp_iovec,
)
from fastprod._core.io.selector cimport (
    Selector,
    selector_abandon,
    selector_backend,
    selector_close,
    selector_connect,
    selector_destroy,
    selector_init,
    selector_mute,
    selector_park,
    selector_poll,
    selector_register,
    selector_wake,
)
from fastprod._core.io.layer cimport LayerTicket, LayerUse, layer_ticket_clear
from fastprod._core.io.proxy_transport cimport ProxyPlan
from fastprod._core.io.tcp_transport cimport tcp_transport
from fastprod._core.testing.record_transport cimport record_transport
from fastprod._core.tls.openssl cimport openssl
from fastprod._core.tls.tls_context cimport TlsContext
from fastprod._core.tls.tls_profile cimport TlsProfile
from fastprod._core.tls.tls_session cimport (
    TlsSession, tls_session_free, tls_session_new,
)
from fastprod._core.tls.tls_transport cimport tls_transport

cdef extern from "<sched.h>" nogil:
    int sched_yield() noexcept

_STATUS = {
    FP_OK: "OK",
    FP_BLOCKED: "BLOCKED",
    FP_BUSY: "BUSY",
    FP_IO: "IO",
    FP_CLOSED: "CLOSED",
}


PollEvents = namedtuple("PollEvents", "connected completed_sends receives disconnected")
Disconnect = namedtuple("Disconnect", "channel_id reason err bad_size tls_verify tls_reason text")
ChannelCounters = namedtuple(
    "ChannelCounters", "fd sent_bytes received_bytes buffer_bytes held_bytes sending interest"
)


def _sockaddr(address):
    if not isinstance(address, str):
        family = socket.AF_INET if len(address) == 2 else socket.AF_INET6
        return Address(family, *address).packed()
    path = address.encode() + b"\0"
    if sys.platform == "darwin":
        return struct.pack("BB", 2 + len(path), socket.AF_UNIX) + path
    return struct.pack("=H", socket.AF_UNIX) + path


cdef class SelectorForTest:
    """See the .pyi."""
    # OWNER of the selector and of each send's iovecs. THREADS: see the .pyi.
    cdef Selector s
    cdef dict alive         # id -> address of its Channel
    cdef dict sends         # id -> (address of the iovecs, the buffers they borrow)
    cdef int64_t posted     # atomic; the work of the wake tests
    cdef int64_t done       # atomic
    cdef LayerTicket ticket     # for the next connection by TLS

    def __cinit__(self, bint force_poll=False, int64_t max_receive_bytes=-1):
        self.alive = {}
        self.sends = {}
        check(selector_init(&self.s, force_poll, max_receive_bytes))

    def __dealloc__(self):
        selector_destroy(&self.s)
        layer_ticket_clear(&self.ticket)

    def close(self):
        selector_destroy(&self.s)
        layer_ticket_clear(&self.ticket)
        self._forget_all()

    def note_opening(self, int fd):
        """As between a socket's opening and its channel: what a fork finds there is closed."""
        self.s.opening_fd = fd

    def abandon(self):
        selector_abandon(&self.s)
        self._forget_all()

    cdef _forget_all(self):
        for channel_id in list(self.alive):
            self._forget(channel_id)

    cdef _forget(self, channel_id):
        self.alive.pop(channel_id, None)
        self._forget_send(channel_id)

    cdef _forget_send(self, channel_id):
        iov, _ = self.sends.pop(channel_id, (0, None))
        free(<void*><uintptr_t>iov)

    cdef Channel* _channel(self, channel_id) except NULL:
        return <Channel*><uintptr_t>self.alive[channel_id]

    cdef _adopt(self, Channel* ch, int err):
        if ch == NULL:
            raise OSError(err, "no channel could be made")
        self.alive[ch.id] = <uintptr_t>ch
        return ch.id

    @property
    def backend(self):
        return selector_backend(&self.s).decode()

    def connect(
        self, address, int send_buffer_bytes=-1, int receive_buffer_bytes=-1, bint in_records=False,
        TlsContext tls=None, str server_name="", bytes proxy=None,
    ):
        cdef int err = 0
        cdef bytes packed = _sockaddr(address)
        cdef ProxyPlan plan = ProxyPlan(proxy) if proxy is not None else None
        cdef const Transport* transport = record_transport() if in_records else tcp_transport()
        cdef TlsSession* session = NULL
        cdef bytes name = server_name.encode()
        if tls is not None:
            transport = tls_transport()
            session = tls_session_new(<TlsProfile*>tls.layer, name, &self.ticket)
            if session == NULL:
                raise MemoryError("no TLS session")
        cdef void* over = session
        cdef LayerUse use
        if plan is not None:
            use.over = transport
            use.over_session = session
            over = plan.layer.new_session(plan.layer, &use)
            transport = plan.layer.transport
            if over == NULL:
                tls_session_free(session)
                raise MemoryError("no session with the proxy")
        cdef Channel* ch = selector_connect(
            &self.s, <const char*>packed, <uint32_t>len(packed), send_buffer_bytes,
            receive_buffer_bytes, transport, over, NULL, &err
        )
        return self._adopt(ch, err)

    def register(self, int fd, TlsContext tls=None):
        cdef int err = 0
        cdef const Transport* transport = tcp_transport()
        cdef TlsSession* session = NULL
        if tls is not None:
            transport = tls_transport()
            session = tls_session_new(<TlsProfile*>tls.layer, b"", NULL)
            if session == NULL:
                raise MemoryError("no TLS session")
        cdef Channel* ch = selector_register(&self.s, fd, transport, session, NULL, &err)
        return self._adopt(ch, err)

    def is_resumed(self, channel_id):
        cdef TlsSession* session = <TlsSession*>self._channel(channel_id).session
        return bool(openssl.SSL_session_reused(session.ssl))

    def ssl_address(self, channel_id):
        return <uintptr_t>(<TlsSession*>self._channel(channel_id).session).ssl

    def send(self, channel_id, list buffers):
        cdef Channel* ch = self._channel(channel_id)
        cdef int32_t count = <int32_t>len(buffers)
        cdef fp_iovec* iov = <fp_iovec*>calloc(count + 1, sizeof(fp_iovec))
        cdef int32_t i
        cdef FpStatus status
        if iov == NULL:
            raise MemoryError(f"{count} iovecs")
        for i in range(count):
            iov[i].iov_base = <char*><bytes>buffers[i]
            iov[i].iov_len = len(buffers[i])
        with nogil:
            status = channel_send(ch, iov, count)
        if status == FP_BLOCKED:
            self.sends[channel_id] = (<uintptr_t>iov, buffers)
        else:
            free(iov)
        return _STATUS.get(status, str(<int>status))

    def poll(self, int timeout_ms, int max_idle_ms=-1):
        cdef FpStatus status
        cdef int64_t timeout_ns = timeout_ms * <int64_t>1000000
        cdef int64_t max_idle_ns = max_idle_ms * <int64_t>1000000
        cdef uint32_t i
        cdef Channel* ch
        with nogil:
            selector_park(&self.s)
            status = selector_poll(&self.s, timeout_ns, max_idle_ns)
        check(status)
        events = PollEvents([], [], [], [])
        for i in range(self.s.connected_count):
            events.connected.append(self.s.connected[i].id)
        for i in range(self.s.completed_send_count):
            events.completed_sends.append(self.s.completed_sends[i].id)
            self._forget_send(self.s.completed_sends[i].id)
        for i in range(self.s.receive_count):
            frame = (<const char*>self.s.receives[i].data)[:self.s.receives[i].size]
            events.receives.append((self.s.receives[i].channel.id, frame))
        for i in range(self.s.disconnected_count):
            ch = self.s.disconnected[i]
            reason = _CLOSE_REASONS[ch.close_reason]
            text = "" if ch.text == NULL else ch.text.decode()
            events.disconnected.append(Disconnect(
                ch.id, reason, ch.err, ch.bad_size, ch.tls_verify, ch.tls_reason, text))
            self._forget(ch.id)
        return events

    def close_channel(self, channel_id):
        selector_close(&self.s, self._channel(channel_id))
        self._forget(channel_id)

    def mute(self, channel_id, bint muted):
        selector_mute(&self.s, self._channel(channel_id), muted)

    def wake(self):
        selector_wake(&self.s)

    def channel(self, channel_id):
        cdef Channel* ch = self._channel(channel_id)
        return ChannelCounters(
            ch.fd, ch.sent_bytes, ch.received_bytes, ch.rcap, ch.rend - ch.rstart,
            bool(channel_is_sending(ch)), ch.interest,
        )

    def counters(self):
        return {
            "channels": self.s.channel_count,
            "polls": self.s.polls,
            "io_wait_ns": self.s.io_wait_ns,
            "has_buffered": bool(self.s.has_buffered),
        }

    def post(self, int64_t count, int64_t patience_ms):
        cdef int64_t deadline_ns = fp_now_ns() + patience_ms * 1000000
        cdef int64_t mine
        cdef int64_t i = 0
        cdef int spins
        cdef volatile int64_t pause
        with nogil:
            while i < count and fp_now_ns() < deadline_ns:
                mine = fp_add_i64(&self.posted, 1)
                fp_fence()
                selector_wake(&self.s)
                spins = 0
                while fp_load_i64(&self.done) < mine and fp_now_ns() < deadline_ns:
                    spins += 1
                    if spins > 1000:
                        sched_yield()
                i += 1
                # Come back at a different moment of the poller's round each time.
                pause = (i * 7919) % 199
                while pause > 0:
                    pause -= 1
        return i

    def serve_posts(self, int64_t count, int64_t bound_ms):
        cdef int64_t served = 0
        cdef int64_t sleeps = 0
        cdef int64_t lost = 0
        cdef int64_t started_ns
        cdef bint sleepy
        cdef FpStatus status = FP_OK
        with nogil:
            while served < count and lost == 0 and status == FP_OK:
                selector_park(&self.s)
                sleepy = fp_load_i64(&self.posted) == served
                started_ns = fp_now_ns()
                status = selector_poll(&self.s, bound_ms * 1000000 if sleepy else 0, -1)
                sleeps += sleepy
                if fp_now_ns() - started_ns >= bound_ms * 1000000:
                    lost += 1
                served = fp_load_i64(&self.posted)
                fp_store_i64(&self.done, served)
        check(status)
        return sleeps, lost

    def exchange(self, channel_id, bytes frame, int count, bint answered, int64_t patience_ms):
        cdef Channel* ch = self._channel(channel_id)
        cdef const char* data = frame
        cdef size_t size = len(frame)
        cdef fp_iovec iov
        cdef int64_t* marks_ns = <int64_t*>calloc(count + 1, sizeof(int64_t))
        cdef int64_t deadline_ns = fp_now_ns() + patience_ms * 1000000
        cdef FpStatus status = FP_OK
        cdef int i = 0
        if marks_ns == NULL:
            raise MemoryError(f"{count} marks")
        with nogil:
            while i < count and (status == FP_OK or status == FP_BLOCKED):
                marks_ns[i] = fp_now_ns()
                iov.iov_base = <void*>data
                iov.iov_len = size
                status = channel_send(ch, &iov, 1)
                if status == FP_BLOCKED or (answered and status == FP_OK):
                    status = _await(&self.s, ch, data, size, answered, deadline_ns)
                i += 1
            marks_ns[i] = fp_now_ns()
        marks = [marks_ns[i] for i in range(count + 1)]
        free(marks_ns)
        if status != FP_OK:
            self.close_channel(channel_id)  # it may still borrow `iov`
        check(status)
        return marks

    def collect(self, channel_id, int64_t count, int64_t patience_ms):
        cdef Channel* ch = self._channel(channel_id)
        cdef int64_t deadline_ns = fp_now_ns() + patience_ms * 1000000
        cdef int64_t payload_bytes = 0
        cdef FpStatus status = FP_OK
        cdef uint32_t i
        with nogil:
            while count > 0 and status == FP_OK:
                status = _poll_once(&self.s, deadline_ns)
                for i in range(self.s.receive_count):
                    if self.s.receives[i].channel == ch:
                        payload_bytes += self.s.receives[i].size
                        count -= 1
        check(status)
        return payload_bytes


cdef FpStatus _poll_once(Selector* s, int64_t deadline_ns) noexcept nogil:
    cdef int64_t left_ns = deadline_ns - fp_now_ns()
    if left_ns <= 0:
        return FP_TIMEDOUT
    selector_park(s)
    if selector_poll(s, left_ns, -1) != FP_OK or s.disconnected_count > 0:
        return FP_IO
    return FP_OK


cdef FpStatus _await(
    Selector* s, Channel* ch, const char* data, size_t size, bint answered, int64_t deadline_ns
) noexcept nogil:
    """Poll until the send is complete and, if `answered`, an equal frame has come back."""
    cdef bint waiting = True
    cdef FpStatus status = FP_OK
    while waiting and status == FP_OK:
        status = _poll_once(s, deadline_ns)
        if answered and s.receive_count > 0:
            if s.receives[0].size != size - 4 or memcmp(s.receives[0].data, data + 4, size - 4):
                return FP_PROTOCOL
            waiting = False
        elif not answered:
            waiting = channel_is_sending(ch)
    return status

"""Asks a proxy to connect, then hands the channel to the transport that lies over it.

Brokers speak when they are spoken to, so nothing of theirs can follow the proxy's last answer. It
is read no further than its end all the same: the rest belongs to whoever takes the channel over.
"""
from libc.errno cimport EAGAIN, ECONNRESET, EPROTO
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy

cimport cython

from fastprod._core.bytes.fp_status cimport FP_BLOCKED, FP_IO, FP_OK, FpStatus
from fastprod._core.io.channel cimport (
    CLOSE_NOT_CONNECTED, CLOSE_PROXY, Channel, FP_POLL_IN, FP_POLL_OUT, Transport, fp_iovec,
)
from fastprod._core.io.layer cimport ChannelLayer, Layer, LayerUse, layer_hold, layer_release

cdef extern from "c/fp_sock.h" nogil:
    int fp_sock_connected(int fd) noexcept
    ssize_t fp_sock_send(int fd, fp_iovec* iov, int32_t count, size_t* offered) noexcept
    ssize_t fp_sock_receive(int fd, void* buffer, size_t size) noexcept

cdef enum:
    GREETING = 0
    PASSWORD = 1
    REQUEST = 2
    SOCKS_VERSION = 5
    NO_PASSWORD = 0
    USER_AND_PASSWORD = 2
    NONE_ACCEPTABLE = 0xFF
    ADDRESS_IPV4 = 1
    ADDRESS_NAME = 3
    ADDRESS_IPV6 = 4
    # Of a SOCKS5 reply: version, reply, reserved, type of address; then the address and a port.
    REPLY_BYTES = 4
    PORT_BYTES = 2
    FAILURE_BYTES = 256
    # What is left of them for the first line of an answer, after "http=".
    LINE_BYTES = 251


cdef Transport _proxy   # filled in below


# The plan, and sessions by it.

cdef ProxyScript* _script_new(const uint8_t* plan, size_t size) noexcept nogil:
    """NULL: no memory."""
    cdef ProxyScript* script = <ProxyScript*>calloc(1, sizeof(ProxyScript))
    if script == NULL:
        return NULL
    script.plan = <uint8_t*>malloc(size)
    if script.plan == NULL:
        free(script)
        return NULL
    memcpy(script.plan, plan, size)
    script.kind = plan[0]
    script.layer.holders = 1
    script.layer.transport = &_proxy
    script.layer.new_session = _new_session
    script.layer.free_session = _free_session
    script.layer.destroy_layer = _destroy
    return script


cdef bint _find_messages(ProxyScript* script, size_t size) noexcept nogil:
    """Whether the plan is one."""
    cdef size_t at = 1
    cdef int32_t i
    for i in range(PROXY_MESSAGES):
        if at + 2 > size:
            break
        script.sizes[i] = (<size_t>script.plan[at] << 8) | script.plan[at + 1]
        script.messages[i] = script.plan + at + 2
        at += 2 + script.sizes[i]
    return at == size


cdef void _destroy(ChannelLayer* layer) noexcept nogil:
    free((<ProxyScript*>layer).plan)
    free(layer)


cdef void* _new_session(ChannelLayer* layer, LayerUse* use) noexcept nogil:
    cdef ProxySession* session = <ProxySession*>calloc(1, sizeof(ProxySession))
    if session != NULL:
        session.script = <ProxyScript*>layer_hold(layer)
        session.over = use.over
        session.over_session = use.over_session
    return session


cdef void _free_session(void* session) noexcept nogil:
    layer_release(&(<ProxySession*>session).script.layer)
    free(session)


@cython.final
cdef class ProxyPlan(Layer):
    """See the .pyi."""

    def __cinit__(self, bytes data not None):
        cdef const uint8_t* plan = data
        cdef ProxyScript* script
        if not data:
            raise ValueError("a plan for a proxy has a kind at least")
        script = _script_new(plan, <size_t>len(data))
        if script == NULL:
            raise MemoryError("no memory for what is said to a proxy")
        self.layer = &script.layer
        self.data = data
        if not _find_messages(script, <size_t>len(data)):
            raise ValueError("the messages to a proxy do not fill their plan")

    def __init__(self, data):
        pass


# Failures.

cdef FpStatus _fail(Channel* ch, const char* what, int32_t number) noexcept nogil:
    """Keep why the proxy does not let it through: `what`, with `number` in it."""
    ch.close_reason = CLOSE_PROXY
    ch.err = EPROTO
    if ch.text == NULL:
        ch.text = <char*>malloc(FAILURE_BYTES)
    if ch.text != NULL:
        snprintf(ch.text, FAILURE_BYTES, what, <int>number)
    return FP_IO


cdef FpStatus _refuse_http(Channel* ch, ProxySession* session) noexcept nogil:
    """Keep the first line of the answer, as far as it is text."""
    cdef char line[LINE_BYTES]
    cdef size_t size = 0
    while size < session.held and size < LINE_BYTES - 1:
        if session.answer[size] < 0x20 or session.answer[size] > 0x7E:
            break
        line[size] = <char>session.answer[size]
        size += 1
    line[size] = 0
    _fail(ch, "", 0)
    if ch.text != NULL:
        snprintf(ch.text, FAILURE_BYTES, "http=%s", line)
    return FP_IO


# The conversation.

cdef FpStatus _send(Channel* ch, ProxySession* session) noexcept nogil:
    """Send what is left of the step's message."""
    cdef fp_iovec part
    cdef size_t offered
    cdef ssize_t n
    while session.sent < session.script.sizes[session.step]:
        part.iov_base = session.script.messages[session.step] + session.sent
        part.iov_len = session.script.sizes[session.step] - session.sent
        n = fp_sock_send(ch.fd, &part, 1, &offered)
        if n == -EAGAIN:
            return FP_BLOCKED
        if n < 0:
            _fail(ch, "lost=1", 0)
            ch.err = <int32_t>-n
            return FP_IO
        session.sent += <size_t>n
    session.is_sent = True
    session.held = 0
    return FP_OK


cdef FpStatus _receive(Channel* ch, ProxySession* session, size_t total) noexcept nogil:
    """Receive until the answer has `total` bytes, at most PROXY_ANSWER_BYTES."""
    cdef ssize_t n
    while session.held < total:
        n = fp_sock_receive(ch.fd, session.answer + session.held, total - session.held)
        if n == -EAGAIN:
            return FP_BLOCKED
        if n <= 0:
            _fail(ch, "lost=1", 0)
            ch.err = <int32_t>-n if n < 0 else ECONNRESET
            return FP_IO
        session.held += <size_t>n
    return FP_OK


cdef void _go_on(ProxySession* session, int32_t step) noexcept nogil:
    session.step = step
    session.sent = 0
    session.held = 0
    session.is_sent = False


cdef FpStatus _take_greeting(Channel* ch, ProxySession* session) noexcept nogil:
    """FP_OK: it goes on with another step."""
    cdef FpStatus status = _receive(ch, session, 2)
    if status != FP_OK:
        return status
    if session.answer[0] != SOCKS_VERSION:
        return _fail(ch, "socks_version=%d", session.answer[0])
    if session.answer[1] == NO_PASSWORD:
        _go_on(session, REQUEST)
        return FP_OK
    if session.answer[1] == USER_AND_PASSWORD and session.script.sizes[PASSWORD] > 0:
        _go_on(session, PASSWORD)
        return FP_OK
    return _fail(ch, "socks_method=%d", session.answer[1])


cdef FpStatus _take_verdict(Channel* ch, ProxySession* session) noexcept nogil:
    cdef FpStatus status = _receive(ch, session, 2)
    if status != FP_OK:
        return status
    if session.answer[1] != 0:
        return _fail(ch, "socks_password=%d", session.answer[1])
    _go_on(session, REQUEST)
    return FP_OK


cdef FpStatus _take_reply(Channel* ch, ProxySession* session) noexcept nogil:
    """FP_OK: the channel is through."""
    cdef size_t address = 0
    cdef FpStatus status = _receive(ch, session, REPLY_BYTES)
    if status != FP_OK:
        return status
    if session.answer[0] != SOCKS_VERSION:
        return _fail(ch, "socks_version=%d", session.answer[0])
    if session.answer[1] != 0:
        return _fail(ch, "socks_reply=%d", session.answer[1])
    if session.answer[3] == ADDRESS_IPV4:
        address = 4
    elif session.answer[3] == ADDRESS_IPV6:
        address = 16
    elif session.answer[3] == ADDRESS_NAME:
        status = _receive(ch, session, REPLY_BYTES + 1)
        if status != FP_OK:
            return status
        address = 1 + <size_t>session.answer[REPLY_BYTES]
    else:
        return _fail(ch, "socks_address=%d", session.answer[3])
    return _receive(ch, session, REPLY_BYTES + address + PORT_BYTES)


cdef FpStatus _take_http(Channel* ch, ProxySession* session) noexcept nogil:
    """FP_OK: the channel is through. Byte by byte: what follows the headers is not the proxy's."""
    cdef FpStatus status
    while session.held < 4 or memcmp(session.answer + session.held - 4, b"\r\n\r\n", 4) != 0:
        if session.held == PROXY_ANSWER_BYTES:
            return _fail(ch, "http_bytes=%d", PROXY_ANSWER_BYTES)
        status = _receive(ch, session, session.held + 1)
        if status != FP_OK:
            return status
    if session.held < 12 or memcmp(session.answer, b"HTTP/1.", 7) != 0:
        return _refuse_http(ch, session)
    if session.answer[8] != c' ' or session.answer[9] != c'2':
        return _refuse_http(ch, session)
    return FP_OK


cdef FpStatus _talk(Channel* ch, ProxySession* session, uint32_t* wants) noexcept nogil:
    cdef FpStatus status
    while True:
        if not session.is_sent:
            status = _send(ch, session)
            wants[0] = FP_POLL_OUT
            if status != FP_OK:
                return status
        wants[0] = FP_POLL_IN
        if session.script.kind == PROXY_HTTP:
            return _take_http(ch, session)
        if session.step == REQUEST:
            return _take_reply(ch, session)
        if session.step == GREETING:
            status = _take_greeting(ch, session)
        else:
            status = _take_verdict(ch, session)
        if status != FP_OK:
            return status


# The transport.

cdef FpStatus _handshake(Channel* ch, uint32_t* wants) noexcept nogil:
    cdef ProxySession* session = <ProxySession*>ch.session
    cdef FpStatus status
    cdef int err
    if not session.is_connected:
        err = fp_sock_connected(ch.fd)
        if err != 0:
            ch.close_reason = CLOSE_NOT_CONNECTED
            ch.err = err
            return FP_IO
        session.is_connected = True
    status = _talk(ch, session, wants)
    if status != FP_OK:
        return status
    _hand_over(ch)
    return ch.transport.handshake(ch, wants)


cdef void _hand_over(Channel* ch) noexcept nogil:
    cdef ProxySession* session = <ProxySession*>ch.session
    ch.transport = session.over
    ch.session = session.over_session
    _free_session(session)


cdef ssize_t _send_iov(
    Channel* ch, fp_iovec* iov, int32_t count, size_t* offered
) noexcept nogil:
    offered[0] = 0
    return -EAGAIN      # the channel is not open yet


cdef ssize_t _receive_nothing(Channel* ch, void* buffer, size_t size) noexcept nogil:
    return -EAGAIN


cdef bint _has_pending(Channel* ch) noexcept nogil:
    return False


cdef void _hang_up(Channel* ch) noexcept nogil:
    _hand_over(ch)
    ch.transport.hang_up(ch)


_proxy.handshake = _handshake
_proxy.send_iov = _send_iov
_proxy.flush = NULL
_proxy.receive = _receive_nothing
_proxy.has_pending = _has_pending
_proxy.hang_up = _hang_up

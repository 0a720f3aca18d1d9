"""The way through a SOCKS5 or HTTP proxy: the transport of a channel until it has been let through.

Source: RFC 1928, RFC 1929 (SOCKS5), RFC 9110 9.3.6 (CONNECT).
"""
from libc.stdint cimport int32_t, uint8_t

from fastprod._core.io.channel cimport Transport
from fastprod._core.io.layer cimport ChannelLayer, Layer

cpdef enum ProxyKind:
    PROXY_SOCKS5 = 1        # messages: greeting, user and password (or empty), request to connect
    PROXY_HTTP = 2          # one message: CONNECT with its headers

cdef enum:
    PROXY_MESSAGES = 3
    PROXY_ANSWER_BYTES = 4096   # an answer may be so long, headers of HTTP included

cdef struct ProxyScript:
    # What is said to a proxy.
    # OWNER    its holders (see ChannelLayer).   FREED BY layer_release, by the last of them.
    # THREADS  any; constant.
    ChannelLayer layer          # the first field: one stands for the other
    int32_t kind                # ProxyKind
    uint8_t* plan               # owned; the messages
    uint8_t* messages[PROXY_MESSAGES]       # in `plan`
    size_t sizes[PROXY_MESSAGES]

cdef struct ProxySession:
    # OWNER    its channel.   FREED BY the layer's free_session, or once the channel is through.
    # THREADS  the one that polls the channel.
    const Transport* over       # takes the channel over once it is through
    void* over_session          # owned until then; NULL: `over` keeps nothing
    ProxyScript* script         # held
    int32_t step                # the message that is sent, or was sent last
    size_t sent                 # of that message
    bint is_sent                # an answer is due
    bint is_connected           # the socket is: the proxy takes connections
    size_t held                 # bytes of the answer
    uint8_t answer[PROXY_ANSWER_BYTES]


cdef class ProxyPlan(Layer):
    # Its layer is that of a ProxyScript.
    cdef readonly bytes data

"""Layer: what may lie between a channel and its socket: TLS, or the way through a proxy.

Whoever opens a connection knows no more of either than this, so that neither is loaded before it is
used.
"""
from libc.stdint cimport int32_t
from libc.stdlib cimport free

from fastprod._core.bytes.sync cimport fp_add_i32
from fastprod._core.io.channel cimport Transport

cdef struct ChannelLayer        # below

cdef struct LayerTicket:
    # What the next connection to the same host may begin with instead of a whole handshake.
    # OWNER    the node.   FREED BY layer_ticket_clear.   THREADS the one that polls.
    void* session               # owned; the layer's own, or NULL: there is none
    ChannelLayer* layer         # held; by which it was made
    char* host                  # owned; to whom

cdef struct LayerUse:
    # What a session is made for. BORROWS everything; `ticket` for as long as the session lives.
    const char* host            # whom to ask for and, if the layer says so, to verify, or ""
    LayerTicket* ticket         # of the connection before and for the next one, or NULL
    const Transport* over       # takes the channel over when this layer has done its part, ...
    void* over_session          # ... with this; NULL: nothing does

cdef struct ChannelLayer:
    # What connections share that are made alike; the first field of what a layer itself needs.
    # OWNER    whoever holds it: objects, sessions, tickets, commands.
    # FREED BY layer_release, by the last of them.   THREADS any; constant but for `holders`.
    int32_t holders             # atomic
    const Transport* transport  # of the channels, with a session of `new_session`
    # A session for a channel that is to be made; NULL: no memory, or no such host name, and
    # `over_session` is still the caller's.
    void* (*new_session)(ChannelLayer* layer, LayerUse* use) noexcept nogil
    # Frees a session, without its `over_session`, whose channel could not be made.
    void (*free_session)(void* session) noexcept nogil
    void (*free_ticket)(void* session) noexcept nogil       # NULL: it gives none
    void (*destroy_layer)(ChannelLayer* layer) noexcept nogil


cdef inline ChannelLayer* layer_hold(ChannelLayer* layer) noexcept nogil:
    fp_add_i32(&layer.holders, 1)
    return layer


cdef inline void layer_release(ChannelLayer* layer) noexcept nogil:
    """NULL is ignored."""
    if layer != NULL and fp_add_i32(&layer.holders, -1) == 0:
        layer.destroy_layer(layer)


cdef inline void layer_ticket_clear(LayerTicket* ticket) noexcept nogil:
    if ticket.session != NULL:
        ticket.layer.free_ticket(ticket.session)
    layer_release(ticket.layer)
    free(ticket.host)
    ticket.session = NULL
    ticket.layer = NULL
    ticket.host = NULL


cdef class Layer:
    # Threads: immutable.
    cdef ChannelLayer* layer    # held, or NULL until its subclass has made it
    cdef int pid                # of the process that made it: a fork's child frees nothing

    # The layer, for one more holder. TypeError: it has none.
    cdef ChannelLayer* hold(self) except NULL

"""The connection to one node: requests leave on it, answers come, and its end (contract P-G.2).

Nothing here knows what is in a request: its handler does.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from fastprod._core.engine.control_queue cimport Event
from fastprod._core.engine.in_flight cimport Request
from fastprod._core.engine.sender_state cimport IoThread, Node

# The node in `slot`, made when it is first named; NULL: no such slot, or out of memory.
cdef Node* node_in_slot(IoThread* io, int32_t slot) noexcept nogil
# A blank request out of the spare ones, or NULL; and back to them.
cdef Request* request_take(IoThread* io) noexcept nogil
cdef void request_recycle(IoThread* io, Request* request) noexcept nogil
# Push an event to the control thread that its kind and the node say all of.
cdef void tell(IoThread* io, int32_t kind, int32_t slot) noexcept nogil
cdef void node_set_state(Node* node, int32_t state) noexcept nogil
# The channel's bytes so far, into the node's counters.
cdef void node_count_bytes(Node* node) noexcept nogil
# DO_CONNECT: start connecting, or tell that it failed.
cdef void node_connect(IoThread* io, Event* event) noexcept nogil
# DO_SWAP: the spare's connection takes the place of its node's, which is closed, when nothing is
# in flight on that; until then no request leaves to the node. Tells when it is done. Without effect
# if one of the two is gone, which was told.
cdef void node_swap(IoThread* io, Node* spare, Event* event) noexcept nogil
# Close the connection and end its requests (P-G.2.5); tells.
cdef void node_drop(IoThread* io, Node* node, int32_t reason, int32_t err, int64_t bad_size,
                    bint timed_out) noexcept nogil
# Put an encoded request in flight and its bytes on their way.
cdef void node_send(IoThread* io, Node* node, Request* request) noexcept nogil
# The newest request's last byte is in the socket.
cdef void node_written(IoThread* io, Node* node) noexcept nogil
# P-G.2.4: its oldest request waits too long: the connection goes, with all its requests.
cdef void node_check_time_out(IoThread* io, Node* node) noexcept nogil
# An answer: of the request that has been under way for the longest.
cdef void node_receive(IoThread* io, Node* node, const uint8_t* data, uint32_t size) noexcept nogil
# What the last poll brought, in the order of P-G.1: answers go to the handlers of their requests.
cdef void nodes_after_poll(IoThread* io) noexcept nogil

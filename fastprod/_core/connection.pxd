"""The connection to one node: what leaves on it, and what its end does to that (contract G.2)."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastprod._core.event_queue cimport Event
from fastprod._core.in_flight cimport Request
from fastprod._core.io_thread cimport IoThread, Node

# The node in `slot`, made when it is first named; NULL: no such slot, or out of memory.
cdef Node* node_in_slot(IoThread* io, int32_t slot) noexcept nogil
# A blank request out of the spare ones, or NULL; and back to them.
cdef Request* request_take(IoThread* io) noexcept nogil
cdef void request_recycle(IoThread* io, Request* request) noexcept nogil
# Push an event of numbers to the control thread.
cdef void tell(IoThread* io, int32_t kind, int32_t slot, int64_t a, int64_t b, int64_t c,
               int64_t d) noexcept nogil
cdef void node_set_state(Node* node, int32_t state) noexcept nogil
# The channel's bytes so far, into the node's counters.
cdef void node_count_bytes(Node* node) noexcept nogil
# DO_CONNECT: start connecting, or tell that it failed.
cdef void node_connect(IoThread* io, Event* event) noexcept nogil
# Close the connection and end its requests (G.2.5); tells.
cdef void node_drop(IoThread* io, Node* node, int32_t reason, int32_t err, int64_t bad_size,
                    bint timed_out) noexcept nogil
# Put an encoded request in flight and its bytes on their way.
cdef void node_send(IoThread* io, Node* node, Request* request) noexcept nogil
# The newest request's last byte is in the socket.
cdef void node_written(IoThread* io, Node* node) noexcept nogil
# Hand a control request's answer (size -1: none will come) to the control thread.
cdef void control_answered(IoThread* io, Node* node, Request* request, const uint8_t* data,
                           int64_t size) noexcept nogil

"""The emptying side of the RecordAccumulator: the drain (contract P-D.7)."""
from fastprod._core.engine.in_flight cimport Request
from fastprod._core.engine.sender_state cimport IoThread, Node

# Fill `request` with one batch of each partition that may go, sealed and in flight; False: none.
cdef bint node_drain(IoThread* io, Node* node, Request* request) noexcept nogil

"""The load tables of the adaptive partitioner (contract P-C.5.6, P-C.5.7)."""
from fastprod._core.engine.accumulator cimport Topic
from fastprod._core.engine.sender_state cimport IoThread

# The queues of `topic` may be uneven: its table is made anew, if its sticky partition is asked for.
cdef void mark_busy(IoThread* io, Topic* topic) noexcept nogil
# Make the tables that are due, at most once a millisecond.
cdef void update_load(IoThread* io) noexcept nogil

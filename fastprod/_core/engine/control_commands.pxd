"""Commands of the control thread, carried out on the I/O thread (EventKind DO_...)."""
from libc.stdint cimport int32_t

from fastprod._core.engine.sender_state cimport IoThread, RequestHandler

cdef struct LeaderUpdate:
    # One entry of DO_LEADERS. BORROWS partition.
    void* partition
    int32_t slot                # of the leader's node, or NO_SLOT
    int32_t epoch               # -1: unknown
    int32_t node_id             # of the leader, -1: none

# What becomes of the control thread's requests.
cdef RequestHandler control_handler() noexcept nogil
# Once a turn of a transactional producer: what is to be told or sent of its transaction.
cdef void serve_transaction(IoThread* io) noexcept nogil
# Carry out those in front that touch nothing but memory; False: another one is behind them.
cdef bint obey_small(IoThread* io) noexcept nogil
# Carry out every command that waits, oldest first, and what was put off before.
cdef void obey_all(IoThread* io) noexcept nogil

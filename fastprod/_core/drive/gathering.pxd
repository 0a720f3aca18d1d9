"""Threads that an answer wakes together send their next records in one request."""
from fastprod._core.engine.in_flight cimport Request
from fastprod._core.engine.sender_state cimport IoThread

# Before what waits for `request`, which has been answered, is told: is the next request to wait for
# the next records of those threads?
cdef void gathering_begin(IoThread* io, Request* request) noexcept nogil
# Who has the loop looks before it looks for work: has the time passed, or have all come?
cdef void gathering_check(IoThread* io) noexcept nogil

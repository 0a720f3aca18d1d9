"""The emptying side of the RecordAccumulator: ready, drain, expire (contract D.5-D.8)."""
from libc.stdint cimport int32_t, int64_t

from fastprod._core.accumulator cimport Partition
from fastprod._core.in_flight cimport Request
from fastprod._core.io_thread cimport IoThread, Node

# Take the partitions that callers made active onto the lists of their leaders.
cdef void take_active(IoThread* io) noexcept nogil
# Put every listed partition under its present leader; drop those with nothing left.
cdef void relist(IoThread* io, Node* node) noexcept nogil
# Is there a batch to send to `node` now? Lowers io.wake_ns to when there will be.
cdef bint node_is_ready(IoThread* io, Node* node) noexcept nogil
# Fill `request` with one batch of each partition that may go, sealed and in flight; False: none.
cdef bint node_drain(IoThread* io, Node* node, Request* request) noexcept nogil
# Fail what is older than delivery.timeout.ms, in flight or not (D.8).
cdef void expire(IoThread* io) noexcept nogil
# Make the load tables of the adaptive partitioner (C.5.6, C.5.7), at most once a millisecond.
cdef void update_load(IoThread* io) noexcept nogil
# Fail everything, queued and in flight, with `code`; slabs of requests under way stay (D.8.4).
cdef void abort_all(IoThread* io, int32_t code) noexcept nogil

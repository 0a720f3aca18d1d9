"""The end of batches that no answer ends: expiry and abort (contract D.8, D.10)."""
from libc.stdint cimport int32_t

from fastprod._core.io_thread cimport IoThread

# Fail what is older than delivery.timeout.ms, in flight or not (D.8).
cdef void expire(IoThread* io) noexcept nogil
# Fail everything, queued and in flight, with `code`; slabs of requests under way stay (D.8.4).
cdef void abort_all(IoThread* io, int32_t code) noexcept nogil

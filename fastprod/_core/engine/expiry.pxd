"""The end of batches that no answer ends: expiry and abort (contract P-D.8, P-D.10)."""
from libc.stdint cimport int32_t, int64_t

from fastprod._core.engine.sender_state cimport IoThread

# Fail what is older than delivery.timeout.ms, in flight or not (P-D.8).
cdef void expire(IoThread* io) noexcept nogil
# Fail everything, queued and in flight, with `code`; slabs of requests under way stay (P-D.8.4).
cdef void abort_all(IoThread* io, int32_t code) noexcept nogil
# Fail what has never left with `code` and `why` in words or NULL; the rest goes on (P-D.10.2).
cdef void abort_undrained(IoThread* io, int32_t code, const char* why) noexcept nogil
# Fail what `purged` says, a sum of Purged, with `code`; how many records that were. What was under
# way may be written: as where a batch expires, its partition waits until that is known (P-F.5.7).
cdef int64_t purge(IoThread* io, int32_t code, int64_t purged) noexcept nogil

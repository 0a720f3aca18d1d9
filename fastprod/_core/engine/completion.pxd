"""What becomes of a batch after its request: done, retried, split or failed (P-F.4, P-D.9)."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.engine.accumulator cimport Partition
from fastprod._core.engine.in_flight cimport Request
from fastprod._core.engine.sender_state cimport IoThread, Node
from fastprod._core.records.record_batch cimport ProducerBatch

# An answered Produce request; `p` is behind the correlation id. FP_PROTOCOL: nothing was believed,
# the caller drops the connection and fails the request.
cdef FpStatus produce_answered(
    IoThread* io, Node* node, Request* request, const uint8_t* p, size_t size) noexcept nogil
# The request left with acks=0: every batch succeeded, as far as anybody can tell (P-F.3.2).
cdef void produce_unanswered(IoThread* io, Request* request) noexcept nogil
# The connection or the wait ended: `code` for every batch (P-F.4.1).
cdef void produce_failed(IoThread* io, Request* request, int32_t code) noexcept nogil
# The same; `why` is for the errors of what is not sent again.
cdef void produce_lost(
    IoThread* io, Request* request, int32_t code, const char* why) noexcept nogil

# Fail a batch that is not in any queue. `detail` goes into the error's text.
cdef void batch_fail(
    IoThread* io, ProducerBatch* batch, int32_t code, int64_t detail, const uint8_t* message,
    int32_t message_size) noexcept nogil
# Free it once it is done and no request holds its slabs (P-D.8.4).
cdef void batch_release(IoThread* io, ProducerBatch* batch) noexcept nogil
cdef int64_t backoff_ns(IoThread* io, int32_t attempts) noexcept nogil

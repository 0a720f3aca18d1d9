"""Producer id, epoch and sequence numbers of a partition (contract P-F.5, P-D.7.4), and whether it
is part of the open transaction (P-I.2)."""
from libc.stdint cimport int16_t, int32_t, int64_t

from fastprod._core.engine.accumulator cimport Partition
from fastprod._core.engine.control_queue cimport Event
from fastprod._core.engine.sender_state cimport IoThread
from fastprod._core.records.record_batch cimport ProducerBatch

# P-F.5.2, with wrap at the largest int32.
cdef int32_t next_sequence(int32_t sequence, int32_t count) noexcept nogil

# In-flight list of a partition, in sequence order.
cdef void flight_append(Partition* p, ProducerBatch* batch) noexcept nogil
cdef void flight_remove(Partition* p, ProducerBatch* batch) noexcept nogil
cdef void flight_insert_before(
    Partition* p, ProducerBatch* batch, ProducerBatch* before) noexcept nogil
cdef bint flight_is_after(ProducerBatch* batch, ProducerBatch* other) noexcept nogil

# P-D.7.4: may the head of the queue be taken now?
cdef bint sequence_allows(IoThread* io, Partition* p, ProducerBatch* head) noexcept nogil
# P-D.7.6: first drain of a batch.
cdef void sequence_assign(IoThread* io, Partition* p, ProducerBatch* batch) noexcept nogil
# P-F.5.4
cdef void sequence_acked(Partition* p, ProducerBatch* batch, int64_t base_offset) noexcept nogil
# P-F.5.7: a batch that was ever sent is given up without an answer.
cdef void sequence_unresolved(Partition* p) noexcept nogil
# P-F.5.7, P-F.5.9: nothing is outstanding: resolve, or bump the epoch if one was asked for.
cdef void sequence_settle(IoThread* io, Partition* p) noexcept nogil
# P-F.5.8: a batch failed for good while later ones are in flight.
cdef void sequence_failed(IoThread* io, Partition* p, ProducerBatch* batch) noexcept nogil
# P-F.5.5, P-F.5.6: may this error be retried? Asks for an epoch bump where one is due.
cdef bint sequence_can_retry(
    IoThread* io, Partition* p, ProducerBatch* batch, int32_t code,
    int64_t log_start_offset) noexcept nogil

# A new transaction; `adds_implicitly`: partitions join it by their first Produce request (KIP-890),
# else the control thread has to add them before their records go.
cdef void transaction_begin(IoThread* io, bint adds_implicitly) noexcept nogil
# No partition joins any more; `token` of who waits until every record has its outcome.
cdef void transaction_end(IoThread* io, int64_t token) noexcept nogil
# P-I.2.1, P-A.3.10: the partition has records of the open transaction: it is to be part of it.
cdef void transaction_join(IoThread* io, Partition* p) noexcept nogil
# A batch of the partition leaves in the transaction.
cdef void transaction_sent(IoThread* io, Partition* p) noexcept nogil
# Once a turn: tell the control thread who joined, and that all of an ending transaction is done; or
# return the request that waited for that.
cdef Event* transaction_tell(IoThread* io) noexcept nogil

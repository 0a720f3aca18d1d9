"""Cutting up a batch that the broker found too large (contract P-D.9; KIP-126)."""
from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.engine.sender_state cimport IoThread
from fastprod._core.records.record_batch cimport ProducerBatch

# On FP_OK `first` is the list (by `next`, in order) of the children; they have the parent's place
# among the in-flight batches, its creation time and its sequence numbers, and its futures look at
# them. On any other status nothing has changed. Children live on the heap, outside the pool.
cdef FpStatus batch_split(
    IoThread* io, ProducerBatch* batch, ProducerBatch** first) noexcept nogil

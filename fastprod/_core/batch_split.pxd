"""Cutting up a batch that the broker found too large (contract D.9; KIP-126)."""
from fastprod._core.io_thread cimport IoThread
from fastprod._core.record_batch cimport ProducerBatch
from fastprod._core.status cimport FpStatus

# On FP_OK `first` is the list (by `next`, in order) of the children; they have the parent's place
# among the in-flight batches, its creation time and its sequence numbers, and its futures look at
# them. On any other status nothing has changed. Children live on the heap, outside the pool.
cdef FpStatus batch_split(
    IoThread* io, ProducerBatch* batch, ProducerBatch** first) noexcept nogil

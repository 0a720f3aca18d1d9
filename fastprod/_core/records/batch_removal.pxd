"""Takes records out of a batch that is written and not sealed."""
from libc.stdint cimport uint32_t

from fastprod._core.records.record_batch cimport ProducerBatch

# Take out the records `removed` (ascending indexes, not all of them): the others move together
# and are numbered anew. Slabs that become free are given back by the seal. Requires: closed, not
# sealed.
cdef void batch_remove(
    ProducerBatch* batch, const uint32_t* removed, uint32_t removed_count) noexcept nogil

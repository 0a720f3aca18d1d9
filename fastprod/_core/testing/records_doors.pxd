"""A batch for the doors that need one."""
from fastprod._core.bytes.buffer_pool cimport BufferPool
from fastprod._core.delivery.result cimport Incomplete
from fastprod._core.records.record_batch cimport ProducerBatch, Sealer


cdef class BatchForTest:
    # A batch with all that it borrows, for the doors. See the .pyi.
    # OWNER of everything in it; `batch.partition` is the borrower's to set.
    cdef BufferPool pool
    cdef Incomplete incomplete
    cdef Sealer sealer
    cdef ProducerBatch* batch
    cdef tuple slab_bytes
    cdef int slabs_made

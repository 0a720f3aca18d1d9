"""Withdrawal of the rows of a bulk: takes back those whose batches have not left."""
from libc.stdint cimport int64_t, uint32_t

from fastprod._core.producer.bulk_rows cimport BatchRef, Row

# Take back the rows of each batch that has not left, of one batch all or none. They then have a
# result of their own, which is done, in the place of the batch's. Appends to `told` the
# RecordFutures that have an outcome by that, whose callbacks are to run. Raises MemoryError: the
# rest is sent.
cdef int withdraw(
    Row* rows, int64_t row_count, BatchRef* batch_refs, uint32_t batch_ref_count, list told
) except -1
# Whether every batch's rows were taken back.
cdef bint is_withdrawn(const BatchRef* batch_refs, uint32_t batch_ref_count) noexcept

"""Rows of a bulk: in which batch each one is, and where the batches came to lie."""
from libc.stdint cimport int32_t, int64_t, uint32_t

from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.delivery.result cimport Incomplete, Result
from fastprod._core.engine.accumulator cimport Appended, Topic
from fastprod._core.records.record_batch cimport Record

cdef enum:
    UNKNOWN_SIZE = -2           # a row that was refused before anybody looked at it

cdef extern from *:
    const uint32_t REFUSED "UINT32_MAX"     # Row.batch_ref: it never got a batch

cdef struct Row:
    # One record of the bulk.
    uint32_t batch_ref          # its number, or REFUSED
    uint32_t index              # in that batch; of a refused row: its refusal

cdef struct BatchRef:
    # A batch that holds records of this bulk.
    Result* result              # one reference; replaced, with the GIL, when rows are taken back
    uint32_t topic_slot         # number of its topic

cdef struct TopicSlot:
    # One topic of the bulk.  OWNER the BulkFuture.
    Topic* topic                # borrowed from the engine while records are appended
    uint32_t* newest            # owned; by partition: 1 + its newest batch, 0: none
    int32_t partition_capacity
    uint32_t sticky             # 1 + the batch that the partitioner chose last, 0: none

cdef struct RowTimes:
    # The timestamps of the records, in ms.
    int64_t* each               # owned; by row; NULL: all have `same_ms`
    int64_t same_ms
    bint is_known               # `same_ms` is

cdef struct RowSizes:
    # The sizes of their keys, or of their values, in bytes; -1: null.
    int32_t* each               # owned; by row; NULL: all have `same`
    int32_t same
    bint is_known               # `same` is

cdef struct RowParts:
    # What is known of each record but where it is.  OWNER the BulkFuture.
    RowTimes times
    RowSizes key_sizes
    RowSizes value_sizes

# Make room for the newest batch of this partition. False: no memory.
cdef bint slot_reserve(TopicSlot* slot, int32_t partition) noexcept nogil
# Note the records that are to be the rows from `at` on, of which there will be no more than
# `capacity` before parts_grow; a second time does nothing more. FP_NOMEM: of some.
cdef FpStatus parts_note(
    RowParts* parts, int64_t at, int64_t capacity, const Record* records, int64_t count
) noexcept nogil
# The same, but for the timestamps.
cdef FpStatus sizes_note(
    RowParts* parts, int64_t at, int64_t capacity, const Record* records, int64_t count
) noexcept nogil
# Make room for so many rows. False: no memory.
cdef bint parts_grow(RowParts* parts, int64_t capacity) noexcept nogil
cdef void parts_free(RowParts* parts) noexcept nogil
# Walk on from at[0] (0 at first) over the batches, then over the records of those that were split,
# while they are settled, which is: have the state `settled`; wait for those that are not until
# `until_ns` (0: not at all). FP_OK: all are; FP_TIMEDOUT: not this one.
cdef FpStatus rows_wait(
    Row* rows, int64_t row_count, BatchRef* batch_refs, uint32_t batch_ref_count, int64_t* at,
    int32_t settled, int64_t until_ns) noexcept nogil
# By batch_ref the index of its first row there; the caller's to free. NULL: no memory.
cdef uint32_t* rows_first_indexes(
    const Row* rows, int64_t row_count, uint32_t batch_ref_count) noexcept nogil
# The list that some of the batches are on; NULL: all are done.
cdef Incomplete* rows_list(BatchRef* batch_refs, uint32_t batch_ref_count) noexcept nogil
# (partitions, offsets, timestamps) of the rows, as numpy arrays. Requires: all are done.
cdef tuple collect_arrays(
    Row* rows, int64_t count, BatchRef* batch_refs, const RowTimes* times)
# (records, bytes, OffsetRanges) of the rows that were delivered. Requires: all are done.
cdef tuple collect_ranges(
    Row* rows, int64_t row_count, const RowParts* parts, BatchRef* batch_refs,
    uint32_t batch_ref_count, list topics)
# How many rows are done, from the state `settled` on, and how many of them failed. Never waits.
cdef int64_t rows_count_done(
    Row* rows, int64_t row_count, BatchRef* batch_refs, int32_t settled, int64_t* failed
) noexcept nogil
# A batch, or part of one that was split, that is not done; NULL: all are. `at`: 0 first, and kept
# between the calls for the same rows, since what is done is not looked at again.
cdef Result* rows_pending(
    Row* rows, int64_t row_count, BatchRef* batch_refs, uint32_t batch_ref_count, int64_t* at
) noexcept nogil
# The first row from `i` on that was not delivered, or `row_count`. Requires: all are done.
cdef int64_t rows_next_failed(
    Row* rows, int64_t row_count, BatchRef* batch_refs, int64_t i) noexcept nogil


cdef inline int32_t row_size(const RowSizes* sizes, int64_t row) noexcept nogil:
    """In bytes; -1: null."""
    return sizes.each[row] if sizes.each != NULL else sizes.same


# The appended records, which are a chunk's from its `at`-th on, are in the batch of the reference,
# of which this is 1 + its number. `rows` are the chunk's, row_of[i] is that of its i-th record
# (NULL: i).
cdef inline void rows_note(
    Row* rows, const uint32_t* row_of, int32_t at, const Appended* appended, uint32_t batch_ref
) noexcept nogil:
    cdef uint32_t i
    cdef Row* row
    for i in range(appended.count):
        row = &rows[at + i] if row_of == NULL else &rows[row_of[at + i]]
        row.batch_ref = batch_ref - 1
        row.index = appended.index + i

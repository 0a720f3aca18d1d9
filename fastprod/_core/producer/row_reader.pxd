"""ColumnRows: the rows of a bulk whose parts are columns; they are appended without the GIL."""
from libc.stdint cimport int32_t, int64_t, uint32_t

from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.columns.column cimport Column
from fastprod._core.columns.header_columns cimport HeaderColumns
from fastprod._core.columns.topic_column cimport TopicColumn
from fastprod._core.engine.accumulator cimport Accumulator
from fastprod._core.producer.bulk_future cimport BulkFuture, MemoryLine
from fastprod._core.producer.bulk_rows cimport TopicSlot
from fastprod._core.producer.record_chunk cimport RecordChunk

cdef enum:
    # Instead of a partition: no metadata of the topic, or no such partition; not to be sent.
    NO_TOPIC = -2
    NO_PARTITION = -3


cdef class ColumnRows:
    # Threads: one at a time.
    cdef Column values
    cdef Column keys            # or None; so the next four
    cdef Column partitions
    cdef Column times
    cdef HeaderColumns headers
    cdef TopicColumn topics
    cdef str topic              # of all rows, if `topics` is None
    cdef int64_t count
    cdef int64_t at             # rows that have been read
    cdef int64_t timestamp_ms   # of rows without one
    cdef bint ignores_keys

    # The largest partition that a row of each topic names, -1: none does. Sized as the topics.
    cdef list largest_partitions(self)
    # Fill the chunk anew with the next rows, and note them. FP_OK, FP_NOMEM.
    cdef FpStatus fill(self, BulkFuture bulk, RecordChunk chunk, int64_t largest) noexcept nogil
    # Append rows until all are in (FP_OK), a slice of time is over (FP_TIMEDOUT), or as
    # BulkFuture.append_chunk. Requires: room for all rows in `bulk`.
    cdef FpStatus append(
        self, BulkFuture bulk, Accumulator* a, RecordChunk chunk, int64_t largest,
        MemoryLine* line) noexcept nogil
    cdef void _place(self, TopicSlot* topic_slots, RecordChunk chunk) noexcept nogil
    cdef void _place_each(
        self, TopicSlot* topic_slots, RecordChunk chunk, bint by_key) noexcept nogil

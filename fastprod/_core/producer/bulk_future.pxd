"""BulkFuture: one future for all records of a bulk; the append loop runs without the GIL."""
from libc.stdint cimport int32_t, int64_t, uint32_t

from fastprod._core.bytes.buffer_pool cimport Waiter
from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.delivery.future cimport RecordFuture
from fastprod._core.delivery.result cimport Result
from fastprod._core.engine.accumulator cimport Accumulator, Appended, Topic
from fastprod._core.producer.bulk_rows cimport BatchRef, Row, RowParts, TopicSlot
from fastprod._core.producer.record_chunk cimport RecordChunk

cdef struct MemoryLine:
    # A caller's place in the pool's line, kept from one slice of waiting to the next.
    Waiter waiter
    bint is_waiting
    bint is_delivery            # the caller is a callback of the same producer
    int64_t since_ns            # when the wait began


cdef class BulkFuture:
    # Threads: filled by the sending thread, then any.
    cdef BatchRef* batch_refs   # owned
    cdef uint32_t batch_ref_count
    cdef uint32_t batch_ref_capacity
    cdef Row* rows              # owned
    cdef int64_t count          # of rows
    cdef int64_t capacity
    cdef RowParts parts
    cdef TopicSlot* topic_slots     # owned
    cdef uint32_t topic_slot_count
    cdef list topics            # names, by topic slot
    cdef list refusals          # (error, topic_slot); a row of `rows` names its own
    cdef dict refusal_numbers   # (id of the error, topic_slot) -> its place there
    cdef object callbacks
    cdef int pending_parts

    # A topic that records go to; the first has slot 0.
    cdef int add_topic(self, object topic, Topic* native) except -1
    cdef uint32_t _refusal(self, object error, uint32_t topic_slot) except? 0xFFFFFFFFU
    # The next `count` rows, which nobody has looked at, never got a batch.
    cdef int refuse(self, int64_t count, object error) except -1
    # The same for the chunk's next `count` records.
    cdef int refuse_records(self, RecordChunk chunk, int32_t count, object error) except -1
    cdef int add_future(self, RecordFuture future) except -1
    cdef uint32_t _note_batch(self, Result* result, uint32_t topic_slot) noexcept nogil
    cdef uint32_t _find_batch(
        self, uint32_t topic_slot, int32_t partition, uint32_t guess,
        Appended* appended) noexcept nogil
    cdef int _check_fork(self) except -1
    cdef FpStatus _wait_slice(
        self, int64_t* at, int32_t settled, int64_t until_ns) noexcept nogil
    cdef int _wait(self, object timeout) except -1
    cdef object _error(self, int64_t i)
    cdef object _topic_of(self, int64_t i)
    cdef bint _has_failed(self)
    cdef int reserve(self, int64_t records) except -1
    # The chunk's records, in the order of their rows, are to be the next ones. Requires room for
    # them. FP_OK, FP_NOMEM. Before append_chunk and refuse_records.
    cdef FpStatus note_chunk(self, RecordChunk chunk) noexcept nogil
    # Append the chunk's records, waiting in line for memory. FP_OK: all are in; FP_BLOCKED: a slice
    # of waiting is over, call again (signals had their turn) or give `line` up; FP_EXHAUSTED: as
    # pool_queue; FP_TOO_LARGE: the next one exceeds `max_record_bytes`, or has a partition below
    # ANY_PARTITION; FP_CLOSED, FP_NOMEM. Nothing Python. Requires room for the rows, and a topic.
    cdef FpStatus append_chunk(
        self, Accumulator* a, RecordChunk chunk, int64_t max_record_bytes,
        MemoryLine* line) noexcept nogil
    cdef FpStatus _append(
        self, Accumulator* a, RecordChunk chunk, int64_t max_record_bytes, Slab* extra,
        size_t* need_bytes) noexcept nogil

"""RecordChunk: some records of a bulk, and the owners of their bytes."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from fastprod._core.engine.accumulator cimport ANY_PARTITION
from fastprod._core.records.record_batch cimport Record, record_upper_bound

cdef enum:
    LARGEST_FIELD = 0x7FFFFFFF
    LONGEST_RUN = 64            # records looked at in advance; they stay in the nearest cache


cdef class RecordChunk:
    # Threads: one.
    cdef Record* records        # owned; `capacity` entries
    cdef int32_t* partitions    # owned; ANY_PARTITION: to be chosen; below: not to be sent
    cdef uint32_t* topic_slots        # borrowed; topics by their number in the bulk, NULL: all to 0
    cdef int32_t capacity
    cdef int32_t count
    cdef int32_t appended       # of these: done with
    cdef bint has_keys          # some record may have one
    cdef bint is_placed         # keys have chosen their partitions
    cdef list owners            # objects that `records` points into
    cdef dict refusals          # (partition below ANY_PARTITION, topic_slot) -> why
    cdef dict causes            # id of a reason -> its partition there

    # One row. Requires room. What it raises is wrong with this row: `refuse` may follow.
    cdef int add(self, object value, object key, object headers, object partition,
                 object timestamp_ms) except -1
    # Rows without headers and partitions, from the `count`-th on; `values` and `keys` (or None) are
    # lists nobody changes. What it raises is wrong with the next row: `refuse` may follow, then
    # this again.
    cdef int add_plain(self, list values, list keys, int64_t timestamp_ms) except -1
    # The next row, or one that has been added, is not to be sent, because of a KafkaError.
    cdef int refuse(self, object error) except -1
    cdef int refuse_at(self, int32_t i, object error) except -1
    cdef int32_t _take(self, object data, const uint8_t** at, const char* what) except -2
    cdef int32_t _look(self, object data, const uint8_t** at, const char* what) except -2
    # Partitions by key (P-C.3) for those that have none yet. Nothing Python.
    cdef void place_by_key(self, int32_t partition_count) noexcept nogil


# Where the next records that go to one partition and may be sent end; `appended`: not the first.
cdef inline int32_t chunk_run_end(RecordChunk chunk, int64_t max_record_bytes) noexcept nogil:
    cdef int32_t first = chunk.appended
    cdef int32_t i = first
    cdef int32_t end = min(chunk.count, first + LONGEST_RUN)
    if chunk.partitions[first] < ANY_PARTITION:
        return first
    while (
        i < end
        and chunk.partitions[i] == chunk.partitions[first]
        and (chunk.topic_slots == NULL or chunk.topic_slots[i] == chunk.topic_slots[first])
        and record_upper_bound(&chunk.records[i]) <= max_record_bytes
    ):
        i += 1
    return i

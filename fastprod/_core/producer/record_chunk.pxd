"""RecordChunk: some records of a bulk, and the owners of their bytes."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from fastprod._core.engine.accumulator cimport ANY_PARTITION
from fastprod._core.records.record_batch cimport (
    BATCH_HEADER_BYTES, RECORD_OVERHEAD_BYTES, Record, record_upper_bound,
)

cdef enum:
    LARGEST_FIELD = 0x7FFFFFFF
    LONGEST_RUN = 64            # records looked at in advance; they stay in the nearest cache
    MOST_GROUPS = 1024          # partitions
    # Beside key, value and headers: lengths of the two, a null or two, no headers.
    MOST_OVERHEAD = BATCH_HEADER_BYTES + RECORD_OVERHEAD_BYTES + 13


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
    cdef uint32_t* row_of       # by record: its row in the chunk; NULL: they are in that order
    cdef uint32_t* order        # owned; `row_of`, if it is not NULL
    cdef Record* other_records  # owned, so the next; where they go when they are put in order
    cdef int32_t* other_partitions
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
    # Put those of one partition together, each partition's in the order of the rows, if there are
    # few enough partitions for that to be of use, and memory, and all have one. Requires: one
    # topic, all partitions below `partition_count`. Nothing Python.
    cdef void group(self, int32_t partition_count) noexcept nogil
    cdef bint _has_others(self) noexcept nogil


# The row of a record in its chunk.
cdef inline int32_t chunk_row(RecordChunk chunk, int32_t i) noexcept nogil:
    return i if chunk.row_of == NULL else <int32_t>chunk.row_of[i]


cdef inline bint _is_small_enough(const Record* record, int64_t max_record_bytes) noexcept nogil:
    """By what needs no look at the lengths of lengths, in most cases."""
    return (
        <int64_t>record.key_size + record.value_size + record.headers_size + MOST_OVERHEAD
        <= max_record_bytes
        or record_upper_bound(record) <= max_record_bytes)


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
        and _is_small_enough(&chunk.records[i], max_record_bytes)
    ):
        i += 1
    return i

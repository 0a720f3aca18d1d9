"""RecordChunk: some records of a bulk, and the owners of their bytes."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from fastprod._core.record_batch cimport Record

cdef enum:
    LARGEST_FIELD = 0x7FFFFFFF


cdef class RecordChunk:
    # Threads: one.
    cdef Record* records        # owned; `capacity` entries
    cdef int32_t* partitions    # owned; ANY_PARTITION: to be chosen; below: not to be sent
    cdef uint32_t* lanes        # borrowed; topics by their number in the bulk, NULL: all to 0
    cdef int32_t capacity
    cdef int32_t count
    cdef int32_t appended       # of these: done with
    cdef bint has_keys          # some record may have one
    cdef bint is_placed         # keys have chosen their partitions
    cdef list owners            # objects that `records` points into
    cdef dict refusals          # (partition below ANY_PARTITION, lane) -> why
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
    # Partitions by key (C.3) for those that have none yet. Nothing Python.
    cdef void place_by_key(self, int32_t partition_count) noexcept nogil

"""Reads records from Python objects into C structs, and keeps the objects alive."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from fastprod._core.bytes.argument_view cimport (
    LARGEST_PARTITION, LATEST_MS, View, view_release, view_take, whole_number,
)
from fastprod._core.bytes.murmur2 cimport murmur2
from fastprod._core.engine.accumulator cimport ANY_PARTITION
from fastprod._core.producer.bulk_rows cimport UNKNOWN_SIZE
from fastprod._core.records.headers cimport encode_headers
from fastprod._core.records.record_batch cimport Record
cdef extern from *:
    void fetch_early "__builtin_prefetch" (const void* p) noexcept nogil

cdef enum:
    LINE_BYTES = 64
    MOST_LINES = 4              # of a value are fetched early; behind them the machine goes on


cdef bytes _copy(object data, const char* what):
    cdef View view
    view_take(data, &view, what)
    try:
        return (<const char*>view.buf)[:view.len]
    finally:
        view_release(&view)


cdef inline void _fetch_value(const Record* record) noexcept nogil:
    """It lies in the order of the rows, which the machine foresees, and is copied in another."""
    cdef int32_t at = 0
    cdef int32_t end = min(record.value_size, MOST_LINES * LINE_BYTES)
    while at < end:
        fetch_early(record.value + at)
        at += LINE_BYTES


cdef class RecordChunk:
    """Some records of a bulk. Native only."""

    def __cinit__(self, int32_t capacity):
        self.owners = []
        self.refusals = {}
        self.causes = {}
        self.records = <Record*>malloc(capacity * sizeof(Record))
        self.partitions = <int32_t*>malloc(capacity * sizeof(int32_t))
        self.capacity = capacity
        if self.records == NULL or self.partitions == NULL:
            raise MemoryError(f"no memory for {capacity:,} records of a bulk")

    def __dealloc__(self):
        free(self.records)
        free(self.partitions)
        free(self.order)
        free(self.other_records)
        free(self.other_partitions)

    cdef int add(self, object value, object key, object headers, object partition,
                 object timestamp_ms) except -1:
        cdef Record* record = &self.records[self.count]
        cdef bytes encoded
        record.value_size = self._take(value, &record.value, b"value")
        record.key_size = self._take(key, &record.key, b"key")
        self.has_keys |= key is not None
        record.headers = NULL
        record.headers_size = 0
        if headers:
            encoded = encode_headers(headers)
            self.owners.append(encoded)
            record.headers = <const uint8_t*>PyBytes_AS_STRING(encoded)
            record.headers_size = <uint32_t>PyBytes_GET_SIZE(encoded)
        record.timestamp_ms = whole_number("timestamp_ms", timestamp_ms, LATEST_MS)
        self.partitions[self.count] = ANY_PARTITION
        if partition is not None:
            self.partitions[self.count] = <int32_t>whole_number(
                "partition", partition, LARGEST_PARTITION)
        self.count += 1
        return 0

    cdef int32_t _take(self, object data, const uint8_t** at, const char* what) except -2:
        at[0] = NULL
        if data is None:
            return -1
        if not PyBytes_CheckExact(data):
            data = _copy(data, what)
        self.owners.append(data)
        at[0] = <const uint8_t*>PyBytes_AS_STRING(data)
        if PyBytes_GET_SIZE(data) > LARGEST_FIELD:
            raise ValueError("a key or value of 2 GiB or more does not fit a record")
        return <int32_t>PyBytes_GET_SIZE(data)

    cdef int add_plain(self, list values, list keys, int64_t timestamp_ms) except -1:
        cdef Record* record
        cdef Py_ssize_t i
        if self.count == 0:
            self.owners.append(values)
            self.owners.append(keys)
            self.has_keys = keys is not None
        for i in range(self.count, len(values)):
            record = &self.records[i]
            record.value_size = self._look(values[i], &record.value, b"value")
            record.key = NULL
            record.key_size = -1
            if keys is not None:
                record.key_size = self._look(keys[i], &record.key, b"key")
            record.headers = NULL
            record.headers_size = 0
            record.timestamp_ms = timestamp_ms
            self.partitions[i] = ANY_PARTITION
            self.count += 1
        return 0

    cdef int refuse(self, object error) except -1:
        self.refuse_at(self.count, error)
        self.records[self.count].timestamp_ms = 0
        if self.count > 0:
            self.records[self.count].timestamp_ms = self.records[self.count - 1].timestamp_ms
        self.records[self.count].key_size = UNKNOWN_SIZE
        self.records[self.count].value_size = UNKNOWN_SIZE
        self.count += 1
        return 0

    cdef int refuse_at(self, int32_t i, object error) except -1:
        """Each reason has a number below ANY_PARTITION."""
        cause = self.causes.get(id(error))
        if cause is None:
            cause = self.causes[id(error)] = ANY_PARTITION - 1 - len(self.causes)
            self.refusals[cause, 0] = error
        self.partitions[i] = cause
        return 0

    cdef inline int32_t _look(
        self, object data, const uint8_t** at, const char* what
    ) except -2:
        """As `_take`, for data that a list in `owners` holds already."""
        if PyBytes_CheckExact(data) and PyBytes_GET_SIZE(data) <= LARGEST_FIELD:
            at[0] = <const uint8_t*>PyBytes_AS_STRING(data)
            return <int32_t>PyBytes_GET_SIZE(data)
        return self._take(data, at, what)

    cdef void place_by_key(self, int32_t partition_count) noexcept nogil:
        cdef int32_t i
        cdef uint32_t hashed
        for i in range(self.count):
            if self.partitions[i] == ANY_PARTITION and self.records[i].key_size >= 0:
                hashed = murmur2(self.records[i].key, self.records[i].key_size)
                self.partitions[i] = <int32_t>((hashed & 0x7FFFFFFF) % <uint32_t>partition_count)
        self.is_placed = True

    cdef bint _has_others(self) noexcept nogil:
        """Whether there is memory to put them in order."""
        if self.order == NULL:
            self.order = <uint32_t*>malloc(self.capacity * sizeof(uint32_t))
        if self.other_records == NULL:
            self.other_records = <Record*>malloc(self.capacity * sizeof(Record))
        if self.other_partitions == NULL:
            self.other_partitions = <int32_t*>malloc(self.capacity * sizeof(int32_t))
        return not (
            self.order == NULL or self.other_records == NULL or self.other_partitions == NULL)

    cdef void group(self, int32_t partition_count) noexcept nogil:
        cdef uint32_t starts[MOST_GROUPS + 1]
        cdef uint32_t* start
        cdef int32_t i
        cdef uint32_t place
        if partition_count > MOST_GROUPS or not self._has_others():
            return
        memset(starts, 0, (partition_count + 1) * sizeof(uint32_t))
        for i in range(self.count):
            if self.partitions[i] < 0:
                return      # where the partitioner puts it, it must be among its neighbours
            starts[self.partitions[i] + 1] += 1
            _fetch_value(&self.records[i])
        for i in range(partition_count):
            starts[i + 1] += starts[i]
        for i in range(self.count):     # each start moves to where the next one began
            start = &starts[self.partitions[i]]
            place = start[0]
            start[0] += 1
            self.other_records[place] = self.records[i]
            self.other_partitions[place] = self.partitions[i]
            self.order[place] = i
        self.records, self.other_records = self.other_records, self.records
        self.partitions, self.other_partitions = self.other_partitions, self.partitions
        self.row_of = self.order

"""Doors to the batch writer and the header encoder."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from fastprod._core.bytes.buffer_pool cimport (
    pool_destroy, pool_free_bytes, pool_init, pool_take, slab_from_heap,
)
from fastprod._core.bytes.fp_status cimport check
from fastprod._core.bytes.lent_value cimport values_release
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.codec.compressor cimport compressor_new
from fastprod._core.delivery.result cimport (
    incomplete_destroy, incomplete_init, result_abandon, result_new,
)
from fastprod._core.records.batch_removal cimport batch_remove
from fastprod._core.records.headers cimport (
    SMALL_HEADERS, encode_headers, encode_small_headers,
)
from fastprod._core.records.record_batch cimport (
    BATCH_HEADER_BYTES, Record, batch_add_slabs, batch_append, batch_append_lent,
    batch_append_run, batch_free, batch_new, batch_own, batch_room, batch_seal,
    batch_write_header, record_size, record_upper_bound, sealer_free,
)


def encode_headers_for_test(headers):
    return encode_headers(headers)


def encode_small_headers_for_test(headers):
    cdef uint8_t[SMALL_HEADERS + 8] out
    cdef uint32_t size
    memset(out, 0xA5, sizeof(out))
    size = encode_small_headers(headers, out)
    assert all(out[SMALL_HEADERS + i] == 0xA5 for i in range(8)), "written behind the end"
    return out[:size] if size else None


cdef int _set_record(Record* record, timestamp_ms, bytes key, bytes value, bytes headers) except -1:
    """Point `record` at the bytes objects, which the caller keeps alive."""
    memset(record, 0, sizeof(Record))
    record.timestamp_ms = timestamp_ms
    record.key_size = -1
    record.value_size = -1
    if key is not None:
        record.key = key
        record.key_size = <int32_t>len(key)
    if value is not None:
        record.value = value
        record.value_size = <int32_t>len(value)
    if headers is not None:
        record.headers = headers
        record.headers_size = <uint32_t>len(headers)
    return 0


cdef int _add_room(BatchForTest door, uint32_t missing) except -1:
    """From the pool, or heap slabs of the sizes asked for, over and over."""
    cdef Slab* chain = NULL
    cdef Slab** tail = &chain
    if not door.slab_bytes:
        check(pool_take(&door.pool, missing, door.batch.first != NULL, &chain))
        batch_add_slabs(door.batch, chain)
        return 0
    while missing > 0:
        tail[0] = slab_from_heap(
            &door.pool, door.slab_bytes[door.slabs_made % len(door.slab_bytes)])
        door.slabs_made += 1
        missing -= min(missing, tail[0].size)
        tail = &tail[0].next
    batch_add_slabs(door.batch, chain)
    return 0


cdef class BatchForTest:
    """See the .pyi."""

    def __cinit__(self, codec=0, level=None, slab_bytes=(), pool_bytes=0):
        self.slab_bytes = tuple(slab_bytes)
        incomplete_init(&self.incomplete)
        check(pool_init(&self.pool, pool_bytes))
        if level is not None:
            self.sealer.compressor = compressor_new(codec, level)
        self.batch = batch_new(NULL, result_new(&self.incomplete, 0, NULL), codec, 0)

    def __dealloc__(self):
        if self.batch != NULL:
            result_abandon(self.batch.result)
            batch_free(self.batch, &self.pool)
        sealer_free(&self.sealer)
        pool_destroy(&self.pool)
        incomplete_destroy(&self.incomplete)

    def reserve(self, uint32_t size_bytes):
        if batch_room(self.batch) < size_bytes:
            _add_room(self, size_bytes - batch_room(self.batch))

    def append(self, timestamp_ms, key, value, headers=None, bint lent=False):
        cdef Record record
        cdef uint32_t size, body
        cdef int64_t delta = 0
        _set_record(&record, timestamp_ms, key, value, headers)
        if self.batch.count > 0:
            delta = record.timestamp_ms - self.batch.base_timestamp_ms
        size = record_size(&record, delta, self.batch.count, &body)
        self.reserve(size)
        if lent:
            Py_INCREF(value)
            if not batch_append_lent(
                    self.batch, &record, size, body, <PyObject*>value, &self.pool):
                raise MemoryError
        else:
            batch_append(self.batch, &record, size, body)
        return size

    def append_run(self, records, int64_t most_bytes):
        cdef Record* run = <Record*>malloc((len(records) + 1) * sizeof(Record))
        cdef uint32_t i
        cdef uint32_t count = len(records)
        if run == NULL:
            raise MemoryError
        for i in range(count):
            timestamp_ms, key, value, headers = records[i]
            _set_record(&run[i], timestamp_ms, key, value, headers)
        i = batch_append_run(self.batch, run, count, most_bytes)
        free(run)
        return i

    def remove(self, indexes):
        cdef uint32_t i
        cdef uint32_t count = len(indexes)
        cdef uint32_t* removed = <uint32_t*>malloc((count + 1) * sizeof(uint32_t))
        if removed == NULL:
            raise MemoryError
        for i in range(count):
            removed[i] = indexes[i]
        check(batch_own(self.batch, &self.pool))
        batch_remove(self.batch, removed, count)
        free(removed)

    def seal(self):
        check(batch_seal(self.batch, &self.sealer, &self.pool))

    def header(self, producer_id=-1, producer_epoch=-1, base_sequence=-1, transactional=False):
        cdef uint8_t out[BATCH_HEADER_BYTES]
        self.batch.producer_id = producer_id
        self.batch.producer_epoch = producer_epoch
        self.batch.base_sequence = base_sequence
        batch_write_header(self.batch, out, transactional)
        return (<char*>out)[:BATCH_HEADER_BYTES]

    def body(self):
        cdef Slab* slab = self.batch.first
        parts = []
        while slab != NULL:
            parts.append((<char*>slab.base)[:slab.used])
            slab = slab.next
        return b"".join(parts)

    def slabs(self):
        cdef Slab* slab = self.batch.first
        found = []
        while slab != NULL:
            found.append((slab.used, slab.size))
            slab = slab.next
        return found

    @property
    def counters(self):
        return {
            "count": self.batch.count,
            "record_bytes": self.batch.record_bytes,
            "wire_bytes": self.batch.wire_bytes,
            "largest_record": self.batch.largest_record,
            "room": batch_room(self.batch),
            "result_count": self.batch.result.count,
            "free_bytes": pool_free_bytes(&self.pool),
            "heap_bytes": self.pool.heap_bytes,
        }


def values_release_for_test():
    values_release()


def record_upper_bound_for_test(key, value, headers=None):
    cdef Record record
    _set_record(&record, 0, key, value, headers)
    return record_upper_bound(&record)

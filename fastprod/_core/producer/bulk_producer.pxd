"""BulkProducer: `send_many` and `append_columns`; the GIL is given up for many records."""
from libc.stdint cimport int64_t, uint32_t

from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.engine.accumulator cimport Topic
from fastprod._core.producer.bulk_future cimport BulkFuture, MemoryLine
from fastprod._core.producer.producer_base cimport ProducerBase
from fastprod._core.producer.record_chunk cimport RecordChunk
from fastprod._core.producer.row_reader cimport ColumnRows


cdef class BulkProducer(ProducerBase):
    # Threads: any; the GIL guards the Python fields.
    cdef int _check_partitions(self, object topic, Topic* native, RecordChunk chunk,
                               dict missing, int64_t* waited_ns) except -1
    cdef int _tell_refusals(self, BulkFuture bulk) except -1
    cdef int _send_records(self, BulkFuture bulk, object topic, object rows) except -1
    cdef int _send_plain(
        self, BulkFuture bulk, object topic, object values, object keys,
        int64_t timestamp_ms) except -1
    cdef Topic* _bulk_topic(self, BulkFuture bulk, object topic, object rows) except? NULL
    cdef int _append_chunk(self, BulkFuture bulk, Topic* native, RecordChunk chunk) except -1
    cdef int _after_append(self, BulkFuture bulk, RecordChunk chunk, FpStatus status,
                           MemoryLine* line, uint32_t epoch) except -1
    cdef int _refuse_next(self, BulkFuture bulk, RecordChunk chunk) except -1
    cdef int _leave_line(self, MemoryLine* line, uint32_t epoch) except -1
    cdef int _send_columns(self, BulkFuture bulk, ColumnRows rows) except -1
    cdef dict _find_topics(self, BulkFuture bulk, ColumnRows rows)
    cdef dict _await_unknown(self, list topics, list largest)
    cdef int _send_rows(self, BulkFuture bulk, object topic, object rows) except -1
    cdef int _refuse_rest(self, BulkFuture bulk, object topic, object rows, object error) except -1

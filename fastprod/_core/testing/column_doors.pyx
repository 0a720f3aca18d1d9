"""A door to the columns that `append_columns` takes."""
from libc.stdint cimport int32_t
from libc.string cimport memset

from fastprod._core.bytes.fp_status cimport check
from fastprod._core.engine.accumulator cimport Topic
from fastprod._core.producer.bulk_future cimport BulkFuture
from fastprod._core.producer.column_parser cimport read_columns
from fastprod._core.producer.record_chunk cimport RecordChunk, chunk_row
from fastprod._core.producer.row_reader cimport ColumnRows
from fastprod._core.records.record_batch cimport Record


def rows_for_test(
    columns=None, *, topic=None, values=None, keys=None, headers=None, header_columns=None,
    partitions=None, timestamps_ms=None, partition_count=3, known=None, chunk_rows=7,
    largest=1000000, ignores_keys=False
):
    cdef ColumnRows rows = read_columns(
        columns, topic, values, keys, headers, header_columns, partitions, timestamps_ms, 0)
    cdef RecordChunk chunk = RecordChunk.__new__(RecordChunk, <int32_t>chunk_rows)
    cdef BulkFuture bulk = BulkFuture()
    cdef Topic topic_for_test
    cdef Record* record
    cdef int32_t i
    cdef list part
    names = [rows.topic] if rows.topics is None else rows.topics.topics
    memset(&topic_for_test, 0, sizeof(Topic))
    topic_for_test.partition_count = partition_count
    for name in names:
        bulk.add_topic(name, &topic_for_test if known is None or name in known else NULL)
    bulk.reserve(rows.count)
    rows.ignores_keys = ignores_keys
    found = []
    while rows.at < rows.count:
        check(rows.fill(bulk, chunk, largest))
        part = [None] * chunk.count
        for i in range(chunk.count):
            record = &chunk.records[i]
            part[chunk_row(chunk, i)] = (
                names[chunk.topic_slots[i]] if chunk.topic_slots != NULL else names[0],
                (<const char*>record.value)[:record.value_size] if record.value_size >= 0 else None,
                (<const char*>record.key)[:record.key_size] if record.key_size >= 0 else None,
                None if record.headers == NULL else record.headers_size
                if record.headers_size > largest
                else (<const char*>record.headers)[:record.headers_size],
                chunk.partitions[i], record.timestamp_ms)
        found += part
    return found, rows.largest_partitions()

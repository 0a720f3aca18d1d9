"""A door to the columns that `append_columns` takes."""
from libc.stdint cimport int32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from fastprod._core.bytes.fp_status cimport check
from fastprod._core.engine.accumulator cimport Topic
from fastprod._core.producer.bulk_rows cimport TopicSlot
from fastprod._core.producer.column_parser cimport read_columns
from fastprod._core.producer.record_chunk cimport RecordChunk
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
    cdef TopicSlot* topic_slots
    cdef Topic topic_for_test
    cdef Record* record
    cdef int32_t i
    names = [rows.topic] if rows.topics is None else rows.topics.topics
    memset(&topic_for_test, 0, sizeof(Topic))
    topic_for_test.partition_count = partition_count
    topic_slots = <TopicSlot*>calloc(len(names) + 1, sizeof(TopicSlot))
    for i in range(len(names)):
        if known is None or names[i] in known:
            topic_slots[i].topic = &topic_for_test
    rows.ignores_keys = ignores_keys
    found = []
    while rows.at < rows.count:
        check(rows.fill(topic_slots, chunk, largest))
        for i in range(chunk.count):
            record = &chunk.records[i]
            found.append((
                names[chunk.topic_slots[i]] if chunk.topic_slots != NULL else names[0],
                (<const char*>record.value)[:record.value_size] if record.value_size >= 0 else None,
                (<const char*>record.key)[:record.key_size] if record.key_size >= 0 else None,
                None if record.headers == NULL else record.headers_size
                if record.headers_size > largest
                else (<const char*>record.headers)[:record.headers_size],
                chunk.partitions[i], record.timestamp_ms))
    free(topic_slots)
    return found, rows.largest_partitions()

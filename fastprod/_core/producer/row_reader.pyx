"""Reads rows out of columns, chunk by chunk, and gives each one its partition."""
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport free, malloc

from fastprod._core.bytes.fp_status cimport FP_NOMEM, FP_OK, FP_TIMEDOUT, FpStatus
from fastprod._core.bytes.murmur2 cimport murmur2
from fastprod._core.bytes.sync cimport fp_load_i32, fp_now_ns
from fastprod._core.columns.column cimport (
    CellView, cells_here, cells_take, column_number,
)
from fastprod._core.engine.accumulator cimport ANY_PARTITION, Accumulator, Topic
from fastprod._core.producer.bulk_future cimport BulkFuture, MemoryLine
from fastprod._core.producer.bulk_rows cimport TopicSlot
from fastprod._core.producer.record_chunk cimport RecordChunk
from fastprod._core.records.record_batch cimport Record

cdef enum:
    SLICE_NS = 50000000     # then signals get their turn
    LARGEST_NUMBER = 0x7FFFFFFF


cdef class ColumnRows:
    """Rows whose parts are columns. Native only."""

    cdef list largest_partitions(self):
        cdef uint32_t topic_slot
        cdef uint32_t topic_slot_count = 1 if self.topics is None else self.topics.name_count
        cdef int32_t* found = <int32_t*>malloc((topic_slot_count + 1) * sizeof(int32_t))
        if found == NULL:
            raise MemoryError(f"no memory for {topic_slot_count:,} topics")
        for topic_slot in range(topic_slot_count):
            found[topic_slot] = -1
        if self.partitions is not None:
            with nogil:
                _find_largest(self, found)
        largest = [found[topic_slot] for topic_slot in range(topic_slot_count)]
        free(found)
        return largest

    cdef FpStatus append(
        self, BulkFuture bulk, Accumulator* a, RecordChunk chunk, int64_t largest,
        MemoryLine* line
    ) noexcept nogil:
        cdef int64_t until_ns = fp_now_ns() + SLICE_NS
        cdef FpStatus status
        while True:
            if chunk.appended == chunk.count:
                if self.at == self.count:
                    return FP_OK
                if fp_now_ns() >= until_ns:
                    return FP_TIMEDOUT
                status = self.fill(bulk, chunk, largest)
                if status != FP_OK:
                    return status
            status = bulk.append_chunk(a, chunk, largest, line)
            if status != FP_OK:
                return status

    cdef FpStatus fill(self, BulkFuture bulk, RecordChunk chunk, int64_t largest) noexcept nogil:
        cdef int32_t i
        cdef int64_t row
        cdef int32_t count = <int32_t>min(<int64_t>chunk.capacity, self.count - self.at)
        cdef Record* records = chunk.records
        cdef CellView* view
        cdef FpStatus status
        if self.headers is None:
            for i in range(count):
                records[i].headers = NULL
                records[i].headers_size = 0
        else:
            count = self.headers.fill(records, count, largest)
            if count < 0:
                return FP_NOMEM
        cells_take(
            &self.values.cells, count, &records.value, &records.value_size, sizeof(Record))
        if self.keys is None:
            for i in range(count):
                records[i].key = NULL
                records[i].key_size = -1
        else:
            cells_take(&self.keys.cells, count, &records.key, &records.key_size, sizeof(Record))
        for i in range(count):
            records[i].timestamp_ms = self.timestamp_ms
            if self.times is not None:
                view = cells_here(&self.times.cells, &row)
                self.times.cells.row_at = row + 1
                records[i].timestamp_ms = column_number(self.times, view, row, self.timestamp_ms)
        chunk.topic_slots = NULL if self.topics is None else self.topics.topic_slots + self.at
        chunk.count = count
        chunk.appended = 0
        chunk.row_of = NULL
        self.at += count
        status = bulk.note_chunk(chunk)
        if status == FP_OK:
            self._place(bulk.topic_slots, chunk)
        return status

    cdef void _place(self, TopicSlot* topic_slots, RecordChunk chunk) noexcept nogil:
        """By column, else by key, else the partitioner is to."""
        cdef Topic* topic = topic_slots[0].topic
        cdef bint by_key = self.keys is not None and not self.ignores_keys
        cdef int32_t partition_count, i
        if self.topics is not None or topic == NULL or self.partitions is not None:
            self._place_each(topic_slots, chunk, by_key)
            return
        for i in range(chunk.count):
            chunk.partitions[i] = ANY_PARTITION
        if by_key:
            partition_count = fp_load_i32(&topic.partition_count)
            chunk.place_by_key(partition_count)
            chunk.group(partition_count)

    cdef void _place_each(
        self, TopicSlot* topic_slots, RecordChunk chunk, bint by_key
    ) noexcept nogil:
        cdef int32_t i
        cdef int64_t row, number
        cdef TopicSlot* topic_slot = topic_slots
        cdef Record* record
        cdef CellView* view
        for i in range(chunk.count):
            number = ANY_PARTITION
            if chunk.topic_slots != NULL:
                topic_slot = &topic_slots[chunk.topic_slots[i]]
            if self.partitions is not None:
                view = cells_here(&self.partitions.cells, &row)
                self.partitions.cells.row_at = row + 1
                number = column_number(self.partitions, view, row, ANY_PARTITION)
            record = &chunk.records[i]
            if topic_slot.topic == NULL:
                number = NO_TOPIC
            elif number >= 0:
                # It was looked at before, but the array may be somebody's who writes to it.
                if number >= fp_load_i32(&topic_slot.topic.partition_count):
                    number = NO_PARTITION
            elif by_key and record.key_size >= 0 and record.key_size < LARGEST_NUMBER:
                number = (murmur2(record.key, record.key_size) & 0x7FFFFFFF) % <uint32_t>(
                    fp_load_i32(&topic_slot.topic.partition_count))
            chunk.partitions[i] = <int32_t>number


cdef void _find_largest(ColumnRows rows, int32_t* found) noexcept nogil:
    cdef int32_t i
    cdef int64_t row, number
    cdef int64_t at = 0
    cdef uint32_t topic_slot = 0
    cdef CellView* view
    for i in range(rows.partitions.cells.view_count):
        view = &rows.partitions.cells.views[i]
        for row in range(view.length):
            number = column_number(rows.partitions, view, row, -1)
            if rows.topics is not None:
                topic_slot = rows.topics.topic_slots[at + row]
            if number > found[topic_slot]:
                found[topic_slot] = <int32_t>min(number, <int64_t>LARGEST_NUMBER)
        at += view.length

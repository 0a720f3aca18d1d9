"""Collects the outcome of every row of a bulk."""
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memset

from fastprod._core.bytes.fp_status cimport FP_NOMEM, FP_OK, FP_TIMEDOUT, FpStatus, check
from fastprod._core.bytes.sync cimport fp_load_i32_acq, fp_load_ptr, fp_now_ns
from fastprod._core.delivery.result cimport (
    ERR_CANCELLED, ERR_NONE, Incomplete, RESULT_DONE, RESULT_SPLIT, Result, result_list,
    result_resolve,
)
from fastprod._core.delivery.wait_habit cimport end_wait, wait_slice
from fastprod._core.records.record_batch cimport Record

from fastprod.records import OffsetRange

cdef enum:
    FAILED = -1                 # stands in each of the arrays for a row that was not delivered
    CANCELLED = -2              # among the partitions: it was taken back

cdef struct Run:
    # Rows that stand together in a batch.
    Result* result          # borrowed
    uint32_t topic_slot
    uint32_t first_index
    uint32_t count

cdef struct Runs:
    Run* items              # owned
    uint32_t count
    uint32_t capacity
    uint32_t* open          # owned; by batch_ref: 1 + its latest run, 0: none
    int64_t row_count
    int64_t byte_count


cdef Run* _next_run(Runs* runs) noexcept nogil:
    cdef Run* grown
    cdef uint32_t capacity
    if runs.count == runs.capacity:
        capacity = max(<uint32_t>16, runs.capacity * 2)
        grown = <Run*>realloc(runs.items, capacity * sizeof(Run))
        if grown == NULL:
            return NULL
        runs.items = grown
        runs.capacity = capacity
    runs.count += 1
    return &runs.items[runs.count - 1]


cdef FpStatus _collect(
    Runs* runs, Row* rows, int64_t row_count, const RowParts* parts, BatchRef* batch_refs
) noexcept nogil:
    """Rows of different batches take turns, but those of one batch come in order."""
    cdef int64_t i
    cdef uint32_t index, at
    cdef Result* result
    cdef Run* run
    for i in range(row_count):
        if rows[i].batch_ref == REFUSED:
            continue
        index = rows[i].index
        result = result_resolve(batch_refs[rows[i].batch_ref].result, &index)
        if result.error_code != ERR_NONE:
            continue
        runs.row_count += 1
        runs.byte_count += max(0, row_size(&parts.key_sizes, i))
        runs.byte_count += max(0, row_size(&parts.value_sizes, i))
        at = runs.open[rows[i].batch_ref]
        if at > 0:
            run = &runs.items[at - 1]
            if run.result == result and run.first_index + run.count == index:
                run.count += 1
                continue
        run = _next_run(runs)
        if run == NULL:
            return FP_NOMEM
        run.result = result
        run.topic_slot = batch_refs[rows[i].batch_ref].topic_slot
        run.first_index = index
        run.count = 1
        runs.open[rows[i].batch_ref] = runs.count
    return FP_OK


cdef tuple collect_ranges(
    Row* rows, int64_t row_count, const RowParts* parts, BatchRef* batch_refs,
    uint32_t batch_ref_count, list topics
):
    cdef Runs runs
    cdef uint32_t i
    cdef Run* run
    cdef FpStatus status
    runs.items = NULL
    runs.count = runs.capacity = 0
    runs.row_count = runs.byte_count = 0
    runs.open = <uint32_t*>calloc(batch_ref_count + 1, sizeof(uint32_t))
    try:
        status = FP_NOMEM
        if runs.open != NULL:
            with nogil:
                status = _collect(&runs, rows, row_count, parts, batch_refs)
        check(status)
        ranges = []
        for i in range(runs.count):
            run = &runs.items[i]
            first = run.result.base_offset
            ranges.append(OffsetRange(
                run.result.partition, first + run.first_index if first >= 0 else -1, run.count,
                topics[run.topic_slot]))
        return runs.row_count, runs.byte_count, tuple(ranges)
    finally:
        free(runs.open)
        free(runs.items)


cdef bint slot_reserve(TopicSlot* slot, int32_t partition) noexcept nogil:
    cdef int32_t capacity = (partition + 1) * 2
    cdef uint32_t* grown
    if partition < slot.partition_capacity:
        return True
    grown = <uint32_t*>realloc(slot.newest, capacity * sizeof(uint32_t))
    if grown == NULL:
        return False
    memset(grown + slot.partition_capacity, 0,
           (capacity - slot.partition_capacity) * sizeof(uint32_t))
    slot.newest = grown
    slot.partition_capacity = capacity
    return True


cdef FpStatus _times_note(
    RowTimes* times, int64_t at, int64_t capacity, const Record* records, int64_t count
) noexcept nogil:
    """One number for all as long as they are the same, which most callers' are."""
    cdef int64_t i = 0
    cdef int64_t row
    if count > 0 and not times.is_known:
        times.same_ms = records[0].timestamp_ms
        times.is_known = True
    if times.each == NULL:
        while i < count and records[i].timestamp_ms == times.same_ms:
            i += 1
        if i == count:
            return FP_OK
        times.each = <int64_t*>malloc(capacity * sizeof(int64_t))
        if times.each == NULL:
            return FP_NOMEM
        for row in range(at + i):
            times.each[row] = times.same_ms
    while i < count:
        times.each[at + i] = records[i].timestamp_ms
        i += 1
    return FP_OK


cdef inline int32_t _size_at(const int32_t* first, int64_t i) noexcept nogil:
    """Of the i-th record behind the one in which `first` is."""
    return (<const int32_t*>(<const char*>first + i * sizeof(Record)))[0]


cdef FpStatus _note_sizes(
    RowSizes* sizes, int64_t at, int64_t capacity, const int32_t* first, int64_t count
) noexcept nogil:
    """The same for sizes: those of one kind lie a record apart."""
    cdef int64_t i = 0
    cdef int64_t row
    if count > 0 and not sizes.is_known:
        sizes.same = first[0]
        sizes.is_known = True
    if sizes.each == NULL:
        while i < count and _size_at(first, i) == sizes.same:
            i += 1
        if i == count:
            return FP_OK
        sizes.each = <int32_t*>malloc(capacity * sizeof(int32_t))
        if sizes.each == NULL:
            return FP_NOMEM
        for row in range(at + i):
            sizes.each[row] = sizes.same
    while i < count:
        sizes.each[at + i] = _size_at(first, i)
        i += 1
    return FP_OK


cdef FpStatus sizes_note(
    RowParts* parts, int64_t at, int64_t capacity, const Record* records, int64_t count
) noexcept nogil:
    cdef FpStatus status = _note_sizes(
        &parts.key_sizes, at, capacity, &records.key_size, count)
    if status != FP_OK:
        return status
    return _note_sizes(&parts.value_sizes, at, capacity, &records.value_size, count)


cdef FpStatus parts_note(
    RowParts* parts, int64_t at, int64_t capacity, const Record* records, int64_t count
) noexcept nogil:
    cdef FpStatus status = _times_note(&parts.times, at, capacity, records, count)
    return status if status != FP_OK else sizes_note(parts, at, capacity, records, count)


cdef bint _grow(void** each, size_t size) noexcept nogil:
    cdef void* grown
    if each[0] == NULL:
        return True
    grown = realloc(each[0], size)
    if grown == NULL:
        return False
    each[0] = grown
    return True


cdef bint parts_grow(RowParts* parts, int64_t capacity) noexcept nogil:
    return (
        _grow(<void**>&parts.times.each, capacity * sizeof(int64_t))
        and _grow(<void**>&parts.key_sizes.each, capacity * sizeof(int32_t))
        and _grow(<void**>&parts.value_sizes.each, capacity * sizeof(int32_t)))


cdef void parts_free(RowParts* parts) noexcept nogil:
    free(parts.times.each)
    free(parts.key_sizes.each)
    free(parts.value_sizes.each)


cdef void _fill(
    Row* rows, int64_t count, BatchRef* batch_refs, const RowTimes* times, int32_t* partitions,
    int64_t* offsets, int64_t* timestamps
) noexcept nogil:
    cdef int64_t i
    cdef uint32_t index
    cdef Result* result
    for i in range(count):
        partitions[i] = FAILED
        offsets[i] = FAILED
        timestamps[i] = FAILED
        if rows[i].batch_ref == REFUSED:
            continue
        index = rows[i].index
        result = result_resolve(batch_refs[rows[i].batch_ref].result, &index)
        if result.error_code != ERR_NONE:
            if result.error_code == ERR_CANCELLED:
                partitions[i] = CANCELLED
            continue
        partitions[i] = result.partition
        if result.base_offset >= 0:
            offsets[i] = result.base_offset + index
        if result.log_append_ms >= 0:
            timestamps[i] = result.log_append_ms
        else:
            timestamps[i] = times.each[i] if times.each != NULL else times.same_ms


cdef bint _is_settled(Result** at, int32_t settled, int64_t until_ns) noexcept nogil:
    """Wait for it until `until_ns` (0: not at all); what stands there may be replaced meanwhile."""
    cdef Result* result
    while True:
        result = <Result*>fp_load_ptr(<void**>at)
        if fp_load_i32_acq(&result.state) >= settled:
            return True
        if until_ns == 0 or fp_now_ns() >= until_ns:
            return False
        wait_slice(result, until_ns)
        end_wait()


cdef FpStatus rows_wait(
    Row* rows, int64_t row_count, BatchRef* batch_refs, uint32_t batch_ref_count, int64_t* at,
    int32_t settled, int64_t until_ns
) noexcept nogil:
    cdef uint32_t index
    cdef bint has_split = False
    cdef BatchRef* batch_ref
    cdef Result* result
    cdef Row* row
    while at[0] < batch_ref_count:
        if not _is_settled(&batch_refs[at[0]].result, settled, until_ns):
            return FP_TIMEDOUT
        at[0] += 1
    for index in range(batch_ref_count):
        has_split |= batch_refs[index].result.state == RESULT_SPLIT
    while has_split and at[0] - batch_ref_count < row_count:
        row = &rows[at[0] - batch_ref_count]
        batch_ref = &batch_refs[row.batch_ref] if row.batch_ref != REFUSED else NULL
        if batch_ref != NULL and batch_ref.result.state == RESULT_SPLIT:
            index = row.index
            result = result_resolve(batch_ref.result, &index)
            if not _is_settled(&result, settled, until_ns):
                return FP_TIMEDOUT
            if fp_load_i32_acq(&result.state) == RESULT_SPLIT:
                continue
        at[0] += 1
    return FP_OK


cdef uint32_t* rows_first_indexes(
    const Row* rows, int64_t row_count, uint32_t batch_ref_count
) noexcept nogil:
    cdef int64_t i
    cdef uint32_t* first = <uint32_t*>calloc(batch_ref_count + 1, sizeof(uint32_t))
    if first != NULL:
        for i in range(row_count - 1, -1, -1):
            if rows[i].batch_ref != REFUSED:
                first[rows[i].batch_ref] = rows[i].index
    return first


cdef Incomplete* rows_list(BatchRef* batch_refs, uint32_t batch_ref_count) noexcept nogil:
    cdef uint32_t ref
    cdef Incomplete* list
    for ref in range(batch_ref_count):
        list = result_list(batch_refs[ref].result)
        if list != NULL:
            return list
    return NULL


cdef tuple collect_arrays(
    Row* rows, int64_t count, BatchRef* batch_refs, const RowTimes* times
):
    # Here, so that only who wants arrays waits for numpy to be imported.
    import numpy
    cdef Py_buffer views[3]
    cdef int i
    cdef int held = 0
    arrays = (
        numpy.empty(count, numpy.int32), numpy.empty(count, numpy.int64),
        numpy.empty(count, numpy.int64))
    try:
        for i in range(3):
            PyObject_GetBuffer(arrays[i], &views[i], PyBUF_WRITABLE)
            held += 1
        with nogil:
            _fill(rows, count, batch_refs, times, <int32_t*>views[0].buf, <int64_t*>views[1].buf,
                  <int64_t*>views[2].buf)
    finally:
        for i in range(held):
            PyBuffer_Release(&views[i])
    return arrays


cdef int64_t rows_count_done(
    Row* rows, int64_t row_count, BatchRef* batch_refs, int32_t settled, int64_t* failed
) noexcept nogil:
    cdef int64_t i
    cdef int64_t done = 0
    cdef uint32_t index
    cdef Result* result
    failed[0] = 0
    for i in range(row_count):
        if rows[i].batch_ref == REFUSED:
            done += 1
            failed[0] += 1
            continue
        index = rows[i].index
        result = result_resolve(batch_refs[rows[i].batch_ref].result, &index)
        if settled <= fp_load_i32_acq(&result.state) != RESULT_SPLIT:
            done += 1
            failed[0] += result.error_code != ERR_NONE
    return done


cdef int64_t rows_next_failed(
    Row* rows, int64_t row_count, BatchRef* batch_refs, int64_t i
) noexcept nogil:
    cdef uint32_t index
    while i < row_count:
        if rows[i].batch_ref == REFUSED:
            return i
        index = rows[i].index
        if result_resolve(batch_refs[rows[i].batch_ref].result, &index).error_code != ERR_NONE:
            return i
        i += 1
    return i


cdef Result* rows_pending(
    Row* rows, int64_t row_count, BatchRef* batch_refs, uint32_t batch_ref_count, int64_t* at
) noexcept nogil:
    cdef int64_t end = batch_ref_count + row_count
    cdef uint32_t index
    cdef Row* row
    cdef Result* result
    while at[0] < batch_ref_count:
        result = batch_refs[at[0]].result
        if fp_load_i32_acq(&result.state) < RESULT_DONE:
            return result
        at[0] += 1
    if at[0] == batch_ref_count and not _has_split(batch_refs, batch_ref_count):
        at[0] = end
    while at[0] < end:
        row = &rows[at[0] - batch_ref_count]
        if row.batch_ref != REFUSED:
            index = row.index
            result = result_resolve(batch_refs[row.batch_ref].result, &index)
            if fp_load_i32_acq(&result.state) < RESULT_DONE:
                return result
        at[0] += 1
    return NULL


cdef bint _has_split(const BatchRef* batch_refs, uint32_t batch_ref_count) noexcept nogil:
    cdef uint32_t i
    for i in range(batch_ref_count):
        if fp_load_i32_acq(&batch_refs[i].result.state) == RESULT_SPLIT:
            return True
    return False

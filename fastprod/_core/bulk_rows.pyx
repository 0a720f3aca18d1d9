"""Bodies of the rows; the contract is in bulk_rows.pxd."""
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free, realloc

from fastprod._core.delivery cimport ERR_NONE, Result, result_resolve
from fastprod._core.status cimport FP_NOMEM, FP_OK, FpStatus, check

from fastprod.records import OffsetRange

cdef struct Run:
    # Rows that stand together in a batch.
    Result* result          # borrowed
    uint32_t lane
    uint32_t first_index
    uint32_t count

cdef struct Runs:
    Run* items              # owned
    uint32_t count
    uint32_t capacity
    uint32_t* open          # owned; by segment: 1 + its latest run, 0: none
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
    Runs* runs, Row* rows, int64_t row_count, Segment* segments
) noexcept nogil:
    """Rows of different batches take turns, but those of one batch come in order."""
    cdef int64_t i
    cdef uint32_t index, at
    cdef Result* result
    cdef Run* run
    for i in range(row_count):
        if rows[i].segment == REFUSED:
            continue
        index = rows[i].index
        result = result_resolve(segments[rows[i].segment].result, &index)
        if result.error_code != ERR_NONE:
            continue
        runs.row_count += 1
        runs.byte_count += max(0, rows[i].key_size) + max(0, rows[i].value_size)
        at = runs.open[rows[i].segment]
        if at > 0:
            run = &runs.items[at - 1]
            if run.result == result and run.first_index + run.count == index:
                run.count += 1
                continue
        run = _next_run(runs)
        if run == NULL:
            return FP_NOMEM
        run.result = result
        run.lane = segments[rows[i].segment].lane
        run.first_index = index
        run.count = 1
        runs.open[rows[i].segment] = runs.count
    return FP_OK


cdef tuple collect_ranges(
    Row* rows, int64_t row_count, Segment* segments, uint32_t segment_count, list topics
):
    cdef Runs runs
    cdef uint32_t i
    cdef Run* run
    cdef FpStatus status
    runs.items = NULL
    runs.count = runs.capacity = 0
    runs.row_count = runs.byte_count = 0
    runs.open = <uint32_t*>calloc(segment_count + 1, sizeof(uint32_t))
    try:
        status = FP_NOMEM
        if runs.open != NULL:
            with nogil:
                status = _collect(&runs, rows, row_count, segments)
        check(status)
        ranges = []
        for i in range(runs.count):
            run = &runs.items[i]
            first = run.result.base_offset
            ranges.append(OffsetRange(
                run.result.partition, first + run.first_index if first >= 0 else -1, run.count,
                topics[run.lane]))
        return runs.row_count, runs.byte_count, tuple(ranges)
    finally:
        free(runs.open)
        free(runs.items)

"""Takes back the rows of a bulk, batch by batch."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport calloc, free, malloc

from fastprod._core.bytes.fp_status cimport FP_NOMEM, FP_OK, FpStatus, check
from fastprod._core.bytes.sync cimport fp_load_i32_acq, fp_store_ptr
from fastprod._core.delivery.future cimport RecordFuture
from fastprod._core.delivery.index_set cimport IndexSet, index_set_rank
from fastprod._core.delivery.result cimport (
    ERR_CANCELLED, RESULT_DONE, AttachedFuture, Result, result_attached, result_is_queued,
    result_new_apart, result_part, result_release, result_retain, result_take_all_back,
)
from fastprod._core.producer.bulk_rows cimport REFUSED, BatchRef, Row

cdef struct RowIndexes:
    # The rows' indexes in their batches: those of batch 0, then those of batch 1, each ascending.
    uint32_t* items             # owned
    size_t* ends                # owned; by batch_ref: behind its last one


cdef FpStatus _sort_by_batch(
    RowIndexes* indexes, const Row* rows, int64_t row_count, uint32_t batch_ref_count
) noexcept nogil:
    cdef int64_t i
    cdef uint32_t ref
    indexes.items = <uint32_t*>malloc(row_count * sizeof(uint32_t))
    indexes.ends = <size_t*>calloc(batch_ref_count + 1, sizeof(size_t))
    if indexes.items == NULL or indexes.ends == NULL:
        return FP_NOMEM
    for i in range(row_count):
        if rows[i].batch_ref != REFUSED:
            indexes.ends[rows[i].batch_ref + 1] += 1
    for ref in range(batch_ref_count):
        indexes.ends[ref + 1] += indexes.ends[ref]
    for i in range(row_count):      # each end starts where the one before has to come to
        ref = rows[i].batch_ref
        if ref != REFUSED:
            indexes.items[indexes.ends[ref]] = rows[i].index
            indexes.ends[ref] += 1
    return FP_OK


cdef int withdraw(
    Row* rows, int64_t row_count, BatchRef* batch_refs, uint32_t batch_ref_count, list told
) except -1:
    cdef RowIndexes indexes
    cdef FpStatus status
    cdef uint32_t ref
    cdef size_t start = 0
    with nogil:
        status = _sort_by_batch(&indexes, rows, row_count, batch_ref_count)
    try:
        check(status)
        for ref in range(batch_ref_count):
            if result_is_queued(batch_refs[ref].result):
                _withdraw_from(
                    &batch_refs[ref], indexes.items + start,
                    <uint32_t>(indexes.ends[ref] - start), told)
            start = indexes.ends[ref]
    finally:
        free(indexes.items)
        free(indexes.ends)
    return 0


cdef bint is_withdrawn(const BatchRef* batch_refs, uint32_t batch_ref_count) noexcept:
    cdef uint32_t ref
    cdef Result* result
    for ref in range(batch_ref_count):
        result = batch_refs[ref].result
        if fp_load_i32_acq(&result.state) != RESULT_DONE or result.error_code != ERR_CANCELLED:
            return False
    return True


cdef int _withdraw_from(
    BatchRef* batch_ref, const uint32_t* indexes, uint32_t count, list told
) except -1:
    """Of one batch, all or none. Whoever waits for its result meanwhile looks at ours next."""
    cdef Result* result = batch_ref.result
    cdef RecordFuture future
    cdef list attached = _attached(result, indexes, count)
    cdef Result* apart = result_new_apart(result, ERR_CANCELLED, NULL)
    if apart == NULL:
        raise MemoryError("no memory to cancel records of a bulk")
    if not result_take_all_back(result, indexes, count):
        apart.child_count = 0       # what it would have taken over stays ours
        result_release(apart)
        return 0
    fp_store_ptr(<void**>&batch_ref.result, apart)
    for future in attached:
        if future.result_ == result:
            result_retain(apart)
            result_release(result)          # which `apart` keeps
            future.result_ = apart
            future.index = 0
    result_part(result)     # again: the first time ours was not to be seen yet
    told.extend(attached)
    return 0


cdef list _attached(Result* result, const uint32_t* indexes, uint32_t count):
    """The futures of these records whose callbacks wait for `result`."""
    cdef IndexSet ours
    cdef uint32_t i, at
    cdef uint32_t found_count = 0, attached_count = 0
    cdef AttachedFuture* attached = result_attached(result, &attached_count)
    if attached == NULL and attached_count > 0:
        raise MemoryError("no memory to cancel records of a bulk")
    ours.items = <uint32_t*>indexes
    ours.count = count
    # References first: whoever makes an object may let others run, and they drop theirs.
    for i in range(attached_count):
        at = index_set_rank(&ours, attached[i].index)
        if at < count and indexes[at] == attached[i].index and (
            (<RecordFuture><PyObject*>attached[i].future).result_ == result
        ):
            Py_INCREF(<RecordFuture><PyObject*>attached[i].future)
            attached[found_count] = attached[i]
            found_count += 1
    found = []
    for i in range(found_count):
        future = <RecordFuture><PyObject*>attached[i].future
        found.append(future)
        Py_DECREF(future)
    free(attached)
    return found

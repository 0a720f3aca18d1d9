"""Keeps the requests of a connection in order until their answers come."""
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport calloc, free, malloc, realloc

from fastprod._core.bytes.sync cimport fp_store_i32_rel
from fastprod._core.io.channel cimport fp_iovec
from fastprod._core.records.record_batch cimport ProducerBatch

cdef enum:
    FIRST_RESERVED_ID = 2147483640      # SASL's range ends at the largest int32
    LOWEST_ID = -2147483648


cdef int32_t _growths_left = -1      # tests: so many more times a request may grow; -1: no bound


cdef void forbid_growth(int32_t after) noexcept nogil:
    global _growths_left
    _growths_left = after


cdef void* _grow(void* block, size_t size) noexcept nogil:
    """realloc, but for what a test forbids."""
    global _growths_left
    if _growths_left == 0:
        return NULL
    if _growths_left > 0:
        _growths_left -= 1
    return realloc(block, size)


cdef Request* request_new() noexcept nogil:
    return <Request*>calloc(1, sizeof(Request))


cdef void request_free(Request* request) noexcept nogil:
    if request != NULL:
        free(request.scratch)
        free(request.iov)
        free(request.batches)
        free(request.places)
        free(request)


cdef bint request_reserve_batch(Request* request) noexcept nogil:
    cdef int32_t capacity
    cdef ProducerBatch** batches
    cdef RequestPlace* places
    if request.batch_count == request.batch_capacity:
        capacity = max(4, request.batch_capacity * 2)
        batches = <ProducerBatch**>_grow(request.batches, capacity * sizeof(ProducerBatch*))
        if batches == NULL:
            return False
        request.batches = batches
        places = <RequestPlace*>_grow(request.places, capacity * sizeof(RequestPlace))
        if places == NULL:
            return False
        request.places = places
        request.batch_capacity = capacity
    return True


cdef void request_add_batch(Request* request, ProducerBatch* batch) noexcept nogil:
    request.batches[request.batch_count] = batch
    request.batch_count += 1


cdef bint request_reserve_scratch(Request* request, size_t size) noexcept nogil:
    if size > request.scratch_capacity:
        free(request.scratch)
        request.scratch = <uint8_t*>malloc(size)
        request.scratch_capacity = size if request.scratch != NULL else 0
    return request.scratch != NULL


cdef bint request_reserve_iov(Request* request, int32_t count) noexcept nogil:
    if count > request.iov_capacity:
        free(request.iov)
        request.iov = <fp_iovec*>malloc(count * sizeof(fp_iovec))
        request.iov_capacity = count if request.iov != NULL else 0
    return request.iov != NULL


cdef void in_flight_add(InFlightRequests* flights, Request* request) noexcept nogil:
    request.next = NULL
    if flights.newest == NULL:
        flights.oldest = request
    else:
        flights.newest.next = request
    flights.newest = request
    fp_store_i32_rel(&flights.count, flights.count + 1)
    if request.kind == REQUEST_PRODUCE:
        flights.produce_count += 1


cdef Request* in_flight_pop(InFlightRequests* flights) noexcept nogil:
    cdef Request* request = flights.oldest
    if request == NULL:
        return NULL
    flights.oldest = request.next
    if flights.oldest == NULL:
        flights.newest = NULL
    fp_store_i32_rel(&flights.count, flights.count - 1)
    if request.kind == REQUEST_PRODUCE:
        flights.produce_count -= 1
    request.next = NULL
    return request


cdef Request* in_flight_pop_newest(InFlightRequests* flights) noexcept nogil:
    cdef Request* request = flights.newest
    cdef Request* before = NULL
    cdef Request* at = flights.oldest
    if request == NULL:
        return NULL
    while at != request:
        before = at
        at = at.next
    flights.newest = before
    if before == NULL:
        flights.oldest = NULL
    else:
        before.next = NULL
    fp_store_i32_rel(&flights.count, flights.count - 1)
    if request.kind == REQUEST_PRODUCE:
        flights.produce_count -= 1
    return request


cdef bint in_flight_can_send(InFlightRequests* flights, int32_t most) noexcept nogil:
    return flights.count == 0 or (flights.newest.is_written and flights.count < most)


cdef int32_t next_correlation_id(int32_t correlation_id) noexcept nogil:
    if correlation_id + 1 == FIRST_RESERVED_ID:
        return LOWEST_ID
    return correlation_id + 1

"""InFlightRequests: per connection, oldest first (contract P-G.2)."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from fastprod._core.engine.accumulator cimport Topic
from fastprod._core.io.channel cimport fp_iovec
from fastprod._core.records.record_batch cimport ProducerBatch

cdef enum RequestKind:
    REQUEST_PRODUCE = 0
    REQUEST_CONTROL = 1
    REQUEST_QUESTION = 2        # see held_transaction
    REQUEST_KINDS = 3

cdef struct RequestPlace:
    # Where a batch was sent: what its answer will name, also when the batch is gone.
    #
    # BORROWS  the topic, which lives as long as the engine.   THREADS the I/O thread.
    Topic* topic
    int32_t index
    uint32_t answer_at          # where its answer begins, from the response's start; 0: nowhere
    uint8_t topic_id[16]        # as it was sent (P-F.3.4)

cdef struct Request:
    # One request from its encoding to its answer; reused through the pool of spare ones.
    #
    # OWNER    InFlightRequests of a node, or the spare list.   FREED BY request_free.
    # THREADS  the I/O thread.
    int32_t kind
    int32_t correlation_id
    int16_t version
    int64_t token               # the control thread's name for it; the number of a question
    int64_t sent_ns
    int64_t grace_ns            # throttle time that the time-out does not count (P-G.2.4)
    bint is_written             # every byte is in the socket
    bint expects_response       # not with acks=0
    uint8_t* scratch            # owned; everything that is not in slabs
    size_t scratch_capacity
    size_t scratch_used
    uint32_t release_bytes      # of scratch, behind the frame: see DO_SEND
    fp_iovec* iov               # owned; consumed by the channel
    int32_t iov_capacity
    int32_t iov_count
    ProducerBatch** batches     # owned array; each batch counts this request in `requests`
    RequestPlace* places        # owned; of each batch, in the order of the batches
    int32_t batch_count
    int32_t batch_capacity
    int64_t wire_bytes
    Request* next

cdef struct InFlightRequests:
    Request* oldest
    Request* newest
    int32_t count
    int32_t produce_count

cdef Request* request_new() noexcept nogil
cdef void request_free(Request* request) noexcept nogil
# Room for one more batch; False: no memory.
cdef bint request_reserve_batch(Request* request) noexcept nogil
# Requires that room.
cdef void request_add_batch(Request* request, ProducerBatch* batch) noexcept nogil
cdef bint request_reserve_scratch(Request* request, size_t size) noexcept nogil
cdef bint request_reserve_iov(Request* request, int32_t count) noexcept nogil

cdef void in_flight_add(InFlightRequests* flights, Request* request) noexcept nogil
# Remove and return the oldest, or NULL.
cdef Request* in_flight_pop(InFlightRequests* flights) noexcept nogil
# Remove and return the newest (acks=0: it left, nothing comes back), or NULL.
cdef Request* in_flight_pop_newest(InFlightRequests* flights) noexcept nogil
# P-G.2.1: none in flight, or the newest is written and there is room.
cdef bint in_flight_can_send(InFlightRequests* flights, int32_t most) noexcept nogil
# P-G.2.3: the id after `correlation_id`, skipping the range that SASL uses.
cdef int32_t next_correlation_id(int32_t correlation_id) noexcept nogil

# For tests: no memory for a request's batches after so many allocations; -1: no longer.
cdef void forbid_growth(int32_t after) noexcept nogil

"""Produce v3-v13: requests out of slabs, responses checked whole before they are believed."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from fastprod._core.bytes.fp_status cimport FpStatus
from fastprod._core.engine.in_flight cimport Request

cdef enum:
    PRODUCE_FLEXIBLE_VERSION = 9
    PRODUCE_IMPLICIT_ADD_VERSION = 12   # a partition joins its transaction by it (KIP-890)
    PRODUCE_TOPIC_ID_VERSION = 13
    PRODUCE_ZSTD_VERSION = 7
    PRODUCE_THROTTLE_VERSION = 6

cdef struct ProduceHeader:
    # What all Produce requests of one producer share. BORROWS client_id and transactional_id.
    const uint8_t* client_id
    int16_t client_id_size
    const uint8_t* transactional_id     # NULL: no transactions
    int16_t transactional_id_size
    int16_t acks
    int32_t timeout_ms

cdef struct ProducePartition:
    # One partition of a response. BORROWS from the frame.
    const uint8_t* begin
    const uint8_t* topic        # name, or the 16-byte id from version 13
    int32_t topic_size
    int32_t index
    int16_t error_code
    int64_t base_offset
    int64_t log_append_ms
    int64_t log_start_offset
    const uint8_t* message
    int32_t message_size        # -1: none
    const uint8_t* record_errors    # raw entries
    int32_t record_error_count
    int32_t leader_id           # -1: no hint
    int32_t leader_epoch

cdef struct ProduceReader:
    # Walks one response. BORROWS the frame.
    const uint8_t* p
    const uint8_t* end
    int16_t version
    const uint8_t* topic
    int32_t topic_size
    int32_t topics_left
    int32_t partitions_left
    int32_t throttle_ms         # after the walk
    const uint8_t* endpoints    # raw node endpoints (v10+), or NULL
    int32_t endpoint_count

# Encode `request.batches` (sealed, in any order) as one Produce request: scratch and iov.
cdef FpStatus produce_encode(Request* request, const ProduceHeader* header) noexcept nogil

# `p` is behind the correlation id. FP_OK or FP_PROTOCOL.
cdef FpStatus produce_open(
    ProduceReader* reader, const uint8_t* p, size_t size, int16_t version) noexcept nogil
# FP_OK: one partition; FP_CLOSED: that was all, throttle_ms and endpoints are set; FP_PROTOCOL.
cdef FpStatus produce_next(ProduceReader* reader, ProducePartition* out) noexcept nogil
# Walk the whole response to an encoded request: is it well formed? Note at each place where its
# answer begins: the first one, if there are several. `compared` grows by the places looked at.
cdef FpStatus produce_match(
    Request* request, const uint8_t* p, size_t size, ProduceReader* after, int64_t* compared
) noexcept nogil
# Read the answer at `at`, where a walk has read it before. Leaves out its topic.
cdef void produce_read(ProduceReader* reader, const uint8_t* at, ProducePartition* out) \
    noexcept nogil
# Entry of a partition's record errors; returns one past it, or NULL.
cdef const uint8_t* produce_record_error(
    const uint8_t* p, const uint8_t* end, int16_t version, int32_t* index,
    const uint8_t** message, int32_t* message_size) noexcept nogil
# Host and port of a node among the endpoints; False: not there.
cdef bint produce_endpoint(
    const ProduceReader* reader, int32_t node_id, const uint8_t** host, int32_t* host_size,
    int32_t* port) noexcept nogil

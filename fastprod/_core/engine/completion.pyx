"""Takes apart Produce answers: completes, retries, splits or fails each batch."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, strdup, strlen

from fastprod._core.bytes.fp_status cimport FP_OK, FP_PROTOCOL, FpStatus
from fastprod._core.bytes.kafka_errors cimport (
    DUPLICATE_SEQUENCE_NUMBER, FENCED_LEADER_EPOCH, MESSAGE_TOO_LARGE, NETWORK_EXCEPTION,
    NOT_LEADER_OR_FOLLOWER, NO_ERROR, OUT_OF_ORDER_SEQUENCE_NUMBER, REQUEST_TIMED_OUT,
    UNKNOWN_PRODUCER_ID, UNSUPPORTED_VERSION,
)
from fastprod._core.bytes.sync cimport (
    fp_load_i32, fp_mutex_lock, fp_mutex_unlock, fp_store_i32, fp_store_i32_rel,
)
from fastprod._core.delivery.error_flags cimport (
    code_is_fatal, code_is_retriable, code_refreshes_metadata,
)
from fastprod._core.delivery.result cimport (
    ERR_ABORTED, ERR_EXPIRED, ERR_NONE, RecordError, Result, WAIT_LEADER, WAIT_PRODUCER_ID,
    result_complete, result_live_count,
)
from fastprod._core.engine.accumulator cimport Partition, Topic, topic_observe_ratio
from fastprod._core.engine.batch_split cimport batch_split
from fastprod._core.engine.control_queue cimport (
    Event, FAULT_MISSING, ON_FAILED, ON_FATAL, ON_LEADER_HINT, ON_METADATA_WANTED,
    ON_PROTOCOL_ERROR, event_new, event_push,
)
from fastprod._core.drive.gathering cimport gathering_begin
from fastprod._core.engine.histogram cimport histogram_add, raise_maximum
from fastprod._core.engine.in_flight cimport Request
from fastprod._core.engine.produce_codec cimport (
    PRODUCE_THROTTLE_VERSION, ProducePartition, ProduceReader, produce_endpoint, produce_match,
    produce_read, produce_record_error,
)
from fastprod._core.engine.ready_list cimport touch
from fastprod._core.engine.sender_state cimport IoThread, NODE_READY, Node, node_throttle
from fastprod._core.engine.sequences cimport (
    flight_is_after, flight_remove, sequence_acked, sequence_can_retry, sequence_failed,
    sequence_settle, sequence_unresolved,
)
from fastprod._core.records.record_batch cimport ProducerBatch, batch_free, batch_slab_bytes

cdef enum:
    MS = 1000000


cdef inline Partition* _partition(ProducerBatch* batch) noexcept nogil:
    return <Partition*>batch.partition


cdef void batch_release(IoThread* io, ProducerBatch* batch) noexcept nogil:
    if batch.is_done and batch.requests == 0:
        batch_free(batch, &io.accumulator.pool)


cdef double _jitter(IoThread* io) noexcept nogil:
    """0.8..1.2"""
    cdef uint64_t x = io.random_state
    x ^= x << 13
    x ^= x >> 7
    x ^= x << 17
    io.random_state = x
    return 0.8 + 0.4 * (<double>(x >> 11) / 9007199254740992.0)


cdef int64_t backoff_ns(IoThread* io, int32_t attempts) noexcept nogil:
    """P-D.6.1 for the `attempts`-th attempt that failed, jitter included."""
    cdef int64_t base = io.retry_backoff_ns
    cdef int32_t _i
    if base >= io.retry_backoff_max_ns or base == 0:
        return io.retry_backoff_max_ns if base > 0 else 0
    for _i in range(attempts - 1):
        base *= 2
        if base >= io.retry_backoff_max_ns:
            base = io.retry_backoff_max_ns
            break
    return min(io.retry_backoff_max_ns, <int64_t>(<double>base * _jitter(io)))


cdef void _finish(IoThread* io, ProducerBatch* batch) noexcept nogil:
    """The outcome is in the result: publish it."""
    flight_remove(_partition(batch), batch)
    batch.is_done = True
    batch.result.held_bytes = batch_slab_bytes(batch)
    result_complete(batch.result)


cdef void _succeed(
    IoThread* io, ProducerBatch* batch, int64_t base_offset, int64_t log_append_ms
) noexcept nogil:
    sequence_acked(_partition(batch), batch, base_offset)
    if batch.is_done:
        return      # it expired before the answer came (P-D.8.3)
    batch.result.error_code = ERR_NONE
    batch.result.base_offset = base_offset
    # For a batch that it has already (a retry), Apache Kafka 4.3 says the batch's largest
    # timestamp, whether the topic has log append time or not: that is none.
    if batch.is_retry and log_append_ms == batch.max_timestamp_ms:
        log_append_ms = -1
    batch.result.log_append_ms = log_append_ms
    io.counters.records_acked += batch.count
    io.counters.last_ack_ns = io.now_ns
    histogram_add(&io.ack_time, io.now_ns - batch.created_ns, batch.count)
    histogram_add(
        &_partition(batch).topic.ack_time, io.now_ns - batch.created_ns, batch.count)
    _finish(io, batch)


cdef char* _copy_text(const uint8_t* text, int32_t size) noexcept nogil:
    cdef char* copy
    if text == NULL or size < 0:
        return NULL
    copy = <char*>malloc(size + 1)
    if copy != NULL:
        memcpy(copy, text, size)
        copy[size] = 0
    return copy


cdef void _explain(IoThread* io, ProducerBatch* batch) noexcept nogil:
    """Why did it come to nothing: its leader's disconnect, what a broker said, what is missing?"""
    cdef int32_t slot = fp_load_i32(&_partition(batch).leader_slot)
    cdef char* why = io.disconnect_reason
    cdef Node* node
    batch.result.last_code = batch.last_code
    if 0 <= slot < io.node_count and io.nodes[slot] != NULL:
        node = io.nodes[slot]
        if batch.result.error_code == ERR_EXPIRED and (
            node.state == NODE_READY and node.produce_version >= 0
            and batch.last_code != NETWORK_EXCEPTION and batch.last_code != REQUEST_TIMED_OUT
        ):
            why = NULL
        elif batch.result.error_code == ERR_EXPIRED or node.disconnect_reason != NULL:
            why = node.disconnect_reason
    elif batch.last_code == NO_ERROR:
        batch.result.last_code = WAIT_LEADER
    if io.idempotent and io.producer_id < 0:
        batch.result.last_code = WAIT_PRODUCER_ID
        if io.producer_id_error != NULL:
            why = io.producer_id_error
    if why != NULL:
        batch.result.message = strdup(why)


cdef void batch_fail(
    IoThread* io, ProducerBatch* batch, int32_t code, int64_t detail, const uint8_t* message,
    int32_t message_size
) noexcept nogil:
    cdef Event* event
    cdef uint32_t records = result_live_count(batch.result)
    if batch.is_done:
        return
    batch.result.error_code = code
    batch.result.detail = detail
    batch.result.message = _copy_text(message, message_size)
    batch.result.attempts = batch.attempts + (1 if batch.requests > 0 else 0)
    if code == ERR_EXPIRED:
        batch.result.limit = io.delivery_timeout_ns // MS
        _explain(io, batch)
    elif code == UNSUPPORTED_VERSION and message == NULL:
        _explain(io, batch)
    if io.transaction_code == 0:
        io.transaction_code = code      # the event may find no memory
    io.counters.records_failed += records
    if code == ERR_ABORTED:
        io.counters.records_aborted += records
    _partition(batch).topic.error_total += records
    event = event_new(
        ON_FAILED, -1, batch.result.message,
        0 if batch.result.message == NULL else <int64_t>strlen(batch.result.message))
    if event != NULL:
        event.topic = _partition(batch).topic
        event.partition = _partition(batch).index
        event.code = code
        event.item_count = records
    event_push(&io.events, event)
    _finish(io, batch)


cdef bint _can_retry(
    IoThread* io, ProducerBatch* batch, int32_t code, int64_t log_start_offset
) noexcept nogil:
    """P-F.4.3"""
    if batch.is_done or batch.attempts >= io.retries:
        return False
    if io.now_ns - batch.created_ns >= io.delivery_timeout_ns:
        return False
    return code_is_retriable(code) or sequence_can_retry(
        io, _partition(batch), batch, code, log_start_offset)


cdef void _requeue(IoThread* io, ProducerBatch* batch, int32_t code) noexcept nogil:
    """Back into the queue: in sequence order if it has one, else at the head."""
    cdef Partition* p = _partition(batch)
    cdef ProducerBatch** at
    batch.attempts += 1
    batch.last_code = code
    batch.is_retry = True
    batch.is_uncertain = code != OUT_OF_ORDER_SEQUENCE_NUMBER and code != UNKNOWN_PRODUCER_ID
    batch.last_attempt_ns = io.now_ns
    batch.backoff_ns = backoff_ns(io, batch.attempts)
    io.counters.records_retried += batch.count
    p.topic.retry_total += batch.count
    fp_mutex_lock(&p.lock)
    at = &p.head
    if batch.has_sequence:
        while at[0] != NULL and at[0].has_sequence and flight_is_after(batch, at[0]):
            at = &at[0].next
    batch.next = at[0]
    at[0] = batch
    if batch.next == NULL:
        p.tail = batch
    fp_store_i32_rel(&p.queue_count, p.queue_count + 1)
    fp_mutex_unlock(&p.lock)


cdef bint _split(IoThread* io, ProducerBatch* batch) noexcept nogil:
    """P-D.9: the children take the parent's place in the queue and among the in-flight."""
    cdef Partition* p = _partition(batch)
    cdef ProducerBatch* first = NULL
    cdef ProducerBatch* child
    cdef ProducerBatch* last = NULL
    cdef ProducerBatch** at
    cdef int32_t count = 0
    topic_observe_ratio(p.topic, max(<int64_t>batch.wire_bytes, batch.record_bytes),
                        batch.record_bytes)
    if batch_split(io, batch, &first) != FP_OK:
        return False
    io.counters.batches_split += 1
    child = first
    while child != NULL:
        last = child
        count += 1
        child = child.next
    fp_mutex_lock(&p.lock)
    at = &p.head
    if batch.has_sequence:
        while at[0] != NULL and at[0].has_sequence and flight_is_after(first, at[0]):
            at = &at[0].next
    last.next = at[0]
    at[0] = first
    if last.next == NULL:
        p.tail = last
    fp_store_i32_rel(&p.queue_count, p.queue_count + count)
    fp_mutex_unlock(&p.lock)
    batch.is_done = True
    return True


cdef void _ask_metadata(IoThread* io, Topic* topic, int32_t code) noexcept nogil:
    cdef Event* event = event_new(ON_METADATA_WANTED, -1, NULL, 0)
    if event != NULL:
        event.topic = topic
        event.code = code
    event_push(&io.events, event)


cdef void _fatal(IoThread* io, int32_t code) noexcept nogil:
    cdef Event* event = event_new(ON_FATAL, -1, NULL, 0)
    if event != NULL:
        event.code = code
    fp_store_i32(&io.fatal_code, code)
    event_push(&io.events, event)


cdef void _give_up(
    IoThread* io, ProducerBatch* batch, int32_t code, const uint8_t* message, int32_t message_size
) noexcept nogil:
    """Fail for good; what its sequence numbers mean for the partition (P-F.5.8)."""
    cdef Partition* p = _partition(batch)
    if batch.is_done:
        return
    if batch.has_sequence:
        if code_is_retriable(code):
            sequence_unresolved(p)      # out of attempts or of time: it may have been written
        else:
            sequence_failed(io, p, batch)
    if io.now_ns - batch.created_ns >= io.delivery_timeout_ns and (
        code_is_retriable(code) or (batch.has_sequence and code == OUT_OF_ORDER_SEQUENCE_NUMBER)
    ):
        # Only its time kept it from another attempt: it has expired, whatever was answered last.
        io.counters.expired += 1
        batch_fail(
            io, batch, ERR_EXPIRED, (io.now_ns - batch.created_ns) // MS, NULL, -1)
        return
    batch_fail(io, batch, code, batch.wire_bytes, message, message_size)
    if io.idempotent and code_is_fatal(code):
        _fatal(io, code)


cdef void _store_record_errors(
    ProducerBatch* batch, ProducePartition* answer, const uint8_t* end, int16_t version
) noexcept nogil:
    cdef Result* result = batch.result
    cdef const uint8_t* at = answer.record_errors
    cdef const uint8_t* text
    cdef int32_t i, size
    if answer.record_error_count == 0 or batch.is_done:
        return
    result.record_errors = <RecordError*>calloc(answer.record_error_count, sizeof(RecordError))
    if result.record_errors == NULL:
        return
    for i in range(answer.record_error_count):
        at = produce_record_error(at, end, version, &result.record_errors[i].index, &text, &size)
        result.record_errors[i].message = _copy_text(text, size)
    result.record_error_count = answer.record_error_count


cdef void _hint(
    IoThread* io, ProducerBatch* batch, ProducePartition* answer, ProduceReader* reader
) noexcept nogil:
    """P-H.6: a newer leader in the answer: use it at once if its node is known, and tell."""
    cdef Partition* p = _partition(batch)
    cdef Event* event
    cdef const uint8_t* host
    cdef int32_t host_size, port = -1, slot
    cdef bint has_endpoint
    if answer.leader_id < 0 or answer.leader_epoch <= p.leader_epoch:
        return
    has_endpoint = produce_endpoint(reader, answer.leader_id, &host, &host_size, &port)
    event = event_new(
        ON_LEADER_HINT, -1, host if has_endpoint else NULL, host_size if has_endpoint else 0)
    if event != NULL:
        event.topic = p.topic
        event.partition = p.index
        event.node_id = answer.leader_id
        event.leader_epoch = answer.leader_epoch
        event.port = port
    event_push(&io.events, event)
    for slot in range(io.node_count):
        if io.nodes[slot] != NULL and io.nodes[slot].node_id == answer.leader_id:
            p.leader_epoch = answer.leader_epoch
            fp_store_i32(&p.leader_slot, slot)
            return


cdef void _settle(IoThread* io, ProducerBatch* batch) noexcept nogil:
    """The request no longer holds the batch; free it if that was all."""
    cdef Partition* p = _partition(batch)
    batch.requests -= 1
    p.outstanding -= 1
    p.muted = False
    sequence_settle(io, p)
    touch(io, p)
    batch_release(io, batch)


cdef void _answer(
    IoThread* io, ProducerBatch* batch, ProducePartition* answer, ProduceReader* reader
) noexcept nogil:
    """P-F.4.2, one partition."""
    cdef int32_t code = answer.error_code
    if code == NO_ERROR or code == DUPLICATE_SEQUENCE_NUMBER:
        _succeed(io, batch, answer.base_offset, answer.log_append_ms)
        return
    if (
        code == MESSAGE_TOO_LARGE and batch.count > 1 and not batch.is_done
        and io.now_ns - batch.created_ns < io.delivery_timeout_ns and _split(io, batch)
    ):
        return
    if code_refreshes_metadata(code):
        if code == NOT_LEADER_OR_FOLLOWER or code == FENCED_LEADER_EPOCH:
            _hint(io, batch, answer, reader)
        _ask_metadata(io, _partition(batch).topic, code)
    if _can_retry(io, batch, code, answer.log_start_offset):
        _requeue(io, batch, code)
        return
    _store_record_errors(batch, answer, reader.end, reader.version)
    _give_up(io, batch, code, answer.message, answer.message_size)


cdef FpStatus produce_answered(
    IoThread* io, Node* node, Request* request, const uint8_t* p, size_t size
) noexcept nogil:
    """P-F.4: in the order of the request, whatever the answer's.

    So memory is touched in the order in which it was, and goes back in that order.
    """
    cdef ProduceReader whole
    cdef ProducePartition answer
    cdef ProducerBatch* batch
    cdef int32_t i
    if produce_match(request, p, size, &whole, &io.counters.places_compared) != FP_OK:
        return FP_PROTOCOL
    free(node.disconnect_reason)
    node.disconnect_reason = NULL
    io.counters.responses += 1
    io.counters.throttle_ms += whole.throttle_ms
    raise_maximum(&io.maxima.longest_throttle_ms, whole.throttle_ms)
    histogram_add(&io.latency, io.now_ns - request.sent_ns, 1)
    histogram_add(&node.counters.latency, io.now_ns - request.sent_ns, 1)
    if whole.throttle_ms > 0 and request.version >= PRODUCE_THROTTLE_VERSION:
        node_throttle(node, io.now_ns + <int64_t>whole.throttle_ms * MS)
    gathering_begin(io, request)
    for i in range(request.batch_count):
        batch = request.batches[i]
        if batch == NULL or request.places[i].answer_at == 0:
            continue
        request.batches[i] = NULL
        produce_read(&whole, p + request.places[i].answer_at, &answer)
        _answer(io, batch, &answer, &whole)
        _settle(io, batch)
    _fail_missing(io, node, request)
    return FP_OK


cdef void _fail_missing(IoThread* io, Node* node, Request* request) noexcept nogil:
    """P-F.4.1: a partition that the response does not mention counts as a lost connection."""
    cdef int32_t i, missing = 0
    cdef Event* event
    for i in range(request.batch_count):
        if request.batches[i] != NULL:
            missing += 1
    if missing > 0:
        event = event_new(ON_PROTOCOL_ERROR, node.slot, NULL, 0)
        if event != NULL:
            event.fault = FAULT_MISSING
            event.item_count = missing
        event_push(&io.events, event)
        produce_failed(io, request, NETWORK_EXCEPTION)


cdef void produce_unanswered(IoThread* io, Request* request) noexcept nogil:
    cdef int32_t i
    cdef ProducerBatch* batch
    for i in range(request.batch_count):
        batch = request.batches[i]
        request.batches[i] = NULL
        _succeed(io, batch, -1, -1)
        _settle(io, batch)


cdef void produce_failed(IoThread* io, Request* request, int32_t code) noexcept nogil:
    produce_lost(io, request, code, NULL)


cdef void produce_lost(
    IoThread* io, Request* request, int32_t code, const char* why
) noexcept nogil:
    """In reverse, so that batches that go to the head of a queue keep their order."""
    cdef int32_t i
    cdef ProducerBatch* batch
    for i in range(request.batch_count - 1, -1, -1):
        batch = request.batches[i]
        if batch == NULL:
            continue
        request.batches[i] = NULL
        if code_refreshes_metadata(code):
            _ask_metadata(io, _partition(batch).topic, code)
        if _can_retry(io, batch, code, -1):
            _requeue(io, batch, code)
        elif why != NULL:
            _give_up(io, batch, code, <const uint8_t*>why, <int32_t>strlen(why))
        else:
            _give_up(io, batch, code, NULL, -1)
        _settle(io, batch)

"""Carries out the control thread's commands on the I/O thread."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcmp, memcpy, strdup

from fastprod._core.bytes.fp_status cimport FP_OK, FpStatus
from fastprod._core.bytes.sync cimport fp_load_ptr, fp_store_i32, fp_store_i64
from fastprod._core.bytes.wire cimport fp_put_u32
from fastprod._core.engine.accumulator cimport Partition, Topic
from fastprod._core.engine.control_queue cimport (
    DO_ABORT, DO_ABORT_UNDRAINED, DO_ADD_PARTITION, DO_ASK_BEHIND, DO_BEGIN_TRANSACTION, DO_CLOSE,
    DO_CONNECT, DO_DISCONNECT_REASON, DO_END_TRANSACTION, DO_FAIL, DO_HOLD, DO_LEADERS,
    DO_PRODUCER_ID, DO_PRODUCER_ID_ERROR, DO_READY, DO_SEND, DO_SWAP, DO_THROTTLE, DO_TOPIC_ID,
    METADATA_REFRESHED,
    Event, ON_PURGED, ON_RESPONSE, event_free, event_new, event_next_kind, event_push,
    event_take,
)
from fastprod._core.transaction.awaited_end cimport awaited_end_offer, awaited_end_sent
from fastprod._core.engine.expiry cimport abort_all, abort_undrained, purge
from fastprod._core.transaction.held_transaction cimport (
    ask_if_ended, transaction_answered, transaction_ask_behind, transaction_hold_next,
)
from fastprod._core.engine.in_flight cimport (
    REQUEST_CONTROL, Request, in_flight_can_send, next_correlation_id, request_free,
    request_reserve_iov,
)
from fastprod._core.engine.node_connection cimport (
    node_connect, node_drop, node_in_slot, node_send, node_set_state, node_swap, request_take,
)
from fastprod._core.engine.ready_list cimport look_at_touched, take_announced, touch, touch_all
from fastprod._core.engine.sender_state cimport (
    IoThread, NODE_DOWN, NODE_HANDSHAKE, NODE_READY, Node, RequestHandler, node_throttle,
)
from fastprod._core.engine.sequences cimport (
    transaction_begin, transaction_end, transaction_tell,
)
from fastprod._core.io.channel cimport CLOSE_LOCAL, channel_is_sending

cdef enum:
    CORRELATION_AT = 8      # size 4, api key 2, version 2
    CORRELATION_BYTES = 4


cdef void _send_control(IoThread* io, Event* event) noexcept nogil:
    """Send a frame of the control thread; its correlation id is ours to choose."""
    cdef Node* node = node_in_slot(io, event.slot)
    cdef Request* request
    if node == NULL or node.channel == NULL or node.state < NODE_HANDSHAKE:
        _lost(io, event)
        return
    if (not in_flight_can_send(&node.flights, io.max_in_flight + 1)
            or channel_is_sending(node.channel) or node.successor != NULL):
        _postpone(io, event)
        return
    request = request_take(io)
    if request == NULL or not request_reserve_iov(request, 1):
        request_free(request)
        _lost(io, event)
        return
    request.kind = REQUEST_CONTROL
    request.token = event.token
    request.expects_response = True
    free(request.scratch)
    request.scratch = event.data
    request.scratch_capacity = <size_t>event.data_bytes
    event.data = NULL
    request.iov[0].iov_base = request.scratch
    request.iov[0].iov_len = <size_t>(event.data_bytes - event.release_bytes)
    request.iov_count = 1
    request.wire_bytes = event.data_bytes - event.release_bytes
    request.release_bytes = event.release_bytes
    request.correlation_id = node.next_correlation
    node.next_correlation = next_correlation_id(node.next_correlation)
    fp_put_u32(request.scratch + CORRELATION_AT, <uint32_t>request.correlation_id)
    node_send(io, node, request)
    event_free(event)


cdef void _answer(IoThread* io, Node* node, Request* request, const uint8_t* data,
                  int64_t size) noexcept nogil:
    """Hand an answer (`data` NULL: none will come) to who waits for it."""
    cdef Event* event = event_new(ON_RESPONSE, node.slot, data, size)
    if event == NULL:       # no memory for what it says: as if it had been lost
        event = event_new(ON_RESPONSE, node.slot, NULL, 0)
    if event != NULL:
        event.token = request.token
        if io.is_transactional and awaited_end_offer(&io.awaited_end, event):
            return
    event_push(&io.events, event)


cdef FpStatus _control_answered(
    IoThread* io, Node* node, Request* request, const uint8_t* data, size_t size
) noexcept nogil:
    cdef uint32_t count = request.release_bytes
    if (count > 0 and size >= CORRELATION_BYTES + count
            and memcmp(data + CORRELATION_BYTES, request.scratch + request.wire_bytes, count) == 0):
        node.is_held = False    # the control thread would need some hundred microseconds for it
    transaction_answered(io, request.token, data, size)
    _answer(io, node, request, data, <int64_t>size)
    return FP_OK


cdef void _control_lost(
    IoThread* io, Node* node, Request* request, int32_t code, const char* why
) noexcept nogil:
    _answer(io, node, request, NULL, 0)


cdef RequestHandler control_handler() noexcept nogil:
    cdef RequestHandler handler
    handler.answered = _control_answered
    handler.lost = _control_lost
    handler.unanswered = NULL       # each of them asks for an answer
    return handler


cdef void _lost(IoThread* io, Event* event) noexcept nogil:
    """A control request that cannot be sent is answered as lost."""
    cdef Event* answer = event_new(ON_RESPONSE, event.slot, NULL, 0)
    if answer != NULL:
        answer.token = event.token
    event_push(&io.events, answer)
    event_free(event)


cdef void _postpone(IoThread* io, Event* event) noexcept nogil:
    """The connection is full, or is about to be another: try again after its next answer."""
    event.next = io.postponed
    io.postponed = event


cdef bint _has_postponed(IoThread* io, int32_t slot) noexcept nogil:
    cdef Event* event = io.postponed
    while event != NULL:
        if event.slot == slot:
            return True
        event = event.next
    return False


cdef void _send_postponed(IoThread* io) noexcept nogil:
    cdef Event* event = io.postponed
    cdef Event* following
    cdef Event* oldest = NULL
    io.postponed = NULL
    while event != NULL:        # it is a stack: turn it round
        following = event.next
        event.next = oldest
        oldest = event
        event = following
    while oldest != NULL:
        following = oldest.next
        oldest.next = NULL
        _send_control(io, oldest)
        oldest = following


cdef void _set_leaders(IoThread* io, Event* event) noexcept nogil:
    cdef int32_t slot
    cdef LeaderUpdate* update = <LeaderUpdate*>event.data
    cdef int64_t i
    cdef Partition* p
    cdef Node* node
    for i in range(event.data_bytes // <int64_t>sizeof(LeaderUpdate)):
        p = <Partition*>update[i].partition
        node = node_in_slot(io, update[i].slot)    # made here: it may not have been connected yet
        if node != NULL:
            node.node_id = update[i].node_id
        p.leader_epoch = update[i].epoch
        fp_store_i32(&p.leader_slot, update[i].slot)
        if p.place != NULL:
            touch(io, p)
    for slot in range(io.node_count):   # a wish for a node that had left may have been dropped
        if io.nodes[slot] != NULL and io.nodes[slot].state == NODE_DOWN:
            io.nodes[slot].connect_asked = False


cdef void _set_topic_id(Event* event) noexcept nogil:
    cdef Topic* topic = event.topic
    cdef int i
    memcpy(topic.id, event.data, 16)
    topic.has_id = False
    for i in range(16):
        if topic.id[i] != 0:
            topic.has_id = True


cdef void _set_disconnect_reason(IoThread* io, Event* event) noexcept nogil:
    cdef Node* node = node_in_slot(io, event.slot)
    cdef char* text = <char*>event.data     # NUL-terminated by who sent it
    free(io.disconnect_reason)
    if node != NULL and text != NULL:   # else it stays for what it spoiled, until an answer comes
        free(node.disconnect_reason)
        node.disconnect_reason = strdup(text)
    event.data = NULL
    io.disconnect_reason = text


cdef void _set_producer_id_error(IoThread* io, Event* event) noexcept nogil:
    """NULL: there is an id."""
    free(io.producer_id_error)
    io.producer_id_error = NULL
    if event != NULL:
        io.producer_id_error = <char*>event.data      # NUL-terminated by who sent it
        event.data = NULL


cdef void _begin_transaction(IoThread* io, Event* event) noexcept nogil:
    """Takes the event."""
    transaction_begin(io, event.adds_implicitly)
    transaction_hold_next(io, event)
    ask_if_ended(io)
    touch_all(io)


cdef void _send_at_end(IoThread* io, Event* event) noexcept nogil:
    """A request that waits for the end of the transaction; too late: that has been told."""
    if io.ending == event.ending:
        event_free(io.end_request)
        io.end_request = event
    else:
        event_free(event)


cdef void serve_transaction(IoThread* io) noexcept nogil:
    cdef Event* request = transaction_tell(io)
    if request != NULL:
        awaited_end_sent(&io.awaited_end, request.ending, request.token)
        _send_control(io, request)
    ask_if_ended(io)


cdef bint _obey_transaction(IoThread* io, Event* event) noexcept nogil:
    """False: the command is not about transactions."""
    cdef Partition* p
    if event.kind == DO_ADD_PARTITION:
        p = (<Partition**>fp_load_ptr(<void**>&event.topic.partitions))[event.partition]
        p.is_added = True
        touch(io, p)
    elif event.kind == DO_ABORT_UNDRAINED:
        abort_undrained(io, event.code, <const char*>event.data)    # NUL-terminated by who sent it
    elif event.kind == DO_END_TRANSACTION:
        take_announced(io)
        look_at_touched(io)     # what was appended before this belongs to it
        transaction_end(io, event.token)
    else:
        return False
    return True


cdef void _obey(IoThread* io, Event* event) noexcept nogil:
    """One command of the control thread. Takes the event."""
    cdef Node* node
    if event.kind == DO_BEGIN_TRANSACTION:
        _begin_transaction(io, event)
        return
    if event.kind == DO_ASK_BEHIND:
        transaction_ask_behind(io, event)
        return
    if event.kind == DO_SEND:
        if event.ending != 0:
            _send_at_end(io, event)
        elif _has_postponed(io, event.slot):
            _postpone(io, event)    # frames to one node leave in the order of their commands
        else:
            _send_control(io, event)
        return
    if event.kind == DO_CONNECT:
        node_connect(io, event)
    elif event.kind == DO_LEADERS:
        _set_leaders(io, event)
    elif event.kind == DO_TOPIC_ID:
        _set_topic_id(event)
    elif event.kind == DO_PRODUCER_ID:
        fp_store_i64(&io.producer_id, event.producer_id)
        io.producer_epoch = event.producer_epoch
        io.asked_producer_id = False
        _set_producer_id_error(io, NULL)
        touch_all(io)
    elif event.kind == DO_PRODUCER_ID_ERROR:
        _set_producer_id_error(io, event)
    elif event.kind == DO_ABORT and event.token != 0:
        event.item_count = purge(io, event.code, event.item_count)
        event.kind = ON_PURGED
        event_push(&io.events, event)
        return
    elif event.kind == DO_ABORT:
        abort_all(io, event.code)
        io.asked_producer_id = False
    elif event.kind == DO_DISCONNECT_REASON:
        _set_disconnect_reason(io, event)
    elif event.kind == METADATA_REFRESHED:
        io.asked_metadata = False
    elif event.kind == DO_FAIL:
        fp_store_i32(&io.fatal_code, event.code)
    elif not _obey_transaction(io, event):
        node = node_in_slot(io, event.slot)
        if node != NULL and node.channel != NULL:
            if event.kind == DO_READY:
                node.produce_version = event.produce_version
                node_set_state(node, NODE_READY)
            elif event.kind == DO_THROTTLE:
                node_throttle(node, io.now_ns + event.throttle_ns)
            elif event.kind == DO_HOLD:
                node.is_held = event.is_held
            elif event.kind == DO_SWAP:
                node_swap(io, node, event)
            elif event.kind == DO_CLOSE:
                node_drop(io, node, CLOSE_LOCAL, 0, 0, event.timed_out)
    event_free(event)


cdef bint obey_small(IoThread* io) noexcept nogil:
    cdef int32_t kind = event_next_kind(&io.commands)
    while kind == DO_BEGIN_TRANSACTION or kind == DO_PRODUCER_ID:
        _obey(io, event_take(&io.commands, 0))
        kind = event_next_kind(&io.commands)
    return kind == 0


cdef void obey_all(IoThread* io) noexcept nogil:
    cdef Event* event = event_take(&io.commands, 0)
    while event != NULL:
        _obey(io, event)
        event = event_take(&io.commands, 0)
    if io.postponed != NULL:
        _send_postponed(io)

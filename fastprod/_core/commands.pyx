"""Bodies of the commands; the contract is in commands.pxd."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, strdup

from fastprod._core.accumulator cimport Partition, Topic
from fastprod._core.channel cimport CLOSE_LOCAL, channel_is_sending
from fastprod._core.connection cimport (
    node_connect, node_drop, node_in_slot, node_send, node_set_state, request_take,
)
from fastprod._core.event_queue cimport (
    DO_ABORT, DO_CLOSE, DO_CONNECT, DO_FAIL, DO_ID_TROUBLE, DO_LEADERS, DO_PRODUCER_ID, DO_READY,
    DO_RESET_ASKED, DO_SEND, DO_THROTTLE, DO_TOPIC_ID, DO_TROUBLE, Event, ON_RESPONSE,
    event_free, event_new, event_push, event_take,
)
from fastprod._core.expiry cimport abort_all
from fastprod._core.in_flight cimport (
    REQUEST_CONTROL, Request, in_flight_can_send, next_correlation_id, request_free,
    request_reserve_iov,
)
from fastprod._core.io_thread cimport IoThread, NODE_DOWN, NODE_HANDSHAKE, NODE_READY, Node
from fastprod._core.ready_list cimport touch, touch_all
from fastprod._core.sync cimport fp_store_i32
from fastprod._core.wire cimport fp_put_u32

cdef enum:
    CORRELATION_AT = 8      # size 4, api key 2, version 2


cdef void _send_control(IoThread* io, Event* event) noexcept nogil:
    """Send a frame of the control thread; its correlation id is ours to choose."""
    cdef Node* node = node_in_slot(io, event.slot)
    cdef Request* request
    if node == NULL or node.channel == NULL or node.state < NODE_HANDSHAKE:
        _lost(io, event)
        return
    if (not in_flight_can_send(&node.flights, io.max_in_flight + 1)
            or channel_is_sending(node.channel)):
        _postpone(io, event)
        return
    request = request_take(io)
    if request == NULL or not request_reserve_iov(request, 1):
        request_free(request)
        _lost(io, event)
        return
    request.kind = REQUEST_CONTROL
    request.token = event.a
    request.expects_response = True
    free(request.scratch)
    request.scratch = event.data
    request.scratch_capacity = <size_t>event.size
    event.data = NULL
    request.iov[0].iov_base = request.scratch
    request.iov[0].iov_len = <size_t>event.size
    request.iov_count = 1
    request.wire_bytes = event.size
    request.correlation_id = node.next_correlation
    node.next_correlation = next_correlation_id(node.next_correlation)
    fp_put_u32(request.scratch + CORRELATION_AT, <uint32_t>request.correlation_id)
    node_send(io, node, request)
    event_free(event)


cdef void _lost(IoThread* io, Event* event) noexcept nogil:
    """A control request that cannot be sent is answered as lost."""
    cdef Event* answer = event_new(ON_RESPONSE, event.slot, NULL, -1)
    if answer != NULL:
        answer.a = event.a
    event_push(&io.events, answer)
    event_free(event)


cdef void _postpone(IoThread* io, Event* event) noexcept nogil:
    """The connection is full: try again after its next answer."""
    event.next = io.postponed
    io.postponed = event


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
    for i in range(event.size // <int64_t>sizeof(LeaderUpdate)):
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
    cdef Topic* topic = <Topic*>event.pointer
    cdef int i
    memcpy(topic.id, event.data, 16)
    topic.has_id = False
    for i in range(16):
        if topic.id[i] != 0:
            topic.has_id = True


cdef void _set_trouble(IoThread* io, Event* event) noexcept nogil:
    cdef Node* node = node_in_slot(io, event.slot)
    cdef char* text = <char*>event.data     # NUL-terminated by who sent it
    free(io.trouble)
    if node != NULL and text != NULL:   # else it stays for what it spoiled, until an answer comes
        free(node.trouble)
        node.trouble = strdup(text)
    event.data = NULL
    io.trouble = text


cdef void _set_producer_id_trouble(IoThread* io, Event* event) noexcept nogil:
    """NULL: there is an id."""
    free(io.producer_id_trouble)
    io.producer_id_trouble = NULL
    if event != NULL:
        io.producer_id_trouble = <char*>event.data      # NUL-terminated by who sent it
        event.data = NULL


cdef void _obey(IoThread* io, Event* event) noexcept nogil:
    """One command of the control thread. Takes the event."""
    cdef Node* node
    if event.kind == DO_SEND:
        _send_control(io, event)
        return
    if event.kind == DO_CONNECT:
        node_connect(io, event)
    elif event.kind == DO_LEADERS:
        _set_leaders(io, event)
    elif event.kind == DO_TOPIC_ID:
        _set_topic_id(event)
    elif event.kind == DO_PRODUCER_ID:
        io.producer_id = event.a
        io.producer_epoch = <int16_t>event.b
        io.asked_producer_id = False
        _set_producer_id_trouble(io, NULL)
        touch_all(io)
    elif event.kind == DO_ID_TROUBLE:
        _set_producer_id_trouble(io, event)
    elif event.kind == DO_ABORT:
        abort_all(io, <int32_t>event.a)
        io.asked_producer_id = False
    elif event.kind == DO_TROUBLE:
        _set_trouble(io, event)
    elif event.kind == DO_RESET_ASKED:
        io.asked_metadata = False
    elif event.kind == DO_FAIL:
        fp_store_i32(&io.fatal_code, <int32_t>event.a)
    else:
        node = node_in_slot(io, event.slot)
        if node != NULL and node.channel != NULL:
            if event.kind == DO_READY:
                node.produce_version = <int16_t>event.a
                node_set_state(node, NODE_READY)
            elif event.kind == DO_THROTTLE:
                node.throttled_until_ns = max(node.throttled_until_ns, io.now_ns + event.a)
            elif event.kind == DO_CLOSE:
                node_drop(io, node, CLOSE_LOCAL, 0, 0, event.a != 0)
    event_free(event)


cdef void obey_all(IoThread* io) noexcept nogil:
    cdef Event* event = event_take(&io.commands, 0)
    while event != NULL:
        _obey(io, event)
        event = event_take(&io.commands, 0)
    if io.postponed != NULL:
        _send_postponed(io)

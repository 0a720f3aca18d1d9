"""Opens connections, sends requests on them, and ends what was under way when they close."""
from libc.errno cimport ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport strdup, strlen

from fastprod._core.bytes.fp_status cimport FP_OK, FpStatus
from fastprod._core.bytes.kafka_errors cimport NETWORK_EXCEPTION, REQUEST_TIMED_OUT
from fastprod._core.bytes.sync cimport (
    fp_now_ns, fp_store_i32_rel, fp_store_i64, fp_store_ptr,
)
from fastprod._core.bytes.wire cimport fp_get_u32
from fastprod._core.engine.control_queue cimport (
    Event, FAULT_CORRELATION, FAULT_GARBLED, FAULT_UNASKED, ON_CONNECTED, ON_DISCONNECTED,
    ON_PROTOCOL_ERROR, ON_SWAPPED, event_new, event_push,
)
from fastprod._core.engine.histogram cimport raise_maximum
from fastprod._core.engine.in_flight cimport (
    REQUEST_CONTROL, Request, in_flight_add, in_flight_pop, in_flight_pop_newest, request_new,
)
from fastprod._core.engine.sender_state cimport (
    IoThread, MAX_NODES, NODE_CONNECTING, NODE_DOWN, NODE_HANDSHAKE, NODE_READY, Node,
)
from fastprod._core.io.channel cimport (
    CLOSE_LOCAL, CLOSE_NOT_CONNECTED, Channel, Transport, channel_inherit_idleness,
    channel_is_sending, channel_send,
)
from fastprod._core.io.layer cimport LayerUse
from fastprod._core.io.selector cimport Selector, selector_close, selector_connect

cdef enum:
    WHY_BYTES = 512
    MS = 1000000


cdef Node* node_in_slot(IoThread* io, int32_t slot) noexcept nogil:
    """The node in `slot`, made when it is first named; NULL: out of memory."""
    cdef Node* made
    if slot < 0 or slot >= MAX_NODES:
        return NULL
    if io.nodes[slot] == NULL:
        made = <Node*>calloc(1, sizeof(Node))
        if made == NULL:
            return NULL
        made.slot = slot
        made.node_id = -1
        made.produce_version = -1
        made.home = made
        fp_store_ptr(<void**>&io.nodes[slot], made)
    if slot >= io.node_count:
        fp_store_i32_rel(&io.node_count, slot + 1)
    return io.nodes[slot]


cdef Request* request_take(IoThread* io) noexcept nogil:
    cdef Request* request = io.spare_requests
    if request == NULL:
        return request_new()
    io.spare_requests = request.next
    request.next = NULL
    return request


cdef void request_recycle(IoThread* io, Request* request) noexcept nogil:
    request.batch_count = 0
    request.is_written = False
    request.grace_ns = 0
    request.release_bytes = 0
    request.iov_count = 0
    request.next = io.spare_requests
    io.spare_requests = request


cdef void tell(IoThread* io, int32_t kind, int32_t slot) noexcept nogil:
    event_push(&io.events, event_new(kind, slot, NULL, 0))


cdef void _tell_disconnected(
    IoThread* io, Node* node, Channel* channel, int32_t reason, int32_t err, int64_t bad_size,
    bint timed_out
) noexcept nogil:
    """`channel`: with what TLS or a proxy said of its end; or NULL."""
    cdef bint is_tls = channel != NULL and channel.text != NULL
    cdef Event* event = event_new(
        ON_DISCONNECTED, node.slot, channel.text if is_tls else NULL,
        <int64_t>strlen(channel.text) if is_tls else 0)
    if event != NULL:
        if channel != NULL:
            event.tls_verify = channel.tls_verify
            event.tls_reason = channel.tls_reason
        event.reason = reason
        event.err = err
        event.bad_size = bad_size
        event.timed_out = timed_out
    event_push(&io.events, event)


cdef void node_set_state(Node* node, int32_t state) noexcept nogil:
    fp_store_i32_rel(&node.state, state)
    node.connect_asked = False


cdef void _fail_flights(IoThread* io, Node* node, int32_t code) noexcept nogil:
    """The connection is gone: every request on it ends, newest first so that retries that go to
    the head of a queue keep their order; control requests are told in the order of sending."""
    cdef char why[WHY_BYTES]
    cdef const char* name = node.name
    cdef Request* stack = NULL
    cdef Request* request = in_flight_pop(&node.flights)
    if request == NULL:
        return
    if name == NULL:
        name = ""
    if code == REQUEST_TIMED_OUT:
        snprintf(why, WHY_BYTES, "broker %s did not answer within request_timeout_ms = %lld: the "
                 "records may have been written", name,
                 <long long>(io.request_timeout_ns // MS))
    else:
        snprintf(why, WHY_BYTES, "the connection to broker %s ended before it answered: the "
                 "records may have been written", name)
    while request != NULL:
        if request.kind == REQUEST_CONTROL:
            io.handlers[request.kind].lost(io, node, request, code, why)
            request_recycle(io, request)
        else:
            request.next = stack
            stack = request
        request = in_flight_pop(&node.flights)
    while stack != NULL:
        request = stack
        stack = request.next
        io.handlers[request.kind].lost(io, node, request, code, why)
        request_recycle(io, request)


cdef void node_count_bytes(Node* node) noexcept nogil:
    cdef int64_t sent = node.counters.past_sent_bytes
    cdef int64_t received = node.counters.past_received_bytes
    if node.channel != NULL:
        sent += node.channel.sent_bytes
        received += node.channel.received_bytes
    node.counters.sent_bytes = sent
    node.counters.received_bytes = received


cdef void _close_channel(IoThread* io, Node* node, Channel* channel) noexcept nogil:
    """Close a channel that is `node`'s no longer; its bytes stay counted."""
    node.home.counters.past_sent_bytes += channel.sent_bytes
    node.home.counters.past_received_bytes += channel.received_bytes
    node_count_bytes(node.home)
    if channel.fd >= 0:
        selector_close(&io.selector, channel)
    channel.owner = NULL
    io.counters.connections_closed += 1


cdef void node_drop(IoThread* io, Node* node, int32_t reason, int32_t err, int64_t bad_size,
                    bint timed_out) noexcept nogil:
    """Close `node`'s connection and end its requests."""
    cdef Channel* channel = node.channel
    if channel != NULL:
        node.channel = NULL
        _close_channel(io, node, channel)
    if node.home == node or node.home.successor == node:
        node.home.successor = NULL      # one of the two is gone
    node_set_state(node, NODE_DOWN)
    _fail_flights(io, node, REQUEST_TIMED_OUT if timed_out else NETWORK_EXCEPTION)
    _tell_disconnected(io, node, channel, reason, err, bad_size, timed_out)


cdef Channel* _open_channel(IoThread* io, Node* node, Event* event, int* err) noexcept nogil:
    """A channel over TLS, and through a proxy, if the event says so; NULL: *err says why not."""
    cdef const Transport* transport = io.transport
    cdef const char* name = <char*>event.data + event.address_bytes
    cdef LayerUse use
    cdef void* tls = NULL
    cdef void* session = NULL
    cdef Channel* channel = NULL
    err[0] = ENOMEM
    use.host = name + strlen(name) + 1
    use.ticket = &node.home.ticket
    use.over = NULL
    use.over_session = NULL
    if event.tls != NULL:
        tls = event.tls.new_session(event.tls, &use)
        if tls == NULL:
            return NULL
        transport = event.tls.transport
        session = tls
    if event.proxy != NULL:
        use.over = transport
        use.over_session = tls
        session = event.proxy.new_session(event.proxy, &use)
        transport = event.proxy.transport
    if event.proxy == NULL or session != NULL:
        channel = selector_connect(
            &io.selector, event.data, event.address_bytes, io.send_buffer_bytes,
            io.receive_buffer_bytes, transport, session, node, err)
    if channel == NULL:
        if event.proxy != NULL and session != NULL:
            event.proxy.free_session(session)
        if tls != NULL:
            event.tls.free_session(tls)
    return channel


cdef void node_connect(IoThread* io, Event* event) noexcept nogil:
    cdef Node* node = node_in_slot(io, event.slot)
    cdef Node* home = node_in_slot(io, event.home)
    cdef int err = 0
    if node == NULL or home == NULL or node.channel != NULL:
        return
    node.home = home
    if node == home:        # a spare is nobody's leader
        node.node_id = event.node_id
    free(node.name)
    node.name = strdup(<char*>event.data + event.address_bytes)
    node.next_correlation = 0
    fp_store_i64(&node.throttled_until_ns, 0)
    node.is_held = False
    node.channel = _open_channel(io, node, event, &err)
    if node.channel == NULL:
        _tell_disconnected(io, node, NULL, CLOSE_NOT_CONNECTED, err, 0, False)
        node_set_state(node, NODE_DOWN)
        return
    io.counters.connections_opened += 1
    node_set_state(node, NODE_CONNECTING)


cdef void node_send(IoThread* io, Node* node, Request* request) noexcept nogil:
    cdef FpStatus status
    cdef int64_t began_ns = fp_now_ns()
    request.sent_ns = io.now_ns
    request.is_written = False
    io.counters.requests_sent += 1
    io.counters.request_bytes += request.wire_bytes
    node.home.counters.requests += 1
    node.home.counters.request_bytes += request.wire_bytes
    raise_maximum(&node.home.counters.largest_request, request.wire_bytes)
    in_flight_add(&node.flights, request)
    # The turn has looked at time-outs already, and may sleep for long after this.
    io.wake_ns = min(io.wake_ns, io.now_ns + io.request_timeout_ns)
    status = channel_send(node.channel, request.iov, request.iov_count)
    io.counters.io_ns += fp_now_ns() - began_ns
    if status == FP_OK:
        node_written(io, node)
    # FP_BLOCKED: completed_sends tells; anything else: disconnected tells


cdef void node_written(IoThread* io, Node* node) noexcept nogil:
    cdef Request* request = node.flights.newest
    if request == NULL:
        return
    request.is_written = True
    if not request.expects_response:
        in_flight_pop_newest(&node.flights)
        io.handlers[request.kind].unanswered(io, node, request)
        request_recycle(io, request)


cdef void node_check_time_out(IoThread* io, Node* node) noexcept nogil:
    cdef Request* oldest = node.flights.oldest
    cdef int64_t due_ns
    if oldest == NULL:
        return
    due_ns = oldest.sent_ns + io.request_timeout_ns
    if node.throttled_until_ns > oldest.sent_ns:
        due_ns += node.throttled_until_ns - oldest.sent_ns
    if io.now_ns >= due_ns:
        node_drop(io, node, CLOSE_LOCAL, 0, 0, True)
    else:
        io.wake_ns = min(io.wake_ns, due_ns)


cdef void _refuse_answer(
    IoThread* io, Node* node, int32_t fault, uint32_t size
) noexcept nogil:
    """Tell what is wrong with an answer of `size` bytes, and close its connection."""
    cdef Event* event = event_new(ON_PROTOCOL_ERROR, node.slot, NULL, 0)
    if event != NULL:
        event.fault = fault
        event.bad_size = size
    event_push(&io.events, event)
    node_drop(io, node, CLOSE_LOCAL, 0, 0, False)


cdef void node_receive(IoThread* io, Node* node, const uint8_t* data, uint32_t size) noexcept nogil:
    cdef Request* request = node.flights.oldest
    cdef int32_t correlation
    cdef Event* event
    # Before its last byte is written its slabs would be used anew while the socket takes them.
    if request == NULL or size < 4 or not request.is_written:
        _refuse_answer(io, node, FAULT_UNASKED, size)
        return
    correlation = <int32_t>fp_get_u32(data)
    if correlation != request.correlation_id:
        event = event_new(ON_PROTOCOL_ERROR, node.slot, NULL, 0)
        if event != NULL:
            event.fault = FAULT_CORRELATION
            event.expected = request.correlation_id
            event.got = correlation
        event_push(&io.events, event)
        node_drop(io, node, CLOSE_LOCAL, 0, 0, False)
        return
    node.home.counters.responses += 1
    if io.handlers[request.kind].answered(io, node, request, data, size) != FP_OK:
        _refuse_answer(io, node, FAULT_GARBLED, size)
        return
    in_flight_pop(&node.flights)
    request_recycle(io, request)


cdef void _lose(IoThread* io, Channel* channel) noexcept nogil:
    cdef Node* node = <Node*>channel.owner
    if node == NULL or node.channel != channel:
        return
    node_drop(io, node, channel.close_reason, channel.err, channel.bad_size, False)


cdef bint _is_quiet(Node* node) noexcept nogil:
    """Nothing is under way on its connection."""
    return node.flights.count == 0 and not channel_is_sending(node.channel)


cdef bint _swap_if_quiet(IoThread* io, Node* node) noexcept nogil:
    """Put the successor's channel into the place of `node`'s, which is closed; False: not yet."""
    cdef Node* spare = node.successor
    cdef Channel* old = node.channel
    if not _is_quiet(node) or not _is_quiet(spare):
        return False
    node.successor = NULL
    channel_inherit_idleness(spare.channel, old)
    node.channel = spare.channel
    node.channel.owner = node
    node.next_correlation = spare.next_correlation
    node.produce_version = spare.produce_version
    node.is_held = False
    spare.channel = NULL
    node_set_state(spare, NODE_DOWN)
    _close_channel(io, node, old)
    tell(io, ON_SWAPPED, spare.slot)
    return True


cdef void node_swap(IoThread* io, Node* spare, Event* event) noexcept nogil:
    cdef Node* node = spare.home
    if node == spare or node.state != NODE_READY or spare.state != NODE_HANDSHAKE:
        return
    spare.produce_version = event.produce_version
    node.successor = spare
    if not _swap_if_quiet(io, node):
        io.has_successors = True


cdef void _swap_those_that_can(IoThread* io) noexcept nogil:
    """After what the poll brought: nothing that it lists belongs to a channel that goes."""
    cdef int32_t slot
    io.has_successors = False
    for slot in range(io.node_count):
        if io.nodes[slot] != NULL and io.nodes[slot].successor != NULL:
            if not _swap_if_quiet(io, io.nodes[slot]):
                io.has_successors = True


cdef void nodes_after_poll(IoThread* io) noexcept nogil:
    cdef Selector* s = &io.selector
    cdef uint32_t i
    cdef Node* node
    for i in range(s.completed_send_count):
        node = <Node*>s.completed_sends[i].owner
        if node != NULL:
            node_written(io, node)
    for i in range(s.receive_count):
        node = <Node*>s.receives[i].channel.owner
        if node != NULL:
            node_receive(io, node, s.receives[i].data, s.receives[i].size)
    for i in range(s.disconnected_count):
        _lose(io, s.disconnected[i])
    for i in range(s.connected_count):
        node = <Node*>s.connected[i].owner
        if node != NULL and node.state == NODE_CONNECTING:
            io.counters.connections_made += 1
            node_set_state(node, NODE_HANDSHAKE)
            tell(io, ON_CONNECTED, node.slot)
    if io.has_successors:
        _swap_those_that_can(io)

"""Bodies of the connection; the contract is in connection.pxd."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free
from libc.string cimport strdup

from fastprod._core.channel cimport channel_send
from fastprod._core.completion cimport produce_lost, produce_unanswered
from fastprod._core.counters cimport raise_maximum
from fastprod._core.event_queue cimport (
    Event, ON_DISCONNECTED, ON_RESPONSE, event_new, event_push,
)
from fastprod._core.in_flight cimport (
    REQUEST_CONTROL, Request, in_flight_add, in_flight_pop, in_flight_pop_newest, request_new,
)
from fastprod._core.io_thread cimport IoThread, MAX_NODES, NODE_CONNECTING, NODE_DOWN, Node
from fastprod._core.selector cimport selector_close, selector_connect
from fastprod._core.status cimport FP_OK, FpStatus
from fastprod._core.sync cimport fp_now_ns

cdef enum:
    NETWORK_EXCEPTION = 13
    REQUEST_TIMED_OUT = 7
    WHY_BYTES = 512
    MS = 1000000


cdef Node* node_in_slot(IoThread* io, int32_t slot) noexcept nogil:
    """The node in `slot`, made when it is first named; NULL: out of memory."""
    if slot < 0 or slot >= MAX_NODES:
        return NULL
    if io.nodes[slot] == NULL:
        io.nodes[slot] = <Node*>calloc(1, sizeof(Node))
        if io.nodes[slot] == NULL:
            return NULL
        io.nodes[slot].slot = slot
        io.nodes[slot].node_id = -1
        io.nodes[slot].produce_version = -1
    if slot >= io.node_count:
        io.node_count = slot + 1
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
    request.iov_count = 0
    request.next = io.spare_requests
    io.spare_requests = request


cdef void tell(IoThread* io, int32_t kind, int32_t slot, int64_t a, int64_t b, int64_t c,
               int64_t d) noexcept nogil:
    cdef Event* event = event_new(kind, slot, NULL, 0)
    if event != NULL:
        event.a = a
        event.b = b
        event.c = c
        event.d = d
    event_push(&io.events, event)


cdef void node_set_state(Node* node, int32_t state) noexcept nogil:
    node.state = state
    node.connect_asked = False


cdef void control_answered(IoThread* io, Node* node, Request* request, const uint8_t* data,
                           int64_t size) noexcept nogil:
    cdef Event* event = event_new(ON_RESPONSE, node.slot, data, size)
    if event == NULL:       # no memory for what it says: as if it had been lost
        event = event_new(ON_RESPONSE, node.slot, NULL, -1)
    if event != NULL:
        event.a = request.token
    event_push(&io.events, event)


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
            control_answered(io, node, request, NULL, -1)
            request_recycle(io, request)
        else:
            request.next = stack
            stack = request
        request = in_flight_pop(&node.flights)
    while stack != NULL:
        request = stack
        stack = request.next
        produce_lost(io, request, code, why)
        request_recycle(io, request)


cdef void node_count_bytes(Node* node) noexcept nogil:
    node.counters.sent_bytes = node.counters.past_sent_bytes + node.channel.sent_bytes
    node.counters.received_bytes = node.counters.past_received_bytes + node.channel.received_bytes


cdef void node_drop(IoThread* io, Node* node, int32_t reason, int32_t err, int64_t bad_size,
                    bint timed_out) noexcept nogil:
    """Close `node`'s connection and end its requests."""
    if node.channel != NULL:
        node_count_bytes(node)
        node.counters.past_sent_bytes = node.counters.sent_bytes
        node.counters.past_received_bytes = node.counters.received_bytes
        if node.channel.fd >= 0:
            selector_close(&io.selector, node.channel)
        node.channel.owner = NULL
        node.channel = NULL
        io.counters.connections_closed += 1
    node_set_state(node, NODE_DOWN)
    _fail_flights(io, node, REQUEST_TIMED_OUT if timed_out else NETWORK_EXCEPTION)
    tell(io, ON_DISCONNECTED, node.slot, reason, err, bad_size, timed_out)


cdef void node_connect(IoThread* io, Event* event) noexcept nogil:
    cdef Node* node = node_in_slot(io, event.slot)
    cdef int err = 0
    if node == NULL or node.channel != NULL:
        return
    node.node_id = <int32_t>event.a
    free(node.name)
    node.name = strdup(<char*>event.data + event.b)
    node.next_correlation = 0
    node.throttled_until_ns = 0
    node.channel = selector_connect(
        &io.selector, event.data, <uint32_t>event.b, io.send_buffer_bytes,
        io.receive_buffer_bytes, node, &err)
    if node.channel == NULL:
        tell(io, ON_DISCONNECTED, node.slot, 1, err, 0, 0)
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
    node.counters.requests += 1
    node.counters.request_bytes += request.wire_bytes
    raise_maximum(&node.counters.largest_request, request.wire_bytes)
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
        produce_unanswered(io, request)
        request_recycle(io, request)

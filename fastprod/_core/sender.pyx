"""Bodies of the Sender; the contract is in sender.pxd. Nothing here may touch a Python object."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from fastprod._core.accumulator cimport Accumulator, NO_SLOT, Partition, PartitionList, Topic
from fastprod._core.channel cimport CH_OPEN, CLOSE_LOCAL, Channel, channel_is_sending
from fastprod._core.commands cimport obey_all
from fastprod._core.completion cimport produce_answered, produce_failed, produce_lost
from fastprod._core.connection cimport (
    control_answered, node_count_bytes, node_drop, node_send, node_set_state, node_written,
    request_recycle, request_take, tell,
)
from fastprod._core.delivery cimport ERR_ABORTED
from fastprod._core.drain cimport node_drain
from fastprod._core.event_queue cimport (
    Event, FAULT_CORRELATION, FAULT_GARBLED, FAULT_UNASKED, ON_CONNECTED, ON_CONNECT_WANTED,
    ON_METADATA_WANTED, ON_PROTOCOL_ERROR, ON_STOPPED, event_free, event_new, event_push,
    event_queue_destroy, event_queue_init,
)
from fastprod._core.expiry cimport abort_all, expire
from fastprod._core.in_flight cimport (
    REQUEST_CONTROL, REQUEST_PRODUCE, Request, in_flight_can_send, in_flight_pop,
    next_correlation_id, request_free,
)
from fastprod._core.io_thread cimport (
    DRAIN_AND_STOP, IoThread, MAX_NODES, NODE_CONNECTING, NODE_DOWN, NODE_HANDSHAKE, NODE_READY,
    Node, STOP_NOW, pthread_t,
)
from fastprod._core.load_table cimport update_load
from fastprod._core.produce_frame cimport PRODUCE_TOPIC_ID_VERSION, produce_encode
from fastprod._core.ready_list cimport (
    look_at_touched, node_has_queued, node_is_ready, take_announced,
    touch_overdue, wake_by,
)
from fastprod._core.record_batch cimport sealer_free
from fastprod._core.selector cimport (
    Selector, selector_abandon, selector_destroy, selector_init, selector_park, selector_poll,
    selector_wake,
)
from fastprod._core.status cimport FP_NOMEM, FP_OK, FpStatus
from fastprod._core.sync cimport fp_load_i32, fp_now_ns
from fastprod._core.timer_heap cimport timer_next_ns
from fastprod._core.wire cimport fp_get_u32

cdef extern from "c/fp_thread.h" nogil:
    ctypedef void* (*fp_thread_main)(void*) noexcept nogil
    int fp_thread_start(
        pthread_t* thread, fp_thread_main run, void* argument, const char* name) noexcept
    int pthread_join(pthread_t thread, void** result) noexcept

cdef enum:
    NETWORK_EXCEPTION = 13
    UNSUPPORTED_VERSION = 35
    LONGEST_SLEEP_NS = 60000000000
    NO_MEMORY_PAUSE_NS = 10000000
    MOST_REQUESTS = 8       # to one node in one turn: with acks=0 no answer is waited for


cdef FpStatus io_init(
    IoThread* io, Accumulator* accumulator, bint force_poll, int64_t max_receive_bytes
) noexcept nogil:
    memset(io, 0, sizeof(IoThread))
    io.accumulator = accumulator
    io.producer_id = -1
    io.producer_epoch = -1
    io.random_state = <uint64_t>fp_now_ns() | 1
    io.limbo.slot = NO_SLOT
    io.nodes = <Node**>calloc(MAX_NODES, sizeof(Node*))
    event_queue_init(&io.commands)
    event_queue_init(&io.events)
    accumulator.wake_up = _wake
    accumulator.wake_argument = &io.selector
    if io.nodes == NULL:
        return FP_NOMEM
    return selector_init(&io.selector, force_poll, max_receive_bytes)


cdef void _wake(void* argument) noexcept nogil:
    selector_wake(<Selector*>argument)


cdef void io_destroy(IoThread* io) noexcept nogil:
    cdef Request* request
    cdef int32_t slot
    selector_destroy(&io.selector)
    for slot in range(io.node_count):
        if io.nodes[slot] != NULL:
            free(io.nodes[slot].name)
            free(io.nodes[slot].trouble)
            free(io.nodes[slot])
    free(io.nodes)
    free(io.busy)
    free(io.load)
    while io.spare_requests != NULL:
        request = io.spare_requests
        io.spare_requests = request.next
        request_free(request)
    free(io.trouble)
    free(io.producer_id_trouble)
    sealer_free(&io.sealer)
    event_queue_destroy(&io.commands)
    event_queue_destroy(&io.events)


cdef void io_abandon(IoThread* io) noexcept nogil:
    selector_abandon(&io.selector)


cdef int sender_start(IoThread* io) noexcept nogil:
    cdef int failed = fp_thread_start(&io.thread, sender_main, io, b"fastprod-io")
    io.is_running = failed == 0
    return failed


cdef void sender_join(IoThread* io) noexcept nogil:
    if io.is_running:
        pthread_join(io.thread, NULL)
        io.is_running = False
        selector_destroy(&io.selector)


cdef int16_t _version_for(Node* node, Request* request) noexcept nogil:
    """F.3.3: topic ids only if every topic has one."""
    cdef int32_t i
    if node.produce_version >= PRODUCE_TOPIC_ID_VERSION:
        for i in range(request.batch_count):
            if not (<Partition*>request.batches[i].partition).topic.has_id:
                return PRODUCE_TOPIC_ID_VERSION - 1
    return node.produce_version


cdef bint _send_produce(IoThread* io, Node* node) noexcept nogil:
    """One Produce request with what is ready; False: there was nothing."""
    cdef Request* request = request_take(io)
    if request == NULL:
        return False
    request.kind = REQUEST_PRODUCE
    request.expects_response = io.header.acks != 0
    if not node_drain(io, node, request):
        request_recycle(io, request)
        return False
    node.last_drain_ns = io.now_ns
    if node.produce_version < 0:
        produce_lost(io, request, UNSUPPORTED_VERSION, node.trouble)
        request_recycle(io, request)
        return False
    request.version = _version_for(node, request)
    request.correlation_id = node.next_correlation
    node.next_correlation = next_correlation_id(node.next_correlation)
    if produce_encode(request, &io.header) != FP_OK:
        produce_failed(io, request, NETWORK_EXCEPTION)
        request_recycle(io, request)
        return False
    io.counters.produce_requests += 1
    node_send(io, node, request)
    return True


cdef bint _can_take(IoThread* io, Node* node) noexcept nogil:
    return (
        in_flight_can_send(&node.flights, io.max_in_flight)
        and not channel_is_sending(node.channel) and node.channel.state == CH_OPEN
    )


cdef void _stamp_ready(IoThread* io, Node* node) noexcept nogil:
    """C.5.7: is there something for a node that takes nothing now?"""
    if node_has_queued(node):
        node.last_ready_ns = io.now_ns


cdef void serve_node(IoThread* io, Node* node) noexcept nogil:
    """Ready and drain for one node, as many requests as it takes, and a turn has (F.2)."""
    cdef int64_t failed
    cdef int _i
    cdef Event* event
    if node.active_count == 0:
        return
    if node.state != NODE_READY:
        if node.state == NODE_DOWN and not node.connect_asked:
            event = event_new(ON_CONNECT_WANTED, node.slot, NULL, 0)
            node.connect_asked = event != NULL      # else the next turn asks
            event_push(&io.events, event)
        if node_is_ready(io, node):
            node.last_ready_ns = io.now_ns
        return
    if node.throttled_until_ns > io.now_ns:
        wake_by(io, node.throttled_until_ns)
        _stamp_ready(io, node)
        return
    for _i in range(MOST_REQUESTS):
        if not _can_take(io, node):
            _stamp_ready(io, node)
            return
        if not node_is_ready(io, node):
            return
        node.last_ready_ns = io.now_ns
        failed = io.counters.records_failed
        if not _send_produce(io, node) and io.counters.records_failed == failed:
            look_at_touched(io)
            if node_is_ready(io, node):
                wake_by(io, io.now_ns + NO_MEMORY_PAUSE_NS)
            return      # else a batch could not be sealed, and the next one has its turn
        look_at_touched(io)
        io.now_ns = fp_now_ns()
    wake_by(io, io.now_ns)      # commands, answers and the other nodes have theirs first


cdef void _ask_for_topics(IoThread* io, PartitionList* parts) noexcept nogil:
    cdef Event* event
    cdef Topic* topic
    cdef Partition* p = parts.first
    while p != NULL:
        topic = p.topic
        p = p.place_next
        if topic.asked_turn != io.counters.loops:
            topic.asked_turn = io.counters.loops
            event = event_new(ON_METADATA_WANTED, NO_SLOT, NULL, 0)
            if event == NULL:
                io.asked_metadata = False       # the next turn asks again
            else:
                event.pointer = topic
            event_push(&io.events, event)


cdef void _serve_limbo(IoThread* io) noexcept nogil:
    """Partitions without a leader: metadata is stale, or has forgotten them (D.5.1, H.2.6)."""
    if io.limbo.active_count == 0 or io.asked_metadata:
        return
    io.asked_metadata = True
    _ask_for_topics(io, &io.limbo.due)
    _ask_for_topics(io, &io.limbo.lingering)
    _ask_for_topics(io, &io.limbo.held)
    _ask_for_topics(io, &io.limbo.resting)


cdef void _check_time_outs(IoThread* io, Node* node) noexcept nogil:
    """G.2.4: the oldest request waits too long: the connection goes, with all its requests."""
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
        wake_by(io, due_ns)


cdef void _receive(IoThread* io, Node* node, const uint8_t* data, uint32_t size) noexcept nogil:
    cdef Request* request = node.flights.oldest
    cdef int32_t correlation
    if request == NULL or size < 4:
        tell(io, ON_PROTOCOL_ERROR, node.slot, FAULT_UNASKED, size, 0, 0)
        node_drop(io, node, CLOSE_LOCAL, 0, 0, False)
        return
    if not request.is_written:      # or its slabs would be used anew while the socket takes them
        tell(io, ON_PROTOCOL_ERROR, node.slot, FAULT_UNASKED, size, 0, 0)
        node_drop(io, node, CLOSE_LOCAL, 0, 0, False)
        return
    correlation = <int32_t>fp_get_u32(data)
    if correlation != request.correlation_id:
        tell(
            io, ON_PROTOCOL_ERROR, node.slot, FAULT_CORRELATION, request.correlation_id,
            correlation, 0)
        node_drop(io, node, CLOSE_LOCAL, 0, 0, False)
        return
    node.counters.responses += 1
    if request.kind == REQUEST_CONTROL:
        in_flight_pop(&node.flights)
        control_answered(io, node, request, data, size)
        request_recycle(io, request)
        return
    if produce_answered(io, node, request, data + 4, size - 4) != FP_OK:
        tell(io, ON_PROTOCOL_ERROR, node.slot, FAULT_GARBLED, size, 0, 0)
        node_drop(io, node, CLOSE_LOCAL, 0, 0, False)
        return
    in_flight_pop(&node.flights)
    request_recycle(io, request)


cdef void _lose(IoThread* io, Channel* channel) noexcept nogil:
    cdef Node* node = <Node*>channel.owner
    if node == NULL or node.channel != channel:
        return
    node_drop(io, node, channel.close_reason, channel.err, channel.bad_size, False)


cdef void _complete(IoThread* io) noexcept nogil:
    """What the poll brought, in the order of G.1."""
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
            _receive(io, node, s.receives[i].data, s.receives[i].size)
    for i in range(s.disconnected_count):
        _lose(io, s.disconnected[i])
    for i in range(s.connected_count):
        node = <Node*>s.connected[i].owner
        if node != NULL and node.state == NODE_CONNECTING:
            io.counters.connections_made += 1
            node_set_state(node, NODE_HANDSHAKE)
            tell(io, ON_CONNECTED, node.slot, 0, 0, 0, 0)


cdef bint _turn(IoThread* io) noexcept nogil:
    """Everything but the poll; False: the thread is to end."""
    cdef int32_t slot
    cdef int32_t stop = fp_load_i32(&io.stop)
    io.now_ns = fp_now_ns()
    io.wake_ns = io.now_ns + LONGEST_SLEEP_NS
    io.counters.loops += 1
    obey_all(io)
    take_announced(io)
    if stop == STOP_NOW:
        return False
    if io.fatal_code != 0:
        abort_all(io, io.fatal_code)
    expire(io)
    for slot in range(io.node_count):
        if io.nodes[slot] != NULL:
            _check_time_outs(io, io.nodes[slot])
    touch_overdue(io)
    look_at_touched(io)     # from here on a node's turn concerns its own partitions only
    update_load(io)
    for slot in range(io.node_count):
        if io.nodes[slot] != NULL:
            serve_node(io, io.nodes[slot])
            if io.nodes[slot].channel != NULL:
                node_count_bytes(io.nodes[slot])
    _serve_limbo(io)
    wake_by(io, timer_next_ns(&io.waits))
    wake_by(io, timer_next_ns(&io.expiries))
    if io.max_idle_ns >= 0 and io.selector.loop.oldest != NULL:     # the next to be idle too long
        io.wake_ns = min(io.wake_ns, io.selector.loop.oldest.last_active_ns + io.max_idle_ns + 1)
    return stop != DRAIN_AND_STOP or io.listed_count > 0


cdef int64_t sender_park(IoThread* io, int32_t kicks) noexcept nogil:
    cdef int64_t sleep_ns
    selector_park(&io.selector)
    sleep_ns = io.wake_ns - fp_now_ns()
    if sleep_ns < 0 or fp_load_i32(&io.accumulator.kicks) != kicks:
        return 0
    return sleep_ns


cdef void* sender_main(void* argument) noexcept nogil:
    cdef IoThread* io = <IoThread*>argument
    cdef Event* stopped = event_new(ON_STOPPED, NO_SLOT, NULL, 0)   # whatever memory there is then
    cdef int32_t kicks
    cdef int64_t began_ns, waited_ns, sleep_ns
    while True:
        kicks = fp_load_i32(&io.accumulator.kicks)
        if not _turn(io):
            break
        sleep_ns = sender_park(io, kicks)
        began_ns = fp_now_ns()
        waited_ns = io.selector.io_wait_ns
        selector_poll(&io.selector, sleep_ns, io.max_idle_ns)
        io.now_ns = fp_now_ns()
        io.counters.io_ns += io.now_ns - began_ns - (io.selector.io_wait_ns - waited_ns)
        _complete(io)
    _end(io, stopped)
    return NULL


cdef void _end(IoThread* io, Event* stopped) noexcept nogil:
    """Close every connection and fail what is left (A.9.4); requests under way end with them."""
    cdef int32_t slot
    cdef Event* event = io.postponed
    cdef Event* following
    abort_all(io, ERR_ABORTED)
    for slot in range(io.node_count):
        if io.nodes[slot] != NULL and io.nodes[slot].channel != NULL:
            node_drop(io, io.nodes[slot], CLOSE_LOCAL, 0, 0, False)
    abort_all(io, ERR_ABORTED)
    while event != NULL:
        following = event.next
        event_free(event)
        event = following
    io.postponed = NULL
    while stopped == NULL:      # nobody would ever end the control thread
        selector_poll(&io.selector, NO_MEMORY_PAUSE_NS, -1)
        stopped = event_new(ON_STOPPED, NO_SLOT, NULL, 0)
    event_push(&io.events, stopped)

"""Runs the I/O thread's loop. Nothing here may touch a Python object."""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from fastprod._core.bytes.buffer_pool cimport pool_empty
from fastprod._core.bytes.fp_status cimport FP_NOMEM, FP_OK, FpStatus
from fastprod._core.bytes.kafka_errors cimport NETWORK_EXCEPTION, UNSUPPORTED_VERSION
from fastprod._core.bytes.sync cimport (
    fp_load_i32, fp_mutex_init, fp_mutex_lock, fp_mutex_unlock, fp_now_ns,
)
from fastprod._core.delivery.result cimport ERR_ABORTED
from fastprod._core.engine.accumulator cimport Accumulator, NO_SLOT, Partition, PartitionList, Topic
from fastprod._core.engine.completion cimport (
    produce_answered, produce_failed, produce_lost, produce_unanswered,
)
from fastprod._core.engine.control_commands cimport (
    control_handler, obey_all, serve_transaction,
)
from fastprod._core.engine.control_queue cimport (
    Event, ON_CONNECT_WANTED, ON_METADATA_WANTED, ON_STOPPED, event_free, event_new, event_push,
    event_queue_destroy, event_queue_init,
)
from fastprod._core.engine.drain cimport node_drain
from fastprod._core.transaction.awaited_end cimport awaited_end_destroy, awaited_end_init
from fastprod._core.engine.expiry cimport abort_all, expire
from fastprod._core.transaction.held_transaction cimport question_handler
from fastprod._core.drive.gathering cimport gathering_check
from fastprod._core.engine.in_flight cimport (
    REQUEST_CONTROL, REQUEST_PRODUCE, REQUEST_QUESTION, Request, in_flight_can_send,
    next_correlation_id, request_free,
)
from fastprod._core.drive.lent_socket cimport lent_attend, lent_close, lent_init
from fastprod._core.engine.load_table cimport update_load
from fastprod._core.engine.node_connection cimport (
    node_check_time_out, node_count_bytes, node_drop, node_send, nodes_after_poll,
    request_recycle, request_take,
)
from fastprod._core.engine.produce_codec cimport (
    PRODUCE_IMPLICIT_ADD_VERSION, PRODUCE_TOPIC_ID_VERSION, produce_encode,
)
from fastprod._core.engine.ready_list cimport (
    look_at_touched, node_has_queued, node_is_ready, take_announced,
    touch_overdue, wake_by,
)
from fastprod._core.engine.sender_state cimport (
    DRAIN_AND_STOP, IoThread, MAX_NODES, NODE_DOWN, NODE_READY, Node, RequestHandler, STOP_NOW,
    pthread_t,
)
from fastprod._core.engine.timer_heap cimport timer_next_ns
from fastprod._core.io.channel cimport CH_OPEN, CLOSE_LOCAL, channel_is_sending
from fastprod._core.io.layer cimport layer_ticket_clear
from fastprod._core.io.selector cimport (
    Selector, selector_abandon, selector_destroy, selector_init, selector_park, selector_poll,
    selector_wake,
)
from fastprod._core.io.tcp_transport cimport tcp_transport
from fastprod._core.records.record_batch cimport sealer_free

cdef extern from "c/fp_thread.h" nogil:
    ctypedef void* (*fp_thread_main)(void*) noexcept nogil
    int fp_thread_start(
        pthread_t* thread, fp_thread_main run, void* argument, const char* name) noexcept
    int pthread_join(pthread_t thread, void** result) noexcept

cdef extern from "unistd.h" nogil:
    int usleep(unsigned int us) noexcept

cdef enum:
    DRIVER_PAUSE_US = 100
    LONGEST_SLEEP_NS = 60000000000
    NO_MEMORY_PAUSE_NS = 10000000
    CORRELATION_BYTES = 4
    MOST_REQUESTS = 8       # to one node in one turn: with acks=0 no answer is waited for


cdef FpStatus io_init(
    IoThread* io, Accumulator* accumulator, bint force_poll, int64_t max_receive_bytes
) noexcept nogil:
    cdef FpStatus status
    memset(io, 0, sizeof(IoThread))
    io.accumulator = accumulator
    io.transport = tcp_transport()
    io.handlers[<int32_t>REQUEST_PRODUCE] = _produce_handler()
    io.handlers[<int32_t>REQUEST_CONTROL] = control_handler()
    io.handlers[<int32_t>REQUEST_QUESTION] = question_handler()
    io.producer_id = -1
    io.producer_epoch = -1
    io.random_state = <uint64_t>fp_now_ns() | 1
    io.limbo.slot = NO_SLOT
    io.nodes = <Node**>calloc(MAX_NODES, sizeof(Node*))
    event_queue_init(&io.commands)
    event_queue_init(&io.events)
    awaited_end_init(&io.awaited_end)
    accumulator.wake_up = _wake
    accumulator.wake_argument = &io.selector
    fp_mutex_init(&io.loop_lock)
    lent_init(io)
    if io.nodes == NULL:
        return FP_NOMEM
    status = selector_init(&io.selector, force_poll, max_receive_bytes)
    io.selector.owner_lock = &io.loop_lock
    return status


cdef FpStatus _produce_answered(
    IoThread* io, Node* node, Request* request, const uint8_t* data, size_t size
) noexcept nogil:
    return produce_answered(io, node, request, data + CORRELATION_BYTES, size - CORRELATION_BYTES)


cdef void _produce_lost(
    IoThread* io, Node* node, Request* request, int32_t code, const char* why
) noexcept nogil:
    produce_lost(io, request, code, why)


cdef void _produce_unanswered(IoThread* io, Node* node, Request* request) noexcept nogil:
    produce_unanswered(io, request)


cdef RequestHandler _produce_handler() noexcept nogil:
    cdef RequestHandler handler
    handler.answered = _produce_answered
    handler.lost = _produce_lost
    handler.unanswered = _produce_unanswered
    return handler


cdef void _wake(void* argument) noexcept nogil:
    selector_wake(<Selector*>argument)


cdef void io_destroy(IoThread* io) noexcept nogil:
    cdef Request* request
    cdef int32_t slot
    selector_destroy(&io.selector)
    for slot in range(io.node_count):
        if io.nodes[slot] != NULL:
            layer_ticket_clear(&io.nodes[slot].ticket)
            free(io.nodes[slot].name)
            free(io.nodes[slot].disconnect_reason)
            free(io.nodes[slot])
    free(io.nodes)
    free(io.busy)
    free(io.load)
    while io.spare_requests != NULL:
        request = io.spare_requests
        io.spare_requests = request.next
        request_free(request)
    free(io.disconnect_reason)
    free(io.producer_id_error)
    sealer_free(&io.sealer)
    event_free(io.question)
    event_free(io.next_question)
    event_free(io.end_request)
    awaited_end_destroy(&io.awaited_end)
    event_queue_destroy(&io.commands)
    event_queue_destroy(&io.events)


cdef void io_abandon(IoThread* io) noexcept nogil:
    lent_close(io)
    selector_abandon(&io.selector)


cdef int sender_start(IoThread* io) noexcept nogil:
    cdef int failed = fp_thread_start(&io.thread, sender_main, io, b"fastprod-io")
    io.is_running = failed == 0
    return failed


cdef void sender_join(IoThread* io) noexcept nogil:
    if io.is_running:
        pthread_join(io.thread, NULL)
        io.is_running = False
        while fp_load_i32(&io.accumulator.incomplete.drivers) > 0:
            usleep(DRIVER_PAUSE_US)     # their results are complete: they are on their way out
        lent_close(io)
        selector_destroy(&io.selector)
        pool_empty(&io.accumulator.pool)    # who holds the producer holds no memory of records


cdef int16_t _version_for(IoThread* io, Node* node, Request* request) noexcept nogil:
    """P-F.3.3: topic ids only if every topic has one; an old transaction, an old version."""
    cdef int32_t i
    if io.is_transactional and not io.adds_implicitly:
        return min(node.produce_version, <int16_t>(PRODUCE_IMPLICIT_ADD_VERSION - 1))
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
        produce_lost(io, request, UNSUPPORTED_VERSION, node.disconnect_reason)
        request_recycle(io, request)
        return False
    request.version = _version_for(io, node, request)
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
    """P-C.5.7: is there something for a node that takes nothing now?"""
    if node_has_queued(node):
        node.last_ready_ns = io.now_ns


cdef void serve_node(IoThread* io, Node* node) noexcept nogil:
    """Ready and drain for one node, as many requests as it takes, and a turn has (P-F.2)."""
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
    if node.is_held or node.successor != NULL:
        _stamp_ready(io, node)
        return
    if io.gather_until_ns != 0:
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
                event.topic = topic
            event_push(&io.events, event)


cdef void _serve_limbo(IoThread* io) noexcept nogil:
    """Partitions without a leader: metadata is stale, or has forgotten them (P-D.5.1, P-H.2.6)."""
    if io.limbo.active_count == 0 or io.asked_metadata:
        return
    io.asked_metadata = True
    _ask_for_topics(io, &io.limbo.due)
    _ask_for_topics(io, &io.limbo.lingering)
    _ask_for_topics(io, &io.limbo.held)
    _ask_for_topics(io, &io.limbo.resting)


cdef bint _turn(IoThread* io) noexcept nogil:
    """Everything but the poll; False: the thread is to end."""
    cdef int32_t slot
    cdef int32_t stop = fp_load_i32(&io.stop)
    io.now_ns = fp_now_ns()
    io.wake_ns = io.now_ns + LONGEST_SLEEP_NS
    io.is_filling = False
    if io.now_ns < io.driven_ns + LONGEST_SLEEP_NS:
        # What a caller sends then times out after we would have woken anyway: it need not wake us.
        io.wake_ns = min(io.wake_ns, io.now_ns + io.request_timeout_ns // 2)
    io.counters.loops += 1
    gathering_check(io)
    take_announced(io)      # first: what was commanded before an announcement goes before it
    obey_all(io)
    if io.fatal_code != 0:      # also at the end: what has failed for good was not given up
        abort_all(io, io.fatal_code)
    if stop == STOP_NOW:
        return False
    expire(io)
    for slot in range(io.node_count):
        if io.nodes[slot] != NULL:
            node_check_time_out(io, io.nodes[slot])
    touch_overdue(io)
    look_at_touched(io)     # from here on a node's turn concerns its own partitions only
    update_load(io)
    for slot in range(io.node_count):
        if io.nodes[slot] != NULL:
            serve_node(io, io.nodes[slot])
            if io.nodes[slot].channel != NULL:
                node_count_bytes(io.nodes[slot])
    _serve_limbo(io)
    if io.is_transactional:
        serve_transaction(io)
    wake_by(io, timer_next_ns(&io.waits))
    wake_by(io, timer_next_ns(&io.expiries))
    if io.max_idle_ns >= 0 and io.selector.loop.oldest != NULL:     # the next to be idle too long
        io.wake_ns = min(io.wake_ns, io.selector.loop.oldest.last_active_ns + io.max_idle_ns + 1)
    return stop != DRAIN_AND_STOP or io.listed_count > 0


cdef int64_t sender_park(IoThread* io, int32_t kicks) noexcept nogil:
    cdef int64_t sleep_ns
    selector_park(&io.selector)
    io.asleep_until_ns = io.wake_ns
    io.selector.ends_on_time = io.gather_until_ns != 0 or io.is_filling
    sleep_ns = io.wake_ns - fp_now_ns()
    if sleep_ns < 0 or fp_load_i32(&io.accumulator.kicks) != kicks:
        return 0
    return sleep_ns


cdef void* sender_main(void* argument) noexcept nogil:
    cdef IoThread* io = <IoThread*>argument
    cdef Event* stopped = event_new(ON_STOPPED, NO_SLOT, NULL, 0)   # whatever memory there is then
    cdef int32_t kicks
    cdef int64_t began_ns, waited_ns, sleep_ns
    fp_mutex_lock(&io.loop_lock)
    io.is_turning = True
    while True:
        kicks = fp_load_i32(&io.accumulator.kicks)
        if not _turn(io):
            break
        lent_attend(io)
        sleep_ns = sender_park(io, kicks)
        began_ns = fp_now_ns()
        waited_ns = io.selector.io_wait_ns
        selector_poll(&io.selector, sleep_ns, io.max_idle_ns)
        io.now_ns = fp_now_ns()
        io.counters.io_ns += io.now_ns - began_ns - (io.selector.io_wait_ns - waited_ns)
        nodes_after_poll(io)
    io.is_turning = False
    _end(io, stopped)
    lent_attend(io)
    fp_mutex_unlock(&io.loop_lock)
    return NULL


cdef void _end(IoThread* io, Event* stopped) noexcept nogil:
    """Close every connection and fail what is left (P-A.9.4); requests under way end with them."""
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

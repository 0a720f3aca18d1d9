"""Asks the coordinator whether the transaction before has ended, while the next one is held.

EndTxn is answered before the markers are in the partitions. Until they are, a leader lets the next
records wait for 20 ms (`add.partitions.to.txn.retry.backoff.ms`), which is ten times what a small
transaction takes. So DescribeTransactions, a read, is asked first. It is asked here, and not by the
control thread, which would need the GIL while the application sends.

A producer whose transactions follow each other has the question asked ahead, as soon as EndTxn is
answered: while its caller comes to begin the next one, the answer comes.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy

from fastprod._core.bytes.fp_status cimport FP_OK, FpStatus
from fastprod._core.bytes.wire cimport fp_get_u32, fp_put_u32
from fastprod._core.engine.control_queue cimport Event, ON_QUESTION_REFUSED, event_free
from fastprod._core.transaction.awaited_end cimport has_ended_so
from fastprod._core.engine.in_flight cimport (
    REQUEST_QUESTION, Request, in_flight_can_send, next_correlation_id, request_free,
    request_reserve_iov, request_reserve_scratch,
)
from fastprod._core.engine.node_connection cimport node_in_slot, node_send, request_take, tell
from fastprod._core.engine.ready_list cimport touch_all
from fastprod._core.engine.sender_state cimport (
    IoThread, NODE_READY, Node, RequestHandler, node_throttle,
)
from fastprod._core.io.channel cimport channel_is_sending

cdef enum:
    MS = 1000000
    CORRELATION_AT = 8      # size 4, api key 2, version 2
    THROTTLE_AT = 5         # in the answer: correlation id 4, no tags 1
    STATES_AT = 9
    AT_ONCE = 6             # so often it is asked again without a pause
    FIRST_PAUSE_MS = 1
    LONGEST_PAUSE_MS = 20
    LONGEST_AHEAD_MS = 100
    COORDINATOR_LOAD_IN_PROGRESS = 14
    NOT_COORDINATOR = 16    # 15: COORDINATOR_NOT_AVAILABLE


cdef void transaction_hold(IoThread* io, Event* question) noexcept nogil:
    event_free(io.question)
    io.question = question
    io.question_number += 1
    io.transaction_is_held = question != NULL
    io.is_asked_ahead = False
    io.question_is_out = False
    io.question_count = 0
    io.question_due_ns = 0


cdef void transaction_ask_behind(IoThread* io, Event* question) noexcept nogil:
    event_free(io.next_question)
    io.next_question = question


cdef void transaction_answered(
    IoThread* io, int64_t token, const uint8_t* data, size_t size
) noexcept nogil:
    cdef Event* question = io.next_question
    if question == NULL or question.token != token:
        return
    io.next_question = NULL
    if not has_ended_so(data, <int64_t>size):
        # It is sent again, perhaps to another coordinator, and this one would refuse to tell.
        event_free(question)
        return
    transaction_hold(io, question)
    io.is_asked_ahead = True
    io.ahead_until_ns = io.now_ns + LONGEST_AHEAD_MS * MS


cdef void transaction_hold_next(IoThread* io, Event* event) noexcept nogil:
    if event.is_held and io.is_asked_ahead:
        io.is_asked_ahead = False       # what is known by now holds it, or not
    elif event.is_held:
        transaction_hold(io, event)
        return
    else:
        transaction_hold(io, NULL)
    event_free(event)


cdef void _release(IoThread* io) noexcept nogil:
    io.transaction_is_held = False
    if not io.is_asked_ahead:
        touch_all(io)


cdef void _ask_later(IoThread* io) noexcept nogil:
    """The pauses double; shorter first ones end nothing sooner, and ask more often."""
    cdef int64_t pause_ms = FIRST_PAUSE_MS
    cdef int32_t _turn
    io.question_count += 1
    if io.question_count <= AT_ONCE:
        io.question_due_ns = 0
        return
    for _turn in range(AT_ONCE + 1, io.question_count):
        pause_ms = min(2 * pause_ms, <int64_t>LONGEST_PAUSE_MS)
        if pause_ms == LONGEST_PAUSE_MS:
            break
    io.question_due_ns = io.now_ns + pause_ms * MS


cdef bint _send(IoThread* io, Node* node, Event* question) noexcept nogil:
    """False: no memory."""
    cdef Request* request = request_take(io)
    cdef size_t size = <size_t>(question.data_bytes - question.release_bytes)
    if (request == NULL or not request_reserve_iov(request, 1)
            or not request_reserve_scratch(request, size)):
        request_free(request)
        return False
    memcpy(request.scratch, question.data, size)
    request.kind = REQUEST_QUESTION
    request.token = io.question_number
    request.expects_response = True
    request.iov[0].iov_base = request.scratch
    request.iov[0].iov_len = size
    request.iov_count = 1
    request.wire_bytes = <int64_t>size
    request.correlation_id = node.next_correlation
    node.next_correlation = next_correlation_id(node.next_correlation)
    fp_put_u32(request.scratch + CORRELATION_AT, <unsigned int>request.correlation_id)
    node_send(io, node, request)
    return True


cdef void ask_if_ended(IoThread* io) noexcept nogil:
    cdef Node* node
    if not io.transaction_is_held or io.question_is_out:
        return
    if io.is_asked_ahead and io.now_ns >= io.ahead_until_ns:
        _release(io)    # no transaction has followed
        return
    if io.question_due_ns > io.now_ns:
        io.wake_ns = min(io.wake_ns, io.question_due_ns)
        return
    node = node_in_slot(io, io.question.slot)
    if node == NULL or node.channel == NULL or node.state != NODE_READY:
        _release(io)    # the brokers decide
        return
    if (node.is_held or node.successor != NULL or node.throttled_until_ns > io.now_ns
            or channel_is_sending(node.channel)
            or not in_flight_can_send(&node.flights, io.max_in_flight + 1)):
        io.question_due_ns = io.now_ns + MS
        io.wake_ns = min(io.wake_ns, io.question_due_ns)
    elif _send(io, node, io.question):
        io.question_is_out = True
    else:
        _release(io)


cdef bint _begins_so(
    const uint8_t* data, size_t size, Event* question, size_t count
) noexcept nogil:
    """Are the answer's states what the question names, for `count` bytes?"""
    cdef const uint8_t* expected = question.data + (question.data_bytes - question.release_bytes)
    return size >= STATES_AT + count and memcmp(data + STATES_AT, expected, count) == 0


cdef bint _has_moved(const uint8_t* data, size_t size) noexcept nogil:
    """Is it not the coordinator just now? The next end is told by the one that is."""
    cdef int32_t code
    if size < STATES_AT + 3:
        return False
    code = data[STATES_AT + 1] << 8 | data[STATES_AT + 2]       # behind how many there are, one
    return COORDINATOR_LOAD_IN_PROGRESS <= code <= NOT_COORDINATOR


cdef FpStatus _answered(
    IoThread* io, Node* node, Request* request, const uint8_t* data, size_t size
) noexcept nogil:
    cdef Event* question = io.question
    cdef bint is_known = (
        question != NULL and _begins_so(data, size, question, question.address_bytes))
    if is_known:        # of what makes no sense the throttle time makes none
        node_throttle(
            node, io.now_ns + <int64_t>(fp_get_u32(data + THROTTLE_AT) & 0x7FFFFFFF) * MS)
    if not io.transaction_is_held or request.token != io.question_number:
        return FP_OK        # of a transaction that has been given up
    io.question_is_out = False
    if _begins_so(data, size, question, question.release_bytes):
        _ask_later(io)
        return FP_OK
    if not is_known and not _has_moved(data, size):
        tell(io, ON_QUESTION_REFUSED, node.slot)
    _release(io)
    return FP_OK


cdef void _lost(
    IoThread* io, Node* node, Request* request, int32_t code, const char* why
) noexcept nogil:
    if io.transaction_is_held and request.token == io.question_number:
        io.question_is_out = False
        _release(io)


cdef RequestHandler question_handler() noexcept nogil:
    cdef RequestHandler handler
    handler.answered = _answered
    handler.lost = _lost
    handler.unanswered = NULL       # it asks for an answer
    return handler

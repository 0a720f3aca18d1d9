"""Keeps partitions with something to send in lists by node, and in a heap by due time."""
from libc.stdint cimport int32_t, int64_t

from fastprod._core.bytes.sync cimport (
    fp_fence, fp_load_i32_acq, fp_load_ptr, fp_mutex_lock, fp_mutex_unlock, fp_store_i32,
    fp_store_i32_rel, fp_store_ptr, fp_xchg_ptr,
)
from fastprod._core.engine.accumulator cimport (
    BETWEEN_TRANSACTIONS, CLOSED, Partition, PartitionList, batch_is_full,
)
from fastprod._core.engine.control_queue cimport Event, ON_PRODUCER_ID_WANTED, event_new, event_push
from fastprod._core.engine.load_table cimport mark_busy
from fastprod._core.engine.sender_state cimport FillingHabit, IoThread, Node
from fastprod._core.engine.sequences cimport (
    sequence_allows, sequence_settle, transaction_join,
)
from fastprod._core.engine.timer_heap cimport (
    NEVER, Timer, timer_clear, timer_pop_due, timer_set,
)
from fastprod._core.records.record_batch cimport ProducerBatch
cdef enum:
    # With acks=0 nothing tells that a request has arrived: for so long it counts as in flight.
    UNANSWERED_NS = 1000000
    # Adaptive linger: about what a batch costs client and broker, whatever is in it. Where that
    # many partitions have one, they may gather for so long each, so that it stays little a record.
    GATHER_NS = 10000
    LONGEST_GATHER_NS = 100000000
    # Adaptive linger: a batch of so many records or more that got so many bytes for each
    # microsecond of its life is soon full.
    FEWEST_FILLING = 16
    FILLING_PACE = 256
    LONGEST_FILLING_NS = 2000000
    MOST_MISSED = 10            # in a row: 2 ** 10 batches are not waited for then


cdef void wake_by(IoThread* io, int64_t due_ns) noexcept nogil:
    if due_ns < io.wake_ns:
        io.wake_ns = due_ns


cdef Node* node_at(IoThread* io, int slot) noexcept nogil:
    return &io.limbo if slot == io.node_count else io.nodes[slot]


cdef Node* node_of(IoThread* io, Partition* p) noexcept nogil:
    return _home(io, p.home_slot)


cdef Node* _home(IoThread* io, int32_t slot) noexcept nogil:
    if 0 <= slot < io.node_count and io.nodes[slot] != NULL:
        return io.nodes[slot]
    return &io.limbo


# What changed.

cdef void touch(IoThread* io, Partition* p) noexcept nogil:
    if not p.is_touched:
        p.is_touched = True
        p.next_touched = io.touched
        io.touched = p


cdef void take_announced(IoThread* io) noexcept nogil:
    cdef Partition* p
    cdef Partition* following
    if fp_load_ptr(&io.accumulator.announced) == NULL:
        return
    p = <Partition*>fp_xchg_ptr(&io.accumulator.announced, NULL)
    while p != NULL:
        following = p.next_announced
        fp_store_i32(&p.is_announced, 0)    # from here on it may be announced again
        touch(io, p)
        p = following
    fp_fence()


cdef void _touch_list(IoThread* io, PartitionList* parts) noexcept nogil:
    cdef Partition* p = parts.first
    while p != NULL:
        touch(io, p)
        p = p.place_next


cdef void touch_all(IoThread* io) noexcept nogil:
    cdef int32_t slot
    cdef Node* node
    for slot in range(io.node_count + 1):
        node = node_at(io, slot)
        if node != NULL:
            _touch_list(io, &node.due)
            _touch_list(io, &node.lingering)
            _touch_list(io, &node.held)
            _touch_list(io, &node.resting)


cdef void touch_overdue(IoThread* io) noexcept nogil:
    cdef Timer* timer = timer_pop_due(&io.waits, io.now_ns)
    while timer != NULL:
        touch(io, <Partition*>timer.owner)
        timer = timer_pop_due(&io.waits, io.now_ns)


# The lists.

cdef void _leave(Partition* p) noexcept nogil:
    cdef PartitionList* place = p.place
    if p.place_prev == NULL:
        place.first = p.place_next
    else:
        p.place_prev.place_next = p.place_next
    if p.place_next == NULL:
        place.last = p.place_prev
    else:
        p.place_next.place_prev = p.place_prev
    place.count -= 1
    p.place = NULL


cdef void _enter(Partition* p, PartitionList* place) noexcept nogil:
    p.place = place
    p.place_next = NULL
    p.place_prev = place.last
    if place.last == NULL:
        place.first = p
    else:
        place.last.place_next = p
    place.last = p
    place.count += 1


cdef void rotate(Partition* p) noexcept nogil:
    cdef PartitionList* place = p.place
    _leave(p)
    _enter(p, place)


cdef Node* _move_home(IoThread* io, Partition* p) noexcept nogil:
    """Under its present leader, among those that have something; where there is just now."""
    cdef int32_t slot = fp_load_i32_acq(&p.leader_slot)
    cdef Node* node = _home(io, slot)
    if p.place != NULL:
        if p.home_slot == node.slot:
            return node
        _home(io, p.home_slot).active_count -= 1
        _leave(p)
    else:
        io.listed_count += 1
    p.home_slot = node.slot
    node.active_count += 1
    _enter(p, &node.resting)
    return node


cdef void _drop(IoThread* io, Partition* p) noexcept nogil:
    """Nothing queued, nothing in flight: the next batch announces it again."""
    timer_clear(&io.expiries, &p.expiry)
    if p.place != NULL:
        _home(io, p.home_slot).active_count -= 1
        io.listed_count -= 1
        _leave(p)


cdef bint _is_idle(Partition* p) noexcept nogil:
    return p.flight_first == NULL and p.outstanding == 0 and not p.needs_bump


# A look.

cdef bint _leader_changed(ProducerBatch* batch, int32_t epoch) noexcept nogil:
    """P-D.6.3: did a newer leader appear for the retry that is due?"""
    if epoch > batch.leader_epoch:
        batch.leader_epoch = epoch
        batch.attempts_at_change = batch.attempts
    return batch.attempts >= 1 and batch.attempts_at_change == batch.attempts


cdef inline int64_t _gather_ns(IoThread* io, int64_t partitions) noexcept nogil:
    return min(partitions * GATHER_NS, min(<int64_t>LONGEST_GATHER_NS, io.delivery_timeout_ns // 4))


cdef inline int64_t _linger_ns(IoThread* io) noexcept nogil:
    return max(io.linger_ns, _gather_ns(io, io.listed_count)) if io.adaptive else io.linger_ns


cdef HeadState head_state(IoThread* io, Partition* p, int64_t* due_ns) noexcept nogil:
    """P-D.5.2, P-D.7.2, P-D.7.4, but for what concerns the whole node (node_is_ready)."""
    cdef ProducerBatch* head = p.head
    due_ns[0] = NEVER
    if head == NULL:
        return HEAD_NONE
    if p.muted or not sequence_allows(io, p, head):
        return HEAD_HELD
    if not _leader_changed(head, p.leader_epoch) and head.attempts > 0:
        due_ns[0] = head.last_attempt_ns + head.backoff_ns
        if io.now_ns < due_ns[0]:
            return HEAD_HELD
    if (head.is_retry or p.queue_count > 1 or fp_load_i32_acq(&head.result.urgent)
            or batch_is_full(io.accumulator, head)):
        return HEAD_DUE
    due_ns[0] = head.last_attempt_ns + _linger_ns(io)
    return HEAD_DUE if io.now_ns >= due_ns[0] else HEAD_ALONG


cdef PartitionList* _list_for(Node* node, HeadState state) noexcept nogil:
    if state == HEAD_DUE:
        return &node.due
    if state == HEAD_ALONG:
        return &node.lingering
    return &node.held if state == HEAD_HELD else &node.resting


cdef void _look(IoThread* io, Partition* p) noexcept nogil:
    cdef HeadState state = HEAD_NONE
    cdef int64_t due_ns = NEVER, expiry_ns = NEVER
    cdef Node* node
    cdef PartitionList* place
    io.counters.looks += 1
    if p.has_unresolved or p.needs_bump:
        sequence_settle(io, p)
    if io.is_transactional and fp_load_i32_acq(&p.queue_count) > 0:
        transaction_join(io, p)
    if fp_load_i32_acq(&p.queue_count) > 0:     # one that it gets now is announced
        fp_mutex_lock(&p.lock)
        state = head_state(io, p, &due_ns)
        if state != HEAD_NONE:
            expiry_ns = p.head.created_ns + io.delivery_timeout_ns
        fp_mutex_unlock(&p.lock)
    if state == HEAD_NONE and _is_idle(p):
        timer_clear(&io.waits, &p.wait)
        _drop(io, p)
        return
    node = _move_home(io, p)
    place = _list_for(node, state)
    if p.place != place:
        _leave(p)
        _enter(p, place)
    if due_ns > io.now_ns and due_ns != NEVER and node != &io.limbo:
        timer_set(&io.waits, &p.wait, due_ns)
    else:
        timer_clear(&io.waits, &p.wait)
    if state != HEAD_NONE:
        if not p.expiry.is_set or expiry_ns < p.expiry.due_ns:
            timer_set(&io.expiries, &p.expiry, expiry_ns)
        mark_busy(io, p.topic)


cdef void look_at_touched(IoThread* io) noexcept nogil:
    cdef Partition* p
    while io.touched != NULL:
        p = io.touched
        io.touched = p.next_touched
        p.is_touched = False
        _look(io, p)


# Nodes.

cdef bint is_pressed(IoThread* io) noexcept nogil:
    """Every linger is off: somebody flushes, or a transaction or all ends."""
    cdef int32_t closed = fp_load_i32_acq(&io.accumulator.closed)
    return (
        fp_load_i32_acq(&io.accumulator.flushing) > 0
        or closed == CLOSED or closed == BETWEEN_TRANSACTIONS
    )


cdef bint _is_quiet(IoThread* io, Node* node) noexcept nogil:
    """Adaptive linger: nothing is in flight to it, so that there is nothing to wait for.

    Notes when something was: what had begun by then has gathered behind it.
    """
    cdef int64_t over_ns
    if node.flights.produce_count > 0:
        node.gathered_ns = io.now_ns
        return False
    if io.header.acks != 0:
        return True
    over_ns = node.last_drain_ns + UNANSWERED_NS
    if io.now_ns < over_ns:
        wake_by(io, over_ns)
        return False
    return True


cdef bint _lacks_producer_id(IoThread* io) noexcept nogil:
    cdef Event* event
    if not io.idempotent or io.producer_id >= 0:
        return False
    if not io.asked_producer_id:
        event = event_new(ON_PRODUCER_ID_WANTED, -1, NULL, 0)
        io.asked_producer_id = event != NULL    # else the next turn asks
        event_push(&io.events, event)
    return True


cdef bint _has_gathered(IoThread* io, Node* node) noexcept nogil:
    """Adaptive linger: the last request left long enough ago for as many batches as linger now."""
    cdef int64_t over_ns = node.last_drain_ns + _gather_ns(io, node.lingering.count)
    if io.now_ns >= over_ns:
        return True
    wake_by(io, over_ns)
    return False


cdef void _fell_behind(FillingHabit* habit) noexcept nogil:
    """The batch that was waited for was not full in time: leave the next ones alone."""
    habit.awaited = 0
    habit.missed = min(habit.missed + 1, MOST_MISSED)
    habit.skips = 1 << habit.missed


cdef bint _is_awaited(FillingHabit* habit, int64_t batch) noexcept nogil:
    """Whether to wait for a batch, named by its `created_ns`, that fills fast enough."""
    if habit.awaited == batch:
        return True
    if habit.awaited != 0:
        habit.missed = 0        # that one was full, or left for another reason
        habit.awaited = 0
    if habit.skips > 0 or habit.left_alone == batch:
        if habit.left_alone != batch:   # it may be looked at more than once
            habit.skips -= 1
            habit.left_alone = batch
        return False
    habit.awaited = batch
    return True


cdef bint _is_filling(IoThread* io, Node* node) noexcept nogil:
    """Adaptive linger: the one batch that gathered behind a request fills so fast that a part of it
    is not worth the next. Where none gets full, as when all who send wait for it, none is waited
    for but now and then one.
    """
    cdef Partition* p = node.lingering.first
    cdef int64_t batch = 0, over_ns = 0
    if node.lingering.count != 1 or not io.selector.loop.poller.is_exact:
        return False
    fp_mutex_lock(&p.lock)
    if (p.head != NULL and p.head.count >= FEWEST_FILLING
            and p.head.created_ns <= node.gathered_ns):
        batch = p.head.created_ns
        over_ns = batch + min(
            <int64_t>p.head.record_bytes * 1000 // FILLING_PACE, <int64_t>LONGEST_FILLING_NS)
    fp_mutex_unlock(&p.lock)
    if io.now_ns >= over_ns:
        if batch != 0 and node.filling.awaited == batch:
            _fell_behind(&node.filling)
        return False
    if not _is_awaited(&node.filling, batch):
        return False
    wake_by(io, over_ns)
    io.is_filling = True
    return True


cdef bint node_takes_along(IoThread* io, Node* node) noexcept nogil:
    return not io.adaptive or is_pressed(io) or _has_gathered(io, node)


cdef bint _ends_lingers(IoThread* io, Node* node) noexcept nogil:
    cdef bint is_short = fp_load_i32_acq(&io.accumulator.pool.waiting) > 0
    if is_pressed(io):
        return True
    if not io.adaptive:
        return is_short
    # What is in flight gives its memory back soon. If what lingers went as well, each partition's
    # next batch would go with the first record that finds memory.
    return _is_quiet(io, node) and (
        is_short or (_has_gathered(io, node) and not _is_filling(io, node)))


cdef bint node_is_ready(IoThread* io, Node* node) noexcept nogil:
    if node.active_count == 0 or _lacks_producer_id(io):
        return False
    if node.due.first != NULL:
        return True
    return node.lingering.first != NULL and _ends_lingers(io, node)


cdef bint node_has_queued(Node* node) noexcept nogil:
    return (
        node.due.first != NULL or node.lingering.first != NULL or node.held.first != NULL
    )


cdef ProducerBatch* queue_pop(Partition* p) noexcept nogil:
    cdef ProducerBatch* head = p.head
    head.is_closed = True
    p.head = head.next
    if p.head == NULL:
        p.tail = NULL
    head.next = NULL
    fp_store_ptr(&head.result.batch, NULL)      # from here on it is too late to take records back
    fp_store_i32_rel(&p.queue_count, p.queue_count - 1)
    return head

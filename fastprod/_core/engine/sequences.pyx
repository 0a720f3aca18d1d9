"""Numbers batches for an idempotent producer, and starts new epochs; which partitions are part of
the open transaction.

An epoch bump never rewrites a batch whose request is under way: the partition stands still until
nothing is outstanding, then all its in-flight batches get the new epoch and sequences from 0. So a
late success completes its batch normally and nothing has to be guessed (P-F.5.9, P-F.5.12).

A transaction's epoch is the coordinator's to change. Where an idempotent producer would bump it,
the batch fails, and with it the transaction: the next one has a new epoch and starts clean.
"""
from libc.stdint cimport int32_t, int64_t

from fastprod._core.bytes.kafka_errors cimport (
    OUT_OF_ORDER_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID,
)
from fastprod._core.bytes.sync cimport fp_load_i32
from fastprod._core.delivery.result cimport ERR_DEADLINE
from fastprod._core.engine.accumulator cimport Partition
from fastprod._core.engine.control_queue cimport (
    Event, ON_PARTITION_JOINED, ON_PRODUCER_ID_WANTED, ON_TRANSACTION_DRAINED, event_free,
    event_new, event_push,
)
from fastprod._core.engine.sender_state cimport IoThread
from fastprod._core.records.record_batch cimport ProducerBatch

cdef enum:
    MAX_SEQUENCE = 2147483647
    MAX_EPOCH = 32767
    REMEMBERED_BATCHES = 5      # by a broker, of each producer and partition (P-F.5.3)
    NO_MEMORY_PAUSE_NS = 10000000


cdef int32_t next_sequence(int32_t sequence, int32_t count) noexcept nogil:
    if sequence > MAX_SEQUENCE - count:
        return count - (MAX_SEQUENCE - sequence) - 1
    return sequence + count


cdef void flight_append(Partition* p, ProducerBatch* batch) noexcept nogil:
    flight_insert_before(p, batch, NULL)


cdef void flight_insert_before(
    Partition* p, ProducerBatch* batch, ProducerBatch* before
) noexcept nogil:
    """Insert in front of `before`; NULL: at the end."""
    cdef ProducerBatch* after = p.flight_last if before == NULL else before.flight_prev
    batch.flight_prev = after
    batch.flight_next = before
    if after == NULL:
        p.flight_first = batch
    else:
        after.flight_next = batch
    if before == NULL:
        p.flight_last = batch
    else:
        before.flight_prev = batch
    p.flight_count += 1


cdef void flight_remove(Partition* p, ProducerBatch* batch) noexcept nogil:
    if batch.flight_prev != NULL:
        batch.flight_prev.flight_next = batch.flight_next
    elif p.flight_first == batch:
        p.flight_first = batch.flight_next
    else:
        return      # not on the list
    if batch.flight_next != NULL:
        batch.flight_next.flight_prev = batch.flight_prev
    else:
        p.flight_last = batch.flight_prev
    batch.flight_prev = NULL
    batch.flight_next = NULL
    p.flight_count -= 1


cdef bint flight_is_after(ProducerBatch* batch, ProducerBatch* other) noexcept nogil:
    """Does `batch` come after `other` in sequence order? Both are on one partition's list."""
    cdef ProducerBatch* at = other.flight_next
    while at != NULL:
        if at == batch:
            return True
        at = at.flight_next
    return False


cdef bint sequence_allows(IoThread* io, Partition* p, ProducerBatch* head) noexcept nogil:
    if not io.idempotent:
        return True
    if io.producer_id < 0:
        return False
    if io.is_transactional and (
        io.transaction_is_held or not (p.is_added and p.transaction == io.transaction)
    ):
        return False
    if p.needs_bump:
        # Sent again in a new epoch what was written would be there twice: first it goes as it was.
        return p.flight_first == head and head.is_uncertain
    if head.has_sequence:
        return p.flight_first == head
    if p.has_unresolved:
        return False
    # 1. The oldest batch without an answer is under way to a leader that hangs or has gone.
    # 2. The new leader has it, and takes later ones; their answers make room for more.
    # 3. The oldest one is sent again: among the last five it is a duplicate, further back it is out
    #    of sequence for ever.
    if p.flight_first != NULL and p.next_number - p.flight_first.number >= REMEMBERED_BATCHES:
        return False
    # 1. Of two first batches under way, the leader refuses the first (not ready, not leader yet).
    # 2. It takes the second: with no sequence of ours in its log, it takes any.
    # 3. The order is wrong, and the first is out of sequence for ever. So the first goes alone.
    if p.flight_first != NULL and (
        p.last_acked_sequence < 0
        or p.producer_id != io.producer_id or p.producer_epoch != io.producer_epoch
    ):
        return False
    return True


cdef void sequence_assign(IoThread* io, Partition* p, ProducerBatch* batch) noexcept nogil:
    if not io.idempotent or batch.has_sequence:
        return
    if p.producer_id != io.producer_id or p.producer_epoch != io.producer_epoch:
        p.producer_id = io.producer_id
        p.producer_epoch = io.producer_epoch
        p.next_sequence = 0
        p.last_acked_sequence = -1
        p.last_acked_offset = -1
    batch.producer_id = p.producer_id
    batch.producer_epoch = p.producer_epoch
    batch.base_sequence = p.next_sequence
    batch.has_sequence = True
    batch.number = p.next_number
    p.next_number += 1
    batch.result.base_sequence = batch.base_sequence
    p.next_sequence = next_sequence(p.next_sequence, <int32_t>batch.count)


cdef bint _is_newer(int64_t sequence, int64_t other) noexcept nogil:
    """By the shorter way around the wrap: a wrapped sequence is newer, though smaller
    (P-F.5.11).
    """
    cdef int64_t distance = sequence - other
    if distance < 0:
        distance += <int64_t>MAX_SEQUENCE + 1
    return 0 < distance <= MAX_SEQUENCE // 2


cdef void sequence_acked(Partition* p, ProducerBatch* batch, int64_t base_offset) noexcept nogil:
    cdef int64_t last
    if not batch.has_sequence or batch.producer_epoch != p.producer_epoch:
        return
    last = next_sequence(batch.base_sequence, <int32_t>batch.count - 1)
    if p.last_acked_sequence < 0 or _is_newer(last, p.last_acked_sequence):
        p.last_acked_sequence = last
    if base_offset >= 0 and base_offset + batch.count - 1 > p.last_acked_offset:
        p.last_acked_offset = base_offset + batch.count - 1


cdef void sequence_unresolved(Partition* p) noexcept nogil:
    p.has_unresolved = True


cdef bint _is_acked_up_to(Partition* p, int32_t sequence) noexcept nogil:
    """Is `sequence` the one that follows the last acknowledged?"""
    if p.last_acked_sequence < 0:
        return sequence == 0
    return sequence == next_sequence(<int32_t>p.last_acked_sequence, 1)


cdef void sequence_settle(IoThread* io, Partition* p) noexcept nogil:
    if p.outstanding > 0:
        return
    if p.has_unresolved and p.flight_first == NULL and not io.is_transactional:
        p.has_unresolved = False
        if not _is_acked_up_to(p, p.next_sequence):
            p.needs_bump = True
    if not p.needs_bump or (p.flight_first != NULL and p.flight_first.is_uncertain):
        return      # those behind it cannot have been written before it
    if io.producer_id >= 0:
        p.needs_bump = False
        _bump(io, p)
    elif p.flight_first == NULL:
        p.needs_bump = False    # nothing to rewrite when the new id comes (P-F.5.9)


cdef void _bump(IoThread* io, Partition* p) noexcept nogil:
    """P-F.5.9: a new epoch, by ourselves; past the last epoch, a new producer id."""
    cdef Event* event
    if io.is_transactional:
        _restart(io, p)     # what was written has aged out (P-F.5.5)
        return
    io.counters.epoch_bumps += 1
    if io.producer_epoch >= MAX_EPOCH:
        io.producer_id = -1
        io.producer_epoch = -1
        if not io.asked_producer_id:
            event = event_new(ON_PRODUCER_ID_WANTED, -1, NULL, 0)
            io.asked_producer_id = event != NULL    # else the next turn with records asks
            event_push(&io.events, event)
        p.needs_bump = p.flight_first != NULL   # once the new id is there
        p.producer_id = -1
        return
    # Another partition may have bumped already since this one took its epoch.
    if p.producer_id == io.producer_id and p.producer_epoch == io.producer_epoch:
        io.producer_epoch += 1
    _restart(io, p)


cdef void _restart(IoThread* io, Partition* p) noexcept nogil:
    """The in-flight batches, none of them on the wire, restart at sequence 0."""
    cdef ProducerBatch* batch = p.flight_first
    p.producer_id = io.producer_id
    p.producer_epoch = io.producer_epoch
    p.next_sequence = 0
    p.last_acked_sequence = -1
    p.last_acked_offset = -1
    p.has_unresolved = False
    while batch != NULL:
        batch.producer_id = p.producer_id
        batch.producer_epoch = p.producer_epoch
        batch.base_sequence = p.next_sequence
        batch.result.base_sequence = batch.base_sequence
        batch.sequence_reset = True
        p.next_sequence = next_sequence(p.next_sequence, <int32_t>batch.count)
        batch = batch.flight_next


cdef void sequence_failed(IoThread* io, Partition* p, ProducerBatch* batch) noexcept nogil:
    """Its sequence numbers will never arrive: the partition starts over under a new epoch."""
    if io.is_transactional:
        p.has_unresolved = True     # those behind it fail, too, and the next transaction's is new
    elif io.idempotent and batch.has_sequence:
        p.needs_bump = True


cdef bint sequence_can_retry(
    IoThread* io, Partition* p, ProducerBatch* batch, int32_t code, int64_t log_start_offset
) noexcept nogil:
    if not io.idempotent or not batch.has_sequence:
        return False
    if code == UNKNOWN_PRODUCER_ID:
        if log_start_offset != -1 and not batch.sequence_reset:
            if io.is_transactional and p.last_acked_offset >= log_start_offset:
                return False
            p.needs_bump = True
        return True
    if code == OUT_OF_ORDER_SEQUENCE_NUMBER:
        if batch.producer_epoch != p.producer_epoch:
            return True
        # An earlier batch is still to be retried: this one comes after it and will fit then.
        if not p.has_unresolved and (
            batch.sequence_reset or not _is_acked_up_to(p, batch.base_sequence)
        ):
            return True
        if io.is_transactional:
            return False
        p.needs_bump = True
        return True
    return False


# Transactions.

cdef void transaction_begin(IoThread* io, bint adds_implicitly) noexcept nogil:
    io.transaction += 1
    io.adds_implicitly = adds_implicitly
    io.sent_count = 0
    io.transaction_code = 0
    transaction_end(io, 0)
    io.in_transaction = True


cdef void transaction_end(IoThread* io, int64_t token) noexcept nogil:
    io.in_transaction = False
    io.ending = token
    event_free(io.end_request)      # of an end that nobody waits for any more
    io.end_request = NULL


cdef void transaction_join(IoThread* io, Partition* p) noexcept nogil:
    if p.transaction == io.transaction or not io.in_transaction:
        return
    p.transaction = io.transaction
    p.is_added = io.adds_implicitly
    if p.producer_id != io.producer_id or p.producer_epoch != io.producer_epoch:
        p.has_unresolved = False    # of an epoch that is over
        p.needs_bump = False
    if not p.is_added:
        p.next_joining = io.joining
        io.joining = p


cdef void transaction_sent(IoThread* io, Partition* p) noexcept nogil:
    if p.sent_transaction != io.transaction:
        p.sent_transaction = io.transaction
        io.sent_count += 1


cdef Event* transaction_tell(IoThread* io) noexcept nogil:
    cdef Event* event
    cdef Event* request
    cdef Partition* p
    while io.joining != NULL:
        event = event_new(ON_PARTITION_JOINED, -1, NULL, 0)
        if event == NULL:
            break
        p = io.joining
        io.joining = p.next_joining
        event.topic = p.topic
        event.partition = p.index
        event_push(&io.events, event)
    if io.joining == NULL and io.ending != 0 and io.listed_count == 0:
        if io.transaction_code == 0 and fp_load_i32(&io.accumulator.incomplete.has_missed):
            io.transaction_code = ERR_DEADLINE
        request = io.end_request
        if request != NULL and io.transaction_code == 0 and io.sent_count > 0:
            io.end_request = NULL
            io.ending = 0
            return request
        event = event_new(ON_TRANSACTION_DRAINED, -1, NULL, 0)
        if event != NULL:
            event.token = io.ending
            event.item_count = io.sent_count
            event.code = io.transaction_code
            io.ending = 0
            event_push(&io.events, event)
    if io.joining != NULL or (io.ending != 0 and io.listed_count == 0):     # no memory: soon again
        io.wake_ns = min(io.wake_ns, io.now_ns + NO_MEMORY_PAUSE_NS)
    return NULL

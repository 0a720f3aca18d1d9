"""Bodies of the idempotent producer's bookkeeping; the contract is in producer_state.pxd.

An epoch bump never rewrites a batch whose request is under way: the partition stands still until
nothing is outstanding, then all its in-flight batches get the new epoch and sequences from 0. So a
late success completes its batch normally and nothing has to be guessed (F.5.9, F.5.12).
"""
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc
from libc.string cimport memset

cimport cython

from fastprod._core.accumulator cimport Partition
from fastprod._core.delivery cimport Result
from fastprod._core.event_queue cimport (
    Event, ON_PRODUCER_ID_WANTED, event_new, event_push, event_queue_destroy, event_queue_init,
)
from fastprod._core.io_thread cimport IoThread
from fastprod._core.record_batch cimport ProducerBatch, batch_free, batch_new

cdef enum:
    MAX_SEQUENCE = 2147483647
    MAX_EPOCH = 32767
    REMEMBERED_BATCHES = 5      # by a broker, of each producer and partition (F.5.3)
    UNKNOWN_PRODUCER_ID = 59
    OUT_OF_ORDER_SEQUENCE = 45


cdef int32_t next_sequence(int32_t sequence, int32_t count) noexcept nogil:
    if sequence > MAX_SEQUENCE - count:
        return count - (MAX_SEQUENCE - sequence) - 1
    return sequence + count


cdef int32_t previous_sequence(int32_t sequence, int32_t count) noexcept nogil:
    if sequence < count:
        return MAX_SEQUENCE - (count - sequence) + 1
    return sequence - count


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
    """By the shorter way around the wrap: a wrapped sequence is newer, though smaller (F.5.11)."""
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
    if p.has_unresolved and p.flight_first == NULL:
        p.has_unresolved = False
        if not _is_acked_up_to(p, p.next_sequence):
            p.needs_bump = True
    if not p.needs_bump or (p.flight_first != NULL and p.flight_first.is_uncertain):
        return      # those behind it cannot have been written before it
    if io.producer_id >= 0:
        p.needs_bump = False
        _bump(io, p)
    elif p.flight_first == NULL:
        p.needs_bump = False    # nothing to rewrite when the new id comes (F.5.9)


cdef void _bump(IoThread* io, Partition* p) noexcept nogil:
    """F.5.9: a new epoch, by ourselves; past the last epoch, a new producer id."""
    cdef Event* event
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
    if io.idempotent and batch.has_sequence:
        p.needs_bump = True


cdef bint sequence_can_retry(
    IoThread* io, Partition* p, ProducerBatch* batch, int32_t code, int64_t log_start_offset
) noexcept nogil:
    if not io.idempotent or not batch.has_sequence:
        return False
    if code == UNKNOWN_PRODUCER_ID:
        if log_start_offset != -1 and not batch.sequence_reset:
            p.needs_bump = True
        return True
    if code == OUT_OF_ORDER_SEQUENCE:
        if batch.producer_epoch != p.producer_epoch:
            return True
        # An earlier batch is still to be retried: this one comes after it and will fit then.
        if not p.has_unresolved and (
            batch.sequence_reset or not _is_acked_up_to(p, batch.base_sequence)
        ):
            return True
        p.needs_bump = True
        return True
    return False


def next_sequence_for_test(int sequence, int count):
    return next_sequence(sequence, count)


def previous_sequence_for_test(int sequence, int count):
    return previous_sequence(sequence, count)


@cython.no_gc_clear
cdef class ProducerStateForTest:
    """See the .pyi."""

    cdef IoThread io
    cdef Partition partition
    cdef dict batches

    def __cinit__(self, producer_id=4000, producer_epoch=0, next_sequence=0):
        memset(&self.io, 0, sizeof(IoThread))
        memset(&self.partition, 0, sizeof(Partition))
        self.batches = {}
        event_queue_init(&self.io.events)
        self.io.idempotent = True
        self.io.producer_id = producer_id
        self.io.producer_epoch = producer_epoch
        self.partition.producer_id = producer_id
        self.partition.producer_epoch = producer_epoch
        self.partition.next_sequence = next_sequence
        self.partition.last_acked_sequence = next_sequence - 1
        self.partition.last_acked_offset = -1

    def __dealloc__(self):
        for at in self.batches.values():
            batch_free(<ProducerBatch*><size_t>at, NULL)
        event_queue_destroy(&self.io.events)

    cdef ProducerBatch* _at(self, int name) except NULL:
        return <ProducerBatch*><size_t>self.batches[name]

    def drain(self, int name, int count=1):
        cdef ProducerBatch* batch
        cdef Result* result
        if name not in self.batches:
            result = <Result*>calloc(1, sizeof(Result))
            result.refs = 1
            batch = batch_new(&self.partition, result, 0, 0)
            batch.count = count
            self.batches[name] = <size_t>batch
        batch = self._at(name)
        if not sequence_allows(&self.io, &self.partition, batch):
            return False
        if not batch.has_sequence:
            sequence_assign(&self.io, &self.partition, batch)
            flight_append(&self.partition, batch)
        self.partition.outstanding += 1
        return True

    def answered(self, int name):
        self.partition.outstanding -= 1
        sequence_settle(&self.io, &self.partition)

    def acked(self, int name, int64_t base_offset=-1):
        sequence_acked(&self.partition, self._at(name), base_offset)
        flight_remove(&self.partition, self._at(name))
        self.answered(name)

    def can_retry(self, int name, int code, int64_t log_start_offset=-1):
        return bool(sequence_can_retry(
            &self.io, &self.partition, self._at(name), code, log_start_offset))

    def failed(self, int name):
        sequence_failed(&self.io, &self.partition, self._at(name))
        flight_remove(&self.partition, self._at(name))
        self.answered(name)

    def expired(self, int name):
        sequence_unresolved(&self.partition)
        flight_remove(&self.partition, self._at(name))

    def settle(self):
        sequence_settle(&self.io, &self.partition)

    def set_producer_id(self, int64_t producer_id, int producer_epoch):
        self.io.producer_id = producer_id
        self.io.producer_epoch = producer_epoch
        self.io.asked_producer_id = False

    def sequence(self, int name):
        cdef ProducerBatch* batch = self._at(name)
        return batch.producer_id, batch.producer_epoch, batch.base_sequence

    def flights(self):
        cdef ProducerBatch* batch = self.partition.flight_first
        names = {at: name for name, at in self.batches.items()}
        found = []
        while batch != NULL:
            found.append(names[<size_t>batch])
            batch = batch.flight_next
        return found

    @property
    def state(self):
        return {
            "producer_id": self.io.producer_id,
            "producer_epoch": self.io.producer_epoch,
            "next_sequence": self.partition.next_sequence,
            "last_acked_sequence": self.partition.last_acked_sequence,
            "last_acked_offset": self.partition.last_acked_offset,
            "has_unresolved": bool(self.partition.has_unresolved),
            "needs_bump": bool(self.partition.needs_bump),
            "epoch_bumps": self.io.counters.epoch_bumps,
            "ids_asked_for": self.io.events.count,
        }

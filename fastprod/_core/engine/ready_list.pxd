"""Which partitions have a batch to send, and when (contract P-D.5, P-D.6, P-D.7.1).

A partition with something queued or in flight is on one list of its leader's node. It is looked at
when something has changed for it, not every turn: whoever changes it touches it.
"""
from libc.stdint cimport int64_t

from fastprod._core.engine.accumulator cimport Partition, PartitionList
from fastprod._core.engine.sender_state cimport IoThread, Node
from fastprod._core.records.record_batch cimport ProducerBatch

cdef enum HeadState:
    HEAD_NONE = 0       # the queue is empty
    HEAD_HELD = 1       # the first batch may not go now
    HEAD_ALONG = 2      # it may go if the node gets a request anyway
    HEAD_DUE = 3        # it is to go now

# Touch every partition that callers announced.
cdef void take_announced(IoThread* io) noexcept nogil
# Look at it soon: it got or lost a batch, an answer, its leader, its turn.
cdef void touch(IoThread* io, Partition* p) noexcept nogil
# All that have something, whoever leads them: what changed concerns each.
cdef void touch_all(IoThread* io) noexcept nogil
# Touch those whose linger or backoff is over.
cdef void touch_overdue(IoThread* io) noexcept nogil
# Put every partition that was touched where it belongs now.
cdef void look_at_touched(IoThread* io) noexcept nogil

# Every linger is off: somebody flushes, or a transaction or all ends.
cdef bint is_pressed(IoThread* io) noexcept nogil
# Is there a batch to send to `node` now? Lowers io.wake_ns to when there may be.
cdef bint node_is_ready(IoThread* io, Node* node) noexcept nogil
# May what lingers go with a request to `node`?
cdef bint node_takes_along(IoThread* io, Node* node) noexcept nogil
# Is anything queued for it?
cdef bint node_has_queued(Node* node) noexcept nogil
# Where the partition has its place, if it has one.
cdef Node* node_of(IoThread* io, Partition* p) noexcept nogil
# By slot; one past the last is limbo. NULL: not there.
cdef Node* node_at(IoThread* io, int slot) noexcept nogil
# To the end of its list: it had its turn.
cdef void rotate(Partition* p) noexcept nogil
# Under the partition's lock: what about the first batch? `due_ns`: when that changes by itself.
cdef HeadState head_state(IoThread* io, Partition* p, int64_t* due_ns) noexcept nogil
# Under the partition's lock: take the first batch out of the queue.
cdef ProducerBatch* queue_pop(Partition* p) noexcept nogil
cdef void wake_by(IoThread* io, int64_t due_ns) noexcept nogil

"""Awaits memory in the pool's line, among the threads that block there, first come first served."""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from fastprod._core.bytes.buffer_pool cimport (
    BufferPool, pool_cancel, pool_give, pool_queue_notified,
)
from fastprod._core.bytes.fp_status cimport (
    FP_BLOCKED, FP_CLOSED, FP_EXHAUSTED, FP_TOO_LARGE, FpStatus,
)
from fastprod._core.bytes.slab cimport Slab
from fastprod._core.bytes.sync cimport fp_add_i64, fp_now_ns
from fastprod._core.delivery.loop_future cimport LoopFuture
from fastprod._core.delivery.loop_queue cimport (
    LoopItem, loop_item_add, loop_item_free, loop_item_new, loop_item_remove, loop_queue_push,
)
from fastprod._core.delivery.loop_reader cimport running_reader
from fastprod._core.delivery.result cimport fork_epoch
from fastprod._core.engine.accumulator cimport accumulator_kick
from fastprod._core.engine.engine cimport Engine

from fastprod.errors import ProducerClosedError


cdef void _granted(void* item) noexcept nogil:
    loop_queue_push(<LoopItem*>item)


@cython.no_gc_clear     # `__dealloc__` needs the engine, and is no part of a cycle by it
cdef class MemoryTurn(LoopFuture):
    """A record's wait for memory, in an event loop; not for use by itself.

    ``await turn`` ends when the memory is there, when `expire` was called, or with
    ProducerClosedError. Cancelled or dropped, it leaves the line, and what it was given goes back.
    """

    def __dealloc__(self):
        # It does not stand in line: the line would hold a reference.
        if self.chain != NULL and self.epoch == fork_epoch():
            pool_give(&self.engine.accumulator.pool, self.chain)

    @property
    def is_expired(self):
        """Whether `expire` ended it."""
        return self.is_late

    def expire(self):
        """Leave the line: max_block_ms is over. Not if the memory is there already."""
        if self.is_in_line:
            self._leave(True)
            if self.is_late:
                self.tell()

    def give_back(self):
        """Give back what it was given and nobody has taken."""
        if self.epoch == fork_epoch():
            self._give_back()

    cdef bint is_over(self) except -1:
        if not self.is_in_line:
            return True
        if self.epoch != fork_epoch():
            raise ProducerClosedError(
                "a process was forked while send() awaited memory: what waits is the parent's; "
                "in the child send the record again")
        return False

    cdef int wake(self) except -1:
        if self.is_in_line and self.epoch == fork_epoch():
            self.item = NULL        # the loop's, which has taken `self` out of it
            self._leave(False)
        return LoopFuture.wake(self)

    cdef int forget(self) except -1:
        if self.is_in_line and self.epoch == fork_epoch():
            self.item = NULL        # the loop's
            self._leave(False)
            self._give_back()
        return LoopFuture.forget(self)

    cdef object outcome(self):
        if self.is_refused:
            return ProducerClosedError("Producer closed while allocating memory")
        return None

    cdef bint watch(self) except -1:
        return True                 # since it was made

    cdef int unwatch(self) except -1:
        if self.is_in_line:
            self._leave(False)
        self._give_back()
        return 0

    cdef int _give_back(self) except -1:
        cdef Slab* chain = self.chain
        self.chain = NULL
        if chain != NULL:
            pool_give(&self.engine.accumulator.pool, chain)
        return 0

    cdef int _leave(self, bint is_late) except -1:
        """Find out what the line has for us, and stand there no more."""
        cdef BufferPool* pool = &self.engine.accumulator.pool
        cdef FpStatus status = pool_cancel(pool, &self.waiter, is_late, &self.chain)
        fp_add_i64(&pool.wait_ns_total, fp_now_ns() - self.since_ns)
        self.is_in_line = False
        self.reader.in_line.discard(self)
        self.is_refused = status == FP_CLOSED
        self.is_late = is_late and status == FP_EXHAUSTED
        if status == FP_EXHAUSTED and self.item != NULL:
            self._free_item()
        self.item = NULL
        return 0

    cdef int _free_item(self) except -1:
        cdef LoopItem* item = self.item
        if loop_item_remove(item, 0, <PyObject*>self):
            Py_DECREF(self)
        loop_item_free(item)
        return 0

    cdef Slab* take(self) except? NULL:
        cdef Slab* chain = self.chain
        self.chain = NULL
        return chain


cdef MemoryTurn memory_turn(Engine engine, size_t need_bytes):
    cdef MemoryTurn turn = MemoryTurn.__new__(MemoryTurn)
    cdef BufferPool* pool = &engine.accumulator.pool
    cdef FpStatus status
    turn.reader = running_reader()
    turn._asyncio_future_blocking = False
    turn.engine = engine
    turn.epoch = fork_epoch()
    turn.since_ns = fp_now_ns()
    turn.item = loop_item_new(turn.reader.queue)
    if turn.item == NULL or loop_item_add(turn.item, <PyObject*>turn) < 0:
        if turn.item != NULL:
            loop_item_free(turn.item)
        raise MemoryError("no memory to await memory")
    Py_INCREF(turn)
    turn.is_in_line = True
    turn.is_watched = True
    status = pool_queue_notified(
        pool, &turn.waiter, need_bytes, _granted, turn.item, &turn.chain)
    accumulator_kick(&engine.accumulator)
    if status == FP_BLOCKED:
        turn.reader.in_line.add(turn)
        return turn
    turn.is_in_line = False
    turn.is_watched = False
    turn._free_item()
    turn.item = NULL
    turn.is_refused = status == FP_CLOSED
    if status == FP_TOO_LARGE:
        raise MemoryError(f"{need_bytes:,} bytes are more than buffer_memory")
    return turn

"""Awaits every record that was sent before."""
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from fastprod._core.bytes.sync cimport fp_add_i32
from fastprod._core.delivery.loop_future cimport LoopFuture
from fastprod._core.delivery.loop_queue cimport (
    loop_item_add, loop_item_free, loop_item_new, loop_item_remove,
)
from fastprod._core.delivery.loop_reader cimport running_reader
from fastprod._core.delivery.result cimport (
    fork_epoch, incomplete_await, incomplete_last_number, incomplete_record_count,
    incomplete_unawait,
)
from fastprod._core.engine.accumulator cimport accumulator_kick
from fastprod._core.engine.engine cimport Engine


cdef class FlushTurn(LoopFuture):
    """A flush in the running event loop; not for use by itself.

    ``await turn`` ends when every record sent before has its outcome and its callbacks have run, or
    when `expire` was called. Until then no record lingers.

    Args:
        engine: whose records.

    Raises:
        RuntimeError: no event loop runs in this thread.
    """

    def __cinit__(self, Engine engine):
        self.engine = engine
        self.epoch = fork_epoch()
        self.reader = running_reader()
        self._asyncio_future_blocking = False
        if engine.is_abandoned:
            return
        self.number = incomplete_last_number(&engine.accumulator.incomplete)
        self.item = loop_item_new(self.reader.queue)
        if self.item == NULL or loop_item_add(self.item, <PyObject*>self) < 0:
            if self.item != NULL:
                loop_item_free(self.item)
            raise MemoryError("no memory to await a flush")
        Py_INCREF(self)
        self.is_pending = True
        self.is_watched = True
        self.reader.in_line.add(self)
        fp_add_i32(&engine.accumulator.flushing, 1)
        accumulator_kick(&engine.accumulator)
        if not incomplete_await(&engine.accumulator.incomplete, self.number, self.item):
            self._free_item()
            self._end()

    @property
    def undelivered_count(self):
        """Records that are not done yet."""
        if self.epoch != fork_epoch():
            return 0
        return incomplete_record_count(&self.engine.accumulator.incomplete, self.number)

    def expire(self):
        """Wait no longer."""
        if self.is_pending:
            self.unwatch()
            self.tell()

    cdef bint is_over(self) except -1:
        return not self.is_pending or self.epoch != fork_epoch()

    cdef int wake(self) except -1:
        if self.is_pending:
            self._end()
        return LoopFuture.wake(self)

    cdef int forget(self) except -1:
        if self.is_pending:
            self._end()
        return LoopFuture.forget(self)

    cdef bint watch(self) except -1:
        return True     # since it was made

    cdef int unwatch(self) except -1:
        if not self.is_pending or self.epoch != fork_epoch():
            return 0
        if incomplete_unawait(&self.engine.accumulator.incomplete, self.item):
            self._free_item()
        return self._end()

    cdef int _free_item(self) except -1:
        if loop_item_remove(self.item, 0, <PyObject*>self):
            Py_DECREF(self)
        loop_item_free(self.item)
        return 0

    cdef int _end(self) except -1:
        self.item = NULL
        self.is_pending = False
        self.is_watched = False
        self.reader.in_line.discard(self)
        if self.epoch == fork_epoch():
            fp_add_i32(&self.engine.accumulator.flushing, -1)
        return 0

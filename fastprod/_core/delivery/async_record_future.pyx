"""Awaits the outcome of one record."""
cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint32_t

from fastprod._core.bytes.sync cimport fp_load_i32_acq
from fastprod._core.delivery.future cimport RecordFuture, set_await
from fastprod._core.delivery.loop_future cimport LoopFuture
from fastprod._core.delivery.loop_reader cimport LoopReader, running_reader
from fastprod._core.delivery.result cimport (
    NO_ROOM, RESULT_SPLIT, Result, result_await, result_resolve, result_unawait,
)


@cython.final
@cython.no_gc
cdef class AsyncRecordFuture(LoopFuture):
    """The delivery of one record, for an event loop; `AsyncProducer.send_nowait` returns it.

    ``await future`` returns the `RecordMetadata`, or raises the delivery error. It may be awaited
    more than once, and dropped: the record is sent all the same. Awaiting does not cut linger_ms
    short.

    Threads: that of the event loop in which it was made.  After `os.fork` it raises
    ForkedFutureError in the child.
    """

    def __init__(self):
        """Raise TypeError: `AsyncProducer.send_nowait` makes futures."""
        raise TypeError("an AsyncRecordFuture comes from AsyncProducer.send_nowait()")

    @property
    def record(self):
        """The `RecordFuture` of the same record, which any thread may ask. After `cancel` it tells
        whether the record was taken back, and if not, what became of it.  Never blocks."""
        return self.record_

    cdef bint is_over(self) except -1:
        self.record_._check_fork()
        return self.was_woken or self.record_.result_ == NULL or self.record_._is_done()

    cdef int wake(self) except -1:
        self.was_woken = self.is_batch
        return LoopFuture.wake(self)

    cdef object outcome(self):
        return None if self.is_batch else self.record_.outcome()

    cdef bint watch(self) except -1:
        cdef uint32_t index
        cdef Result* result
        cdef int64_t place
        if self.record_.result_ == NULL:
            return False
        while True:
            index = self.record_.index
            result = result_resolve(self.record_.result_, &index)
            Py_INCREF(self)
            place = result_await(result, self.reader.queue, <PyObject*>self)
            if place >= 0:
                self.place = <uint32_t>place
                return True
            Py_DECREF(self)
            if place == NO_ROOM:
                raise MemoryError("no memory to await a record")
            if fp_load_i32_acq(&result.state) != RESULT_SPLIT:
                return False

    cdef int unwatch(self) except -1:
        cdef uint32_t index = self.record_.index
        cdef Result* result
        if self.is_watched:
            result = result_resolve(self.record_.result_, &index)
            if result_unawait(result, self.reader.queue, self.place, <PyObject*>self):
                Py_DECREF(self)
        if not self.is_batch:
            self.record_.cancel()
        return 0

    def __repr__(self):
        if self.is_cancelled:
            return f"<AsyncRecordFuture cancelled {self.record_!r}>"
        return f"<AsyncRecordFuture {self.record_!r}>"


cdef AsyncRecordFuture await_record(RecordFuture record, LoopReader reader=None):
    cdef AsyncRecordFuture future = AsyncRecordFuture.__new__(AsyncRecordFuture)
    future.reader = running_reader() if reader is None else reader
    future.record_ = record
    future._asyncio_future_blocking = False
    return future


cdef AsyncRecordFuture await_batch(RecordFuture record):
    cdef AsyncRecordFuture future = await_record(record)
    future.is_batch = True
    return future


def await_future(RecordFuture record):
    """Return an AsyncRecordFuture of the same record, for the running event loop.

    Raises:
        RuntimeError: no event loop runs in this thread.
        OSError: the process has no descriptor left.

    Never blocks.
    """
    return await_record(record)


def need_loop():
    """Raise what `await_future` would: before something is queued that nobody could await.

    Never blocks.
    """
    running_reader()


set_await(await_future)

"""Wakes what waits in an event loop: one descriptor, and one call for all that is complete."""
from functools import partial
from weakref import ref

from cpython.exc cimport PyErr_SetFromErrno
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int64_t

from fastprod._core.bytes.sync cimport fp_load_i32, fp_now_ns
from fastprod._core.delivery.loop_queue cimport (
    LoopItem, loop_item_free, loop_queue_abandon, loop_queue_close, loop_queue_new,
    loop_queue_release, loop_queue_signal, loop_queue_take,
)

from fastprod._core.delivery.fork_watch import run_in_child

cdef enum:
    TURN_NS = 250000        # then the loop's timers and sockets get their turn


# Those of loops that are not closed, by the loop's address; only the GIL guards it.
cdef dict _readers = {}
# Of closed loops whose items have not all come back.
cdef list _closed = []
# The one asked for last: most processes have one loop.
cdef size_t _last_loop = 0
cdef LoopReader _last = None
cdef object _get_running_loop = None


cdef class Awaiter:
    """Waits in an event loop; not for use by itself."""

    cdef int wake(self) except -1:
        return 0

    cdef int forget(self) except -1:
        return 0

    cdef int unwatch(self) except -1:
        return 0


cdef class LoopReader:
    """The reader of one loop's queue; not for use by itself.

    The loop calls it when the descriptor becomes readable. What is complete is woken from there, so
    a task goes on without another turn of the loop. After TURN_NS others get their turn: the
    descriptor is made readable again, and not call_soon asked, because what others have in the
    loop's line goes before what it polls.
    """

    def __cinit__(self):
        self.in_line = set()

    def __dealloc__(self):
        if self.queue != NULL:
            loop_queue_release(self.queue)

    def _read(self):
        """The descriptor is readable."""
        cdef LoopItem* item = loop_queue_take(self.queue)
        if item != NULL:
            if self.first == NULL:
                self.first = item
            else:
                self.last.next = item
            while item.next != NULL:
                item = item.next
            self.last = item
        loop = self.loop_ref()
        if self.first != NULL and getattr(loop, "_nest_patched", False):
            # By nest_asyncio: what is woken may run the loop within. That finds the others too, by
            # another handle, for the context of this one's is in use.
            loop.add_reader(self.queue.wake.read_fd, self._read)
            loop_queue_signal(self.queue)
        try:
            self._wake_some()
        finally:
            if self.first != NULL:
                loop_queue_signal(self.queue)

    cdef int _wake_some(self) except -1:
        """What it wakes may do anything, such as to close the loop: no item is held meanwhile."""
        cdef int64_t until_ns = fp_now_ns() + TURN_NS
        cdef LoopItem* item
        cdef PyObject* place
        while self.first != NULL:
            item = self.first
            if item.at >= item.count:
                self.first = item.next
                loop_item_free(item)
                continue
            place = <PyObject*>item.awaiters[item.at]
            item.awaiters[item.at] = NULL
            item.at += 1
            if place == NULL:
                continue
            awaiter = <Awaiter>place
            Py_DECREF(awaiter)
            (<Awaiter>awaiter).wake()
            awaiter = None
            if fp_now_ns() >= until_ns:
                return 0
        return 0

    cdef int close(self) except -1:
        """Wake nobody any more, and let nobody stand in a line for what nobody would use; what
        still comes is let go of by `sweep_readers`."""
        cdef LoopItem* item
        loop_queue_close(self.queue)
        for each in list(self.in_line):
            (<Awaiter>each).unwatch()
            (<Awaiter>each).forget()
        self._drop(&self.first)
        item = loop_queue_take(self.queue)
        self._drop(&item)
        if fp_load_i32(&self.queue.refs) > 1:
            _closed.append(self)
        return 0

    cdef int _drop(self, LoopItem** items) except -1:
        cdef LoopItem* item
        cdef PyObject* place
        while items[0] != NULL:
            item = items[0]
            if item.at >= item.count:
                items[0] = item.next
                loop_item_free(item)
                continue
            place = <PyObject*>item.awaiters[item.at]
            item.awaiters[item.at] = NULL
            item.at += 1
            if place != NULL:
                awaiter = <Awaiter>place
                Py_DECREF(awaiter)
                (<Awaiter>awaiter).forget()
        return 0


cdef LoopReader running_reader():
    global _get_running_loop, _last_loop, _last
    cdef LoopReader found
    if _get_running_loop is None:
        from asyncio import get_running_loop
        _get_running_loop = get_running_loop
    loop = _get_running_loop()
    if <size_t><PyObject*>loop == _last_loop:
        return _last
    found = _readers.get(<size_t><PyObject*>loop)
    if found is None:
        found = _new_reader(loop)
    _last_loop = <size_t><PyObject*>loop
    _last = found
    return found


cdef LoopReader _new_reader(object loop):
    cdef LoopReader reader = LoopReader.__new__(LoopReader)
    cdef size_t address = <size_t><PyObject*>loop
    sweep_readers()
    reader.queue = loop_queue_new()
    if reader.queue == NULL:
        PyErr_SetFromErrno(OSError)
    try:
        loop.add_reader(reader.queue.wake.read_fd, reader._read)
        reader.loop_ref = ref(loop, partial(_forget_loop, address))
    except BaseException:
        loop_queue_close(reader.queue)
        raise
    _readers[address] = reader
    return reader


def _forget_loop(address, _):
    """The loop is gone. Another one may have its address next."""
    global _last_loop, _last
    cdef LoopReader reader = _readers.pop(address, None)
    if address == _last_loop:
        _last_loop = 0
        _last = None
    if reader is not None:
        reader.close()


cdef int sweep_readers() except -1:
    """Forget loops that are closed or gone. Whatever makes an object meanwhile may run the garbage
    collector, and that `_forget_loop`."""
    global _closed
    cdef LoopReader reader
    for address in list(_readers):      # makes none for each, as `items` would
        reader = _readers.get(address)
        if reader is None:
            continue
        loop = reader.loop_ref()
        if loop is None or loop.is_closed():
            _forget_loop(address, None)
    late, _closed = _closed, []
    for each in late:
        (<LoopReader>each).close()
    return 0


def _forget_parent():
    """In the child of a fork: the loops are the parent's, and so is whoever waits there."""
    global _last_loop, _last
    _last_loop = 0
    _last = None
    for each in [*_readers.values(), *_closed]:
        loop_queue_abandon((<LoopReader>each).queue)
        _parents.append(each)
    _readers.clear()
    _closed.clear()


# After a fork: readers of the parent, whose items nobody may touch.
cdef list _parents = []
run_in_child(_forget_parent)

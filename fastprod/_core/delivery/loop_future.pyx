"""What a task awaits: `asyncio.Future`'s protocol, without an object of asyncio's for a record."""
from contextvars import copy_context

cimport cython
from cpython.contextvars cimport PyContext_Enter, PyContext_Exit

from fastprod._core.delivery.loop_reader cimport Awaiter


@cython.no_gc
cdef class LoopFuture(Awaiter):
    """Ends outside of its event loop, and is awaited in it; not for use by itself.

    It has the methods of `asyncio.Future` but for those that set an outcome, so that tasks,
    `asyncio.wait_for`, `gather`, `wait`, `shield` and `as_completed` take it as they take theirs.

    Threads: that of the event loop in which it was made.
    """

    cdef bint is_over(self) except -1:
        return True

    cdef object outcome(self):
        return None

    cdef bint watch(self) except -1:
        return False

    cdef int unwatch(self) except -1:
        return 0

    cdef int wake(self) except -1:
        self.is_watched = False
        if self.is_cancelled:
            return 0
        if not self.is_over() and self.watch():
            self.is_watched = True
            return 0
        return self.tell()

    cdef int forget(self) except -1:
        self.is_watched = False
        self.callback = None
        self.context = None
        self.more = None
        return 0

    cdef int tell(self) except -1:
        """Run the callbacks, here and now: this is no task's call, but the loop's own."""
        callback = self.callback
        context = self.context
        more = self.more
        self.callback = None
        self.context = None
        self.more = None
        if callback is not None:
            _call(self, callback, context)
        if more is not None:
            for at, (callback, context) in enumerate(more):
                try:
                    _call(self, callback, context)
                except BaseException:
                    _call_soon(self, more[at + 1:])
                    raise
        return 0

    def __await__(self):
        """Wait for the outcome in the event loop: return it, or raise the error."""
        return self

    def __iter__(self):
        return self

    def __next__(self):
        if self.is_cancelled or self.is_over():
            raise StopIteration(self.result())
        self._asyncio_future_blocking = True
        return self

    def get_loop(self):
        """Return the event loop that this future belongs to; None: it is gone."""
        return self.reader.loop_ref()

    def done(self):
        """Return whether the outcome is known, or the wait was cancelled.  Never blocks."""
        return self.is_cancelled or self.is_over()

    def cancelled(self):
        """Return whether `cancel` ended it.  Never blocks."""
        return self.is_cancelled

    def result(self):
        """Return the outcome, or raise the error.

        Raises:
            asyncio.InvalidStateError: it is not done.
            asyncio.CancelledError: it was cancelled.

        Never blocks.
        """
        if self.is_found:
            return self.found
        if self.is_cancelled:
            raise self._make_cancelled_error()
        if not self.is_over():
            raise _invalid_state("Result is not set.")
        found = self.outcome()
        if isinstance(found, BaseException):
            raise found     # not kept: what is raised holds frames, and a frame may hold this
        self.found = found
        self.is_found = True
        return found

    def exception(self):
        """Return the error, or None.

        Raises:
            asyncio.InvalidStateError: it is not done.
            asyncio.CancelledError: it was cancelled.

        Never blocks.
        """
        if self.is_cancelled:
            raise self._make_cancelled_error()
        if not self.is_over():
            raise _invalid_state("Exception is not set.")
        if self.is_found:
            return None
        found = self.outcome()
        return found if isinstance(found, BaseException) else None

    def cancel(self, msg=None):
        """End the wait with CancelledError, and take back what can be taken back.

        Args:
            msg: of the CancelledError.

        Returns:
            False if it is done already.

        Never blocks.
        """
        self._asyncio_future_blocking = False
        if self.is_cancelled or self.is_over():
            return False
        self.unwatch()
        self.is_cancelled = True
        self._cancel_message = msg
        callbacks = self.more or []
        if self.callback is not None:
            callbacks = [(self.callback, self.context), *callbacks]
        self.forget()
        _call_soon(self, callbacks)
        return True

    def _make_cancelled_error(self):
        """For asyncio.gather."""
        from asyncio import CancelledError   # not with this module: an import costs 20 ms
        if self._cancel_message is None:
            return CancelledError()
        return CancelledError(self._cancel_message)

    def add_done_callback(self, function, *, context=None):
        """Call ``function(future)`` in the event loop once it is done.

        Args:
            function: called once.
            context: contextvars.Context to call it in; default: a copy of this one.

        Never blocks.
        """
        if context is None:
            context = copy_context()
        if not self.is_watched:
            if self.is_cancelled or self.is_over() or not self.watch():
                _call_soon(self, [(function, context)])
                return
            self.is_watched = True
        if self.callback is None:
            self.callback = function
            self.context = context
        elif self.more is None:
            self.more = [(function, context)]
        else:
            self.more.append((function, context))

    def remove_done_callback(self, function):
        """Call `function` no more.  Returns how often it would have been called.  Never blocks."""
        kept = [each for each in self.more or () if each[0] != function]
        removed = len(self.more or ()) - len(kept)
        self.more = kept or None
        if self.callback is not None and self.callback == function:
            self.callback, self.context = kept.pop(0) if kept else (None, None)
            self.more = kept or None
            removed += 1
        return removed


cdef object _invalid_state(object text):
    from asyncio import InvalidStateError
    return InvalidStateError(text)


cdef int _call(LoopFuture future, object callback, object context) except -1:
    """What it raises is told to the loop, as by its own call_soon."""
    try:
        PyContext_Enter(context)
        try:
            callback(future)
        finally:
            PyContext_Exit(context)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        loop = future.get_loop()
        if loop is None:
            return 0
        loop.call_exception_handler({
            "message": f"a callback of {future!r} failed: {callback!r}",
            "exception": error,
            "future": future,
        })
    return 0


cdef int _call_soon(LoopFuture future, object callbacks) except -1:
    loop = future.get_loop()
    if loop is None:
        return 0
    for callback, context in callbacks:
        loop.call_soon(callback, future, context=context)
    return 0

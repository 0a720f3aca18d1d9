"""The future of one record. Waiting for it costs no hop through another Python thread."""
import _thread
import os
from copy import copy

cimport cython
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject, PyTypeObject
from cpython.pythread cimport PyThread_get_thread_ident
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM
from libc.stdint cimport int32_t, int64_t, uint32_t

from fastprod._core.bytes.sync cimport fp_load_i32, fp_load_i32_acq, fp_now_ns
from fastprod._core.delivery.fork_watch cimport catch_up_with_fork, run_in_child
from fastprod._core.delivery.result cimport (
    ERR_CANCELLED, ERR_DEADLINE, ERR_NONE, Incomplete, RESULT_DELIVERING, RESULT_DONE,
    RESULT_PENDING, RESULT_SPLIT, Result, after_fork_in_child, compare_futures, fork_epoch,
    incomplete_take_ready, result_attach, result_complete, result_delivered, result_is_queued,
    result_list, result_live_count, result_miss, result_new_apart, result_part, result_release,
    result_resolve, result_take_back, sort_futures,
)
from fastprod._core.delivery.wait_habit cimport end_wait, forget_waits, note_wait, wait_slice

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* kind, Py_ssize_t item_count)

from fastprod.deadline import seconds_of
from fastprod.errors import ForkedFutureError
from fastprod._core.delivery.outcomes import error_for_outcome, not_done_in_time
from fastprod.log import Log
from fastprod.records import RecordMetadata, failed_metadata

_log = Log("fastprod.delivery")

cdef enum:
    SLICE_NS = 50000000     # between two slices a signal handler gets its turn
    LONGEST_S = 2000000000      # 63 years; in ns it still fits

cdef dict _pid_of_epoch = {fork_epoch(): os.getpid()}


def _forget_parent():
    """In the child of a fork: futures made before are the parent's."""
    after_fork_in_child()
    forget_waits()
    _pid_of_epoch[fork_epoch()] = os.getpid()
    _starters.clear()
    for thread in set(_delivering) - {PyThread_get_thread_ident()}:
        del _delivering[thread]     # it does not exist here, but its number may come again


run_in_child(_forget_parent)


# What starts the drain of a completion queue, by the queue's address; gone once it was called.
cdef dict _starters = {}
# Threads that run callbacks now, and of whose results; to them the results they tell of are done.
cdef dict _delivering = {}


# Makes what a RecordFuture's `await` waits for: of the module that builds upon this one.
cdef object _await = None


cdef void set_await(object function):
    global _await
    _await = function


cdef void set_starter(Incomplete* list, object start):
    if start is None:
        _starters.pop(<size_t>list, None)
    else:
        _starters[<size_t>list] = start


cdef int need_drain(Incomplete* list) except -1:
    """Somebody attaches a callback: there must be a thread that runs it."""
    start = _starters.get(<size_t>list)
    if start is not None:
        start()     # Ctrl-C may end it: then the next callback tries again
        _starters.pop(<size_t>list, None)
    return 0


cdef int settled_state() except -1:
    """From which state on it is done to this thread: one that runs callbacks waits for none."""
    return RESULT_DELIVERING if PyThread_get_thread_ident() in _delivering else RESULT_DONE


cdef bint is_delivering(Incomplete* list) except -1:
    return _delivering.get(PyThread_get_thread_ident()) == <size_t>list


cdef bint is_settled(Result* result) except -1:
    cdef int state = fp_load_i32_acq(&result.state)
    return state == RESULT_DONE or (state == RESULT_DELIVERING and state >= settled_state())


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class RecordFuture:
    """The delivery of one record; `KafkaProducer.send` returns it.

    It has the methods of `concurrent.futures.Future` that make sense here and those of
    kafka-python's future. It takes 72 bytes, and may be dropped: the record is sent all the same.

    A record whose batch has callbacks is done after they have run, so that a waiting thread never
    sees a record as done before its callback did.

    Threads: any.  After `os.fork` every method but `cancel` and `cancelled` raises
    ForkedFutureError in the child, because only the parent learns the outcome.
    Source: KafkaProducer.send; contract P-A.3.13.
    """

    def __dealloc__(self):
        if self.result_ != NULL:
            result_release(self.result_)

    def __init__(self):
        """Raise TypeError: `KafkaProducer.send` makes futures."""
        raise TypeError("a RecordFuture comes from KafkaProducer.send()")

    cdef object outcome(self):
        """RecordMetadata, or the error. Requires: done."""
        cdef uint32_t index = self.index
        cdef Result* result
        if self.result_ == NULL:
            # A copy: once raised, an error holds its raiser's frame, and that may hold this future,
            # which the garbage collector does not see.
            return copy(self.callbacks[1])
        result = result_resolve(self.result_, &index)
        if result.error_code == ERR_NONE:
            return _metadata((
                self.topic, result.partition,
                result.base_offset + index if result.base_offset >= 0 else -1,
                result.log_append_ms if result.log_append_ms >= 0 else self.timestamp_ms,
                self.key_size, self.value_size,
            ))
        return error_for_outcome(
            result.error_code, self.topic, result.partition, result_live_count(result), index,
            result.detail,
            result.limit, result.attempts,
            result.message.decode("utf-8", "replace") if result.message != NULL else None,
            _record_errors(result), result.last_code,
        )

    cdef int wait_until_done(self, object timeout) except -1:
        """Block, without the GIL, until done. Raises TimeoutError; lets signals through."""
        cdef int64_t until_ns, deadline_ns = 0x7FFFFFFFFFFFFFFF
        cdef uint32_t index
        cdef Result* result
        note_wait()
        if self.result_ == NULL or self._is_done():
            return 0
        if timeout is not None:
            if type(timeout) not in (int, float):
                timeout = seconds_of("timeout", timeout)
            deadline_ns = fp_now_ns() + <int64_t>(min(max(0.0, timeout), LONGEST_S) * 1e9)
        while True:
            index = self.index
            result = result_resolve(self.result_, &index)
            with nogil:
                until_ns = min(deadline_ns, fp_now_ns() + SLICE_NS)
                wait_slice(result, until_ns)
            end_wait()
            if self._is_done():
                return 0
            PyErr_CheckSignals()
            self._check_fork()
            if fp_now_ns() >= deadline_ns:
                raise not_done_in_time(
                    self.topic, timeout, fp_load_i32_acq(&result.state) == RESULT_DELIVERING)

    cdef bint _is_done(self):
        cdef uint32_t index = self.index
        return is_settled(result_resolve(self.result_, &index))

    cdef int _check_fork(self) except -1:
        return check_fork(self.result_)

    def done(self):
        """Return whether the outcome is known and the batch's callbacks have run.

        Raises:
            ForkedFutureError: called in the child of a fork.

        Never blocks.
        """
        self._check_fork()
        return self.result_ == NULL or self._is_done()

    def result(self, timeout=None):
        """Return where the record was written, a `RecordMetadata`, or raise the delivery error.

        The record's batch is sent at once, whatever linger_ms says.

        Args:
            timeout: seconds, 0 or more; None, the default: no limit of its own
                (delivery_timeout_ms bounds it).

        Raises:
            KafkaError: the record was not delivered, and why; the error itself, not wrapped.
            TimeoutError: not done in time; the record may still be delivered, or was, and a
                callback of its batch has not returned.
            ForkedFutureError: called in the child of a fork.

        Blocks: up to `timeout`, without the GIL; Ctrl-C gets through within 50 ms.
        """
        self._check_fork()
        self.wait_until_done(timeout)
        found = self.outcome()
        if isinstance(found, BaseException):
            raise found
        return found

    def get(self, timeout=None):
        """Return what `result` returns, and raise what it raises; kafka-python's name for it.

        Args:
            timeout: seconds, as for `result`.

        Blocks: as `result`.
        """
        return self.result(timeout)

    def exception(self, timeout=None):
        """Return the delivery error, or None if the record was delivered.

        Args:
            timeout: seconds, 0 or more; None, the default: no limit of its own
                (delivery_timeout_ms bounds it).

        Raises:
            TimeoutError: not done in time.
            ForkedFutureError: called in the child of a fork.

        Blocks: as `result`.
        """
        self._check_fork()
        self.wait_until_done(timeout)
        found = self.outcome()
        return found if isinstance(found, BaseException) else None

    def succeeded(self):
        """Return whether the record is done and was delivered.  Never blocks."""
        return self.done() and not isinstance(self.outcome(), BaseException)

    def failed(self):
        """Return whether the record is done and was not delivered.  Never blocks."""
        return self.done() and isinstance(self.outcome(), BaseException)

    def cancel(self):
        """Take the record back, if its batch has not left.

        The records around it keep their order and lose nothing. `result` raises
        `RecordCancelledError`, and the callbacks have run with it when this returns, in this
        thread. The memory goes back when the batch leaves, or when nothing of it is left.

        Returns:
            True: it is taken back, now or earlier, and cannot arrive. False: it is done, or it has
            left and may arrive, or this is the child of a fork.

        Raises:
            MemoryError: no memory to note it; the record is sent.

        Does not wait for the record.  Source: concurrent.futures.Future.cancel; users' need of
        cancellation, as with franz-go's contexts.
        """
        cdef Result* apart
        if self.result_ == NULL or self.result_.fork_epoch != fork_epoch():
            return False
        if not result_is_queued(self.result_):
            return self.cancelled()
        apart = result_new_apart(self.result_, ERR_CANCELLED, NULL)
        if apart == NULL:
            raise MemoryError("no memory to cancel a record")
        if not result_take_back(self.result_, self.index):
            apart.child_count = 0       # what it would have taken over stays ours
            result_release(apart)
            return self.cancelled()
        self.result_ = apart
        self.index = 0
        self._tell()
        return True

    def _miss_deadline(self, int64_t limit_us):
        """Fail with RecordDeadlineError, and return that, unless the outcome is known. What has not
        left is taken back; what has goes on, and nobody here learns what becomes of it."""
        cdef Incomplete* list
        cdef Result* result = self.result_
        cdef Result* apart
        if self.result_ == NULL or self.result_.fork_epoch != fork_epoch():
            return None
        list = result_miss(&result, self.index)
        if list == NULL:
            return None
        apart = result_new_apart(self.result_, ERR_DEADLINE, list)
        if apart == NULL:
            raise MemoryError("no memory to fail a record at its deadline")
        apart.limit = limit_us
        if not result_take_back(self.result_, self.index):
            apart.attempts = 1
            result_part(result)
        self.result_ = apart
        self.index = 0
        if self.callbacks is not None:
            Py_INCREF(self)
            if not result_attach(apart, <PyObject*>self, 0):
                Py_DECREF(self)
        result_complete(apart)
        if apart.future_count == 0:
            self._tell()        # there was no memory to hand them to the delivery thread
        return self.outcome()

    def cancelled(self):
        """Return whether `cancel` took the record back.  Never blocks."""
        return (
            self.result_ != NULL and fp_load_i32_acq(&self.result_.state) == RESULT_DONE
            and self.result_.error_code == ERR_CANCELLED)

    def running(self):
        """Return whether the record has left, so that it cannot be taken back, and is not done yet.

        Raises:
            ForkedFutureError: called in the child of a fork.

        Never blocks.  Source: concurrent.futures.Future.running.
        """
        return not self.done() and fp_load_i32(&self.result_.sent) != 0

    def __await__(self):
        """Wait for the record in the running event loop, without blocking it.

        Awaiting does not cut linger_ms short. If the task is cancelled, so is the record, as by
        `cancel`.

        Raises:
            RuntimeError: no event loop runs in this thread.
            KafkaError, ForkedFutureError: as `result`.
        """
        return _await(self)

    def add_callback(self, function, *args, **kwargs):
        """Call ``function(*args, metadata, **kwargs)`` if the record is delivered.

        Args:
            function: called once, on the delivery thread; before this returns if the record is
                done already. Its return value is ignored, and what it raises is logged.
            args: go before the `RecordMetadata`.
            kwargs: go after it.

        Returns:
            This future, as in kafka-python.

        Raises:
            TypeError: `function` cannot be called.
            ForkedFutureError: called in the child of a fork.

        Does not wait for the record.
        """
        self._add((CALL_VALUE, function, args, kwargs))
        return self

    def add_errback(self, function, *args, **kwargs):
        """Call ``function(*args, error, **kwargs)`` if the record is not delivered.

        Args:
            function: called once, when and where `add_callback` calls its function.
            args: go before the `KafkaError`.
            kwargs: go after it.

        Returns:
            This future, as in kafka-python.

        Raises:
            TypeError, ForkedFutureError: as `add_callback`.

        Does not wait for the record.
        """
        self._add((CALL_ERROR, function, args, kwargs))
        return self

    def add_done_callback(self, function):
        """Call ``function(future)`` once the outcome is known, whatever it is.

        Args:
            function: called once, when and where `add_callback` calls its function.

        Raises:
            TypeError, ForkedFutureError: as `add_callback`.

        Does not wait for the record.
        """
        self._add((CALL_FUTURE, function, (), {}))

    cdef int _add(self, tuple call) except -1:
        cdef uint32_t index
        cdef Result* result
        if not callable(call[1]):
            raise TypeError(f"a callback must be callable, not {type(call[1]).__name__}")
        self._check_fork()
        while self.result_ != NULL:
            index = self.index
            need_drain(result_list(result_resolve(self.result_, &index)))   # others run meanwhile
            index = self.index
            result = result_resolve(self.result_, &index)
            if self.callbacks is not None and fp_load_i32_acq(&result.state) != RESULT_DONE:
                self.callbacks = self._calls() + [call]     # attached already
                return 0
            self.callbacks = [call]
            Py_INCREF(self)
            if result_attach(result, <PyObject*>self, index):
                return 0
            Py_DECREF(self)
            self.callbacks = None
            if fp_load_i32_acq(&result.state) == RESULT_PENDING:
                raise MemoryError("no memory for the callback of a record")
            if fp_load_i32_acq(&result.state) != RESULT_SPLIT:
                break       # the outcome is known
        return self._call(call, self.outcome())

    cdef int _call_both(self, object function, object found) except -1:
        """Run a callback of `send`; what it raises is logged, the others still run (P-A.3.15)."""
        try:
            if type(found) is RecordMetadata:
                function(found, None)
            else:
                function(failed_metadata(self.topic, self._partition()), found)
        except BaseException as error:
            callback_failed(error, found)

    cdef int _call(self, tuple call, object found) except -1:
        """Run one callback, as `_call_both`."""
        if call[0] == CALL_BOTH:
            return self._call_both(call[1], found)
        failed = isinstance(found, BaseException)
        try:
            if call[0] == CALL_FUTURE:
                call[1](self)
            elif call[0] == CALL_VALUE and not failed:
                call[1](*call[2], found, **call[3])
            elif call[0] == CALL_ERROR and failed:
                call[1](*call[2], found, **call[3])
        except BaseException as error:
            callback_failed(error, found)

    cdef object _partition(self):
        cdef uint32_t index = self.index
        return self.callbacks[0] if self.result_ == NULL else (
            result_resolve(self.result_, &index).partition)

    cdef list _calls(self):
        """The callbacks as a list of calls."""
        return self.callbacks if type(self.callbacks) is list else [
            (CALL_BOTH, self.callbacks, (), {})]

    cdef int _tell(self) except -1:
        """Run the callbacks of a record that has an outcome of its own."""
        if self.callbacks is None:
            return 0
        calls = self._calls()
        self.callbacks = None       # one that is added from here on runs at once
        found = self.outcome()
        for call in calls:
            self._call(call, found)
            if self.result_.fork_epoch != fork_epoch():
                break       # it forked, and this is the child: the others are the parent's
        return 0

    cdef void run_callbacks(self, Result* result):
        """On the drain of the completion queue, once."""
        cdef uint32_t index = self.index
        if self.callbacks is None or result_resolve(self.result_, &index) != result:
            return
        found = self.outcome()
        at = 0
        if type(self.callbacks) is not list:    # on_delivery of `send`, as a rule alone
            self._call_both(self.callbacks, found)
            if self.result_.fork_epoch != fork_epoch():
                return      # it forked, and this is the child: the others are the parent's
            at = 1
        while type(self.callbacks) is list and at < len(self.callbacks):    # one may add another
            self._call(self.callbacks[at], found)
            if self.result_.fork_epoch != fork_epoch():
                return
            at += 1
        self.callbacks = None

    def __repr__(self):
        try:
            is_done = self.done()
        except ForkedFutureError:
            return f"<RecordFuture topic={self.topic!r} of the parent process>"
        if not is_done:
            return f"<RecordFuture topic={self.topic!r} pending>"
        return f"<RecordFuture topic={self.topic!r} {self.outcome()!r}>"


cdef int callback_failed(object error, object found) except -1:
    if isinstance(error, KeyboardInterrupt):
        _thread.interrupt_main()    # again, once the other callbacks have run
    else:   # SystemExit too: the thread that runs callbacks has others to run.
        _log.exception("a delivery callback failed; the outcome stands: %r", found)


cdef object _metadata(tuple fields):
    """A `RecordMetadata` of all its fields, without the call that a named tuple makes of it."""
    cdef Py_ssize_t i
    cdef object made = PyType_GenericAlloc(<PyTypeObject*>RecordMetadata, len(fields))
    for i, field in enumerate(fields):
        Py_INCREF(field)        # PyTuple_SET_ITEM keeps a reference
        PyTuple_SET_ITEM(made, i, field)
    return made


cdef dict _record_errors(Result* result):
    cdef int32_t i
    found = {}
    for i in range(result.record_error_count):
        found[result.record_errors[i].index] = (
            result.record_errors[i].message.decode("utf-8", "replace")
            if result.record_errors[i].message != NULL else None)
    return found


cdef int check_fork(Result* result) except -1:
    catch_up_with_fork()
    if result != NULL and result.fork_epoch != fork_epoch():
        raise ForkedFutureError(
            made_in_pid=_pid_of_epoch[result.fork_epoch], asked_in_pid=os.getpid())
    return 0


cdef RecordFuture failed_future(object topic, object partition, object error):
    """A future that is done: the record failed before it had a batch (P-A.3.12, row 1)."""
    cdef RecordFuture future = RecordFuture.__new__(RecordFuture)
    future.topic = topic
    future.callbacks = (partition, error.with_traceback(None))
    return future


cdef RecordFuture new_future(object topic, Result* result, uint32_t index):
    """A future that takes over the caller's reference to `result`."""
    cdef RecordFuture future = RecordFuture.__new__(RecordFuture)
    future.result_ = result
    future.index = index
    future.topic = topic
    return future


cdef int deliver(Incomplete* list, int64_t deadline_ns) except -1:
    """Run the callbacks of every result in the completion queue, waiting for one until the
    deadline. Returns how many results were delivered."""
    cdef Result* result
    with nogil:
        result = incomplete_take_ready(list, deadline_ns)
    if result == NULL:
        return 0
    thread = PyThread_get_thread_ident()
    outer = _delivering.get(thread)     # an engine that ends in another's callback
    _delivering[thread] = <size_t>list
    try:
        return _deliver_all(result)
    finally:
        if outer is None:
            _delivering.pop(thread, None)
        else:
            _delivering[thread] = outer


cdef int _deliver_all(Result* result) except -1:
    cdef Result* following
    cdef uint32_t i
    cdef int delivered = 0
    cdef uint32_t epoch = fork_epoch()
    while result != NULL:
        following = result.next_ready
        with nogil:
            sort_futures(result.futures, result.future_count, compare_futures)
        for i in range(result.future_count):
            future = <RecordFuture><PyObject*>result.futures[i].future
            try:
                (<RecordFuture>future).run_callbacks(result)
            except KeyboardInterrupt:
                _thread.interrupt_main()    # again, when nobody waits for the records behind it
            except BaseException:
                _log.exception("the outcome of a record could not be told to its callbacks")
            if fork_epoch() != epoch:
                return delivered    # a callback forked, and this is the child
            Py_DECREF(future)
        result.future_count = 0
        result_delivered(result)
        result_release(result)
        delivered += 1
        result = following
    return delivered

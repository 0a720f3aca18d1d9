"""Counts forks where libc makes them, tells Python of a server's, and runs what it was not told."""
import _thread
import os

from cpython.pystate cimport PyThreadState

cdef extern from "<pthread.h>" nogil:
    int pthread_atfork(void (*before)() noexcept nogil, void (*in_parent)() noexcept nogil,
                       void (*in_child)() noexcept nogil)

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030D0000
    #define PyThreadState_GetUnchecked _PyThreadState_UncheckedGet
    #endif
    /* Of a fork that Python is told of by this thread: several may fork at once. */
    static __thread int fp_tells_of_fork, fp_has_taken_gil;
    """
    ctypedef struct PyInterpreterState
    bint fp_tells_of_fork
    bint fp_has_taken_gil

cdef extern from "Python.h" nogil:
    bint Py_IsInitialized()
    PyInterpreterState* PyInterpreterState_Head()
    PyInterpreterState* PyInterpreterState_Next(PyInterpreterState* interpreter)
    PyThreadState* PyGILState_GetThisThreadState()
    PyThreadState* PyThreadState_GetUnchecked()
    void PyEval_RestoreThread(PyThreadState* thread)
    PyThreadState* PyEval_SaveThread()
    void* PyEval_GetFrame()
    void PyOS_BeforeFork()
    void PyOS_AfterFork_Parent() noexcept
    void PyOS_AfterFork_Child() noexcept

cdef int _forks = 0
cdef int _known = 0
cdef list _functions = []
cdef object _lock = _thread.RLock()     # two threads of the child may find out at once
cdef bint _is_running = False


cdef bint _has_one_interpreter() noexcept nogil:
    cdef PyInterpreterState* first = PyInterpreterState_Head()
    return first != NULL and PyInterpreterState_Next(first) == NULL


cdef void _before() noexcept nogil:
    """Tell Python of a fork in whose thread no Python code runs: of a server's, not `subprocess`'s.

    Whoever has the GIL or waits for it would be waited for in the child, before any call of ours.
    """
    global fp_tells_of_fork, fp_has_taken_gil
    if not Py_IsInitialized() or not _has_one_interpreter():
        return      # telling of the fork would end the other interpreters
    cdef PyThreadState* thread = PyGILState_GetThisThreadState()
    if thread == NULL:
        return
    cdef bint takes_gil = PyThreadState_GetUnchecked() != thread
    if takes_gil:
        PyEval_RestoreThread(thread)
    if PyEval_GetFrame() == NULL:
        PyOS_BeforeFork()       # calls functions that may fork themselves
        fp_tells_of_fork, fp_has_taken_gil = True, takes_gil
    elif takes_gil:
        PyEval_SaveThread()


cdef void _tell_of_end(void (*tell)() noexcept nogil) noexcept nogil:
    global fp_tells_of_fork
    cdef bint gives_gil_back = fp_has_taken_gil
    if fp_tells_of_fork:
        fp_tells_of_fork = False
        tell()
        if gives_gil_back:
            PyEval_SaveThread()


cdef void _in_parent() noexcept nogil:
    _tell_of_end(PyOS_AfterFork_Parent)


cdef void _in_child() noexcept nogil:
    global _forks
    _forks += 1
    _tell_of_end(PyOS_AfterFork_Child)


cdef bint is_fork_unknown() noexcept nogil:
    return _forks != _known


cdef int catch_up_with_fork() except -1:
    global _known, _is_running
    if _forks == _known:
        return 0
    with _lock:
        if _forks == _known or _is_running:
            return 0        # another thread has done it, or one of the functions calls
        _is_running = True
        try:
            _run_all()
            _known = _forks
        finally:
            _is_running = False
    return 0


def _after_fork():
    """Python's own fork: there is one thread, and whoever had the lock is gone."""
    global _lock, _is_running
    _lock, _is_running = _thread.RLock(), False
    catch_up_with_fork()    # not again if a function of somebody else's has used a producer before


cdef int _run_all() except -1:
    for function in list(_functions):
        _run(function)
    return 0


cdef void _run(object function) noexcept:
    function()      # what it raises is shown, as Python does


cpdef run_in_child(function):
    """Call the function in the child of each fork, in the order of these calls, as
    `os.register_at_fork(after_in_child=function)` does; where Python does not know of the fork,
    before the producer's next call there.
    """
    _functions.append(function)


def catch_up():
    """Run them now, if this is the child of a fork for which they have not run."""
    catch_up_with_fork()


if pthread_atfork(_before, _in_parent, _in_child) != 0:
    raise MemoryError("no memory to watch for forks")
os.register_at_fork(after_in_child=_after_fork)

"""Counts forks where libc makes them, and runs what Python did not."""
import _thread
import os

cdef extern from "<pthread.h>" nogil:
    int pthread_atfork(void (*before)() noexcept nogil, void (*in_parent)() noexcept nogil,
                       void (*in_child)() noexcept nogil)

cdef int _forks = 0
cdef int _known = 0
cdef list _functions = []
cdef object _lock = _thread.RLock()     # two threads of the child may find out at once
cdef bint _is_running = False


cdef void _count() noexcept nogil:
    global _forks
    _forks += 1


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


if pthread_atfork(NULL, NULL, _count) != 0:
    raise MemoryError("no memory to watch for forks")
os.register_at_fork(after_in_child=_after_fork)

"""Doors to results, to the order of callbacks, and to forks as a server's in C."""
import traceback

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

cimport cython
from cpython.ref cimport Py_DECREF, Py_INCREF

cdef extern from "<pthread.h>" nogil:
    ctypedef unsigned long pthread_t
    int pthread_create(pthread_t* thread, void* settings, void* (*run)(void*) noexcept nogil,
                       void* argument)
    int pthread_join(pthread_t thread, void** returned)

cdef extern from "<unistd.h>" nogil:
    int fork()
    void _exit(int code)

from fastprod._core.bytes.fp_status cimport FP_OK, FpStatus
from fastprod._core.bytes.sync cimport fp_add_i32, fp_load_i32, fp_now_ns
from fastprod._core.delivery.result cimport (
    AttachedFuture, ERR_DEADLINE, Incomplete, Result, compare_futures, incomplete_close,
    incomplete_destroy, incomplete_init, incomplete_last_number, incomplete_record_count,
    incomplete_take_ready, incomplete_wait, result_abandon, result_attach, result_complete,
    result_delivered, result_drive, result_miss, result_new, result_new_apart, result_new_child,
    result_release, result_resolve, result_retain, result_split, result_urge, result_wait,
    sort_futures,
)


cdef uint64_t _comparisons


cdef int _count_and_compare(const void* left, const void* right) noexcept nogil:
    global _comparisons
    _comparisons += 1
    return compare_futures(left, right)


def sorted_for_test(indexes):
    """In which order callbacks attached to these records run, and the comparisons it took."""
    global _comparisons
    cdef uint32_t i
    cdef uint32_t count = len(indexes)
    cdef AttachedFuture* futures = <AttachedFuture*>calloc(count + 1, sizeof(AttachedFuture))
    if futures == NULL:
        raise MemoryError
    for i in range(count):
        futures[i].index = indexes[i]
        futures[i].order = i
    _comparisons = 0
    sort_futures(futures, count, _count_and_compare)
    found = [futures[i].order for i in range(count)]
    free(futures)
    return found, _comparisons


cdef int64_t _after(double timeout_ms):
    return fp_now_ns() + <int64_t>(timeout_ms * 1e6)


cdef void _count_urge(void* argument, void* origin) noexcept nogil:
    fp_add_i32(<int32_t*>argument, 1)


cdef void _count_drive(void* argument, Result* result, int64_t deadline_ns) noexcept nogil:
    fp_add_i32(<int32_t*>argument, 1)


@cython.no_gc_clear
cdef class IncompleteForTest:
    """See the .pyi."""
    # OWNER of one reference to each result it has a handle for.

    cdef Incomplete list
    cdef dict results
    cdef set taken          # handles whose callbacks have not run: the queue's references
    cdef int next_handle
    cdef int32_t urges
    cdef int32_t drives

    def __cinit__(self):
        self.results = {}
        self.taken = set()
        incomplete_init(&self.list)
        self.list.urge = _count_urge
        self.list.argument = &self.urges
        self.list.drive = _count_drive
        self.list.drive_argument = &self.drives

    def __dealloc__(self):
        self.take_ready()
        for handle in self.taken:
            result_release(self._at(handle))
        for at in self.results.values():
            result_release(<Result*><size_t>at)
        incomplete_destroy(&self.list)

    cdef Result* _at(self, int handle) except NULL:
        return <Result*><size_t>self.results[handle]

    cdef int _handle(self, Result* result) except -1:
        for handle, at in self.results.items():
            if at == <size_t>result:
                return handle
        raise KeyError("a result without a handle")

    cdef int _keep(self, Result* result) except -1:
        if result == NULL:
            raise MemoryError
        self.next_handle += 1
        self.results[self.next_handle] = <size_t>result
        return self.next_handle

    def new(self, uint32_t count=1):
        cdef Result* result = result_new(&self.list, 0, &self.list)
        handle = self._keep(result)
        result.count = count
        return handle

    def new_child(self, int parent, uint32_t count=1):
        cdef Result* result = result_new_child(self._at(parent))
        handle = self._keep(result)
        result.count = count
        return handle

    def new_apart(self, int handle):
        result_retain(self._at(handle))
        return self._keep(result_new_apart(self._at(handle), ERR_DEADLINE, &self.list))

    def abandon(self, int handle):
        result_abandon(self._at(handle))

    def miss(self, int handle, uint32_t index=0):
        cdef Result* result = self._at(handle)
        return None if result_miss(&result, index) == NULL else self._handle(result)

    @property
    def has_missed(self):
        return bool(self.list.has_missed)

    def release(self, int handle):
        result_release(self._at(handle))
        del self.results[handle]

    def complete(self, int handle):
        return bool(result_complete(self._at(handle)))

    def attach(self, int handle, size_t future, uint32_t index):
        return bool(result_attach(self._at(handle), <void*>future, index))

    def split(self, int parent, children):
        cdef Result* result = self._at(parent)
        cdef int i, first, child
        result.children = <Result**>calloc(len(children), sizeof(Result*))
        result.child_first = <uint32_t*>calloc(len(children), sizeof(uint32_t))
        for i, (first, child) in enumerate(children):
            result.children[i] = self._at(child)
            result_retain(result.children[i])
            result.child_first[i] = first
        result.child_count = len(children)
        result_split(result)

    def urge(self, int handle):
        result_urge(self._at(handle))

    def drive(self, int handle):
        result_drive(self._at(handle), _after(0))

    def wait(self, int handle, double timeout_ms):
        cdef Result* result = self._at(handle)
        cdef int64_t deadline_ns = _after(timeout_ms)
        cdef FpStatus status
        with nogil:
            status = result_wait(result, deadline_ns)
        return status == FP_OK

    def take_ready(self, double timeout_ms=0):
        cdef int64_t deadline_ns = _after(timeout_ms)
        cdef Result* result
        cdef uint32_t i
        with nogil:
            result = incomplete_take_ready(&self.list, deadline_ns)
        taken = []
        while result != NULL:
            taken.append((self._handle(result), [
                (<size_t>result.futures[i].future, result.futures[i].index)
                for i in range(result.future_count)
            ]))
            result = result.next_ready
        self.taken.update([handle for handle, _ in taken])
        return taken

    def delivered(self, int handle):
        cdef Result* result = self._at(handle)
        result.future_count = 0
        result_delivered(result)
        self.taken.remove(handle)
        result_release(result)

    def wait_all(self, uint64_t number, double timeout_ms):
        cdef int64_t deadline_ns = _after(timeout_ms)
        cdef FpStatus status
        with nogil:
            status = incomplete_wait(&self.list, number, deadline_ns)
        return status == FP_OK

    def resolve(self, int handle, uint32_t index):
        cdef Result* result = result_resolve(self._at(handle), &index)
        return self._handle(result), index

    def record_count(self, uint64_t up_to_number):
        return incomplete_record_count(&self.list, up_to_number)

    def look(self, int handle):
        cdef Result* result = self._at(handle)
        return {
            "state": fp_load_i32(&result.state),
            "refs": fp_load_i32(&result.refs),
            "waiters": fp_load_i32(&result.waiters),
            "urgent": fp_load_i32(&result.urgent),
            "number": result.number,
            "error_code": result.error_code,
            "futures": result.future_count,
        }

    def close(self):
        incomplete_close(&self.list)

    def signal_at(self, int descriptor):
        self.list.ready_fd = descriptor

    def order(self):
        cdef Result* result = self.list.oldest
        found = []
        while result != NULL:
            found.append(self._handle(result))
            result = result.newer
        return found

    @property
    def batch_count(self):
        return self.list.batch_count

    @property
    def last_number(self):
        return incomplete_last_number(&self.list)

    @property
    def urges_heard(self):
        return fp_load_i32(&self.urges)

    @property
    def drives_begun(self):
        return fp_load_i32(&self.drives)


cdef struct Fork:
    void* function
    bint keeps_gil
    int pid


cdef int _run_to_the_end(object function) noexcept:
    try:
        function()
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


cdef void* _fork(void* argument) noexcept nogil:
    cdef Fork* asked = <Fork*>argument
    with gil:       # GIL: it is a server that has Python in it
        if asked.keeps_gil:
            asked.pid = fork()
        else:
            with nogil:
                asked.pid = fork()
        if asked.pid == 0:
            _exit(_run_to_the_end(<object>asked.function))
    return NULL


def fork_as_server(function, keeps_gil):
    """Fork as a server in C does, in a thread that runs no Python code; the child's pid."""
    cdef Fork asked = Fork(<void*>function, keeps_gil, -1)
    cdef pthread_t server
    Py_INCREF(function)     # the child frees what the calling thread holds
    with nogil:
        if pthread_create(&server, NULL, _fork, &asked) == 0:
            pthread_join(server, NULL)
    Py_DECREF(function)
    return asked.pid

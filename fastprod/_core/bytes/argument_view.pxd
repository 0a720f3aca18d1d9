"""What a caller's objects hold: bytes at once, anything else with a contiguous buffer by its view;
whole numbers."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport int64_t

cdef extern from "Python.h":
    int64_t PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1

cdef enum:
    LARGEST_PARTITION = 0x7FFFFFFF

cdef extern from *:
    const int64_t LATEST_MS "INT64_MAX"

cdef struct View:
    # For the duration of one call.  OWNER the caller's stack.  FREED BY view_release.
    void* buf               # NULL: None
    Py_ssize_t len          # -1: None
    bint is_held            # `buffer` must be released
    Py_buffer buffer

cdef int64_t checked_number(str name, object value, int64_t limit) except -1


cdef inline int64_t whole_number(str name, object value, int64_t limit) except -1:
    """A partition or timestamp: an int of 0..limit, else TypeError or ValueError that name it."""
    cdef int overflow = 0
    cdef int64_t number
    if PyLong_CheckExact(value):
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0 and 0 <= number <= limit:
            return number
    return checked_number(name, value, limit)


# A contiguous buffer of `data`, to be released; TypeError or BufferError: it has none of bytes.
cdef int take_buffer(object data, Py_buffer* buffer) except -1
# What `data` is, for the error of who could not take it.
cdef str kind_of(object data)
cdef int view_of_buffer(object data, View* view, const char* what) except -1
cdef void view_drop(View* view) noexcept


cdef inline int view_take(object data, View* view, const char* what) except -1:
    """Look at `data`; `what` is its name in the error."""
    view.is_held = False
    if PyBytes_CheckExact(data):
        view.buf = PyBytes_AS_STRING(data)
        view.len = PyBytes_GET_SIZE(data)
        return 0
    view.buf = NULL
    view.len = -1
    if data is None:
        return 0
    return view_of_buffer(data, view, what)


cdef inline void view_release(View* view) noexcept:
    if view.is_held:
        view_drop(view)

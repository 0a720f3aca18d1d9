"""Bodies of the byte views; the contract is in byte_view.pxd."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport int64_t

from fastprod.records import in_range

cdef extern from "Python.h":
    int64_t PyLong_AsLongLongAndOverflow(object number, int* overflow) except? -1


cdef int64_t whole_number(str name, object value, int64_t limit) except -1:
    cdef int overflow = 0
    cdef int64_t number
    if PyLong_CheckExact(value):
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow == 0 and 0 <= number <= limit:
            return number
    return in_range(name, value, limit)


cdef int view_of_buffer(object data, View* view, const char* what) except -1:
    try:
        PyObject_GetBuffer(data, &view.buffer, PyBUF_SIMPLE)
    except (TypeError, BufferError):
        raise TypeError(
            f"a record's {what.decode()} must be bytes, a contiguous buffer or None, not "
            f"{type(data).__name__}: encode it, or configure a serializer such as "
            f"StringSerializer") from None
    view.is_held = True
    view.buf = view.buffer.buf
    view.len = view.buffer.len
    return 0


cdef void view_drop(View* view) noexcept:
    view.is_held = False
    PyBuffer_Release(&view.buffer)

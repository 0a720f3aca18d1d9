"""Takes and gives back views of a caller's buffers, and reads whole numbers within their range."""
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int64_t

from fastprod.records import in_range


cdef int64_t checked_number(str name, object value, int64_t limit) except -1:
    return in_range(name, value, limit)


cdef bint _holds_objects(object data) except -1:
    """As numpy's arrays may: their buffer has addresses."""
    dtype = getattr(data, "dtype", None)
    return dtype is not None and bool(getattr(dtype, "hasobject", False))


cdef bint _is_number(object data) except -1:
    """One of numpy's, or a time of it: what its buffer has is how this machine keeps it."""
    dtype = getattr(data, "dtype", None)
    return (
        dtype is not None and getattr(data, "ndim", None) == 0
        and getattr(dtype, "kind", "") in ("b", "i", "u", "f", "c", "m", "M"))


cdef int take_buffer(object data, Py_buffer* buffer) except -1:
    # numpy's text has a buffer too, of UTF-32
    if isinstance(data, str) or _holds_objects(data) or _is_number(data):
        raise BufferError("neither text nor objects nor a number are bytes")
    PyObject_GetBuffer(data, buffer, PyBUF_SIMPLE)
    return 0


cdef str kind_of(object data):
    cdef str name = type(data).__name__
    return f"{name} of Python objects" if _holds_objects(data) else name


cdef int view_of_buffer(object data, View* view, const char* what) except -1:
    try:
        take_buffer(data, &view.buffer)
    except (TypeError, BufferError, ValueError):    # the last one: numpy's, not contiguous
        raise TypeError(
            f"a record's {what.decode()} must be bytes, a contiguous buffer or None, not "
            f"{kind_of(data)}: encode it, or configure a serializer such as "
            f"StringSerializer") from None
    view.is_held = True
    view.buf = view.buffer.buf
    view.len = view.buffer.len
    return 0


cdef void view_drop(View* view) noexcept:
    view.is_held = False
    PyBuffer_Release(&view.buffer)

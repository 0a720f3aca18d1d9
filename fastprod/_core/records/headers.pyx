"""Encodes headers as they stand in a record."""
from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.list cimport PyList_CheckExact, PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from fastprod._core.bytes.argument_view cimport View, kind_of, take_buffer, view_release
from fastprod._core.bytes.varint cimport varint_put, varint_size

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL

cdef extern from "Python.h" nogil:
    # As those of cpython, but for what is not ours: no reference is taken for a look.
    bint is_tuple "PyTuple_CheckExact" (PyObject* pair)
    Py_ssize_t tuple_size "PyTuple_GET_SIZE" (PyObject* pair)
    PyObject* tuple_item "PyTuple_GET_ITEM" (PyObject* pair, Py_ssize_t i)
    bint is_bytes "PyBytes_CheckExact" (PyObject* data)
    const char* bytes_data "PyBytes_AS_STRING" (PyObject* data)
    Py_ssize_t bytes_size "PyBytes_GET_SIZE" (PyObject* data)
    bint is_text "PyUnicode_CheckExact" (PyObject* text)
    bint is_ascii "PyUnicode_IS_COMPACT_ASCII" (PyObject* text)
    const char* ascii_data "PyUnicode_DATA" (PyObject* text)
    Py_ssize_t ascii_size "PyUnicode_GET_LENGTH" (PyObject* text)


cdef object _pairs(object headers):
    return headers.items() if type(headers) is dict else headers


cdef tuple _two(object pair):
    try:
        name, value = pair
    except (TypeError, ValueError):
        raise TypeError(f"a header must be a (name, value) pair, not {pair!r}") from None
    return name, value


cdef int _refuse_name(object name) except -1:
    raise TypeError(f"a header's name must be a str, not {type(name).__name__}")


cdef int _buffer(object value, View* view, object name) except -1:
    try:
        take_buffer(value, &view.buffer)
    except (TypeError, BufferError, ValueError):    # the last one: numpy's, not contiguous
        raise TypeError(
            f"the value of header {name!r} must be bytes, a contiguous buffer or None, not "
            f"{kind_of(value)}: encode it") from None
    view.is_held = True
    view.buf = view.buffer.buf
    view.len = view.buffer.len
    return 0


cdef inline int _view(object value, View* view, object name) except -1:
    """Look at a header's value, which is not None; `view_release` it."""
    view.is_held = False
    if not PyBytes_CheckExact(value):
        return _buffer(value, view, name)
    view.buf = PyBytes_AS_STRING(value)
    view.len = PyBytes_GET_SIZE(value)
    return 0


cdef int64_t _size(object headers) except -1:
    cdef int64_t size = 0
    cdef int64_t count = 0
    cdef Py_ssize_t length
    cdef View view
    for pair in _pairs(headers):
        if type(pair) is not tuple or len(pair) != 2:
            pair = _two(pair)
        name, value = pair
        if not isinstance(name, str):
            _refuse_name(name)
        PyUnicode_AsUTF8AndSize(name, &length)
        size += varint_size(length) + length
        if value is None:
            size += 1
        else:
            _view(value, &view, name)
            size += varint_size(view.len) + view.len
            view_release(&view)
        count += 1
    return size + varint_size(count)


cdef int _encode(object headers, uint8_t* out, int64_t size) except -1:
    cdef uint8_t* end = out + size
    cdef const char* text
    cdef Py_ssize_t length
    cdef View view
    cdef int64_t count = len(headers)
    out = varint_put(out, count)
    for name, value in _pairs(headers):
        count -= 1
        text = PyUnicode_AsUTF8AndSize(name, &length)
        if end - out < varint_size(length) + length + 1:    # a value needs a byte or more
            raise ValueError("the headers changed while they were sent")
        out = varint_put(out, length)
        memcpy(out, text, length)
        out += length
        if value is None:
            out = varint_put(out, -1)
            continue
        _view(value, &view, name)
        try:
            if end - out < view.len + varint_size(view.len):
                raise ValueError("the headers changed while they were sent")
            out = varint_put(out, view.len)
            memcpy(out, view.buf, view.len)
            out += view.len
        finally:
            view_release(&view)
    if out != end or count != 0:
        raise ValueError("the headers changed while they were sent")
    return 0


cdef list _listed(object headers):
    """Any mapping or iterable, copied: they are walked twice, and counted."""
    pairs = headers.items() if hasattr(headers, "items") else headers
    if not hasattr(pairs, "__iter__"):
        raise TypeError(
            f"headers must be (name, value) pairs or a mapping, not {kind_of(headers)}")
    return list(pairs)


cdef bytes encode_headers(object headers):
    cdef int64_t size
    cdef bytes encoded
    if type(headers) is not list and type(headers) is not tuple and type(headers) is not dict:
        headers = _listed(headers)
    size = _size(headers)
    if size > 0x7FFFFFFF:
        raise ValueError(f"headers of {size:,} bytes do not fit a record")
    encoded = PyBytes_FromStringAndSize(NULL, size)
    _encode(headers, <uint8_t*>PyBytes_AS_STRING(encoded), size)
    return encoded


cdef inline uint8_t* _put_bytes(
    uint8_t* out, uint8_t* end, const char* data, Py_ssize_t length
) noexcept nogil:
    """One past the field, length first; NULL: it may not fit."""
    if length > end - out - 2:      # a length up to SMALL_HEADERS has two bytes at most
        return NULL
    out = varint_put(out, length)
    memcpy(out, data, length)
    return out + length


cdef inline uint8_t* _put_name(
    uint8_t* out, uint8_t* end, PyObject* name
) except? NULL:
    """As `_put_bytes`, in UTF-8."""
    cdef const char* text
    cdef Py_ssize_t length
    if is_ascii(name):
        return _put_bytes(out, end, ascii_data(name), ascii_size(name))
    text = PyUnicode_AsUTF8AndSize(<object>name, &length)
    return _put_bytes(out, end, text, length)


cdef uint32_t encode_small_headers(object headers, uint8_t* out) except? 0:
    cdef uint8_t* start = out
    cdef uint8_t* end = out + SMALL_HEADERS
    cdef bint is_list = PyList_CheckExact(headers)
    cdef Py_ssize_t i
    cdef Py_ssize_t count
    cdef PyObject* pair
    cdef PyObject* name
    cdef PyObject* value
    if not is_list and not PyTuple_CheckExact(headers):
        return 0
    count = PyList_GET_SIZE(headers) if is_list else PyTuple_GET_SIZE(headers)
    if count > SMALL_HEADERS // 2:
        return 0
    out = varint_put(out, count)
    for i in range(count):      # nothing here runs Python code: the list cannot change
        pair = PyList_GET_ITEM(headers, i) if is_list else PyTuple_GET_ITEM(headers, i)
        if not is_tuple(pair) or tuple_size(pair) != 2:
            return 0
        name = tuple_item(pair, 0)
        value = tuple_item(pair, 1)
        if not is_text(name):
            return 0
        out = _put_name(out, end, name)
        if out == NULL:
            return 0
        if is_bytes(value):
            out = _put_bytes(out, end, bytes_data(value), bytes_size(value))
            if out == NULL:
                return 0
        elif value == <PyObject*>None and out < end:
            out = varint_put(out, -1)
        else:
            return 0
    return <uint32_t>(out - start)

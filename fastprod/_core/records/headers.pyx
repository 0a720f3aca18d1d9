"""Encodes headers as they stand in a record."""
from cpython.buffer cimport PyBuffer_Release
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from fastprod._core.bytes.argument_view cimport kind_of, take_buffer
from fastprod._core.bytes.varint cimport varint_put, varint_size

cdef extern from "Python.h":
    const char* PyUnicode_AsUTF8AndSize(object text, Py_ssize_t* size) except NULL


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


cdef int _buffer(object value, Py_buffer* view, object name) except -1:
    try:
        take_buffer(value, view)
    except (TypeError, BufferError):
        raise TypeError(
            f"the value of header {name!r} must be bytes, a contiguous buffer or None, not "
            f"{kind_of(value)}: encode it") from None
    return 0


cdef int64_t _size(object headers) except -1:
    cdef int64_t size = 0
    cdef int64_t count = 0
    cdef Py_ssize_t length
    cdef Py_buffer view
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
            _buffer(value, &view, name)
            size += varint_size(view.len) + view.len
            PyBuffer_Release(&view)
        count += 1
    return size + varint_size(count)


cdef int _encode(object headers, uint8_t* out, int64_t size) except -1:
    cdef uint8_t* end = out + size
    cdef const char* text
    cdef Py_ssize_t length
    cdef Py_buffer view
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
        _buffer(value, &view, name)
        try:
            if end - out < view.len + varint_size(view.len):
                raise ValueError("the headers changed while they were sent")
            out = varint_put(out, view.len)
            memcpy(out, view.buf, view.len)
            out += view.len
        finally:
            PyBuffer_Release(&view)
    if out != end or count != 0:
        raise ValueError("the headers changed while they were sent")
    return 0


cdef bytes encode_headers(object headers):
    cdef int64_t size
    cdef bytes encoded
    if type(headers) is not list and type(headers) is not tuple and type(headers) is not dict:
        # Walked twice below, and counted: any other mapping or iterable is copied first.
        headers = list(headers.items() if hasattr(headers, "items") else headers)
    size = _size(headers)
    if size > 0x7FFFFFFF:
        raise ValueError(f"headers of {size:,} bytes do not fit a record")
    encoded = PyBytes_FromStringAndSize(NULL, size)
    _encode(headers, <uint8_t*>PyBytes_AS_STRING(encoded), size)
    return encoded

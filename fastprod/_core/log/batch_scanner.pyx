"""Steps over the batches of a log that were validated when they came in (B-C3.6, B-C5, B-D3)."""
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.string cimport memcpy

from fastprod._core.bytes.fp_status cimport FP_CLOSED, FP_OK, FpStatus, check
from fastprod._core.records.record_reader cimport (
    FAULT_NONE, READER_HEADER_BYTES, BatchView, RecordView, reader_close, reader_fault_text,
    reader_next, reader_open, reader_peek,
)

from fastprod.errors import CorruptRecordError

cdef enum:
    _GIL_FREE_BYTES = 4096

cdef enum Wanted:
    _AT_LEAST = 1       # the first record whose timestamp is at least `timestamp`
    _LARGEST = 2        # the first record with the largest timestamp

ctypedef struct _Search:
    # OWNER the caller's stack.
    Wanted wanted
    int64_t timestamp
    int64_t from_offset
    size_t codec_limit
    int64_t found_offset        # -1: none
    int64_t found_timestamp
    BatchView view              # the batch that is read, or that could not be


cdef bint _header(BatchView* view, const uint8_t* p, size_t n) noexcept nogil:
    """Only the header's 61 bytes need be there."""
    if n < READER_HEADER_BYTES:
        return False
    # A batch that is longer than the buffer is blocked after its size was read: read it as if it
    # were there, its records are not looked at.
    return reader_peek(view, p, <size_t>INT64_MAX, <size_t>INT64_MAX) == FP_OK


cdef int64_t _last_offset(BatchView* view) noexcept nogil:
    return view.base_offset + view.last_offset_delta


def find_offset(log, Py_ssize_t at, Py_ssize_t end, int64_t offset):
    cdef Py_buffer buffer
    cdef BatchView view
    cdef bint found = False
    PyObject_GetBuffer(log, &buffer, PyBUF_SIMPLE)
    end = min(end, buffer.len)
    while 0 <= at < end and _header(&view, <const uint8_t*>buffer.buf + at, end - at):
        if _last_offset(&view) >= offset:
            found = True
            break
        at += <Py_ssize_t>view.size
    PyBuffer_Release(&buffer)
    return at, found


def whole_batches(log, Py_ssize_t at, Py_ssize_t end, int64_t up_to):
    cdef Py_buffer buffer
    cdef BatchView view
    PyObject_GetBuffer(log, &buffer, PyBUF_SIMPLE)
    end = min(end, buffer.len)
    while 0 <= at < end and _header(&view, <const uint8_t*>buffer.buf + at, end - at):
        if <Py_ssize_t>view.size > end - at or _last_offset(&view) >= up_to:
            break
        at += <Py_ssize_t>view.size
    PyBuffer_Release(&buffer)
    return at


def batch_size(log, Py_ssize_t at):
    cdef Py_buffer buffer
    cdef BatchView view
    cdef object size = None
    PyObject_GetBuffer(log, &buffer, PyBUF_SIMPLE)
    if 0 <= at < buffer.len and _header(
        &view, <const uint8_t*>buffer.buf + at, buffer.len - at
    ):
        size = view.size
    PyBuffer_Release(&buffer)
    return size


cdef FpStatus _search_batch(_Search* search, const uint8_t* p, size_t n) noexcept nogil:
    cdef RecordView record
    cdef FpStatus status = reader_open(&search.view, p, n, search.codec_limit)
    if status != FP_OK:
        return status
    while True:
        status = reader_next(&search.view, &record)
        if status != FP_OK:
            break
        if record.offset < search.from_offset:
            continue
        if search.wanted == _LARGEST and (
            search.found_offset < 0 or record.timestamp > search.found_timestamp
        ):
            search.found_offset = record.offset
            search.found_timestamp = record.timestamp
        elif search.wanted == _AT_LEAST and record.timestamp >= search.timestamp:
            search.found_offset = record.offset
            search.found_timestamp = record.timestamp
            break
    reader_close(&search.view)
    return FP_OK if status == FP_CLOSED else status


cdef FpStatus _search(_Search* search, const uint8_t* p, Py_ssize_t at, Py_ssize_t end) \
        noexcept nogil:
    cdef BatchView view
    cdef FpStatus status
    while 0 <= at < end and _header(&view, p + at, end - at):
        if <Py_ssize_t>view.size > end - at:
            break
        if _last_offset(&view) >= search.from_offset and (
            search.wanted == _LARGEST or view.max_timestamp >= search.timestamp
        ) and (
            search.found_offset < 0 or view.max_timestamp > search.found_timestamp
        ):
            search.codec_limit = max(search.codec_limit, view.size)
            status = _search_batch(search, p + at, view.size)
            if status != FP_OK:
                return status
            if search.wanted == _AT_LEAST and search.found_offset >= 0:
                break
        at += <Py_ssize_t>view.size
    return FP_OK


cdef object _run(_Search* search, log, Py_ssize_t at, Py_ssize_t end):
    cdef Py_buffer buffer
    cdef FpStatus status
    search.found_offset = -1
    search.found_timestamp = -1
    PyObject_GetBuffer(log, &buffer, PyBUF_SIMPLE)
    end = min(end, buffer.len)
    with nogil:
        status = _search(search, <const uint8_t*>buffer.buf, at, end)
    PyBuffer_Release(&buffer)
    if status != FP_OK and search.view.fault != FAULT_NONE:
        raise CorruptRecordError(
            f"the batch with base offset {search.view.base_offset} cannot be searched for a "
            f"timestamp: {reader_fault_text(&search.view)}"
        )
    check(status)
    return None if search.found_offset < 0 else (search.found_offset, search.found_timestamp)


def find_timestamp(
    log, Py_ssize_t at, Py_ssize_t end, int64_t timestamp, int64_t from_offset,
    size_t codec_limit,
):
    cdef _Search search
    search.wanted = _AT_LEAST
    search.timestamp = timestamp
    search.from_offset = from_offset
    search.codec_limit = codec_limit
    return _run(&search, log, at, end)


def find_largest_timestamp(
    log, Py_ssize_t at, Py_ssize_t end, int64_t from_offset, size_t codec_limit
):
    cdef _Search search
    search.wanted = _LARGEST
    search.timestamp = 0
    search.from_offset = from_offset
    search.codec_limit = codec_limit
    return _run(&search, log, at, end)


def copy_batch(batch):
    cdef Py_buffer buffer
    cdef bytes copy
    cdef char* to
    PyObject_GetBuffer(batch, &buffer, PyBUF_SIMPLE)
    try:
        copy = PyBytes_FromStringAndSize(NULL, buffer.len)
        to = PyBytes_AS_STRING(copy)
        if buffer.len < _GIL_FREE_BYTES:
            memcpy(to, buffer.buf, buffer.len)
        else:
            # Nobody else has seen the object yet.
            with nogil:
                memcpy(to, buffer.buf, buffer.len)
        return copy
    finally:
        PyBuffer_Release(&buffer)


def copy_into(batch, chunk, Py_ssize_t at):
    cdef Py_buffer source
    cdef Py_buffer target
    cdef Py_ssize_t size
    PyObject_GetBuffer(batch, &source, PyBUF_SIMPLE)
    try:
        PyObject_GetBuffer(chunk, &target, PyBUF_WRITABLE)
        size = target.len
        if 0 <= at <= size - source.len:
            memcpy(<char*>target.buf + at, source.buf, source.len)
            size = -1
        PyBuffer_Release(&target)
        if size >= 0:
            raise ValueError(f"{source.len} bytes do not fit at {at} of {size}")
    finally:
        PyBuffer_Release(&source)

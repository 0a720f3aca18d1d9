"""Gathers rows of Python objects, and borrows numpy arrays, as columns."""
import re
import sys

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_STRIDED_RO, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastprod._core.bytes.argument_view cimport (
    LARGEST_PARTITION, LATEST_MS, View, view_release, view_take, whole_number,
)
from fastprod._core.columns.column cimport (
    CELL_FIXED, CELL_PADDED, CELL_POINTERS, CELL_SIGNED, CELL_UNSIGNED, Cell, CellView, Column,
)
from fastprod._core.records.headers cimport encode_headers

# To milliseconds: times this, divided by that.
_UNITS = {
    "D": (86_400_000, 1), "h": (3_600_000, 1), "m": (60_000, 1), "s": (1000, 1), "ms": (1, 1),
    "us": (1, 1000), "ns": (1, 1_000_000),
}
_DATETIME = re.compile(r"[<>=|]M8\[(\w+)\]")
_FORMAT = re.compile(r"([@=<>!]?)(\d*)(.)")
_WANTED = {
    KIND_BYTES: "fixed-width bytes (S or V), or two dimensions, a row of numbers each",
    KIND_NUMBERS: "integers in this machine's byte order",
    KIND_TIMES: "integers in this machine's byte order (ms), or datetime64",
    KIND_HEADERS: "no numpy type: an Arrow list<struct<key, value>>, or a sequence of headers",
}


cdef class _Buffer:
    """Holds a buffer until it is no longer needed."""
    cdef Py_buffer view
    cdef bint is_held

    def __cinit__(self, data, int flags):
        PyObject_GetBuffer(data, &self.view, flags)
        self.is_held = True

    def __dealloc__(self):
        if self.is_held:
            PyBuffer_Release(&self.view)


cdef bytes _as_bytes(object cell, const char* what):
    cdef View view
    view_take(cell, &view, what)
    try:
        return (<const char*>view.buf)[:view.len]
    finally:
        view_release(&view)


cdef Column gather_rows(object rows, str name, ColumnKind kind, const char* what):
    cdef list taken = list(rows)
    cdef Column column = Column.__new__(Column, name, "a Python sequence")
    cdef CellView* view = column.add_view()
    view.length = len(taken)
    column.owners.append(taken)
    if kind == KIND_BYTES or kind == KIND_HEADERS:
        _gather_cells(column, view, taken, kind == KIND_HEADERS, what)
    else:
        _gather_numbers(column, view, taken, what, LATEST_MS if kind == KIND_TIMES else
                        LARGEST_PARTITION)
    column.check()
    return column


cdef int _gather_cells(
    Column column, CellView* view, list taken, bint is_headers, const char* what
) except -1:
    cdef Cell* cells = <Cell*>column.new_block(len(taken) * sizeof(Cell))
    cdef Py_ssize_t i
    view.kind = CELL_POINTERS
    view.data = <const uint8_t*>cells
    for i in range(len(taken)):
        cell = taken[i]
        cells[i].size = -1
        if cell is None or (is_headers and not cell):
            continue
        if is_headers:
            cell = encode_headers(cell)
            column.owners.append(cell)
        elif not PyBytes_CheckExact(cell):
            cell = cell.encode() if what == b"topic" and isinstance(cell, str) else _as_bytes(
                cell, what)
            column.owners.append(cell)
        cells[i].at = <const uint8_t*>PyBytes_AS_STRING(cell)
        cells[i].size = PyBytes_GET_SIZE(cell)
    return 0


cdef int _gather_numbers(
    Column column, CellView* view, list taken, const char* what, int64_t limit
) except -1:
    cdef int64_t* numbers = <int64_t*>column.new_block(len(taken) * sizeof(int64_t))
    cdef uint8_t* validity = <uint8_t*>column.new_block(len(taken) // 8 + 1)
    cdef str noun = what.decode()
    cdef Py_ssize_t i
    view.kind = CELL_SIGNED
    view.width = 8
    view.stride = 8
    view.data = <const uint8_t*>numbers
    view.validity = validity
    for i in range(len(taken)):
        if taken[i] is not None:
            numbers[i] = whole_number(noun, taken[i], limit)
            validity[i >> 3] |= 1 << (i & 7)
    return 0


cdef Column gather_array(object array, str name, ColumnKind kind):
    cdef Column column = Column.__new__(Column, name, f"numpy {array.dtype}")
    cdef CellView* view = column.add_view()
    cdef _Buffer held
    if hasattr(array, "mask"):
        raise TypeError(
            f"column {name!r} is a masked numpy array, and its mask would be lost: make an Arrow "
            f"array of it, whose nulls are kept")
    if array.ndim == 0:
        raise TypeError(f"column {name!r} is a numpy scalar, not an array of one cell a row")
    if kind == KIND_TIMES and array.dtype.kind == "M":
        array = _in_ms(column, array)
    try:
        held = _Buffer(array, PyBUF_STRIDED_RO | PyBUF_FORMAT)
    except (BufferError, ValueError) as error:
        _refuse(column, kind, error)
    column.owners.append(held)
    view.data = <const uint8_t*>held.view.buf
    view.length = held.view.shape[0]
    view.stride = held.view.strides[0]
    if kind == KIND_BYTES:
        _bytes_of(column, view, &held.view)
    else:
        _numbers_of(column, view, &held.view, kind)
    column.check()
    return column


cdef object _in_ms(Column column, object array):
    found = _DATETIME.fullmatch(array.dtype.str)
    if found is None or found[1] not in _UNITS or not array.dtype.isnative:
        _refuse(column, KIND_TIMES, None)
    column.multiply, column.divide = _UNITS[found[1]]
    column.has_nat = True
    return array.view("i8")


cdef int _bytes_of(Column column, CellView* view, Py_buffer* held) except -1:
    cdef bytes form = held.format if held.format != NULL else b"B"
    found = _FORMAT.fullmatch(form.decode("ascii", "replace"))
    if held.ndim == 2 and (held.shape[1] < 2 or held.strides[1] == held.itemsize):
        if found is None or found[3] == "O" or held.shape[1] * held.itemsize > 0x7FFFFFFF:
            _refuse(column, KIND_BYTES, None)
        view.kind = CELL_FIXED
        view.width = <int32_t>(held.shape[1] * held.itemsize)
        return 0
    # A structured row is its bytes, as it is to `bytes`.
    if held.ndim != 1 or b"O" in form or not (
        form.startswith(b"T{") or (found is not None and found[3] in "sx")
    ) or held.itemsize > 0x7FFFFFFF:
        _refuse(column, KIND_BYTES, None)
    view.kind = CELL_PADDED if found is not None and found[3] == "s" else CELL_FIXED
    view.width = <int32_t>held.itemsize
    return 0


cdef int _numbers_of(Column column, CellView* view, Py_buffer* held, ColumnKind kind) except -1:
    cdef bytes form = held.format if held.format != NULL else b"B"
    found = _FORMAT.fullmatch(form.decode("ascii", "replace"))
    foreign = "<" if sys.byteorder == "big" else ">!"
    if (kind == KIND_HEADERS or held.ndim != 1 or found is None or found[3] not in "bhilqnBHILQN"
            or (found[1] and found[1] in foreign and held.itemsize > 1)):
        _refuse(column, kind, None)
    view.kind = CELL_SIGNED if found[3].islower() else CELL_UNSIGNED
    view.width = <int32_t>held.itemsize
    return 0


cdef int _refuse(Column column, ColumnKind kind, object cause) except -1:
    raise TypeError(
        f"column {column.name!r} is {column.type_name}; of numpy it takes {_WANTED[kind]}"
    ) from cause

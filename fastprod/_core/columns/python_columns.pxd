"""Columns of what Python has: rows in a sequence, and numpy arrays."""
from fastprod._core.columns.column cimport Column

cdef enum ColumnKind:
    KIND_BYTES = 0
    KIND_NUMBERS = 1
    KIND_TIMES = 2          # numbers that may have a unit
    KIND_HEADERS = 3

# Of an iterable of bytes-like objects, str or None (KIND_BYTES), of ints or None, or of a record's
# headers or None (KIND_HEADERS: cells of encoded bytes). `what` is a cell's name in errors.
cdef Column gather_rows(object rows, str name, ColumnKind kind, const char* what)
# Of a numpy array.
cdef Column gather_array(object array, str name, ColumnKind kind)

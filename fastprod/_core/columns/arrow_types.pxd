"""Arrow's type formats: which of them a column takes, and how errors call them."""
from libc.stdint cimport int32_t, int64_t

from fastprod._core.columns.arrow_schema cimport ArrowSchema
from fastprod._core.columns.column cimport CellKind
from fastprod._core.columns.python_columns cimport ColumnKind

cdef struct NumberType:
    CellKind kind
    int32_t width
    int64_t multiply        # to milliseconds, if it is a timestamp
    int64_t divide

# The type in Arrow's words.
cdef str type_text(ArrowSchema* schema)
# What a column of this kind takes, in words.
cdef str accepted(ColumnKind kind)
# The cells of a type of bytes, and their width if it is fixed, else 0; -1: it is none.
cdef int32_t bytes_kind(ArrowSchema* schema, CellKind* kind)
# Whether it is an integer type, or a timestamp where that is allowed.
cdef bint number_type(ArrowSchema* schema, bint is_time, NumberType* found)
# Whether it is a list or a map of pairs.
cdef bint list_kind(ArrowSchema* schema, CellKind* kind)

"""Arrow's PyCapsule interface: what an object exports, and columns made of it."""
from libc.stdint cimport int64_t

from fastprod._core.columns.arrow_schema cimport ArrowArray, ArrowArrayStream, ArrowSchema
from fastprod._core.columns.column cimport Column
from fastprod._core.columns.python_columns cimport ColumnKind

# Owners of one struct that was moved out of its capsule: they release it once, when they go.
cdef class SchemaOwner:
    cdef ArrowSchema schema

cdef class ArrayOwner:
    cdef ArrowArray array

cdef class StreamOwner:
    cdef ArrowArrayStream stream

cdef class ArrowData:
    # What an object exports: a type, and one array or more.
    # Threads: one at a time.
    cdef SchemaOwner schema
    cdef list arrays            # ArrayOwner
    cdef str name               # for errors

    cdef bint is_struct(self)
    cdef list field_names(self)
    # The column of it all; child -1: itself, else that field of a struct.
    cdef Column column(self, str name, ColumnKind kind, int64_t child)

cdef ArrowData open_arrow(object source, str name)

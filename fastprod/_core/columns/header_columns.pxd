"""HeaderColumns: the headers of many rows, out of columns, encoded without the GIL."""
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastprod._core.columns.column cimport Cells, Column
from fastprod._core.records.record_batch cimport Record

cdef struct HeaderPart:
    # A header that every row has.  BORROWS both from the HeaderColumns' owners.
    const uint8_t* text         # its name, encoded; of a constant also its value
    int32_t size
    Cells* values               # NULL: a constant


cdef class HeaderColumns:
    # Threads: one at a time.
    cdef list owners
    cdef Column lists           # CELL_LIST* or CELL_POINTERS (encoded headers), or None
    cdef Cells* list_cells      # of `lists`, or NULL
    cdef HeaderPart* parts      # owned
    cdef int32_t part_count
    cdef bint is_constant       # every row has the same
    cdef uint8_t* space         # owned; the encoded headers of the latest rows
    cdef size_t capacity
    cdef size_t used

    cdef int _add(self, bytes text, Cells* values) except -1
    cdef int add_constant(self, str name, object value) except -1
    cdef int add_column(self, str name, Column values) except -1
    cdef int set_lists(self, Column lists) except -1
    # Give the next rows their headers, which hold until the next call: as many of `count` rows as
    # fit some space, one or more; -1: no memory. Headers of more than `largest` bytes have their
    # size and no bytes.
    cdef int32_t fill(self, Record* records, int32_t count, int64_t largest) noexcept nogil
    cdef int64_t _row(self, int64_t largest) noexcept nogil
    cdef int64_t _list_row(self, int64_t room, int64_t* count) noexcept nogil
    cdef bint _put(self, const uint8_t* data, int64_t size) noexcept nogil
    cdef bint _put_number(self, int64_t number) noexcept nogil

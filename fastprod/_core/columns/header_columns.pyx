"""Encodes the headers of each row from columns of names and values.

Headers (P-E.3): count varint; of each name size varint, name, value size varint (-1: null), value.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

from fastprod._core.bytes.varint cimport varint_get, varint_put, varint_size
from fastprod._core.columns.column cimport (
    CELL_LIST32, CELL_LIST64, CELL_NONE, CellView, Cells, Column, cell_bytes, cell_is_valid,
    cells_here, load_offset,
)
from fastprod._core.records.headers cimport encode_headers
from fastprod._core.records.record_batch cimport Record

cdef enum:
    SPACE_BYTES = 1048576       # rows of one fill share so much, and the last may exceed it
    LARGEST_SIZE = 0x7FFFFFFF


cdef class HeaderColumns:
    """The headers of many rows. Native only."""

    def __cinit__(self):
        self.owners = []
        self.is_constant = True

    def __dealloc__(self):
        free(self.parts)
        free(self.space)

    cdef int _add(self, bytes text, Cells* values) except -1:
        cdef HeaderPart* grown = <HeaderPart*>realloc(
            self.parts, (self.part_count + 1) * sizeof(HeaderPart))
        if grown == NULL:
            raise MemoryError("no memory for a header column")
        self.parts = grown
        grown[self.part_count].text = <const uint8_t*>PyBytes_AS_STRING(text)
        grown[self.part_count].size = <int32_t>PyBytes_GET_SIZE(text)
        grown[self.part_count].values = values
        self.part_count += 1
        self.owners.append(text)
        return 0

    cdef int add_constant(self, str name, object value) except -1:
        self._add(encode_headers([(name, value)])[1:], NULL)
        return 0

    cdef int add_column(self, str name, Column values) except -1:
        # What the encoder writes of a null ends with one byte for its size.
        cdef bytes text = encode_headers([(name, None)])
        self._add(text[1:len(text) - 1], &values.cells)
        self.owners.append(values)
        self.is_constant = False
        return 0

    cdef int set_lists(self, Column lists) except -1:
        self.lists = lists
        self.list_cells = &lists.cells
        self.is_constant = False
        return 0

    cdef int32_t fill(self, Record* records, int32_t count, int64_t largest) noexcept nogil:
        cdef int32_t i
        cdef int64_t size
        cdef size_t before
        self.used = 0
        for i in range(count):
            if i > 0 and self.is_constant:
                records[i].headers = records[0].headers
                records[i].headers_size = records[0].headers_size
                continue
            if self.used > SPACE_BYTES:
                count = i
                break
            before = self.used
            size = self._row(largest)
            if size < 0:
                return -1
            # The space may move while it grows: places first, pointers at the end.
            records[i].headers = <const uint8_t*>(before + 1)
            records[i].headers_size = <uint32_t>min(size, <int64_t>LARGEST_SIZE)
        if self.is_constant and count > 0:
            for i in range(count):
                records[i].headers = self.space
            return count
        for i in range(count):
            records[i].headers = self.space + (<size_t>records[i].headers - 1)
        return count

    cdef int64_t _row(self, int64_t largest) noexcept nogil:
        """Encode the next row's headers; returns their size, -1: no memory."""
        cdef int32_t i
        cdef int64_t row, size, value_size
        cdef int64_t count = self.part_count
        cdef size_t before = self.used
        cdef const uint8_t* at = NULL
        cdef CellView* view
        size = self._list_row(largest, &count)
        if size < 0:
            return -1
        for i in range(self.part_count):
            size += self.parts[i].size
            value_size = 0
            if self.parts[i].values != NULL:
                view = cells_here(self.parts[i].values, &row)
                self.parts[i].values.row_at = row + 1
                value_size = cell_bytes(view, row, &at)
                size += varint_size(value_size) + max(<int64_t>0, value_size)
            if size > largest:
                continue
            if not self._put(self.parts[i].text, self.parts[i].size):
                return -1
            if self.parts[i].values != NULL and not (
                    self._put_number(value_size) and self._put(at, value_size)):
                return -1
        if size > largest:
            self.used = before + 1
        return size

    cdef int64_t _list_row(self, int64_t room, int64_t* count) noexcept nogil:
        """The count of the next row's headers, and those of `lists`; their size, -1: no memory."""
        cdef int64_t row, entry, end, name_size
        cdef int64_t value_size = 0
        cdef int64_t size = 0
        cdef int64_t listed = 0
        cdef const uint8_t* at = NULL
        cdef const uint8_t* rest = NULL
        cdef CellView* view = NULL
        if self.list_cells != NULL:
            view = cells_here(self.list_cells, &row)
            self.list_cells.row_at = row + 1
        entry = end = 0
        if view != NULL and (view.kind == CELL_LIST32 or view.kind == CELL_LIST64):
            if cell_is_valid(view, row):
                entry = load_offset(view, row)
                end = load_offset(view, row + 1)
            count[0] += end - entry
        elif view != NULL and view.kind != CELL_NONE:
            value_size = cell_bytes(view, row, &at)
            if value_size > 0:
                rest = varint_get(at, at + value_size, 5, &listed)
                count[0] += listed
                value_size -= rest - at
        size = varint_size(count[0])
        if not self._put_number(count[0]):
            return -1
        if rest != NULL:
            size += value_size
            return size if size > room or self._put(rest, value_size) else -1
        while entry < end:
            name_size = cell_bytes(&view.inner[0], entry, &at)
            value_size = cell_bytes(&view.inner[1], entry, &rest)
            size += varint_size(name_size) + name_size
            size += varint_size(value_size) + max(<int64_t>0, value_size)
            entry += 1
            if size <= room and not (
                    self._put_number(name_size) and self._put(at, name_size)
                    and self._put_number(value_size) and self._put(rest, value_size)):
                return -1
        return size

    cdef bint _put_number(self, int64_t number) noexcept nogil:
        cdef uint8_t digits[10]
        return self._put(digits, varint_put(digits, number) - digits)

    cdef bint _put(self, const uint8_t* data, int64_t size) noexcept nogil:
        """False: no memory."""
        cdef size_t capacity
        cdef uint8_t* grown
        if self.space == NULL or size > <int64_t>(self.capacity - self.used):
            capacity = (self.used + max(size, <int64_t>SPACE_BYTES)) * 2
            grown = <uint8_t*>realloc(self.space, capacity)
            if grown == NULL:
                return False
            self.space = grown
            self.capacity = capacity
        if size > 0:
            memcpy(self.space + self.used, data, size)
            self.used += size
        return True

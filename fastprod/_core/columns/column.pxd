"""Column: cells of many rows, where Arrow or numpy keeps them or as we gathered them.

A column is a chain of views, each of them a C struct that borrows. Reading a cell takes no Python.
"""
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy

from fastprod._core.bytes.fp_status cimport FpStatus

cdef enum CellKind:
    CELL_NONE = 0           # every row is null
    # bytes
    CELL_OFFSETS32 = 1      # rows lie one behind the other in `data`; Arrow binary, string
    CELL_OFFSETS64 = 2      # Arrow large_binary, large_string
    CELL_VIEWS = 3          # Arrow's 16-byte views: short ones in place, others in `buffers`
    CELL_FIXED = 4          # `width` bytes every `stride`
    CELL_PADDED = 5         # the same without the zero bytes at their end (numpy's S)
    CELL_POINTERS = 6       # a Cell each
    CELL_INDEXED = 7        # numbers of rows of inner[0]: a dictionary
    # numbers
    CELL_SIGNED = 8         # `width` bytes every `stride`
    CELL_UNSIGNED = 9
    # lists of headers; inner[0] has the names, inner[1] the values, inner[2] which are null
    CELL_LIST32 = 10
    CELL_LIST64 = 11

cdef struct Cell:
    const uint8_t* at
    int64_t size            # -1: null

cdef struct CellView:
    # Rows of one array.
    # OWNER its Column.  BORROWS all pointers but `inner`, from what the Column's `owners` hold.
    CellKind kind
    bint is_signed          # CELL_INDEXED: the numbers
    int32_t width
    int64_t stride
    int64_t length          # rows
    int64_t offset          # of row 0 in `data`, `offsets` and `validity`
    const uint8_t* validity     # a bit a row, 0: null; NULL: none is
    const uint8_t* data
    const uint8_t* offsets      # CELL_OFFSETS*, CELL_LIST*
    const uint8_t* const* buffers   # CELL_VIEWS
    const int64_t* buffer_sizes
    int64_t buffer_count
    CellView* inner         # owned

cdef struct Cells:
    # All rows of a column, and how far they have been read.  OWNER its Column.
    CellView* views         # owned
    int32_t view_count
    int64_t length
    int32_t view_at
    int64_t row_at          # in the view


cdef class Column:
    # Threads: one at a time.
    cdef Cells cells
    cdef readonly str name      # for errors
    cdef readonly str type_name
    cdef int64_t multiply       # numbers: to milliseconds or whatever is wanted, floor(x * m / d)
    cdef int64_t divide
    cdef bint has_nat           # the smallest number is a null
    cdef list owners            # what the views point into
    cdef list blocks            # addresses of memory to free

    # A new view, zeroed; its `inner`, once set, is freed with it.
    cdef CellView* add_view(self) except NULL
    cdef void* new_block(self, size_t size) except NULL
    # Raise ValueError unless every cell can be read. No cell may be read before.
    cdef int check(self) except -1
    # Raise ValueError unless every number is null or 0..limit.
    cdef int check_numbers(self, int64_t limit) except -1


cdef inline bint cell_is_valid(const CellView* view, int64_t row) noexcept nogil:
    if view.validity == NULL:
        return True
    row += view.offset
    return (view.validity[row >> 3] >> (row & 7)) & 1


cdef inline int64_t load_number(const uint8_t* at, int32_t width, bint is_signed) noexcept nogil:
    """A number in this machine's byte order; those above 2**63-1 come out negative."""
    cdef int64_t wide
    cdef int32_t four
    cdef int16_t two
    if width == 8:
        memcpy(&wide, at, 8)
        return wide
    if width == 4:
        memcpy(&four, at, 4)
        return four if is_signed else <int64_t><uint32_t>four
    if width == 2:
        memcpy(&two, at, 2)
        return two if is_signed else <int64_t><uint16_t>two
    return <int64_t>(<int8_t>at[0]) if is_signed else <int64_t>at[0]


cdef inline int64_t cell_number(const CellView* view, int64_t row) noexcept nogil:
    """The number of a row that is not null."""
    return load_number(
        view.data + (view.offset + row) * view.stride, view.width, view.kind == CELL_SIGNED)


cdef inline int64_t _padded_size(const uint8_t* at, int64_t size) noexcept nogil:
    while size > 0 and at[size - 1] == 0:
        size -= 1
    return size


cdef inline int64_t load_offset(const CellView* view, int64_t row) noexcept nogil:
    """Where `row` of a view with offsets begins."""
    cdef int64_t wide
    cdef int32_t four
    row += view.offset
    if view.kind == CELL_OFFSETS32 or view.kind == CELL_LIST32:
        memcpy(&four, view.offsets + 4 * row, 4)
        return four
    memcpy(&wide, view.offsets + 8 * row, 8)
    return wide


cdef inline int64_t _plain_cell(
    const CellView* view, int64_t row, const uint8_t** at
) noexcept nogil:
    """A row of any kind of bytes but CELL_INDEXED."""
    cdef int64_t begin
    cdef int32_t parts[4]
    cdef Cell cell
    at[0] = NULL
    if view.kind == CELL_NONE or not cell_is_valid(view, row):
        return -1
    if view.kind == CELL_OFFSETS32 or view.kind == CELL_OFFSETS64:
        begin = load_offset(view, row)
        at[0] = view.data + begin
        return load_offset(view, row + 1) - begin
    if view.kind == CELL_VIEWS:
        at[0] = view.data + 16 * (view.offset + row)
        memcpy(parts, at[0], 16)
        if parts[0] <= 12:
            at[0] += 4
        else:
            at[0] = view.buffers[parts[2]] + parts[3]
        return parts[0]
    if view.kind == CELL_POINTERS:
        cell = (<const Cell*>view.data)[view.offset + row]
        at[0] = cell.at
        return cell.size
    at[0] = view.data + (view.offset + row) * view.stride
    return view.width if view.kind == CELL_FIXED else _padded_size(at[0], view.width)


cdef inline int64_t cell_bytes(
    const CellView* view, int64_t row, const uint8_t** at
) noexcept nogil:
    """Size of a row's bytes, which at[0] then points to; -1: null. Requires: column_check."""
    if view.kind != CELL_INDEXED:
        return _plain_cell(view, row, at)
    at[0] = NULL
    if not cell_is_valid(view, row):
        return -1
    row = load_number(
        view.data + (view.offset + row) * view.stride, view.width, view.is_signed)
    return _plain_cell(view.inner, row, at)


# The next `count` rows' bytes, to pointers and sizes that lie `step` bytes apart. Sizes above
# 2**31-1, which no record can have, become 2**31-1. Requires: so many rows are left.
cdef void cells_take(
    Cells* cells, int32_t count, const uint8_t** at, int32_t* sizes, size_t step) noexcept nogil
# The view that the next row is in, `row[0]` its place there. Requires: a row is left.
cdef CellView* cells_here(Cells* cells, int64_t* row) noexcept nogil

# The number of a row in the column's unit, or `missing` if it is null. -1: it has none.
cdef int64_t column_number(
    Column column, const CellView* view, int64_t row, int64_t missing) noexcept nogil
# The first row that is null, or -1.
cdef int64_t first_null(const Cells* cells) noexcept nogil
cdef void cells_free(CellView* view) noexcept nogil

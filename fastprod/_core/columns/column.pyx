"""Chains views into columns and reads cells: bytes, numbers, the first null."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset

from fastprod._core.bytes.fp_status cimport FP_CORRUPT, FP_OK, FP_UNSUPPORTED, FpStatus

cdef enum:
    LARGEST_SIZE = 0x7FFFFFFF

cdef extern from *:
    const int64_t SMALLEST "INT64_MIN"
    const int64_t LARGEST "INT64_MAX"


cdef class Column:
    """Cells of many rows. Native only."""

    def __cinit__(self, str name, str type_name):
        self.name = name
        self.type_name = type_name
        self.multiply = 1
        self.divide = 1
        self.owners = []
        self.blocks = []

    def __dealloc__(self):
        cdef int32_t i
        for i in range(self.cells.view_count):
            cells_free(&self.cells.views[i])
        free(self.cells.views)
        for block in self.blocks:
            free(<void*><size_t>block)

    def __len__(self):
        return self.cells.length

    cdef CellView* add_view(self) except NULL:
        cdef int32_t count = self.cells.view_count
        cdef CellView* grown
        if count & (count - 1) == 0:    # room for a power of two
            grown = <CellView*>realloc(self.cells.views, max(1, count * 2) * sizeof(CellView))
            if grown == NULL:
                raise MemoryError(f"no memory for {count:,} chunks of column {self.name!r}")
            self.cells.views = grown
        memset(&self.cells.views[count], 0, sizeof(CellView))
        self.cells.view_count = count + 1
        return &self.cells.views[count]

    cdef void* new_block(self, size_t size) except NULL:
        cdef void* block = calloc(max(<size_t>1, size), 1)
        if block == NULL:
            raise MemoryError(f"no memory for {size:,} bytes of column {self.name!r}")
        self.blocks.append(<size_t>block)
        return block

    cdef int check(self) except -1:
        cdef int32_t i
        cdef int64_t bad_row = 0
        cdef int64_t before = 0
        cdef FpStatus status
        for i in range(self.cells.view_count):
            with nogil:
                status = _check_view(&self.cells.views[i], &bad_row)
            if status == FP_UNSUPPORTED:
                raise ValueError(
                    f"column {self.name!r}: a header of row {before + bad_row:,} has no name (the "
                    f"name, or the header, is null): give it one, or leave the header out")
            if status != FP_OK:
                raise ValueError(
                    f"column {self.name!r} of type {self.type_name} is damaged: row "
                    f"{before + bad_row:,} (of {self.cells.views[i].length:,} in its chunk) has an "
                    f"offset, a size or an index that falls, is negative or points outside of the "
                    f"data: whoever made the array made it wrong")
            before += self.cells.views[i].length
        self.cells.length = before
        return 0

    cdef int check_numbers(self, int64_t limit) except -1:
        cdef int64_t row, number = 0
        with nogil:
            row = _first_outside(self, limit, &number)
        if row >= 0:
            told = number
            if number < 0 and self.cells.views[0].kind == CELL_UNSIGNED:
                told += 1 << 64
            unit = "in ms " if self.multiply != 1 or self.divide != 1 else ""
            raise ValueError(
                f"column {self.name!r} of type {self.type_name}: row {row:,} is {told:,}; "
                f"{unit}it must be 0..{limit:,} or null")
        return 0


cdef void cells_free(CellView* view) noexcept nogil:
    cdef int32_t i
    cdef int32_t count = 3 if view.kind == CELL_LIST32 or view.kind == CELL_LIST64 else 1
    if view.inner == NULL:
        return
    for i in range(count):
        cells_free(&view.inner[i])
    free(view.inner)
    view.inner = NULL


cdef CellView* cells_here(Cells* cells, int64_t* row) noexcept nogil:
    while cells.row_at >= cells.views[cells.view_at].length:
        cells.view_at += 1
        cells.row_at = 0
    row[0] = cells.row_at
    return &cells.views[cells.view_at]


cdef void _take_between(
    const CellView* view, int64_t row, int64_t end, const uint8_t** at, int32_t* sizes, size_t step
) noexcept nogil:
    """Rows of which none is null, between offsets of 32 bits, in the loop that most cells go by."""
    cdef const uint8_t* data = view.data
    cdef const uint8_t* next_offset = view.offsets + 4 * (view.offset + row)
    cdef const uint8_t* last_offset = view.offsets + 4 * (view.offset + end)
    cdef int32_t begin, found
    memcpy(&begin, next_offset, 4)
    while next_offset < last_offset:
        next_offset += 4
        memcpy(&found, next_offset, 4)
        at[0] = data + begin
        sizes[0] = <int32_t>min(<int64_t>found - begin, <int64_t>LARGEST_SIZE)
        begin = found
        at = <const uint8_t**>(<char*>at + step)
        sizes = <int32_t*>(<char*>sizes + step)


cdef void cells_take(
    Cells* cells, int32_t count, const uint8_t** at, int32_t* sizes, size_t step
) noexcept nogil:
    cdef CellView view      # a copy, which no store can change: its kind is looked at once
    cdef int64_t row, size, end
    while count > 0:
        view = cells_here(cells, &row)[0]
        end = row + min(<int64_t>count, view.length - row)
        count -= <int32_t>(end - row)
        cells.row_at = end
        if view.validity == NULL and view.kind == CELL_OFFSETS32:
            _take_between(&view, row, end, at, sizes, step)
            at = <const uint8_t**>(<char*>at + step * (end - row))
            sizes = <int32_t*>(<char*>sizes + step * (end - row))
            continue
        while row < end:
            size = cell_bytes(&view, row, at)
            sizes[0] = <int32_t>min(size, <int64_t>LARGEST_SIZE)
            at = <const uint8_t**>(<char*>at + step)
            sizes = <int32_t*>(<char*>sizes + step)
            row += 1


cdef FpStatus _check_offsets(const CellView* view, int64_t* bad_row) noexcept nogil:
    cdef int64_t row, begin, end
    cdef CellView fixed = view[0]
    if view.length == 0:
        return FP_OK
    begin = load_offset(&fixed, 0)
    if begin < 0:
        bad_row[0] = 0
        return FP_CORRUPT
    for row in range(fixed.length):
        end = load_offset(&fixed, row + 1)
        if end < begin:
            bad_row[0] = row
            return FP_CORRUPT
        begin = end
    if begin > 0 and view.data == NULL and view.inner == NULL:
        bad_row[0] = fixed.length - 1
        return FP_CORRUPT
    return FP_OK


cdef FpStatus _check_views(const CellView* view, int64_t* bad_row) noexcept nogil:
    cdef int64_t row
    cdef int32_t parts[4]
    for row in range(view.length):
        if not cell_is_valid(view, row):
            continue
        bad_row[0] = row
        memcpy(parts, view.data + 16 * (view.offset + row), 16)
        if parts[0] < 0:
            return FP_CORRUPT
        if parts[0] > 12 and (
            parts[2] < 0 or parts[2] >= view.buffer_count or parts[3] < 0
            or <int64_t>parts[3] + parts[0] > view.buffer_sizes[parts[2]]
        ):
            return FP_CORRUPT
    return FP_OK


cdef FpStatus _check_lists(const CellView* view, int64_t* bad_row) noexcept nogil:
    """Headers have names, and lie inside of the child arrays."""
    cdef int64_t row, entry, end
    cdef const uint8_t* at
    for row in range(view.length):
        if not cell_is_valid(view, row):
            continue
        bad_row[0] = row
        end = load_offset(view, row + 1)
        if end > view.inner[2].length:
            return FP_CORRUPT
        for entry in range(load_offset(view, row), end):
            if not cell_is_valid(&view.inner[2], entry) or (
                    cell_bytes(&view.inner[0], entry, &at) < 0):
                return FP_UNSUPPORTED
    return FP_OK


cdef FpStatus _check_indexes(const CellView* view, int64_t* bad_row) noexcept nogil:
    cdef int64_t row, index
    for row in range(view.length):
        if not cell_is_valid(view, row):
            continue
        index = load_number(
            view.data + (view.offset + row) * view.stride, view.width, view.is_signed)
        if index < 0 or index >= view.inner.length:
            bad_row[0] = row
            return FP_CORRUPT
    return FP_OK


cdef FpStatus _check_view(const CellView* view, int64_t* bad_row) noexcept nogil:
    cdef FpStatus status = FP_OK
    bad_row[0] = 0
    if view.kind == CELL_OFFSETS32 or view.kind == CELL_OFFSETS64:
        return _check_offsets(view, bad_row)
    if view.kind == CELL_VIEWS:
        return _check_views(view, bad_row)
    if view.kind == CELL_INDEXED:
        status = _check_view(view.inner, bad_row)
        return status if status != FP_OK else _check_indexes(view, bad_row)
    if view.kind == CELL_LIST32 or view.kind == CELL_LIST64:
        status = _check_offsets(view, bad_row)
        if status == FP_OK:
            status = _check_view(&view.inner[0], bad_row)
        if status == FP_OK:
            status = _check_view(&view.inner[1], bad_row)
        if status == FP_OK:
            status = _check_lists(view, bad_row)
    return status


cdef int64_t column_number(
    Column column, const CellView* view, int64_t row, int64_t missing
) noexcept nogil:
    cdef int64_t number
    if view.kind == CELL_NONE or not cell_is_valid(view, row):
        return missing
    number = cell_number(view, row)
    if number < 0:
        if column.has_nat and number == SMALLEST:
            return missing
        return -1
    if column.multiply > 1:
        return number * column.multiply if number <= LARGEST // column.multiply else -1
    return number // column.divide


cdef int64_t _first_outside(Column column, int64_t limit, int64_t* found) noexcept nogil:
    """The first row whose number is not 0..limit, or -1."""
    cdef int32_t i
    cdef int64_t row, number
    cdef int64_t before = 0
    cdef CellView* view
    for i in range(column.cells.view_count):
        view = &column.cells.views[i]
        for row in range(view.length):
            number = column_number(column, view, row, 0)
            if number < 0 or number > limit:
                found[0] = cell_number(view, row)
                return before + row
        before += view.length
    return -1


cdef int64_t first_null(const Cells* cells) noexcept nogil:
    cdef int32_t i
    cdef int64_t row
    cdef int64_t before = 0
    cdef const uint8_t* at
    for i in range(cells.view_count):
        for row in range(cells.views[i].length):
            if cell_bytes(&cells.views[i], row, &at) < 0:
                return before + row
        before += cells.views[i].length
    return -1

"""Rows as JSON texts: a walk over one row's fields at a time, into one growing buffer."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memmove

from fastprod._core.bytes.fp_status cimport FP_CORRUPT, FP_OK, FpStatus, check
from fastprod._core.columns.arrow cimport ArrayOwner, ArrowData, open_arrow
from fastprod._core.columns.column cimport (
    CELL_FIXED, CELL_INDEXED, CELL_VIEWS, CellView, cell_bytes, cell_is_valid, cell_number,
    load_number, load_offset,
)
from fastprod._core.json.arrow_output cimport BinaryBlock, BinaryColumn, new_binary_column
from fastprod._core.json.float_text cimport FLOAT_BYTES, put_double, put_float
from fastprod._core.json.layout cimport (
    JSON_BINARY, JSON_BOOLEAN, JSON_DATE, JSON_DECIMAL, JSON_DOUBLE, JSON_FLOAT, JSON_INTEGER,
    JSON_LIST, JSON_MAP, JSON_NULL, JSON_STRING, JSON_TIME, JSON_TIMESTAMP, JSON_UNSIGNED,
    JsonFormat, JsonLayout, JsonNode, new_json_layout,
)
from fastprod._core.json.numbers cimport (
    DECIMAL_BYTES, put_decimal, put_integer, put_unsigned,
)
from fastprod._core.json.text cimport put_json_base64, put_json_string
from fastprod._core.json.text_buffer cimport (
    TextBuffer, text_put, text_put_byte, text_reserve,
)
from fastprod._core.json.times cimport TIME_OF_DAY_BYTES, put_time, put_time_of_day, zone_offset

cdef enum:
    DAY_S = 86400
    NANOS_PER_S = 1_000_000_000


cdef inline int64_t _floor_divide(int64_t number, int64_t by) noexcept nogil:
    return number // by - (number % by < 0)


cdef inline bint _bit(const CellView* cells, int64_t row) noexcept nogil:
    row += cells.offset
    return (cells.data[row >> 3] >> (row & 7)) & 1


cdef inline bint _is_null(const JsonNode* node, int64_t row) noexcept nogil:
    cdef const uint8_t* at
    if node.kind == JSON_NULL or not cell_is_valid(&node.cells, row):
        return True
    if node.cells.kind != CELL_INDEXED or node.cells.inner.validity == NULL:
        return False
    return _has_row(&node.cells, row) and cell_bytes(&node.cells, row, &at) < 0


cdef inline bint _has_row(const CellView* cells, int64_t row) noexcept nogil:
    """Whether a dictionary has the row that is asked for."""
    cdef int64_t index = load_number(
        cells.data + (cells.offset + row) * cells.stride, cells.width, cells.is_signed)
    return 0 <= index < cells.inner.length


cdef bint _is_inside(const CellView* cells, int64_t row) noexcept nogil:
    """Whether the bytes of a row that is not null can be read."""
    cdef int32_t parts[4]
    if cells.kind == CELL_INDEXED:
        return _has_row(cells, row) and (cells.inner.kind != CELL_VIEWS or _is_inside(
            cells.inner, load_number(
                cells.data + (cells.offset + row) * cells.stride, cells.width, cells.is_signed)))
    if cells.kind != CELL_VIEWS:
        return cells.kind == CELL_FIXED or (
            load_offset(cells, row) >= 0 and (
                cells.data != NULL or load_offset(cells, row + 1) == 0))
    memcpy(parts, cells.data + 16 * (cells.offset + row), 16)
    return 0 <= parts[0] <= 12 or (
        parts[0] > 12 and 0 <= parts[2] < cells.buffer_count and parts[3] >= 0
        and <int64_t>parts[3] + parts[0] <= cells.buffer_sizes[parts[2]])


cdef FpStatus _put_bytes(TextBuffer* text, const JsonNode* node, int64_t row) noexcept nogil:
    cdef const uint8_t* at
    cdef int64_t size
    if not _is_inside(&node.cells, row):
        return FP_CORRUPT
    size = cell_bytes(&node.cells, row, &at)
    if size < 0:
        return FP_CORRUPT
    if node.kind == JSON_STRING:
        return put_json_string(text, at, size)
    return put_json_base64(text, at, size)


cdef uint8_t* _put_timestamp(uint8_t* at, JsonNode* node, int64_t row) noexcept nogil:
    cdef int64_t number = cell_number(&node.cells, row)
    cdef int64_t time_s = _floor_divide(number, node.units_per_s)
    cdef int64_t nano = (number - time_s * node.units_per_s) * (NANOS_PER_S // node.units_per_s)
    cdef int64_t day = _floor_divide(time_s, DAY_S)
    cdef int64_t second = time_s - day * DAY_S
    cdef int32_t offset_s = 0
    if node.zone != NULL:
        # The day is known by now: the sum with a time may be more than 64 bits hold.
        offset_s = zone_offset(node.zone, time_s, &node.zone_hint)
        second += offset_s
        if second < 0:
            second += DAY_S
            day -= 1
        elif second >= DAY_S:
            second -= DAY_S
            day += 1
    return put_time(at, node.parts, day, second * NANOS_PER_S + nano, offset_s)


cdef uint8_t* _put_double(uint8_t* at, const JsonNode* node, int64_t row) noexcept nogil:
    cdef double number
    cdef float small
    row += node.cells.offset
    if node.kind == JSON_DOUBLE:
        memcpy(&number, node.cells.data + 8 * row, 8)
        return put_double(at, number)
    memcpy(&small, node.cells.data + 4 * row, 4)
    return put_float(at, small)


cdef inline uint8_t* _put_boolean(uint8_t* at, const JsonNode* node, int64_t row) noexcept nogil:
    if _bit(&node.cells, row):
        memcpy(at, b"true", 4)
        return at + 4
    memcpy(at, b"false", 5)
    return at + 5


cdef FpStatus _put_number(TextBuffer* text, const JsonNode* node, int64_t row) noexcept nogil:
    """What JSON has without quotes, but for numbers that are none."""
    cdef uint8_t* at
    if text_reserve(text, DECIMAL_BYTES) != FP_OK:
        return text_reserve(text, DECIMAL_BYTES)
    at = text.at
    if node.kind == JSON_INTEGER:
        at = put_integer(at, cell_number(&node.cells, row))
    elif node.kind == JSON_UNSIGNED:
        at = put_unsigned(at, <uint64_t>cell_number(&node.cells, row))
    elif node.kind == JSON_BOOLEAN:
        at = _put_boolean(at, node, row)
    elif node.kind == JSON_DECIMAL:
        at = put_decimal(
            at, node.cells.data + 16 * (node.cells.offset + row), node.scale)
    else:
        at = _put_double(at, node, row)
        if (at - 1)[0] > c'9':      # NaN, Infinity and -Infinity end in a letter
            memmove(text.at + 1, text.at, at - text.at)
            text.at[0] = c'"'
            at[1] = c'"'
            at += 2
    text.at = at
    return FP_OK


cdef FpStatus _put_time(TextBuffer* text, JsonNode* node, int64_t row) noexcept nogil:
    cdef FpStatus status = text_reserve(
        text, TIME_OF_DAY_BYTES if node.kind == JSON_TIME else node.parts.largest_bytes + 2)
    cdef uint8_t* at = text.at
    if status != FP_OK:
        return status
    at[0] = c'"'
    if node.kind == JSON_DATE:
        at = put_time(at + 1, node.parts, cell_number(&node.cells, row), 0, 0)
    elif node.kind == JSON_TIME:
        at = put_time_of_day(at + 1, cell_number(&node.cells, row), node.units_per_s)
    else:
        at = _put_timestamp(at + 1, node, row)
    at[0] = c'"'
    text.at = at + 1
    return FP_OK


cdef FpStatus _put_value(
    TextBuffer* text, JsonNode* node, int64_t row, bint ignores_nulls
) noexcept nogil:
    if _is_null(node, row):
        return text_put(text, b"null", 4)
    if node.kind <= JSON_DECIMAL:
        return _put_number(text, node, row)
    if node.kind <= JSON_BINARY:
        return _put_bytes(text, node, row)
    if node.kind <= JSON_TIMESTAMP:
        return _put_time(text, node, row)
    if node.kind == JSON_LIST:
        return _put_list(text, node, row, ignores_nulls)
    if node.kind == JSON_MAP:
        return _put_map(text, node, row, ignores_nulls)
    return _put_struct(text, node, row, ignores_nulls)


cdef FpStatus _put_struct(
    TextBuffer* text, JsonNode* node, int64_t row, bint ignores_nulls
) noexcept nogil:
    cdef JsonNode* child = node.children
    cdef JsonNode* end = child + node.child_count
    cdef FpStatus status = text_put_byte(text, c'{')
    cdef int64_t first = 1      # without its comma
    while child < end and status == FP_OK:
        if not ignores_nulls or not _is_null(child, row):
            status = text_put(text, child.label + first, child.label_size - first)
            first = 0
            if status == FP_OK:
                status = _put_value(text, child, row, ignores_nulls)
        child += 1
    if status == FP_OK:
        status = text_put_byte(text, c'}')
    return status


cdef FpStatus _list_range(
    const JsonNode* node, int64_t row, int64_t* begin, int64_t* end
) noexcept nogil:
    begin[0] = load_offset(&node.cells, row)
    end[0] = load_offset(&node.cells, row + 1)
    if begin[0] < 0 or end[0] < begin[0] or end[0] > node.children[0].cells.length:
        return FP_CORRUPT
    return FP_OK


cdef FpStatus _put_list(
    TextBuffer* text, JsonNode* node, int64_t row, bint ignores_nulls
) noexcept nogil:
    cdef int64_t begin, end, at
    cdef FpStatus status = _list_range(node, row, &begin, &end)
    at = begin
    if status == FP_OK:
        status = text_put_byte(text, c'[')
    while at < end and status == FP_OK:
        if at > begin:
            status = text_put_byte(text, c',')
        if status == FP_OK:
            status = _put_value(text, &node.children[0], at, ignores_nulls)
        at += 1
    if status == FP_OK:
        status = text_put_byte(text, c']')
    return status


cdef FpStatus _put_map(
    TextBuffer* text, JsonNode* node, int64_t row, bint ignores_nulls
) noexcept nogil:
    cdef JsonNode* entries = &node.children[0]
    cdef int64_t begin, end, at
    cdef FpStatus status = _list_range(node, row, &begin, &end)
    at = begin
    if status == FP_OK:
        status = text_put_byte(text, c'{')
    while at < end and status == FP_OK:
        if at > begin:
            status = text_put_byte(text, c',')
        if status == FP_OK:
            status = _put_key(text, &entries.children[0], at)
        if status == FP_OK:
            status = text_put_byte(text, c':')
        if status == FP_OK:
            status = _put_value(text, &entries.children[1], at, ignores_nulls)
        at += 1
    if status == FP_OK:
        status = text_put_byte(text, c'}')
    return status


cdef FpStatus _put_key(TextBuffer* text, JsonNode* node, int64_t row) noexcept nogil:
    """Dates and times are numbers in Spark's keys: what they are inside of it."""
    cdef FpStatus status
    cdef uint8_t* at
    if _is_null(node, row):
        return FP_CORRUPT
    if node.kind == JSON_STRING:
        return _put_bytes(text, node, row)
    status = text_reserve(text, DECIMAL_BYTES + FLOAT_BYTES)
    if status != FP_OK:
        return status
    at = text.at
    if node.kind == JSON_FLOAT or node.kind == JSON_DOUBLE:
        at[0] = c'"'
        at = _put_double(at + 1, node, row)
    elif node.kind >= JSON_DATE:
        at[0] = c'"'
        at = put_integer(at + 1, cell_number(&node.cells, row))
    else:
        at[0] = c'"'
        text.at += 1
        _put_number(text, node, row)
        at = text.at
    at[0] = c'"'
    text.at = at + 1
    return FP_OK


cdef FpStatus _put_rows(
    BinaryBlock* block, int64_t first, JsonNode* root, bint ignores_nulls
) noexcept nogil:
    cdef int64_t row
    cdef int64_t at = first
    cdef FpStatus status = FP_OK
    for row in range(root.cells.length):
        if cell_is_valid(&root.cells, row):
            status = _put_struct(&block.text, root, row, ignores_nulls)
            if status != FP_OK:
                return status
        else:
            block.validity[at >> 3] &= ~(<uint8_t>1 << (at & 7))
            block.null_count += 1
        at += 1
        block.offsets[at] = block.text.at - block.text.data
    return status


class JsonRows:
    """See rows.pyi."""

    __slots__ = ("_format",)

    def __init__(self, form):
        if not isinstance(form, JsonFormat):
            raise TypeError(f"form must be a JsonFormat, not {type(form).__name__}")
        self._format = form

    def encode(self, rows):
        return _encode(rows, self._format)


cdef BinaryColumn _encode(object source, JsonFormat form):
    cdef ArrowData data
    cdef ArrayOwner owner
    cdef JsonLayout layout
    cdef BinaryColumn column
    cdef FpStatus status
    cdef int64_t length = 0
    cdef int64_t first = 0
    cdef int64_t i
    cdef bint ignores_nulls = form.ignores_nulls
    if not (hasattr(source, "__arrow_c_array__") or hasattr(source, "__arrow_c_stream__")):
        raise TypeError(
            f"rows must be an Arrow record batch, table or struct array, not "
            f"{type(source).__name__}")
    data = open_arrow(source, "rows")
    if not data.is_struct():
        raise TypeError("rows must be an Arrow record batch, table or struct array, not one column")
    for owner in data.arrays:
        length += owner.array.length
    column = new_binary_column(length)
    for i in range(len(data.arrays)):
        layout = new_json_layout(data, i, form)
        with nogil:
            status = _put_rows(column.block, first, &layout.root, ignores_nulls)
        if status == FP_CORRUPT:
            raise ValueError(
                "the rows are damaged: an offset, a size or an index falls, is negative or points "
                "outside of the data: whoever made the arrays made them wrong")
        check(status)
        first += layout.root.cells.length
    return column

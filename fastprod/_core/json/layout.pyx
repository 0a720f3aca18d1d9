"""Builds the tree of an Arrow type's buffers, once for each array."""
import json

from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free

from fastprod._core.columns.arrow cimport ArrayOwner, ArrowData
from fastprod._core.columns.arrow_schema cimport ArrowArray, ArrowSchema
from fastprod._core.columns.arrow_types cimport NumberType, bytes_kind, number_type, type_text
from fastprod._core.columns.column cimport (
    CELL_FIXED, CELL_INDEXED, CELL_LIST32, CELL_LIST64, CELL_SIGNED, CELL_UNSIGNED, CELL_VIEWS,
    CellKind, CellView, cells_free,
)
from fastprod._core.json.times cimport TimePattern, ZoneOffsets

cdef enum:
    DECIMAL_BITS = 128
    LARGEST_SCALE = 38
    SMALLEST_SCALE = -20

cdef dict _UNITS_PER_S = {"s": 1, "m": 1000, "u": 1_000_000, "n": 1_000_000_000}
cdef dict _INTERVALS = {
    "tiM": "year-month interval", "tiD": "day-time interval", "tin": "interval",
    "tDs": "day-time interval", "tDm": "day-time interval", "tDu": "day-time interval",
    "tDn": "day-time interval",
}
# Keys of a map are texts in JSON: these have one that does not depend on the process.
cdef tuple _KEY_KINDS = (
    JSON_BOOLEAN, JSON_INTEGER, JSON_UNSIGNED, JSON_FLOAT, JSON_DOUBLE, JSON_DECIMAL, JSON_STRING,
    JSON_DATE, JSON_TIME, JSON_TIMESTAMP,
)


cdef class JsonFormat:
    """How rows become JSON."""

    def __cinit__(
        self, *, TimePattern date_pattern not None, TimePattern timestamp_pattern not None,
        TimePattern timestamp_ntz_pattern not None, object zone_of, bint ignores_nulls
    ):
        self.date_pattern = date_pattern
        self.timestamp_pattern = timestamp_pattern
        self.timestamp_ntz_pattern = timestamp_ntz_pattern
        self.zone_of = zone_of
        self.ignores_nulls = ignores_nulls


cdef void _free_children(JsonNode* node) noexcept:
    cdef int32_t i
    for i in range(node.child_count):
        _free_children(&node.children[i])
    free(node.children)
    cells_free(&node.cells)


cdef class JsonLayout:
    """Native only."""

    def __cinit__(self):
        self.held = []
        self.path = []

    def __dealloc__(self):
        _free_children(&self.root)

    cdef int _read(
        self, JsonNode* node, JsonFormat form, ArrowSchema* schema, ArrowArray* array,
        int64_t skip, int64_t length
    ) except -1:
        """`length` rows of `array` from `skip` on, as `node`."""
        cdef str text = schema.format.decode("utf-8", "replace")
        _check_array(self, schema, array, skip + length)
        node.cells.length = length
        node.cells.offset = array.offset + skip
        if text == "n":
            node.kind = JSON_NULL
            return 0
        if array.n_buffers < 1 or array.buffers == NULL:
            _damaged(self, schema, "it has no buffers")
        if array.null_count != 0:
            node.cells.validity = <const uint8_t*>array.buffers[0]
        if text in ("+s", "+l", "+L", "+m"):
            return self._read_children(node, form, schema, array, skip, length)
        if _read_bytes(self, node, schema, array):
            return 0
        if schema.dictionary != NULL or not _read_number(self, node, form, schema, text):
            _refuse(self, schema, text)
        node.cells.data = <const uint8_t*>_buffer(self, schema, array, 1, length > 0)
        return 0

    cdef int _read_children(
        self, JsonNode* node, JsonFormat form, ArrowSchema* schema, ArrowArray* array,
        int64_t skip, int64_t length
    ) except -1:
        cdef int64_t i
        cdef bint is_struct = schema.format == b"+s"
        if array.n_children != schema.n_children or (
                array.n_children > 0 and array.children == NULL) or (
                not is_struct and array.n_children != 1):
            _damaged(self, schema, f"{array.n_children} children instead of {schema.n_children}")
        if not is_struct:
            node.kind = JSON_MAP if schema.format == b"+m" else JSON_LIST
            node.cells.kind = CELL_LIST64 if schema.format == b"+L" else CELL_LIST32
            node.cells.offsets = <const uint8_t*>_buffer(self, schema, array, 1, length > 0)
        else:
            if _is_variant(schema):
                _refuse(self, schema, "variant")
            node.kind = JSON_STRUCT
        if schema.n_children == 0:
            return 0
        node.children = <JsonNode*>calloc(schema.n_children, sizeof(JsonNode))
        if node.children == NULL:
            raise MemoryError(f"no memory for {schema.n_children:,} fields")
        node.child_count = <int32_t>schema.n_children
        for i in range(schema.n_children):
            if array.children[i] == NULL:
                _damaged(self, schema, f"child {i} is missing")
            self.path.append(_name(schema.children[i]))
            if is_struct:
                _set_label(self, &node.children[i], schema.children[i])
                self._read(&node.children[i], form, schema.children[i], array.children[i],
                           array.offset + skip, length)
            else:
                self._read(&node.children[i], form, schema.children[i], array.children[i], 0,
                           array.children[i].length)
            self.path.pop()
        if node.kind == JSON_MAP:
            _check_map(self, node, schema)
        return 0


cdef JsonLayout new_json_layout(ArrowData data, int64_t index, JsonFormat form):
    cdef JsonLayout layout = JsonLayout.__new__(JsonLayout)
    cdef ArrayOwner owner = data.arrays[index]
    layout.data = data
    layout._read(&layout.root, form, &data.schema.schema, &owner.array, 0, owner.array.length)
    return layout


cdef str _name(ArrowSchema* schema):
    return schema.name.decode("utf-8", "replace") if schema.name != NULL else ""


cdef str _where(JsonLayout layout):
    return ".".join(layout.path) or layout.data.name


cdef int _damaged(JsonLayout layout, ArrowSchema* schema, str what) except -1:
    raise ValueError(
        f"column {_where(layout)!r} of type {type_text(schema)} is damaged: {what}: whoever made "
        f"the array made it wrong")


cdef int _refuse(JsonLayout layout, ArrowSchema* schema, str text) except -1:
    name = _INTERVALS.get(text, "variant" if text == "variant" else type_text(schema))
    raise TypeError(
        f"column {_where(layout)!r} is of type {name}, which has no form in JSON here: cast it to "
        f"a string, or leave it out")


cdef int _check_array(
    JsonLayout layout, ArrowSchema* schema, ArrowArray* array, int64_t length
) except -1:
    if array.release == NULL or array.offset < 0 or length < 0 or array.length < length:
        _damaged(layout, schema, f"it has {array.length:,} rows, {length:,} are needed")
    return 0


cdef const void* _buffer(
    JsonLayout layout, ArrowSchema* schema, ArrowArray* array, int64_t index, bint is_needed
) except? NULL:
    if array.n_buffers <= index or (is_needed and array.buffers[index] == NULL):
        _damaged(layout, schema, f"buffer {index} is missing")
    return array.buffers[index]


cdef int _set_label(JsonLayout layout, JsonNode* node, ArrowSchema* schema) except -1:
    label = f",{json.dumps(_name(schema), ensure_ascii=False)}:".encode()
    layout.held.append(label)
    node.label = <const uint8_t*><const char*>label
    node.label_size = len(label)
    return 0


cdef bint _is_variant(ArrowSchema* schema):
    """Spark's: a struct of two binaries, the second of them marked so."""
    if schema.n_children != 2 or _name(schema.children[0]) != "value" or (
            _name(schema.children[1]) != "metadata"):
        return False
    return _metadata(schema.children[1]).get(b"variant") == b"true"


cdef dict _metadata(ArrowSchema* schema):
    """Keys and values: a count, then sizes and bytes, all sizes 32 bits."""
    cdef const int32_t* size = <const int32_t*>schema.metadata
    cdef const char* at = schema.metadata
    cdef int64_t left
    pairs = []
    if at == NULL:
        return {}
    at += 4
    left = 2 * <int64_t>size[0]
    while left > 0:
        size = <const int32_t*>at
        pairs.append(at[4:4 + size[0]])
        at += 4 + size[0]
        left -= 1
    return dict(zip(pairs[::2], pairs[1::2]))


cdef int _check_map(JsonLayout layout, JsonNode* node, ArrowSchema* schema) except -1:
    cdef JsonNode* entries = &node.children[0]
    if entries.kind != JSON_STRUCT or entries.child_count != 2:
        _damaged(layout, schema, "its entries are not keys and values")
    if entries.children[0].kind not in _KEY_KINDS:
        raise TypeError(
            f"column {_where(layout)!r} is a map with keys of type "
            f"{type_text(schema.children[0].children[0])}, which are no names in JSON: cast the "
            f"keys to strings, for example with transform_keys()")
    return 0


cdef bint _read_bytes(
    JsonLayout layout, JsonNode* node, ArrowSchema* schema, ArrowArray* array
) except -1:
    """Whether these are strings or bytes, or a dictionary of them."""
    cdef CellKind kind
    cdef NumberType number
    if schema.dictionary == NULL:
        if bytes_kind(schema, &kind) < 0:
            return False
        node.kind = JSON_STRING if schema.format in (b"u", b"U", b"vu") else JSON_BINARY
        return _set_bytes(layout, &node.cells, schema, array)
    if bytes_kind(schema.dictionary, &kind) < 0 or not number_type(schema, False, &number):
        return False
    node.kind = JSON_STRING if schema.dictionary.format in (b"u", b"U", b"vu") else JSON_BINARY
    node.cells.kind = CELL_INDEXED
    node.cells.is_signed = number.kind == CELL_SIGNED
    node.cells.width = number.width
    node.cells.stride = number.width
    node.cells.data = <const uint8_t*>_buffer(layout, schema, array, 1, node.cells.length > 0)
    if array.dictionary == NULL:
        _damaged(layout, schema, "its dictionary is missing")
    _check_array(layout, schema.dictionary, array.dictionary, 0)
    node.cells.inner = <CellView*>calloc(1, sizeof(CellView))
    if node.cells.inner == NULL:
        raise MemoryError("no memory for a dictionary")
    node.cells.inner.length = array.dictionary.length
    node.cells.inner.offset = array.dictionary.offset
    if array.dictionary.null_count != 0 and array.dictionary.n_buffers > 0:
        node.cells.inner.validity = <const uint8_t*>array.dictionary.buffers[0]
    return _set_bytes(layout, node.cells.inner, schema.dictionary, array.dictionary)


cdef bint _set_bytes(
    JsonLayout layout, CellView* view, ArrowSchema* schema, ArrowArray* array
) except -1:
    cdef bint is_needed = view.length > 0
    view.width = bytes_kind(schema, &view.kind)
    view.stride = view.width
    if view.kind == CELL_FIXED:
        view.data = <const uint8_t*>_buffer(layout, schema, array, 1, is_needed)
    elif view.kind == CELL_VIEWS:
        view.data = <const uint8_t*>_buffer(layout, schema, array, 1, is_needed)
        _buffer(layout, schema, array, 2, False)
        view.buffers = <const uint8_t* const*>(array.buffers + 2)
        view.buffer_count = array.n_buffers - 3
        view.buffer_sizes = <const int64_t*>array.buffers[array.n_buffers - 1]
    else:
        view.offsets = <const uint8_t*>_buffer(layout, schema, array, 1, is_needed)
        view.data = <const uint8_t*>_buffer(layout, schema, array, 2, False)
    return True


cdef bint _read_number(
    JsonLayout layout, JsonNode* node, JsonFormat form, ArrowSchema* schema, str text
) except -1:
    """Whether each row is a number, whatever it stands for."""
    cdef NumberType number
    if number_type(schema, False, &number):
        node.kind = JSON_INTEGER if number.kind == CELL_SIGNED else JSON_UNSIGNED
        node.cells.width = number.width
    elif text == "b":
        node.kind = JSON_BOOLEAN
    elif text in ("f", "g"):
        node.kind = JSON_FLOAT if text == "f" else JSON_DOUBLE
        node.cells.width = 4 if text == "f" else 8
    elif text == "tdD":
        node.kind = JSON_DATE
        node.cells.width = 4
        node.parts = &form.date_pattern.parts
    elif text.startswith("d:"):
        return _read_decimal(node, text)
    elif text[:2] == "tt" and text[2:] in _UNITS_PER_S:
        node.kind = JSON_TIME
        node.units_per_s = _UNITS_PER_S[text[2:]]
        node.cells.width = 8 if text[2] in "un" else 4
    elif text[:2] == "ts" and text[2:3] in _UNITS_PER_S and text[3:4] == ":":
        _read_timestamp(layout, node, form, text)
    else:
        return False
    node.cells.kind = CELL_UNSIGNED if node.kind == JSON_UNSIGNED else CELL_SIGNED
    node.cells.stride = node.cells.width
    return True


cdef bint _read_decimal(JsonNode* node, str text) except -1:
    parts = [int(part) for part in text[2:].split(",")]
    if len(parts) > 2 and parts[2] != DECIMAL_BITS:
        return False
    if not SMALLEST_SCALE <= parts[1] <= LARGEST_SCALE:
        return False
    node.kind = JSON_DECIMAL
    node.scale = parts[1]
    node.cells.width = 16
    node.cells.stride = 16
    return True


cdef int _read_timestamp(
    JsonLayout layout, JsonNode* node, JsonFormat form, str text
) except -1:
    cdef ZoneOffsets zone
    node.kind = JSON_TIMESTAMP
    node.units_per_s = _UNITS_PER_S[text[2]]
    node.cells.width = 8
    if text[4:] == "":
        node.parts = &form.timestamp_ntz_pattern.parts
        return 0
    zone = form.zone_of(text[4:])
    layout.held.append(zone)
    node.zone = &zone.table
    node.parts = &form.timestamp_pattern.parts
    return 0

"""Reads Arrow's format strings: kind of cell, width, unit, and the name in errors."""
from libc.stdint cimport int32_t, int64_t

from fastprod._core.columns.column cimport (
    CELL_FIXED, CELL_LIST32, CELL_LIST64, CELL_OFFSETS32, CELL_OFFSETS64, CELL_SIGNED,
    CELL_UNSIGNED, CELL_VIEWS, CellKind,
)
from fastprod._core.columns.python_columns cimport (
    KIND_BYTES, KIND_HEADERS, KIND_NUMBERS, KIND_TIMES,
)

cdef enum:
    DEEPEST = 4     # levels of a type that errors tell

cdef dict _NAMES = {
    "n": "null", "b": "bool", "c": "int8", "C": "uint8", "s": "int16", "S": "uint16", "i": "int32",
    "I": "uint32", "l": "int64", "L": "uint64", "e": "halffloat", "f": "float", "g": "double",
    "z": "binary", "Z": "large_binary", "vz": "binary_view", "u": "string", "U": "large_string",
    "vu": "string_view", "tdD": "date32", "tdm": "date64", "+s": "struct", "+m": "map",
    "+l": "list", "+L": "large_list", "+vl": "list_view", "+vL": "large_list_view",
    "+r": "run_end_encoded",
}
cdef dict _BYTES = {
    b"z": CELL_OFFSETS32, b"u": CELL_OFFSETS32, b"Z": CELL_OFFSETS64, b"U": CELL_OFFSETS64,
    b"vz": CELL_VIEWS, b"vu": CELL_VIEWS,
}
cdef dict _INTEGERS = {
    b"c": (True, 1), b"C": (False, 1), b"s": (True, 2), b"S": (False, 2), b"i": (True, 4),
    b"I": (False, 4), b"l": (True, 8), b"L": (False, 8),
}
# To milliseconds: times this, divided by that.
cdef dict _UNITS = {b"s": (1000, 1), b"m": (1, 1), b"u": (1, 1000), b"n": (1, 1_000_000)}
cdef dict _UNIT_NAMES = {"s": "s", "m": "ms", "u": "us", "n": "ns"}
cdef dict _ACCEPTED = {
    KIND_BYTES: "binary, string, their large and view forms, fixed_size_binary, or a dictionary of "
                "one of them",
    KIND_NUMBERS: "integers",
    KIND_TIMES: "timestamps of any unit, or integers (ms)",
    KIND_HEADERS: "list or large_list of struct<key, value>, or a map, both of strings or binary",
}


cdef str type_text(ArrowSchema* schema):
    return _text(schema, DEEPEST)


cdef str _text(ArrowSchema* schema, int deepest):
    cdef int64_t i
    if schema.format == NULL or deepest == 0:
        return "..."
    form = schema.format.decode("utf-8", "replace")
    name = _NAMES.get(form, form)
    if form.startswith("w:"):
        name = f"fixed_size_binary[{form[2:]}]"
    elif form.startswith("ts") and len(form) > 3:
        zone = form.partition(":")[2]
        name = f"timestamp[{_UNIT_NAMES.get(form[2], form[2])}{', tz=' if zone else ''}{zone}]"
    if schema.dictionary != NULL:
        return f"dictionary<values={_text(schema.dictionary, deepest - 1)}, indices={name}>"
    if schema.n_children > 0 and schema.children != NULL:
        inner = []
        for i in range(schema.n_children):
            field = schema.children[i].name
            label = field.decode("utf-8", "replace") if field != NULL else ""
            inner.append(f"{label}: {_text(schema.children[i], deepest - 1)}")
        return f"{name}<{', '.join(inner)}>"
    return name


cdef str accepted(ColumnKind kind):
    return _ACCEPTED[<int>kind]


cdef int32_t bytes_kind(ArrowSchema* schema, CellKind* kind):
    cdef bytes form = schema.format
    if schema.dictionary != NULL:
        return -1
    if form.startswith(b"w:") and form[2:].isdigit() and len(form) < 12:
        kind[0] = CELL_FIXED
        return <int32_t>int(form[2:])
    found = _BYTES.get(form)
    if found is None:
        return -1
    kind[0] = <CellKind><int>found
    return 0


cdef bint number_type(ArrowSchema* schema, bint is_time, NumberType* found):
    cdef bytes form = schema.format
    found.multiply = 1
    found.divide = 1
    if is_time and form.startswith(b"ts") and form[2:3] in _UNITS and form[3:4] == b":":
        found.kind = CELL_SIGNED
        found.width = 8
        found.multiply, found.divide = _UNITS[form[2:3]]
        return True
    if form not in _INTEGERS:
        return False
    is_signed, found.width = _INTEGERS[form]
    found.kind = CELL_SIGNED if is_signed else CELL_UNSIGNED
    return True


cdef bint list_kind(ArrowSchema* schema, CellKind* kind):
    cdef bytes form = schema.format
    cdef ArrowSchema* entries
    if form not in (b"+l", b"+L", b"+m") or schema.n_children != 1 or schema.children == NULL:
        return False
    entries = schema.children[0]
    if entries.format == NULL or entries.format != b"+s" or entries.n_children != 2 or (
            entries.children == NULL):
        return False
    if form != b"+m" and (_name(entries.children[0]), _name(entries.children[1])) != (
            b"key", b"value"):
        return False
    kind[0] = CELL_LIST64 if form == b"+L" else CELL_LIST32
    return True


cdef bytes _name(ArrowSchema* schema):
    return schema.name if schema.name != NULL else b""

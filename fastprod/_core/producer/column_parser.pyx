"""Finds the columns in the arguments of `append_columns`, and checks them."""
from collections.abc import Mapping

from libc.stdint cimport int64_t

from fastprod._core.bytes.argument_view cimport LARGEST_PARTITION, LATEST_MS, whole_number
from fastprod._core.columns.arrow cimport ArrowData, open_arrow
from fastprod._core.columns.column cimport Column
from fastprod._core.columns.header_columns cimport HeaderColumns
from fastprod._core.columns.python_columns cimport (
    KIND_BYTES, KIND_HEADERS, KIND_NUMBERS, KIND_TIMES, ColumnKind, gather_array, gather_rows,
)
from fastprod._core.columns.topic_column cimport read_topics
from fastprod._core.producer.row_reader cimport ColumnRows

from fastprod._core.columns.detect import is_array, is_arrow, is_number
from fastprod.security.secret import plain_text

# Of a batch's columns: Kafka's name, and the argument that takes its place.
cdef dict _ARGUMENT_OF = {
    "value": "values", "key": "keys", "topic": "topic", "partition": "partitions",
    "headers": "headers", "timestamp": "timestamps_ms",
}
cdef dict _KINDS = {
    "values": KIND_BYTES, "keys": KIND_BYTES, "topic": KIND_BYTES, "partitions": KIND_NUMBERS,
    "headers": KIND_HEADERS, "timestamps_ms": KIND_TIMES,
}
# What one cell is called in errors.
cdef dict _CELLS = {
    "values": b"value", "keys": b"key", "topic": b"topic", "partitions": b"partition",
    "headers": b"header", "timestamps_ms": b"timestamp_ms",
}


cdef dict _fields(object columns):
    """A batch's columns by name, as (source, index of an Arrow field or None)."""
    cdef ArrowData data
    if is_arrow(columns):
        data = open_arrow(columns, "columns")
        if not data.is_struct():
            raise TypeError(
                f"columns must be a record batch, a table or another struct, not a single column "
                f"({type(columns).__name__}): give it as values")
        names = data.field_names()
        found = {name: (data, at) for at, name in enumerate(names)}
        for name in _ARGUMENT_OF:
            if names.count(name) > 1:
                raise ValueError(f"there are {names.count(name)} columns named {name!r}: keep one")
        return found
    if isinstance(columns, Mapping):
        return {name: (column, None) for name, column in columns.items()}
    names = getattr(getattr(columns, "dtype", None), "names", None)
    if names is None:
        raise TypeError(
            f"columns must be an Arrow record batch or table, a structured numpy array or a "
            f"mapping from names to columns, not {type(columns).__name__}")
    return {name: (columns[name], None) for name in names}


cdef Column _column(object given, object field, str name, ColumnKind kind, const char* what):
    """One column, whoever has it. `field`: of an Arrow struct, else None."""
    cdef ArrowData data
    if field is not None:
        data = given
        return data.column(name, kind, field)
    if is_arrow(given):
        data = open_arrow(given, name)
        return data.column(name, kind, -1)
    if is_array(given):
        return gather_array(given, name, kind)
    if isinstance(given, (str, bytes, bytearray)) or not hasattr(given, "__iter__"):
        raise TypeError(
            f"column {name!r} must be an Arrow array, a numpy array or a sequence, not "
            f"{type(given).__name__}")
    return gather_rows(given, name, kind, what)


cdef HeaderColumns _headers(object lists, object flat):
    """`lists`: a Column or None. `flat`: a mapping or pairs of names and columns or constants."""
    cdef HeaderColumns headers = HeaderColumns.__new__(HeaderColumns)
    if lists is not None:
        headers.set_lists(lists)
    pairs = list(flat.items() if isinstance(flat, Mapping) else flat or ())
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise TypeError(
                f"header_columns must be a mapping from names to columns, or (name, column) pairs, "
                f"not {pair!r:.100}")
        name, given = plain_text(pair[0]), pair[1]
        if given is None or isinstance(given, (bytes, bytearray, memoryview, str)):
            headers.add_constant(name, given)
        else:
            headers.add_column(name, _column(given, None, f"header {name}", KIND_BYTES, b"header"))
    if lists is None and not pairs:
        return None
    return headers


cdef int _check_lengths(ColumnRows rows, dict found) except -1:
    cdef Column column
    lengths = {column.name: len(column) for column in found.values()}
    if rows.headers is not None:
        for owner in rows.headers.owners:
            if isinstance(owner, Column):
                lengths[owner.name] = len(owner)
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns of a bulk differ in length: {lengths}")
    rows.count = len(rows.values)
    if rows.count > LARGEST_PARTITION:
        raise ValueError(
            f"{rows.count:,} rows are more than the {LARGEST_PARTITION:,} that one bulk takes: "
            f"send parts of them")
    return 0


cdef dict _arguments(object columns, dict given):
    """Every column that is there, by the name of its argument: (source, field, its own name)."""
    found = {}
    if columns is not None:
        fields = _fields(columns)
        for name, argument in _ARGUMENT_OF.items():
            if name in fields and fields[name][0] is not None:
                found[argument] = (*fields[name], name)
        if "values" not in found and given["values"] is None:
            raise ValueError(
                f"there is no column named 'value' among {', '.join(map(repr, fields))}: name it "
                f"so, or give values")
    # What is given by itself wins, and its namesake in the batch is not looked at.
    found |= {name: (column, None, name) for name, column in given.items() if column is not None}
    if "values" not in found:
        raise TypeError("there are no values: give a column of them")
    if "topic" not in found:
        raise TypeError("there is no topic: give one name for all rows, or a column of names")
    return found


cdef ColumnRows read_columns(
    object columns, object topic, object values, object keys, object headers,
    object header_columns, object partitions, object timestamps_ms, int64_t now_ms
):
    cdef ColumnRows rows = ColumnRows.__new__(ColumnRows)
    if headers is not None and isinstance(headers, Mapping):
        raise TypeError("headers by name are header_columns; headers is one cell a row")
    given = {
        "values": values, "keys": keys, "topic": topic, "partitions": partitions,
        "headers": headers, "timestamps_ms": timestamps_ms,
    }
    arguments = _arguments(columns, given)
    rows.timestamp_ms = now_ms
    if is_number(arguments.get("timestamps_ms", (None,))[0]):
        rows.timestamp_ms = whole_number(
            "timestamp_ms", arguments.pop("timestamps_ms")[0], LATEST_MS)
    if isinstance(arguments["topic"][0], str):
        rows.topic = plain_text(arguments.pop("topic")[0])
    found = {
        argument: _column(source, field, name, <ColumnKind><int>_KINDS[argument], _CELLS[argument])
        for argument, (source, field, name) in arguments.items()
    }
    rows.values = found["values"]
    rows.keys = found.get("keys")
    rows.partitions = found.get("partitions")
    rows.times = found.get("timestamps_ms")
    rows.headers = _headers(found.get("headers"), header_columns)
    _check_lengths(rows, found)
    if rows.partitions is not None:
        rows.partitions.check_numbers(LARGEST_PARTITION)
    if rows.times is not None:
        rows.times.check_numbers(LATEST_MS)
    if "topic" in found:
        rows.topics = read_topics(found["topic"])
    return rows

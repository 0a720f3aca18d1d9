r"""JSON that Spark's reader reads as it is written; everything else is refused.

Spark's reader passes over fields without a name and empty objects, over what follows the first
object of a line, and over fields whose names differ from others' in case. It rounds numbers, makes
text of values of several types, and "?" of half a surrogate pair. pyarrow, told Spark's types,
fails at all of these but at numbers, of which those that may be rounded are looked at one by one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NoReturn

import numpy
import pyarrow
import pyarrow.compute

from fastprod.load.file_splits import FileSplit
from fastprod.load.input_files import InputError
from fastprod.load.json_reader import names_in, read_objects
from fastprod.load.line_blocks import BOM, line_blocks, opened

_NUMBER: Final = re.compile(rb"[0-9.]++(?:[eE][+-]?[0-9]++)?+")
_LONG: Final = 16  # a number of 15 digits is the same as a double
_LARGE: Final = 2.0**53  # from here on an integer need not be a double
_WAY_OUT: Final = (
    "name the columns by --schema, with string for values that are to stay text; -O "
    "mode=PERMISSIVE takes what Spark makes of the file"
)


def check_json(
    split: FileSplit,
    types: Mapping[str, pyarrow.DataType],
    *,
    knows_all: bool,
    is_multiline: bool = False,
    named: Sequence[str] = (),
) -> set[str]:
    """Refuse what Spark's reader would leave out or change.

    Args:
        split: of unit "bytes" or "file".
        types: Spark's, of columns that have to be as they are written.
        knows_all: whether there must not be other columns.
        is_multiline: the file is one object or one array of objects.
        named: columns to look for.

    Returns:
        Those of `named` that may be in the split.

    Raises:
        InputError: in which line it is.
        OSError: the file cannot be read.
    """
    has_doubles = any(map(_has_double, types.values()))
    if is_multiline:
        return names_in(_check_document(split.path, types, knows_all), named)
    found: set[str] = set()
    is_all = split.unit == "file"
    for block in line_blocks(split.path, *(() if is_all else (split.start, split.stop))):
        table = read_objects(block, types, knows_all=knows_all, way_out=_WAY_OUT)
        found |= names_in(block.data, set(named) - found)
        if not has_doubles or table is None:
            continue
        for start, line in _suspects(block.data, table):
            try:
                row = json.loads(line, parse_float=Decimal)
                _check_value(row, pyarrow.struct(list(types.items())), "", knows_all=False)
            except ValueError as error:
                number = block.line_number(block.data.count(b"\n", 0, start))
                raise InputError(f"line {number:,}: {error}; {_WAY_OUT}") from error
    return found


def _has_double(kind: pyarrow.DataType) -> bool:
    if pyarrow.types.is_nested(kind):
        return any(_has_double(kind.field(index).type) for index in range(kind.num_fields))
    return bool(pyarrow.types.is_floating(kind))


def _suspects(data: bytes, table: pyarrow.Table) -> Iterator[tuple[int, bytes]]:
    """Lines, and where they begin, with a number that is no double, or is text, or an integer."""
    if b"\r" in data:
        data = data.replace(b"\r", b"\n")
    end = 0
    for match in _long_numbers(data, any(_has_large(column) for column in table.columns)):
        if match.start() >= end and not _is_double(match[0].decode()):
            start = data.rfind(b"\n", 0, match.start()) + 1
            end = data.find(b"\n", match.end())
            end = len(data) if end < 0 else end
            yield start, data[start:end]


def _long_numbers(data: bytes, has_large: bool) -> Iterator[re.Match[bytes]]:
    """Numbers with many digits, or an exponent; integers only if there are large doubles."""
    read = numpy.frombuffer(data, numpy.uint8)
    is_part = ((read >= ord("0")) & (read <= ord("9"))) | (read == ord("."))
    edges = numpy.flatnonzero(numpy.diff(is_part, prepend=False, append=False))
    starts, ends = edges[::2], edges[1::2]
    behind = read[numpy.minimum(ends, len(read) - 1)]
    points = numpy.flatnonzero(read == ord("."))
    is_whole = numpy.searchsorted(points, ends) == numpy.searchsorted(points, starts)
    is_long = (ends - starts >= _LONG) & (has_large | ~is_whole)
    is_long |= (behind == ord("e")) | (behind == ord("E"))
    for start in starts[is_long].tolist():
        match = _NUMBER.match(data, start)
        if match is not None:
            yield match


def _has_large(values: pyarrow.Array | pyarrow.ChunkedArray) -> bool:
    """Whether a double among the values, or in them, is so large that integers are rounded."""
    kind = values.type
    if pyarrow.types.is_list(kind):
        return _has_large(pyarrow.compute.list_flatten(values))
    if pyarrow.types.is_struct(kind):
        return any(
            _has_large(pyarrow.compute.struct_field(values, index))
            for index in range(kind.num_fields)
        )
    if not pyarrow.types.is_floating(kind):
        return False
    is_large = pyarrow.compute.greater_equal(pyarrow.compute.abs(values), _LARGE)
    return bool(pyarrow.compute.any(is_large).as_py())


def _is_double(text: str) -> bool:
    try:
        return repr(float(text)) == text or Decimal(text) == Decimal(repr(float(text)))
    except ArithmeticError:
        return False
    except ValueError:
        # Within a text, such as 1.2.3.
        return True


def _check_document(path: str, types: Mapping[str, pyarrow.DataType], knows_all: bool) -> bytes:
    with opened(path) as file:
        data = file.read().removeprefix(BOM)
    if not data.strip():
        return data
    try:
        found = json.loads(data.decode(), parse_float=Decimal, object_pairs_hook=_object)
        for row in found if isinstance(found, list) else [found]:
            if not isinstance(row, dict):
                raise ValueError(f"{str(row)[:40]!r} is no object")
            _check_value(row, pyarrow.struct(list(types.items())), "", knows_all=knows_all)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"it is not one object or one array of objects: {error}; {_WAY_OUT}"
        ) from error
    return data


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"an object has a name twice, of {', '.join(name for name, _ in pairs)}")
    return found


def _check_value(value: Any, kind: pyarrow.DataType, path: str, *, knows_all: bool) -> None:
    """Refuse a value that is not the same in a type of Spark's.

    Raises:
        ValueError: where, and why.
    """
    types = pyarrow.types
    if value is None:
        return
    if types.is_struct(kind) and isinstance(value, dict):
        fields = {field.name: field.type for field in kind}
        for name, each in value.items():
            inner = f"{path}.{name}" if path else name
            if name in fields:
                _check_value(each, fields[name], inner, knows_all=knows_all)
            elif knows_all:
                raise ValueError(f"Spark would leave out {inner!r}")
    elif types.is_list(kind) and isinstance(value, list):
        for each in value:
            _check_value(each, kind.value_type, f"{path}[]", knows_all=knows_all)
    elif types.is_string(kind) and isinstance(value, str):
        if not value.isascii() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise ValueError(f"{path!r} has half a surrogate pair")
    elif types.is_floating(kind) and isinstance(value, Decimal | int | float):
        _check_number(value, path)
    elif not _fits(value, kind):
        _refuse_type(value, kind, path)


def _check_number(value: Decimal | float, path: str) -> None:
    if isinstance(value, bool):
        _refuse_type(value, pyarrow.float64(), path)
    if isinstance(value, float):
        return  # NaN or an infinity
    try:
        is_same = Decimal(value) == Decimal(repr(float(value)))
    except (ArithmeticError, OverflowError):
        is_same = False
    if not is_same:
        raise ValueError(f"Spark would round {str(value)[:60]} in column {path!r}")


def _fits(value: Any, kind: pyarrow.DataType) -> bool:
    if pyarrow.types.is_boolean(kind):
        return isinstance(value, bool)
    if isinstance(value, bool):
        return False
    if pyarrow.types.is_integer(kind):
        bits = kind.bit_width - 1
        return isinstance(value, int) and -(1 << bits) <= value < 1 << bits
    if not pyarrow.types.is_decimal(kind) or not isinstance(value, Decimal | int):
        return False
    try:
        return bool(pyarrow.scalar(Decimal(value), kind).as_py() == value)
    except pyarrow.ArrowInvalid:
        return False


def _refuse_type(value: Any, kind: pyarrow.DataType, path: str) -> NoReturn:
    raise ValueError(f"{path!r} is {str(value)[:60]!r}, and of type {kind} elsewhere")

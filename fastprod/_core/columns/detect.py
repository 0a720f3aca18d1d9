"""Columns of a bulk send: sequences of equal length, or None for a column that is not there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, Final, SupportsIndex, TypeGuard

_LATEST_MS: Final = 2**63 - 1


def iter_rows(
    values: Iterable[Any],
    keys: Iterable[Any] | None,
    headers: Iterable[Any] | None,
    partitions: Iterable[Any] | None,
    timestamps_ms: Iterable[Any] | SupportsIndex | None,
    now_ms: int,
) -> Iterator[tuple[Any, Any, Any, Any, int]]:
    """Yield (value, key, headers, partition, timestamp_ms) of each row.

    Raises:
        TypeError: a column is text, bytes or nothing that has cells.
        ValueError: a column is shorter or longer than `values`, when its end is met.
    """
    if is_number(timestamps_ms):
        now_ms, timestamps_ms = int(timestamps_ms), None
    present = [
        ("values", values),
        ("keys", keys),
        ("headers", headers),
        ("partitions", partitions),
        ("timestamps_ms", timestamps_ms),
    ]
    for name, column in present:
        _check_column(name, column)
    if keys is headers is partitions is timestamps_ms is None:
        return zip(values, repeat(None), repeat(None), repeat(None), repeat(now_ms))
    lengths = {name: len(c) for name, c in present if hasattr(c, "__len__")}  # type: ignore[arg-type]
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns of a send_many() differ in length: {lengths}")
    return _checked_rows(present, now_ms)


def _check_column(name: str, column: Any) -> None:
    """Cells of text or bytes would be letters and numbers, which nobody means by it."""
    if column is None and name != "values":
        return
    with contextlib.suppress(TypeError):
        iter(column)
        if not isinstance(column, (str, bytes, bytearray)):
            return
    raise TypeError(
        f"send_many() takes a column for {name}, such as a list with one cell for each record, "
        f"not {type(column).__name__}"
    )


def _checked_rows(
    columns: list[tuple[str, Any]], now_ms: int
) -> Iterator[tuple[Any, Any, Any, Any, int]]:
    present = [column for _, column in columns if column is not None]
    is_there = [column is not None for _, column in columns]
    for row in zip(*present, strict=True):
        cells = iter(row)
        value, key, headers, partition, timestamp_ms = (
            next(cells) if there else None for there in is_there
        )
        yield value, key, headers, partition, now_ms if timestamp_ms is None else timestamp_ms


def is_plain(values: Any, keys: Any, headers: Any, partitions: Any, timestamps_ms: Any) -> bool:
    """Whether values, and keys if there are any, are lists, and nothing else differs by row."""
    return (
        type(values) in (list, tuple)
        and (keys is None or type(keys) in (list, tuple))
        and headers is None
        and partitions is None
        and (
            timestamps_ms is None
            or (type(timestamps_ms) is int and 0 <= timestamps_ms <= _LATEST_MS)
        )
    )


def is_number(column: Any) -> TypeGuard[SupportsIndex]:
    """Whether it is no column but one whole number for all rows, of Python or of numpy."""
    return hasattr(column, "__index__") and not hasattr(column, "__len__")


def is_arrow(column: Any) -> bool:
    """Whether it has the Arrow PyCapsule interface: an array, a batch, a table, a stream."""
    return hasattr(column, "__arrow_c_array__") or hasattr(column, "__arrow_c_stream__")


def is_array(column: Any) -> bool:
    """Whether it is a numpy array whose cells are not Python objects."""
    dtype = getattr(column, "dtype", None)
    return (
        hasattr(column, "__array_interface__")
        and dtype is not None
        and dtype.kind not in "OU"
        and column.ndim in (1, 2)
    )


def is_columnar(columns: Iterable[Any], headers: Any, has_plugins: bool) -> bool:
    """Whether rows of these columns are to be read natively, without an object a row.

    Plug-ins see rows as Python objects, which arrays of numpy have and those of Arrow have not.
    """
    if isinstance(headers, Mapping) or is_arrow(headers):
        return True
    return any(is_arrow(each) or (not has_plugins and is_array(each)) for each in columns)

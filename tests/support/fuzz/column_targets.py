"""Targets that read Arrow's columns natively: as records, and as rows of JSON."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow

from fastprod._core.json.rows import JsonRows
from fastprod._core.testing.column_doors import rows_for_test
from fastprod._core.testing.json_doors import decimal_text_for_test, json_text_for_test
from fastprod.spark.formats.json import JsonEncoder, _native
from support.fuzz.target import Target

_SPARE_BYTES = 64
"""Behind each buffer: how long it is Arrow's interface does not tell."""
_MOST_ROWS = 8
_TYPES: Sequence[pyarrow.DataType] = (
    pyarrow.binary(),
    pyarrow.string(),
    pyarrow.large_binary(),
    pyarrow.large_string(),
    pyarrow.binary(3),
    pyarrow.int64(),
    pyarrow.float64(),
    pyarrow.bool_(),
    pyarrow.timestamp("us"),
    pyarrow.timestamp("ns", "UTC"),
    pyarrow.date32(),
    pyarrow.decimal128(38, 10),
)


def _buffer(data: bytes) -> pyarrow.Buffer:
    return pyarrow.py_buffer(data + bytes(_SPARE_BYTES))


def _array(data: bytes) -> pyarrow.Array:
    """An array whose type, validity, offsets and values are the input's."""
    head = data[:4].ljust(4, b"\0")
    kind = _TYPES[head[0] % len(_TYPES)]
    rows = head[1] % _MOST_ROWS
    skipped = head[2] % 3
    validity = _buffer(bytes([head[3]]) * 4) if head[2] & 64 else None
    body = data[4:]
    buffers = [validity]
    form = {
        pyarrow.binary(): "i",
        pyarrow.string(): "i",
        pyarrow.large_binary(): "q",
        pyarrow.large_string(): "q",
    }.get(kind)
    if form is not None:
        count = rows + skipped + 1
        steps, body = body[:count].ljust(count, b"\1"), body[count:]
        # Within the values and their spare bytes, or negative; in any order.
        offsets = [step % (len(body) + 2) - (1 if step == 255 else 0) for step in steps]
        buffers.append(_buffer(struct.pack(f"={count}{form}", *offsets)))
        buffers.append(_buffer(body))
    else:
        buffers.append(_buffer(body.ljust(16 * (rows + skipped), b"\7")))
    return pyarrow.Array.from_buffers(kind, rows, buffers, offset=skipped)


def _columns(data: bytes) -> None:
    half = len(data) // 2
    column = _array(data[:half])
    keys = _array(data[half:])
    rows = min(len(column), len(keys))
    rows_for_test(topic="t", values=column.slice(0, rows), keys=keys.slice(0, rows))


class _Json:
    """Rows of two columns, the second of them in a list of one."""

    def __init__(self) -> None:
        self._rows: JsonRows = _native(JsonEncoder())

    def __call__(self, data: bytes) -> None:
        half = len(data) // 2
        first, second = _array(data[:half]), _array(data[half:])
        rows = min(len(first), len(second))
        batch: Any = pyarrow.RecordBatch.from_arrays(
            [first.slice(0, rows), second.slice(0, rows)], names=["a", "b"]
        )
        self._rows.encode(batch)


def _texts(data: bytes) -> None:
    json_text_for_test(data, True)
    json_text_for_test(data, False)
    decimal_text_for_test(data[:16].ljust(16, b"\0"), len(data) % 39)


def column_targets() -> list[Target]:
    """Each reader of columns once."""
    seed = b"\x01\x03\x40\x05\0\2\4\6abcdefghi"
    refusals = (ValueError, TypeError, OverflowError)
    return [
        Target("columns", _columns, refusals, (seed * 2,), is_native=True),
        Target("json-rows", _Json(), refusals, (seed * 2, bytes([9, 2, 0, 0]) * 6), is_native=True),
        Target("json-texts", _texts, (ValueError,), (b'a"\\\n\xe2\x82\xac\xff',), is_native=True),
    ]

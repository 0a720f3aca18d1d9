"""Rows as JSON, against the slow oracle, for Arrow types nested in each other."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import pyarrow
from hypothesis import given
from hypothesis import strategies as st

from fastprod.spark.formats.json import JsonEncoder
from support.oracle.json_rows import rows_as_json

Typed: TypeAlias = tuple[pyarrow.DataType, st.SearchStrategy[Any]]

ZONES = ("UTC", "Asia/Kathmandu", "America/New_York")
# Python's clocks and the engine's agree where neither's calendar ends.
FIRST, LAST = datetime(1971, 1, 1), datetime(2090, 1, 1)


def integers(bits: int, is_signed: bool) -> st.SearchStrategy[int]:
    low = -(2 ** (bits - 1)) if is_signed else 0
    return st.integers(low, 2 ** (bits - 1) - 1 if is_signed else 2**bits - 1)


def plain_types() -> list[Typed]:
    text, data = st.text(), st.binary(max_size=20)
    found: list[Typed] = [
        (pyarrow.null(), st.none()),
        (pyarrow.bool_(), st.booleans()),
        (pyarrow.float64(), st.floats()),
        (pyarrow.float32(), st.floats(width=32)),
        (pyarrow.string(), text),
        (pyarrow.large_string(), text),
        (pyarrow.string_view(), text),
        (pyarrow.binary(), data),
        (pyarrow.large_binary(), data),
        (pyarrow.binary_view(), data),
        (pyarrow.binary(3), st.binary(min_size=3, max_size=3)),
        (pyarrow.date32(), st.dates()),
        (pyarrow.decimal128(38, 10), decimals(38, 10)),
        (pyarrow.decimal128(5, 0), decimals(5, 0)),
        (pyarrow.timestamp("us"), st.datetimes()),
        (pyarrow.timestamp("ms"), st.datetimes().map(lambda at: at.replace(microsecond=0))),
        (pyarrow.timestamp("s"), st.datetimes().map(lambda at: at.replace(microsecond=0))),
        (pyarrow.dictionary(pyarrow.int8(), pyarrow.string()), st.sampled_from(["a", "", '"'])),
    ]
    found += [(getattr(pyarrow, f"int{n}")(), integers(n, True)) for n in (8, 16, 32, 64)]
    found += [(getattr(pyarrow, f"uint{n}")(), integers(n, False)) for n in (8, 16, 32, 64)]
    for zone in ZONES:
        times = st.datetimes(FIRST, LAST, timezones=st.just(ZoneInfo(zone)))
        found.append((pyarrow.timestamp("us", zone), times))
    return found


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    largest = 10**precision - 1
    return st.integers(-largest, largest).map(lambda n: Decimal(f"{n}E-{scale}"))


KEYS: list[Typed] = [
    (pyarrow.string(), st.text()),
    (pyarrow.int64(), integers(64, True)),
    (pyarrow.bool_(), st.booleans()),
    (pyarrow.date32(), st.dates()),
    (pyarrow.timestamp("us"), st.datetimes()),
]


def lists(inner: Typed) -> Typed:
    kind, values = inner
    return pyarrow.list_(kind), st.lists(values | st.none(), max_size=4)


def large_lists(inner: Typed) -> Typed:
    kind, values = inner
    return pyarrow.large_list(kind), st.lists(values | st.none(), max_size=4)


def maps(key: Typed, value: Typed) -> Typed:
    pairs = st.tuples(key[1], value[1] | st.none())
    return pyarrow.map_(key[0], value[0]), st.lists(pairs, max_size=3, unique_by=lambda p: p[0])


def structs(names: list[str], inner: list[Typed]) -> Typed:
    fields = dict(zip(names, inner, strict=False))
    kind = pyarrow.struct([(name, each[0]) for name, each in fields.items()])
    return kind, st.fixed_dictionaries({n: each[1] | st.none() for n, each in fields.items()})


# Arrow ends a name at a NUL character; `check_types` refuses it.
LETTERS = st.characters(codec="utf-8", exclude_characters="\0")
NAMES = st.lists(st.text(LETTERS, max_size=5), min_size=1, max_size=4, unique=True)
TYPES: st.SearchStrategy[Typed] = st.recursive(
    st.sampled_from(plain_types()),
    lambda inner: (
        inner.map(lists)
        | inner.map(large_lists)
        | st.builds(maps, st.sampled_from(KEYS), inner)
        | st.builds(structs, NAMES, st.lists(inner, max_size=3))
    ),
    max_leaves=5,
)


@st.composite
def batches(draw: st.DrawFn) -> pyarrow.RecordBatch:
    """A batch, perhaps a slice of a larger one."""
    names = draw(NAMES)
    count = draw(st.integers(0, 12))
    columns = []
    for _ in names:
        kind, values = draw(TYPES)
        rows = draw(st.lists(values | st.none(), min_size=count, max_size=count))
        columns.append(pyarrow.array(rows, kind))
    first = draw(st.integers(0, count))
    return pyarrow.RecordBatch.from_arrays(columns, names=names).slice(
        first, draw(st.integers(0, count - first))
    )


@given(batches(), st.booleans())
def test_rows_are_what_the_oracle_says(batch: pyarrow.RecordBatch, ignores_nulls: bool) -> None:
    encoded = JsonEncoder(ignores_null_fields=ignores_nulls).encode(batch)
    found = [json.loads(text) for text in encoded.to_pylist()]
    assert_same(found, rows_as_json(batch, ignores_nulls), batch.schema)


def assert_same(found: Any, wanted: Any, kind: object) -> None:
    """Equal, floats of 32 bits as such: they are not read back with the digits of 64."""
    if isinstance(wanted, dict):
        assert isinstance(found, dict)
        assert list(found) == list(wanted)
        for name, each in wanted.items():
            assert_same(found[name], each, kind)
    elif isinstance(wanted, list):
        assert len(found) == len(wanted), kind
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other, kind)
    elif isinstance(wanted, float):
        # Decimals without a fraction are read back as integers.
        assert float(found) == wanted or (
            "float" in str(kind) and pyarrow.scalar(found, pyarrow.float32()).as_py() == wanted
        )
    else:
        assert found == wanted
        assert type(found) is type(wanted)


def test_the_oracle_itself_tells_days_from_times() -> None:
    batch = pyarrow.RecordBatch.from_pydict({"d": [date(2020, 1, 2)], "t": [datetime(2020, 1, 2)]})
    assert rows_as_json(batch, True) == [{"d": "2020-01-02", "t": "2020-01-02T00:00:00.000"}]

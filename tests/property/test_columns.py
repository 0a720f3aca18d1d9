"""Columns against lists: whatever the arrays look like, the records are the same."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod import KafkaProducer
from support.peer.scripted_peer import Peer
from support.processes.scale import examples

PARTITIONS = {"one": 3, "two": 2, "three": 1}
TIME_MS = 1_700_000_000_000
TEXT = [pa.string(), pa.large_string(), pa.string_view()]
KINDS = [pa.binary(), pa.large_binary(), pa.binary_view(), *TEXT, pa.binary(3)]
INDEXES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64()]
INTEGERS = [*INDEXES, pa.uint64()]
PER_MS = {"s": 0, "ms": 1, "us": 1000, "ns": 1_000_000}
PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS = [pa.list_(PAIR), pa.large_list(PAIR), pa.map_(pa.string(), pa.binary())]

Cell = bytes | None
Row = tuple[str, Cell, Cell, tuple[tuple[str, Cell], ...], int | None, int]


def fitting(cells: Sequence[Cell], kind: pa.DataType) -> list[Cell]:
    """Cells that an array of this type can hold, made of these."""
    if pa.types.is_fixed_size_binary(kind):
        return [None if cell is None else cell[:3].ljust(3, b"_") for cell in cells]
    if kind in TEXT:
        return [None if cell is None else cell.hex().encode() for cell in cells]
    return list(cells)


def bytes_array(cells: Sequence[Cell], kind: pa.DataType) -> Any:
    """An array of cells that fit."""
    if kind in TEXT:
        return pa.array([None if cell is None else cell.decode() for cell in cells], kind)
    return pa.array(cells, kind)


def dictionary_array(cells: Sequence[Cell], kind: pa.DataType, index: pa.DataType) -> Any:
    """One whose dictionary has an entry that is not used, one twice, and perhaps a null."""
    distinct = [b"abc", *dict.fromkeys(cells), b"abc"]
    places = {cell: number for number, cell in enumerate(distinct)}
    numbers = [None if cell is None and row % 2 else places[cell] for row, cell in enumerate(cells)]
    return pa.DictionaryArray.from_arrays(pa.array(numbers, index), bytes_array(distinct, kind))


class Shaper:
    """Makes columns of any shape; `choose` decides, so that hypothesis can repeat it."""

    def __init__(self, choose: random.Random) -> None:
        self.choose = choose

    def shaped(self, cells: list[Any], make: Any, filler: Any) -> Any:
        """An array or chunks, each a slice of something longer."""
        if self.choose.random() < 0.4:
            return self._slice(cells, make, filler)
        cuts = [self.choose.randrange(len(cells) + 1) for _ in range(self.choose.randrange(4))]
        ends = [0, *sorted(cuts), len(cells)]
        return pa.chunked_array(
            [self._slice(cells[begin:end], make, filler) for begin, end in pairwise(ends)]
        )

    def _slice(self, cells: list[Any], make: Any, filler: Any) -> Any:
        before, after = (self.choose.choice((0, 0, 1, 9)) for _ in range(2))
        whole = make([*[filler] * before, *cells, *[filler] * after])
        return whole[before : before + len(cells)]

    def bytes_column(self, cells: Sequence[Cell]) -> tuple[list[Cell], Any]:
        """(The cells as they are in the column, the column.)"""
        kind = self.choose.choice(KINDS)
        wanted = fitting(cells, kind)
        form = self.choose.choice(("plain", "plain", "dictionary", "list", "numpy"))
        if form == "list":
            return wanted, wanted
        if form == "numpy" and all(cell and cell[-1] for cell in wanted):
            return wanted, np.array(
                wanted, dtype=f"S{max(map(len, filter(None, wanted)), default=1)}"
            )
        if form == "dictionary":
            index = self.choose.choice(INDEXES)
            make: Any = lambda part: dictionary_array(part, kind, index)  # noqa: E731
        else:
            make = lambda part: bytes_array(part, kind)  # noqa: E731
        return wanted, self.shaped(wanted, make, self.choose.choice((None, b"abc")))


cells = st.one_of(st.none(), st.binary(max_size=20), st.binary(min_size=13, max_size=300))
pairs = st.lists(st.tuples(st.text(max_size=5), cells), max_size=3).map(tuple)
rows = st.lists(
    st.tuples(
        st.sampled_from(list(PARTITIONS)),
        cells,
        cells,
        pairs,
        st.none() | st.just(0),
        st.integers(0, 2**42),
    ),
    max_size=40,
)


def headers_column(shaper: Shaper, lists: list[Any]) -> Any:
    kind = shaper.choose.choice(HEADERS)
    if pa.types.is_map(kind):
        return shaper.shaped(lists, lambda part: pa.array(part, kind), [("filler", b"")])
    told = [row and [{"key": name, "value": cell} for name, cell in row] for row in lists]
    return shaper.shaped(told, lambda part: pa.array(part, kind), [{"key": "filler", "value": b""}])


def columns_of(shaper: Shaper, given: list[Row]) -> tuple[list[Row], dict[str, Any]]:
    """The rows as columns of some shape, and what has to come out."""
    choose = shaper.choose
    topics = [row[0] for row in given]
    values, value_column = shaper.bytes_column([row[1] for row in given])
    keys, key_column = shaper.bytes_column([row[2] for row in given])
    flat, flat_column = shaper.bytes_column([row[2] for row in given])
    listed = [row[3] for row in given]
    partitions = [row[4] for row in given]
    unit = choose.choice(list(PER_MS))
    times = [TIME_MS + row[5] // 1000 * 1000 for row in given]
    numbers = [each // 1000 if unit == "s" else each * PER_MS[unit] for each in times]
    if unit in ("us", "ns"):
        numbers = [each + choose.randrange(PER_MS[unit]) for each in numbers]
    topic_column = choose.choice(
        (
            topics,
            shaper.shaped(topics, lambda part: pa.array(part, pa.string()), "filler"),
            shaper.shaped(
                topics, lambda part: pa.array(part, pa.string()).dictionary_encode(), "filler"
            ),
        )
    )
    integer = choose.choice(INTEGERS)
    found: dict[str, Any] = {
        "value": value_column,
        "key": key_column,
        "topic": topic_column,
        "partition": shaper.shaped(partitions, lambda part: pa.array(part, integer), 7),
        "timestamp": shaper.shaped(
            numbers, lambda part: pa.array(part, pa.timestamp(unit, tz="UTC")), None
        ),
        "headers": headers_column(shaper, [list(row) or None for row in listed]),
        "flat": flat_column,
    }
    expected = [
        (topics[i], values[i], keys[i], (*listed[i], ("flat", flat[i])), partitions[i], times[i])
        for i in range(len(given))
    ]
    return expected, found


def send_lists(producer: KafkaProducer, given: list[Row]) -> None:
    """The oracle: every topic's rows by the path that takes Python lists."""
    for topic in PARTITIONS:
        mine = [row for row in given if row[0] == topic]
        producer.send_many(
            topic,
            [row[1] for row in mine],
            keys=[row[2] for row in mine],
            headers=[row[3] for row in mine],
            partitions=[row[4] for row in mine],
            timestamps_ms=[row[5] for row in mine],
        ).result(20)


class Logs:
    """What has arrived since the last look."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.seen: dict[tuple[str, int], int] = defaultdict(int)

    def news(self) -> tuple[dict[tuple[str, int], list[Any]], dict[str, list[Any]]]:
        """Records with a key, or for partition 0, in order; the others, which the partitioner puts
        where it likes, sorted."""
        placed: dict[tuple[str, int], list[Any]] = {}
        free: dict[str, list[Any]] = defaultdict(list)
        for topic, count in PARTITIONS.items():
            for partition in range(count):
                log = self.peer.log(topic, partition)
                for each in log[self.seen[topic, partition] :]:
                    found = (each.timestamp, each.key, each.value, tuple(each.headers))
                    if each.key is None:
                        free[topic].append(found)
                    else:
                        placed.setdefault((topic, partition), []).append(found)
                self.seen[topic, partition] = len(log)
        return placed, {topic: sorted(found, key=repr) for topic, found in free.items()}


def test_columns_give_the_records_that_lists_give() -> None:
    """Every kind of array, sliced, chunked, with nulls: the log is that of the list path."""
    with (
        Peer(topics=PARTITIONS) as peer,
        KafkaProducer(bootstrap_servers=peer.bootstrap_servers, linger_ms=0) as producer,
    ):
        logs = Logs(peer)

        @settings(max_examples=examples(300))
        @given(rows, st.randoms(use_true_random=False))
        def check(given_rows: list[Row], choose: random.Random) -> None:
            expected, columns = columns_of(Shaper(choose), given_rows)
            send_lists(producer, expected)
            wanted = logs.news()
            flat = {"flat": columns.pop("flat")}
            found = producer.append_columns(columns, header_columns=flat).result(20)
            assert found.record_count == len(given_rows)
            assert found.byte_count == sum(len(r[1] or b"") + len(r[2] or b"") for r in expected)
            assert logs.news() == wanted

        check()

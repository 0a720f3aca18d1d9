"""Topics of rows: each distinct name once, in the order in which they come."""

from __future__ import annotations

import pyarrow as pa
import pytest

from fastprod._core.testing.column_doors import rows_for_test

NAMES = ["orders", "events", "orders", "orders", "logs", "events"]
KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary()]


def topics(column: object, count: int = 6) -> list[str]:
    return [row[0] for row in rows_for_test(topic=column, values=[b""] * count)[0]]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_names_of_any_text_type_are_found(kind: pa.DataType) -> None:
    assert topics(pa.array(NAMES).cast(kind)) == NAMES


def test_dictionaries_may_hold_names_that_no_row_has_and_the_same_name_twice() -> None:
    dictionary = pa.array(["unused", "orders", "events", "orders", "logs"])
    indexes = pa.array([1, 2, 3, 1, 4, 2], pa.uint8())
    column = pa.DictionaryArray.from_arrays(indexes, dictionary)
    assert topics(column) == NAMES
    _, largest = rows_for_test(topic=column, values=[b""] * 6, partitions=[0, 1, 2, 0, 1, 0])
    assert largest == [2, 1, 1]


def test_chunks_with_dictionaries_of_their_own_share_names() -> None:
    parts = [pa.array(NAMES[:2]).dictionary_encode(), pa.array(NAMES[2:]).dictionary_encode()]
    assert topics(pa.chunked_array(parts)) == NAMES


def test_sequences_of_text_are_topics_too() -> None:
    assert topics(NAMES) == NAMES


def test_many_names_are_kept_apart() -> None:
    names = [f"topic-{i * 7 % 1000}" for i in range(3000)]
    assert topics(pa.array(names), 3000) == names


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None]),
        ["a", None],
        pa.array(["a", None]).dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), pa.array(["a", None])),
    ],
)
def test_a_null_topic_is_refused_with_its_row(column: object) -> None:
    with pytest.raises(ValueError, match="column 'topic': the topic of row 1 is null"):
        topics(column, 2)


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no UTF-8 text: b'\\xff'"):
        topics(pa.array([b"a", b"\xff"]), 2)

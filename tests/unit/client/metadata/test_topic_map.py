"""TopicMap: what it holds, what a changed copy shares with it, and how they differ."""

from __future__ import annotations

import pytest

from fastprod.client.metadata.topic_map import TopicMap


def held(topics: TopicMap[object]) -> dict[str, object]:
    found = dict(topics.items())
    assert len(topics) == len(found)
    for name, value in found.items():
        assert topics.get(name) is value
    return found


@pytest.mark.parametrize("count", [0, 1, 2, 17, 300])
def test_a_changed_copy_leaves_the_first_one_as_it_was(count: int) -> None:
    before: dict[str, object] = {f"t{number}": object() for number in range(count)}
    first = TopicMap(before)
    assert held(first) == before
    one, two = object(), object()
    second = first.with_changes({"t0": one, "new": two, "t1": None, "unknown": None})
    assert held(second) == {k: v for k, v in before.items() if k != "t1"} | {"t0": one, "new": two}
    assert held(first) == before
    assert sorted(second.differing(first)) == sorted(first.differing(second))
    assert set(second.differing(first)) == {"t0", "new"} | ({"t1"} & before.keys())
    assert first.get("unknown") is None
    assert first.with_changes({}) is first


def test_it_grows_and_shrinks_one_by_one() -> None:
    """As topics are sent to for the first time, and forgotten again."""
    topics: TopicMap[object] = TopicMap()
    expected: dict[str, object] = {}
    for number in range(600):
        name = f"t{number}"
        expected[name] = object()
        older, topics = topics, topics.with_changes({name: expected[name]})
        assert list(topics.differing(older)) == [name]
    assert held(topics) == expected
    for name in list(expected):
        del expected[name]
        topics = topics.with_changes({name: None})
    assert held(topics) == {}


def test_equal_values_that_are_other_objects_differ() -> None:
    first: TopicMap[object] = TopicMap({"t": [1], "u": [2]})
    assert list(first.with_changes({"t": [1]}).differing(first)) == ["t"]


def test_a_change_copies_a_few_of_many_topics() -> None:
    """10,000 topics: one dictionary of some hundred is made anew, and only it is compared."""
    first: TopicMap[object] = TopicMap({f"t{number}": number for number in range(10_000)})
    second = first.with_changes({"t7": 8})
    made = [new for new, old in zip(second._shards, first._shards, strict=True) if new is not old]
    assert len(made) == 1
    assert len(made[0]) + len(second._shards) < 600

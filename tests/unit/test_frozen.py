"""fastprod.frozen: objects that never change, as dataclasses has them."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest

from fastprod.frozen import Frozen


class Point(Frozen):
    __match_args__ = ("x", "y")
    __slots__ = __match_args__

    x: int
    y: Any

    def __init__(self, x: int, y: Any = 0) -> None:
        object.__setattr__(self, "x", x)
        object.__setattr__(self, "y", y)


class OtherPoint(Point):
    """With a `__dict__`."""


@dataclasses.dataclass(frozen=True)
class Place(Point):
    """What a user's dataclass may extend."""

    name: str = ""


def test_fields_can_neither_be_assigned_nor_deleted() -> None:
    point: Any = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'y'"):
        del point.y
    assert (point.x, point.y) == (1, 0)


def test_equality_and_hash_are_over_class_and_fields() -> None:
    assert Point(1, 2) == Point(1, 2) != Point(1, 3)
    assert Point(1, 2) != OtherPoint(1, 2)
    assert Point(1, 2) != (1, 2)
    assert hash(Point(1, 2)) == hash(Point(1, 2))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Point(1, []))


def test_the_repr_has_the_fields() -> None:
    assert repr(Point(1, "a")) == "Point(x=1, y='a')"


@pytest.mark.parametrize("kind", [Point, OtherPoint])
def test_copies_and_pickles_are_equal_and_frozen(kind: type[Point]) -> None:
    point = kind(1, [2])
    for twin in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):
        assert (twin == point, type(twin)) == (True, kind)
        with pytest.raises(dataclasses.FrozenInstanceError):
            twin.x = 2  # type: ignore[misc]


def test_the_module_dataclasses_takes_them_for_its_own() -> None:
    assert dataclasses.is_dataclass(Point)
    assert not dataclasses.is_dataclass(Frozen)
    assert [each.name for each in dataclasses.fields(Point)] == ["x", "y"]
    assert [each.type for each in dataclasses.fields(Point)] == ["int", "Any"]
    assert dataclasses.replace(Point(1, 2), y=3) == Point(1, 3)
    assert dataclasses.asdict(Point(1, [2])) == {"x": 1, "y": [2]}
    assert Point(1, 2).__replace__(x=5) == Point(5, 2)


def test_a_dataclass_may_extend_one() -> None:
    assert [each.name for each in dataclasses.fields(Place)] == ["x", "y", "name"]
    place = Place(1, 2, "here")
    assert (place.x, place.name) == (1, "here")
    assert dataclasses.replace(place, name="there") == Place(1, 2, "there")


def test_they_match_by_position() -> None:
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("no match")

"""What an assignor is told (B-E3)."""

from __future__ import annotations

from fastprod.broker.coordinator.group.consumer.group_spec import GroupSpec, MemberSpec

T, U = b"t" * 16, b"u" * 16


def test_a_group_is_homogeneous_if_all_read_the_same() -> None:
    """B-E3"""
    one, other = MemberSpec(frozenset({T})), MemberSpec(frozenset({T, U}))
    assert GroupSpec({}, {}).is_homogeneous
    assert GroupSpec({"a": one, "b": one}, {T: 1}).is_homogeneous
    assert not GroupSpec({"a": one, "b": other}, {T: 1, U: 1}).is_homogeneous

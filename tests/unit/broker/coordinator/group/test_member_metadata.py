"""A member and its protocols (B-E2)."""

from __future__ import annotations

from fastprod.broker.coordinator.group.member_metadata import Joining, MemberMetadata

PROTOCOLS = [("range", b"r"), ("sticky", b"s"), ("range", b"again")]


def member() -> MemberMetadata:
    return MemberMetadata("m", "i", "c", "/h", 60_000, 10_000, "consumer", PROTOCOLS, b"given")


def test_it_says_something_for_each_protocol() -> None:
    assert member().protocol_names() == ["range", "sticky"]
    assert member().metadata("sticky") == b"s"
    assert member().metadata("other") == b""


def test_it_votes_for_the_best_that_all_can_follow() -> None:
    assert member().vote({"sticky", "range"}) == "range"
    assert member().vote({"sticky"}) == "sticky"


def test_it_matches_what_it_said_alone() -> None:
    assert member().matches(tuple(PROTOCOLS))
    assert not member().matches(PROTOCOLS[:2])
    assert not member().matches(PROTOCOLS[::-1])


def test_a_restarted_member_is_the_same_but_waits_for_nothing() -> None:
    """KIP-345."""
    old = member()
    old.awaiting_sync = lambda result: None
    new = old.with_id("n")
    assert (new.member_id, new.group_instance_id, new.assignment) == ("n", "i", b"given")
    assert new.matches(PROTOCOLS)
    assert old.is_awaiting
    assert not new.is_awaiting
    assert new.is_static


def test_who_joins_becomes_a_member_as_it_says() -> None:
    joining = Joining("g", "", None, "c", "/h", 10_000, 60_000, "consumer", PROTOCOLS)
    made = joining.member("m")
    assert (made.member_id, made.session_timeout_ms, made.rebalance_timeout_ms) == (
        "m",
        10_000,
        60_000,
    )
    assert not made.is_static

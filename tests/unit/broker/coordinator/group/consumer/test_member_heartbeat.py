"""What a member says of itself (B-E3)."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.broker.coordinator.group.consumer.consumer_group_member import ConsumerGroupMember
from fastprod.broker.coordinator.group.consumer.member_heartbeat import MemberHeartbeat
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.error_codes import INVALID_REQUEST


def beat(**said: Any) -> MemberHeartbeat:
    plain = MemberHeartbeat(1, "g", "m", 3, "c", "/h", lambda name: True)
    return plain._replace(**said)


JOINING = {"member_epoch": 0, "rebalance_timeout_ms": 1, "topic_names": ["t"], "owned": []}


@pytest.mark.parametrize(
    "said",
    [
        {"member_id": ""},
        {"member_id": "", "version": 0},
        {"group_id": ""},
        {"instance_id": " "},
        {"rack_id": ""},
        {"member_epoch": -3},
        {"member_epoch": -2},
        JOINING | {"rebalance_timeout_ms": -1},
        JOINING | {"owned": None},
        JOINING | {"owned": [(b"t" * 16, [0])]},
        JOINING | {"topic_names": None},
    ],
)
def test_what_makes_no_sense_is_refused(said: dict[str, Any]) -> None:
    """B-E3"""
    with pytest.raises(CoordinatorError) as caught:
        beat(**said).check()
    assert caught.value.code == INVALID_REQUEST
    assert caught.value.text


@pytest.mark.parametrize(
    "said",
    [
        {},
        JOINING,
        JOINING | {"member_id": "", "version": 0},
        JOINING | {"topic_names": None, "topic_regex": ""},
        {"member_epoch": -2, "instance_id": "i"},
        {"member_epoch": -1},
    ],
)
def test_what_makes_sense_is_taken(said: dict[str, Any]) -> None:
    """B-E3, KIP-1082"""
    beat(**said).check()


def test_what_it_does_not_say_stays_as_it_was() -> None:
    """B-E3"""
    said = beat(topic_names=["t", "u"], server_assignor="range", rebalance_timeout_ms=5)
    member = said.heard_of(ConsumerGroupMember("m", rack_id="r"))
    assert [member.topic_names, member.server_assignor] == [{"t", "u"}, "range"]
    assert (member.rack_id, member.rebalance_timeout_ms, member.client_host) == ("r", 5, "/h")
    assert beat().heard_of(member) == member
    assert beat(topic_names=[]).heard_of(member).topic_names == frozenset()
    assert beat(owned=[], topic_names=["t"], rebalance_timeout_ms=1).says_all
    assert not beat(owned=[], topic_names=["t"]).says_all

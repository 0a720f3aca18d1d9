"""The two places where faults take hold: before a request is handled, and before its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fastprod.broker.faults.hooks import Action, Close, Drop, Faults, Park
from fastprod.broker.network.request import Request, SizedBuffer
from support.broker.world import (
    CLOSED,
    NOTHING,
    BrokerWorld,
    batch_of,
    fetch_request,
    produce_request,
)


class Scripted(Faults):
    """Says what it was made with."""

    def __init__(
        self,
        before: int | Action | None = None,
        after: Sequence[SizedBuffer] | Action | None = None,
    ) -> None:
        self._before = before
        self._after = after
        self.seen: list[Any] = []

    def before(self, request: Request, message: Any) -> int | Action | None:
        self.seen.append(message)
        return self._before

    def after(
        self, request: Request, parts: Sequence[SizedBuffer] | None
    ) -> Sequence[SizedBuffer] | Action | None:
        self.seen.append(parts)
        return self._after


def test_without_faults_nothing_happens() -> None:
    faults = Faults()
    with BrokerWorld(topics={"t": 1}, faults=faults) as world:
        assert world.produce(batch_of(b"a")).error_code == 0


def test_a_code_is_every_partitions_answer_and_nothing_is_done() -> None:
    with BrokerWorld(topics={"t": 2}, faults=Scripted(before=7)) as world:
        message = produce_request([("t", 0, batch_of(b"a")), ("t", 1, batch_of(b"a"))])
        answer = world.ask("Produce", 9, message)
        assert [each.error_code for each in answer.responses[0].partition_responses] == [7, 7]
        partition = world.state.topics.partition("t", 0)
        assert partition is not None
        assert partition.log.log_end_offset == 0
        fetched = world.ask("Fetch", 12, fetch_request([("t", 0, 0)], max_wait_ms=1000))
        assert fetched.responses[0].partitions[0].error_code == 7


def test_a_code_for_acks_0_closes_the_connection() -> None:
    with BrokerWorld(topics={"t": 1}, faults=Scripted(before=7)) as world:
        message = produce_request([("t", 0, batch_of(b"a"))], acks=0)
        assert world.ask("Produce", 9, message) == CLOSED


@pytest.mark.parametrize("acks", [0, 1])
def test_a_close_before_appends_nothing_and_a_close_after_has_appended(acks: int) -> None:
    message = produce_request([("t", 0, batch_of(b"a"))], acks=acks)
    for faults, appended in ((Scripted(before=Close()), 0), (Scripted(after=Close()), 1)):
        with BrokerWorld(topics={"t": 1}, faults=faults) as world:
            assert world.ask("Produce", 9, message) == CLOSED
            partition = world.state.topics.partition("t", 0)
            assert partition is not None
            assert partition.log.log_end_offset == appended


def test_a_dropped_request_is_never_answered() -> None:
    with BrokerWorld(topics={"t": 1}, faults=Scripted(before=Drop())) as world:
        asked = world.post("Produce", 9, produce_request([("t", 0, batch_of(b"a"))]))
        assert asked.answer is None


def test_a_parked_request_goes_on_when_it_is_released() -> None:
    park = Park()
    with BrokerWorld(topics={"t": 1}, faults=Scripted(before=park)) as world:
        asked = world.post("Produce", 9, produce_request([("t", 0, batch_of(b"a"))]))
        assert asked.answer is None
        park.release()
        assert asked.wait().responses[0].partition_responses[0].base_offset == 0


def test_a_parked_answer_is_sent_when_it_is_released() -> None:
    park = Park()
    with BrokerWorld(topics={"t": 1}, faults=Scripted(after=park)) as world:
        asked = world.post("Produce", 9, produce_request([("t", 0, batch_of(b"a"))]))
        partition = world.state.topics.partition("t", 0)
        assert partition is not None
        assert partition.log.log_end_offset == 1
        assert asked.answer is None
        park.release()
        assert asked.wait().responses[0].partition_responses[0].base_offset == 0


def test_an_answer_can_be_replaced() -> None:
    with BrokerWorld(topics={"t": 1}, faults=Scripted(after=[b"\0\0\0\7", b"rest"])) as world:
        asked = world.post("Produce", 9, produce_request([("t", 0, batch_of(b"a"))]))
        assert asked.raw == b"\0\0\0\7rest"


def test_faults_see_the_decoded_request_and_the_bytes_of_its_answer() -> None:
    faults = Scripted()
    with BrokerWorld(topics={"t": 1}, faults=faults) as world:
        message = produce_request([("t", 0, batch_of(b"a"))], acks=1)
        asked = world.post("Produce", 9, message)
        assert faults.seen[0].topic_data[0].name == "t"
        assert b"".join(map(bytes, faults.seen[1])) == asked.raw
        silent = produce_request([("t", 0, batch_of(b"a"))], acks=0)
        assert world.ask("Produce", 9, silent) == NOTHING
        assert faults.seen[3] is None

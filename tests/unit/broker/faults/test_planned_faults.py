"""What meets a request of those that are planned, and what becomes of its answer (B-G2, B-D1.1)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastprod.broker.faults.answers import Dribble, PlannedAnswer
from fastprod.broker.faults.hooks import Close, Drop, Park
from fastprod.broker.faults.planned_faults import (
    AppendLate,
    Delay,
    Effect,
    Instead,
    InterceptedRequest,
    Lose,
    PlannedFaults,
    Refuse,
    Truncate,
)
from fastprod.broker.faults.target import aim
from fastprod.protocol.messages.delete_topics import DeleteTopicsRequest
from fastprod.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.broker.fault_requests import Outlet, framed
from support.broker.world import (
    CLOSED,
    NOTHING,
    Asked,
    BrokerWorld,
    batch_of,
    fetch_request,
    produce_request,
)

HOUR_MS = 3_600_000
TIMED_OUT = 7
NOT_LEADER = 6
UNKNOWN_SERVER_ERROR = -1


class PlannedWorld(BrokerWorld):
    """A broker without sockets, with topic "t" of two partitions and faults to be planned."""

    def __init__(self) -> None:
        self.faults = PlannedFaults()
        super().__init__(topics={"t": 2, "u": 1}, faults=self.faults)
        self.faults.use_timer(self.state.purgatory)

    def plan(
        self,
        effect: Effect,
        api: str = "Produce",
        topic: str | None = None,
        partition: int | None = None,
        n: int | None = 1,
    ) -> None:
        self.faults.plan(effect, aim(api, topic, partition), n, 0)

    def post_produce(self, *places: tuple[str, int], acks: int = -1) -> Asked:
        places = places or (("t", 0),)
        message = produce_request([(*each, batch_of(b"a")) for each in places], acks)
        return self.post("Produce", 9, message)

    def codes(self, *places: tuple[str, int]) -> list[int]:
        answer = self.post_produce(*places).wait()
        return [each.error_code for topic in answer.responses for each in topic.partition_responses]

    def end_offset(self, topic: str = "t", partition: int = 0) -> int:
        found = self.state.topics.partition(topic, partition)
        assert found is not None
        return found.log.log_end_offset


def is_waiting(asked: Asked) -> bool:
    return asked.answer is None


@pytest.fixture
def world() -> Iterator[PlannedWorld]:
    opened = PlannedWorld()
    with opened:
        yield opened


def test_a_refused_request_is_answered_and_not_done(world: PlannedWorld) -> None:
    world.plan(Refuse(NOT_LEADER, 0))
    assert world.codes(("t", 0), ("t", 1)) == [NOT_LEADER, NOT_LEADER]
    assert world.end_offset() == 0
    assert world.codes(("t", 0), ("t", 1)) == [0, 0]


def test_one_partition_fails_and_the_others_are_appended(world: PlannedWorld) -> None:
    """B-D1.1."""
    world.plan(Refuse(NOT_LEADER, 0), topic="t", partition=1)
    assert world.codes(("t", 0), ("t", 1), ("u", 0)) == [0, NOT_LEADER, 0]
    assert [world.end_offset("t", 0), world.end_offset("t", 1), world.end_offset("u")] == [1, 0, 1]
    assert world.codes(("t", 1)) == [0]


def test_partitions_fail_each_with_its_error_in_one_request(world: PlannedWorld) -> None:
    """B-F2: errors of partitions are a queue each."""
    world.plan(Refuse(NOT_LEADER, 0), topic="t", partition=0)
    world.plan(Instead(Close()), n=1)
    world.plan(Refuse(TIMED_OUT, 0), topic="u")
    assert world.codes(("t", 0), ("t", 1), ("u", 0)) == [NOT_LEADER, 0, TIMED_OUT]
    assert world.post_produce().answer == CLOSED
    assert world.codes(("t", 0), ("t", 1), ("u", 0)) == [0, 0, 0]


def test_one_fault_takes_a_partition_before_the_next_may(world: PlannedWorld) -> None:
    world.plan(Refuse(NOT_LEADER, 0), topic="t")
    world.plan(Refuse(TIMED_OUT, 0), topic="t")
    assert world.codes(("t", 0), ("u", 0)) == [NOT_LEADER, 0]
    assert world.codes(("t", 0), ("u", 0)) == [TIMED_OUT, 0]
    assert world.codes(("t", 0), ("u", 0)) == [0, 0]


def test_a_partition_that_fails_with_acks_0_closes_the_connection(world: PlannedWorld) -> None:
    """B-D1.4: the other partition's records are there all the same."""
    world.plan(Refuse(NOT_LEADER, 0), topic="t", partition=1)
    assert world.post_produce(("t", 0), ("t", 1), acks=0).answer == CLOSED
    assert [world.end_offset("t", 0), world.end_offset("t", 1)] == [1, 0]


def test_a_partition_that_fails_completes_a_fetch(world: PlannedWorld) -> None:
    """B-G4.7: at once, without waiting for records."""
    world.plan(Refuse(NOT_LEADER, 0), "Fetch", "t", 1)
    message = fetch_request([("t", 0, 0), ("t", 1, 0)], max_wait_ms=HOUR_MS)
    answer = world.ask("Fetch", 12, message)
    assert [each.error_code for each in answer.responses[0].partitions] == [0, NOT_LEADER]


def test_a_topic_that_cannot_fail_alone_fails_with_its_request(world: PlannedWorld) -> None:
    """Nobody has to ask what became of a topic that was deleted with an error."""
    world.plan(Refuse(NOT_LEADER, 0), "DeleteTopics", "t")
    message = DeleteTopicsRequest(topic_names=["u", "t"], timeout_ms=1)
    answer = world.ask("DeleteTopics", 5, message)
    assert [each.error_code for each in answer.responses] == [NOT_LEADER, NOT_LEADER]
    assert [topic.name for topic in world.state.topics.all()] == ["t", "u"]


def test_a_dropped_request_is_never_answered(world: PlannedWorld) -> None:
    world.plan(Instead(Drop()))
    assert world.post_produce().answer is None
    assert world.end_offset() == 0


def test_a_lost_answer_is_one_to_what_was_done(world: PlannedWorld) -> None:
    """B-G2, "appended but reply lost"."""
    world.plan(Lose())
    assert world.post_produce().answer == CLOSED
    assert world.end_offset() == 1


def test_a_lost_answer_closes_with_acks_0_too(world: PlannedWorld) -> None:
    world.plan(Lose())
    assert world.post_produce(acks=0).answer == CLOSED
    assert world.end_offset() == 1


def test_a_request_that_timed_out_is_appended_later(world: PlannedWorld) -> None:
    """B-G2, "timed out but appended later"; B-D1 REQUEST_TIMED_OUT."""
    world.plan(AppendLate(HOUR_MS))
    asked = world.post_produce()
    (topic,) = asked.answer.responses
    assert [each.error_code for each in topic.partition_responses] == [TIMED_OUT]
    assert world.end_offset() == 0
    world.faults.forget()
    assert world.end_offset() == 1


def test_a_late_append_without_delay_follows_the_answer(world: PlannedWorld) -> None:
    world.plan(AppendLate(0))
    assert world.codes() == [TIMED_OUT]
    assert world.end_offset() == 1


def test_a_late_append_that_the_log_refuses_is_nobodys(world: PlannedWorld) -> None:
    """Its answer has been given: there is no second one."""
    world.plan(AppendLate(HOUR_MS))
    asked = world.post_produce(("t", 7))
    world.faults.forget()
    assert asked.answer.responses[0].partition_responses[0].error_code == TIMED_OUT


@pytest.mark.parametrize("effect", [AppendLate(0), Truncate(0), Dribble(1, 0)])
def test_what_needs_an_answer_waits_for_a_request_that_has_one(
    world: PlannedWorld, effect: Effect
) -> None:
    """B-D1.4."""
    at_answers = aim("Produce")._replace(is_at_answers=True)
    world.faults.plan(effect, at_answers, 1, 0)
    assert world.post_produce(acks=0).answer == NOTHING
    assert not world.faults._is_idle
    world.post_produce()
    assert world.faults._is_idle


def test_a_delayed_answer_is_one_to_what_was_done(world: PlannedWorld) -> None:
    world.plan(Delay(HOUR_MS))
    asked = world.post_produce()
    assert is_waiting(asked)
    assert world.end_offset() == 1
    world.faults.forget()
    assert asked.answer.responses[0].partition_responses[0].error_code == 0


def test_a_delayed_answer_comes_by_itself(world: PlannedWorld) -> None:
    world.plan(Delay(1))
    assert world.post_produce().wait().responses[0].partition_responses[0].error_code == 0


@pytest.mark.parametrize("place", [None, "t"])
def test_a_refusal_can_be_delayed(world: PlannedWorld, place: str | None) -> None:
    """B-G2, fail(delay_ms)."""
    world.plan(Refuse(NOT_LEADER, HOUR_MS), topic=place)
    asked = world.post_produce(("t", 0), ("u", 0))
    assert is_waiting(asked)
    world.faults.forget()
    codes = [topic.partition_responses[0].error_code for topic in asked.answer.responses]
    assert codes == [NOT_LEADER, NOT_LEADER if place is None else 0]


def test_what_is_held_back_goes_on_when_the_broker_stops() -> None:
    world = PlannedWorld()
    with world:
        world.plan(Delay(HOUR_MS))
        asked = world.post_produce()
    assert asked.answer is not None


def test_forgotten_faults_meet_nobody(world: PlannedWorld) -> None:
    for effect in (Refuse(NOT_LEADER, 0), Lose(), Delay(HOUR_MS), Dribble(1, 0)):
        world.plan(effect, n=None)
    world.faults.add_interceptor(lambda seen: Drop())
    world.faults.forget()
    assert world.codes() == [0]


@pytest.mark.parametrize("effect", [Delay(HOUR_MS), Dribble(1, HOUR_MS), Lose(), Truncate(1)])
def test_a_request_that_was_parked_before_the_reset_is_answered_as_usual(
    world: PlannedWorld, effect: Effect
) -> None:
    """Else its fault would be the next test's."""
    world.plan(effect, "Fetch")
    asked = world.post("Fetch", 9, fetch_request([("t", 0, 0)], max_wait_ms=HOUR_MS))
    assert is_waiting(asked)
    world.faults.forget()
    assert world.codes() == [0]
    assert not is_waiting(asked)
    assert asked.answer.responses[0].partitions[0].error_code == 0


def test_an_answer_in_pieces_goes_on_at_once_after_the_reset(world: PlannedWorld) -> None:
    outlet, parts = Outlet(), (b"header", b"body")
    request = outlet.request()
    world.plan(Dribble(1, HOUR_MS))
    assert world.faults.before(request, produce_request([("t", 0, batch_of(b"a"))])) is None
    planned = world.faults.after(request, parts)
    assert isinstance(planned, PlannedAnswer)
    planned.take(request, lambda: request.respond(parts))
    assert len(outlet.written) == 1
    world.faults.forget()
    assert outlet.written == framed(b"headerbody")
    assert outlet.answers == 1


def test_an_interceptor_sees_the_decoded_request_first(world: PlannedWorld) -> None:
    """B-F3: with what was planned still to come."""
    seen: list[InterceptedRequest] = []
    world.faults.add_interceptor(lambda each: seen.append(each))
    world.plan(Refuse(NOT_LEADER, 0))
    assert world.codes(("t", 1)) == [NOT_LEADER]
    (request,) = seen
    assert (request.api, request.version, request.client_id) == ("Produce", 9, "test")
    assert (request.node_id, request.connection_id) == (0, "a:1-b:2-0-0")
    assert request.message.topic_data[0].partition_data[0].index == 1


def test_the_first_interceptor_that_says_something_decides(world: PlannedWorld) -> None:
    world.faults.add_interceptor(lambda seen: None)
    world.faults.add_interceptor(lambda seen: "NOT_ENOUGH_REPLICAS")
    world.faults.add_interceptor(lambda seen: NOT_LEADER)
    assert world.codes() == [19]


def test_an_interceptor_can_hold_a_request(world: PlannedWorld) -> None:
    park = Park()
    world.faults.add_interceptor(lambda seen: park)
    world.plan(Refuse(NOT_LEADER, 0))
    asked = world.post_produce()
    assert is_waiting(asked)
    park.release()
    assert asked.answer.responses[0].partition_responses[0].error_code == 0


def test_an_interceptor_is_known_while_it_runs(world: PlannedWorld) -> None:
    inside: list[bool] = []

    def look(seen: InterceptedRequest) -> None:
        inside.append(world.faults.is_called_by_interceptor)

    world.faults.add_interceptor(look)
    world.codes()
    assert inside == [True]
    assert not world.faults.is_called_by_interceptor
    world.faults.remove_interceptor(look)
    world.codes()
    assert inside == [True]


@pytest.mark.parametrize("answer", [0, "NO_ERROR", 1.5, object(), Drop])
def test_what_an_interceptor_cannot_say_is_an_error_of_the_server(
    world: PlannedWorld, answer: object, caplog: pytest.LogCaptureFixture
) -> None:
    world.faults.add_interceptor(lambda seen: answer)  # type: ignore[arg-type,return-value]
    assert world.codes() == [UNKNOWN_SERVER_ERROR]
    assert "ValueError" in caplog.text


def test_a_topic_that_is_refused_is_not_made(world: PlannedWorld) -> None:
    """B-D1.1: the others of the request are."""
    world.plan(Refuse(NOT_LEADER, 0), "Metadata", topic="x")
    message = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("x", "y")])
    found = world.ask("Metadata", 9, message).topics
    assert [(each.name, each.error_code) for each in found] == [("x", NOT_LEADER), ("y", 0)]
    assert world.state.topics.get("x") is None
    assert world.state.topics.get("y") is not None
    (logged,) = world.state.request_log.entries("Metadata")
    assert [each.name for each in logged.message.topics] == ["x", "y"]

"""What a test can say to make a broker misbehave, and what it is told when it cannot (B-G2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fastprod.broker.faults.fault_verbs import FaultVerbs
from fastprod.broker.faults.hooks import Park
from fastprod.broker.faults.planned_faults import InterceptedRequest, PlannedFaults
from fastprod.errors import IllegalStateError
from support.broker.world import CLOSED, Asked, BrokerWorld, batch_of, produce_request

HOUR_MS = 3_600_000
Verb = Callable[..., None]


class Ear:
    """A node that can be told to read or not."""

    def __init__(self, node_id: int) -> None:
        self.id = node_id
        self.heard: list[tuple[bool, bool]] = []
        self.told: list[str] = []

    def set_reading(self, reads: bool, waits: bool) -> None:
        self.heard.append((reads, waits))

    def set_fetching(self, fetches: bool) -> None:
        self.told.append(f"fetching {fetches}")

    def cut_off(self, is_fenced: bool) -> None:
        self.told.append(f"cut off {is_fenced}")

    def reconnect(self) -> None:
        self.told.append("reconnect")


class VerbWorld(BrokerWorld):
    """A broker without sockets, with topic "t" of two partitions."""

    def __init__(self) -> None:
        planned = PlannedFaults()
        self.nodes = [Ear(0), Ear(1)]
        self.faults = FaultVerbs(planned, self.nodes)
        super().__init__(brokers=2, topics={"t": 2}, faults=planned)
        planned.use_timer(self.state.purgatory)

    def post_produce(self, partition: int = 0) -> Asked:
        message = produce_request([("t", partition, batch_of(b"a"))])
        leader = self.state.topics.partition("t", partition)
        assert leader is not None
        return self.post("Produce", 9, message, leader.leader)

    def outcome(self, partition: int = 0) -> object:
        """The error code, CLOSED, or None for no answer yet."""
        answer = self.post_produce(partition).answer
        return code_of(answer)

    def end_offset(self) -> int:
        found = self.state.topics.partition("t", 0)
        assert found is not None
        return found.log.log_end_offset


def code_of(answer: Any) -> object:
    if answer in (None, CLOSED):
        return answer
    return answer.responses[0].partition_responses[0].error_code


@pytest.fixture
def world() -> Iterator[VerbWorld]:
    opened = VerbWorld()
    with opened:
        yield opened


def test_each_verb_does_what_it_says(world: VerbWorld) -> None:
    """B-G2: error code, drop, close, appended-but-reply-lost, timed-out-then-appended, delay."""
    faults = world.faults
    steps: list[tuple[Callable[[], None], object, int]] = [
        (lambda: faults.fail("Produce", "NOT_ENOUGH_REPLICAS"), 19, 0),
        (lambda: faults.fail("Produce", 6, topic="t", partition=0), 6, 0),
        (lambda: faults.drop("Produce"), None, 0),
        (lambda: faults.close("Produce"), CLOSED, 0),
        (lambda: faults.lose_reply(), CLOSED, 1),
        (lambda: faults.time_out_then_append(delay_ms=0), 7, 1),
        (lambda: faults.delay("Produce", HOUR_MS, n=1), None, 1),
    ]
    for plan, outcome, appended in steps:
        before = world.end_offset()
        plan()
        assert world.outcome() == outcome
        assert world.end_offset() - before == appended
        assert world.outcome() == 0


def test_every_verb_takes_a_count_a_place_and_how_many_pass_first(world: VerbWorld) -> None:
    """B-G2: per API and count, topic, partition and node."""
    faults = world.faults
    verbs: list[Verb] = [
        lambda **words: faults.fail("Produce", 6, **words),
        lambda **words: faults.drop("Produce", **words),
        lambda **words: faults.close("Produce", **words),
        lambda **words: faults.lose_reply("Produce", **words),
        lambda **words: faults.time_out_then_append(delay_ms=0, **words),
        lambda **words: faults.delay("Produce", HOUR_MS, **words),
    ]
    for verb in verbs:
        verb(n=2, topic="t", partition=1, after=1, node=1)
        assert [world.outcome(0) for _ in range(3)] == [0, 0, 0]
        met = [world.outcome(1) != 0 for _ in range(4)]
        assert met == [False, True, True, False]


@pytest.mark.parametrize(
    ("verb", "arguments", "words", "said"),
    [
        ("fail", ("Prodce", 6), {}, "no API 'Prodce'; did you mean 'Produce'"),
        ("fail", ("Produce", "NOT_LEADER"), {}, "did you mean 'NOT_LEADER_OR_FOLLOWER'"),
        ("fail", ("Produce", 0), {}, "the error is 0"),
        ("fail", ("Produce", 6), {"delay_ms": -1}, "delay_ms is -1"),
        ("fail", ("ApiVersions", 35), {"topic": "t"}, "names no topic"),
        ("drop", ("Produce",), {"n": 0}, "n is 0"),
        ("close", ("Produce",), {"n": -1}, "n is -1"),
        ("close", ("Produce",), {"after": -1}, "after is -1"),
        ("lose_reply", ("Produce",), {"partition": -1}, "partition is -1"),
        ("truncate", ("Produce", -1), {}, "size_bytes is -1"),
        ("time_out_then_append", (1, -5), {}, "delay_ms is -5"),
        ("delay", ("Produce", -1), {}, "ms is -1"),
        ("dribble", ("Fetch", 0), {}, "chunk_bytes is 0"),
        ("dribble", ("Fetch", 1, -1), {}, "pause_ms is -1"),
        ("stop_reading", (5,), {}, "no node 5; there are 0 to 1"),
        ("cut_off", (2,), {}, "no node 2; there are 0 to 1"),
        ("intercept", (7,), {}, "takes a function"),
    ],
)
def test_what_cannot_be_is_refused_at_once(
    world: VerbWorld, verb: str, arguments: tuple[Any, ...], words: dict[str, Any], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        getattr(world.faults, verb)(*arguments, **words)
    assert world.outcome() == 0


def test_faults_can_be_planned_before_the_start_but_nobody_reads_then() -> None:
    faults = FaultVerbs(PlannedFaults(), ())
    faults.fail("Produce", 6)
    for verb in (faults.stop_reading, faults.resume_reading):
        with pytest.raises(IllegalStateError, match="not been started"):
            verb()
    faults.reset()


def test_nodes_are_told_to_read_or_not(world: VerbWorld) -> None:
    faults, (first, second) = world.faults, world.nodes
    faults.stop_reading()
    faults.resume_reading(node=1)
    assert (first.heard, second.heard) == ([(False, True)], [(False, True), (True, True)])
    faults.reset()
    assert first.heard[-1] == second.heard[-1] == (True, True)


def test_an_interceptor_that_stops_the_reading_does_not_wait_for_its_own_thread(
    world: VerbWorld,
) -> None:
    def stop(seen: InterceptedRequest) -> None:
        world.faults.stop_reading()

    world.faults.intercept(stop)
    assert world.outcome() == 0
    assert world.nodes[0].heard == [(False, False)]


def test_an_interceptor_can_be_taken_back(world: VerbWorld) -> None:
    end = world.faults.intercept(lambda seen: 6 if seen.api == "Produce" else None)
    assert world.outcome() == 6
    end()
    end()
    assert world.outcome() == 0


def test_an_interceptor_can_hold_a_request_until_the_test_lets_it_go(world: VerbWorld) -> None:
    """B-F3, SleepControl: others are not held up."""
    park = Park()
    end = world.faults.intercept(lambda seen: park)
    asked = world.post_produce()
    end()
    assert world.outcome() == 0
    assert asked.answer is None
    park.release()
    assert code_of(asked.answer) == 0


def test_reset_undoes_everything_at_once(world: VerbWorld) -> None:
    """B-G2: what was delayed goes on, and what was to be appended is."""
    faults = world.faults
    faults.time_out_then_append(delay_ms=HOUR_MS)
    faults.delay("all", HOUR_MS, n=None, after=1)
    faults.fail("Produce", 6, n=None)
    faults.intercept(lambda seen: None)
    assert world.outcome() == 7
    late = world.post_produce()
    assert (late.answer, world.end_offset()) == (None, 0)
    faults.reset()
    assert (code_of(late.answer), world.end_offset()) == (6, 1)
    assert world.outcome() == 0
    faults.reset()


def test_nodes_are_cut_off_and_follow_again() -> None:
    with VerbWorld() as world:
        world.faults.stop_fetching(0)
        world.faults.cut_off(1)
        world.faults.cut_off(1, fenced=False)
        assert [each.told for each in world.nodes] == [
            ["fetching False"],
            ["cut off True", "cut off False"],
        ]
        world.faults.resume_fetching(0)
        world.faults.reconnect(1)
        world.faults.reset()
        assert world.nodes[0].told[1:] == ["fetching True", "fetching True", "reconnect"]
        assert world.nodes[1].told[2:] == ["reconnect", "fetching True", "reconnect"]

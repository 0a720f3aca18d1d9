"""Metadata.wait_for_topic: contract P-A.4, P-H.7; P-L.12-18, P-L.177."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable

import pytest

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.metadata.metadata import WAIT_SLICE_MS, Metadata, MetadataChanges
from fastprod.error_codes import INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED
from fastprod.errors import (
    AuthenticationError,
    InvalidTopicError,
    KafkaError,
    MetadataTimeoutError,
    NetworkError,
    ProducerClosedError,
    TopicAuthorizationError,
    UnknownTopicOrPartitionError,
)
from fastprod.records import Node
from support.oracle.metadata_world import World, answer, topic_metadata


@pytest.fixture
def world() -> World:
    world = World()
    world.metadata.bootstrap([Node(-1, "b1", 9092)])
    return world


def script(world: World, *steps: Callable[[], object]) -> None:
    """Let the waits run these steps, one each, and then nothing."""
    left = iter(steps)
    world.on_wait = lambda: next(left, lambda: None)()


def test_known_metadata_costs_no_wait_and_no_request(world: World) -> None:
    """P-A.4.3, P-A.3.18: also with max.block.ms=0. P-L.12 testMetadataFetch, the later sends."""
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t", (1, 1)))
    for partition in (None, 0, 1):
        assert world.metadata.wait_for_topic("t", partition, 0) == 0
    assert world.wakes == 0
    assert not world.is_update_requested


def test_answers_without_the_topic_are_waited_out(world: World) -> None:
    """P-A.4.4; P-L.12 testMetadataFetch: 4 empty snapshots cause 4 requests and waits."""

    def nothing() -> object:
        world.now_ms += 10
        return world.give()

    script(world, nothing, nothing, nothing, nothing, lambda: world.give(topic_metadata("t")))
    # The last wait lasts its whole slice.
    assert world.metadata.wait_for_topic("t", None, 60_000) == 4 * 10 + WAIT_SLICE_MS
    assert world.wakes == 5


def test_a_topic_that_vanished_needs_one_more_request(world: World) -> None:
    """P-L.13 testMetadataExpiry."""
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t"))
    world.give(topic_metadata("t", error=3))
    script(world, lambda: world.give(topic_metadata("t")))
    world.metadata.wait_for_topic("t", None, 60_000)
    assert world.wakes == 1


def test_an_idle_topic_has_to_be_fetched_again(world: World) -> None:
    """P-L.17 testTopicExpiryInMetadata."""
    script(world, lambda: world.give(topic_metadata("t")))
    world.metadata.wait_for_topic("t", None, 60_000)
    world.now_ms += 50_000
    world.give(topic_metadata("t"))
    assert world.metadata.topics == frozenset()
    script(world, lambda: world.give(topic_metadata("t")))
    assert world.metadata.wait_for_topic("t", None, 60_000) > 0
    assert world.wakes == 2


def test_a_new_topic_is_requested_alone_and_the_control_thread_woken(world: World) -> None:
    """P-A.4.2, P-A.4.4."""
    world.give()

    def check() -> None:
        assert world.wakes == 1
        assert world.time_to_next_ms() == 0
        assert world.ask().topics == ("t",)
        assert world.ask().is_partial
        world.give(topic_metadata("t"))

    script(world, check)
    world.metadata.wait_for_topic("t", None, 60_000)
    assert len(world.slices_ms) == 1


def test_a_missing_topic_times_out_with_kafkas_words(world: World) -> None:
    """P-A.4.5; P-L.14 testMetadataTimeoutWithMissingTopic. Waits are sliced for Ctrl-C."""
    start_ms = world.now_ms
    with pytest.raises(MetadataTimeoutError) as caught:
        world.metadata.wait_for_topic("t", 3, 120)
    error = caught.value
    assert str(error).startswith("Topic t not present in metadata after 120 ms.")
    assert (error.topic, error.partition, error.__cause__) == ("t", None, None)
    assert world.now_ms - start_ms == 120
    assert world.slices_ms == [50, 50, 20]


def test_no_time_at_all_times_out_at_once(world: World) -> None:
    """P-A.3.18: max.block.ms=0; the request is made all the same."""
    with pytest.raises(MetadataTimeoutError, match="after 0 ms"):
        world.metadata.wait_for_topic("t", None, 0)
    assert world.slices_ms == []
    assert world.wakes == 1
    assert world.metadata.topics == {"t"}


def test_a_partition_out_of_range_waits_for_it_to_be_added(world: World) -> None:
    """P-A.4.4; P-L.15 testMetadataWithPartitionOutOfRange: partition 2 needs three."""
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t", (1, 1)))
    script(
        world,
        lambda: world.give(topic_metadata("t", (1, 1))),
        lambda: world.give(topic_metadata("t", (1, 1, 1))),
    )
    world.metadata.wait_for_topic("t", 2, 60_000)
    assert world.wakes == 2


def test_a_partition_that_does_not_come_times_out_with_kafkas_words(world: World) -> None:
    """P-A.4.5; P-L.15 testMetadataTimeoutWithPartitionOutOfRange."""
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t", (1, 1)))
    with pytest.raises(MetadataTimeoutError) as caught:
        world.metadata.wait_for_topic("t", 2, 100)
    error = caught.value
    assert str(error).startswith(
        "Partition 2 of topic t with partition count 2 is not present in metadata after 100 ms."
    )
    assert error.__dict__["partition_count"] == 2
    assert error.partition == 2


def test_the_topics_error_is_the_cause_of_the_timeout(world: World) -> None:
    """P-A.4.5; P-L.16 testTopicNotExistingInMetadata. The cause survives pickling."""

    def unknown() -> object:
        return world.give(topic_metadata("t", error=3))

    script(world, *[unknown] * 100)
    with pytest.raises(MetadataTimeoutError) as caught:
        world.metadata.wait_for_topic("t", None, 300)
    assert isinstance(caught.value.__cause__, UnknownTopicOrPartitionError)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert isinstance(copy.__cause__, UnknownTopicOrPartitionError)


def test_another_topics_answer_does_not_hide_the_cause(world: World) -> None:
    """P-A.4.5, P-H.7.1: errors are kept topic by topic."""
    world.metadata.add("u", world.now_ms)
    script(
        world,
        lambda: world.give(topic_metadata("t", error=3)),
        lambda: world.give(topic_metadata("u")),
    )
    with pytest.raises(MetadataTimeoutError) as caught:
        world.metadata.wait_for_topic("t", None, 200)
    assert isinstance(caught.value.__cause__, UnknownTopicOrPartitionError)


def test_without_any_answer_the_last_failure_is_the_cause(world: World) -> None:
    """design.md 6: timeouts name their cause; an answer makes it outdated."""
    refused = NetworkError("b1:9092 (id -1): connection refused")
    script(world, lambda: world.metadata.record_failure(refused))
    with pytest.raises(MetadataTimeoutError, match="connection refused") as caught:
        world.metadata.wait_for_topic("t", None, 100)
    assert caught.value.__cause__ is refused
    script(world, world.give)
    with pytest.raises(MetadataTimeoutError) as caught:
        world.metadata.wait_for_topic("t", None, 100)
    assert caught.value.__cause__ is None


def test_what_connections_wait_for_is_told_too(world: World) -> None:
    """P-A.4.5: beside what went wrong before, and without anything having gone wrong."""
    awaited = "the access token from a callback is still awaited"
    world.metadata.name_waits(lambda: awaited)
    script(world)
    with pytest.raises(MetadataTimeoutError, match=f"problem was: {awaited}") as caught:
        world.metadata.wait_for_topic("t", None, 100)
    assert caught.value.reason == awaited
    script(world, lambda: world.metadata.record_failure(NetworkError("refused")))
    with pytest.raises(MetadataTimeoutError, match=f"problem was: refused; {awaited}"):
        world.metadata.wait_for_topic("t", None, 100)


def test_a_topic_known_as_invalid_fails_at_once(world: World) -> None:
    """P-A.4.1; P-L.18 testSendToInvalidTopic."""
    script(world, lambda: world.give(topic_metadata("t t", error=17)))
    with pytest.raises(InvalidTopicError, match="'t t'"):
        world.metadata.wait_for_topic("t t", None, 60_000)
    assert world.metadata.cluster.error_code("t t") == INVALID_TOPIC_EXCEPTION
    waits = len(world.slices_ms)
    with pytest.raises(InvalidTopicError):
        world.metadata.wait_for_topic("t t", None, 60_000)
    assert len(world.slices_ms) == waits


def test_a_topic_we_may_not_see_ends_the_wait(world: World) -> None:
    """P-A.4.6; P-L.176 testTopicAuthorizationError."""
    script(world, lambda: world.give(topic_metadata("t", error=29)))
    with pytest.raises(TopicAuthorizationError) as caught:
        world.metadata.wait_for_topic("t", None, 60_000)
    assert caught.value.topic == "t"
    assert world.metadata.cluster.error_code("t") == TOPIC_AUTHORIZATION_FAILED


def test_an_error_is_for_those_who_waited_for_it(world: World) -> None:
    """P-H.7.1: a later wait gets an answer of its own, and other topics are not disturbed."""
    world.metadata.add("u", world.now_ms)
    script(world, lambda: world.give(topic_metadata("t", error=29), topic_metadata("u")))
    with pytest.raises(TopicAuthorizationError):
        world.metadata.wait_for_topic("t", None, 60_000)
    assert world.metadata.wait_for_topic("u", None, 0) == 0
    script(world, lambda: world.give(topic_metadata("u")), lambda: world.give(topic_metadata("t")))
    assert world.metadata.wait_for_topic("t", None, 60_000) > 0


def test_a_fatal_error_reaches_everybody_until_an_answer(world: World) -> None:
    """P-A.4.6, P-H.7.2; P-L.177 testMetadataWaitAbortedOnFatalException. P-L.169: another node's
    answer is still applied, and shows that we are let in."""
    refused = AuthenticationError("no")
    script(world, lambda: world.metadata.fatal_error(refused))
    for _ in range(3):
        with pytest.raises(AuthenticationError) as caught:
            world.metadata.wait_for_topic("t", None, 60_000)
        assert str(caught.value) == "no"
        assert caught.value is not refused, "each has a traceback of its own"
        assert world.is_update_requested
    assert isinstance(world.metadata.standing_error, AuthenticationError)
    world.give(topic_metadata("t"))
    assert world.metadata.wait_for_topic("t", None, 60_000) == 0
    assert world.metadata.standing_error is None
    with pytest.raises(MetadataTimeoutError):
        world.metadata.wait_for_topic("u", None, 60)


def test_a_fatal_error_that_is_forgotten_lets_callers_wait(world: World) -> None:
    """P-H.7.2: what was wrong has been put right."""
    world.metadata.fatal_error(AuthenticationError("no"))
    world.metadata.forget_fatal_error()
    script(world, lambda: world.give(topic_metadata("t")))
    assert world.metadata.wait_for_topic("t", None, 60_000) > 0


def test_close_ends_the_wait(world: World) -> None:
    """P-A.4.6, P-H.7.4; P-L.177 testMetadataAwaitAfterClose, P-L.31."""
    script(world, world.metadata.close)
    for _ in range(2):
        with pytest.raises(ProducerClosedError) as caught:
            world.metadata.wait_for_topic("t", None, 60_000)
        assert str(caught.value) == "Producer closed while send in progress"
        assert type(caught.value.__cause__) is KafkaError
        assert str(caught.value.__cause__) == "Requested metadata update after close"


def test_a_wait_is_not_ended_by_the_version_it_saw(world: World) -> None:
    """P-A.4.4: only a newer version counts, and bootstrapping is one without the topic."""
    wakes: list[int] = []

    def nothing() -> None:
        wakes.append(world.wakes)

    def rebootstrap() -> None:
        wakes.append(world.wakes)
        world.metadata.rebootstrap()

    def known() -> None:
        wakes.append(world.wakes)
        world.give(topic_metadata("t"))

    script(world, nothing, rebootstrap, known)
    world.metadata.wait_for_topic("t", None, 60_000)
    assert wakes == [1, 1, 2]


def test_the_engine_learns_of_a_topic_before_its_waiters_go_on(world: World) -> None:
    """design.md 2: a caller that was told "known" must find the topic in the engine."""
    applied: list[MetadataChanges] = []

    def answer_and_apply() -> None:
        request = world.ask()
        response = answer(topic_metadata("t"))
        world.metadata.update(request, response, world.now_ms, apply=check_and_keep)

    def check_and_keep(changes: MetadataChanges) -> None:
        assert world.metadata.cluster is changes.cluster
        applied.append(changes)

    script(world, answer_and_apply)
    world.metadata.wait_for_topic("t", None, 60_000)
    (changes,) = applied
    assert changes.changed_topics == {"t"}


def test_an_interrupt_during_a_wait_comes_through(world: World) -> None:
    """design.md 2: Ctrl-C works; the lock is free afterwards."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    script(world, interrupt)
    with pytest.raises(KeyboardInterrupt):
        world.metadata.wait_for_topic("t", None, 60_000)
    finder = threading.Thread(target=world.metadata.add, args=("u", 0))
    finder.start()
    finder.join(timeout=10)
    assert not finder.is_alive()


def test_real_waiters_are_woken_by_an_answer() -> None:
    """P-H.7: all of them, by one answer, with the real condition."""
    asked = threading.Semaphore(0)
    metadata = Metadata(
        refresh_backoff=ExponentialBackoff(100, 1000),
        max_age_ms=300_000,
        max_idle_ms=300_000,
        clock_ms=lambda: 0,
        wake=asked.release,
    )
    results: list[int] = []
    waiters = [
        threading.Thread(target=lambda: results.append(metadata.wait_for_topic("t", None, 60_000)))
        for _ in range(3)
    ]
    for waiter in waiters:
        waiter.start()
    for _ in waiters:
        assert asked.acquire(timeout=30)
    request = metadata.new_request(0)
    world = World()
    world.metadata = metadata
    world.give(topic_metadata("t"))
    assert request.topics == ("t",)
    for waiter in waiters:
        waiter.join(timeout=30)
    assert results == [0, 0, 0]


TOPICS = ("a", "b", "c")


def test_several_new_topics_are_asked_for_at_once(world: World) -> None:
    world.give()

    def check() -> None:
        assert world.ask().topics == TOPICS
        assert world.ask().is_partial
        world.give(*map(topic_metadata, TOPICS))

    script(world, check)
    assert world.metadata.wait_for_topics(dict.fromkeys(TOPICS), 60_000) == {}
    assert (world.wakes, len(world.slices_ms)) == (1, 1)
    assert world.metadata.wait_for_topics({"a": 0, "b": None}, 0) == {}
    assert world.wakes == 1


def test_several_topics_may_take_long_while_some_of_them_come(world: World) -> None:
    """The time runs from the last that came; one that did not come has waited all of it."""
    wanted: dict[str, int | None] = {name: None for name in (*TOPICS, "absent")}
    known: list[str] = []

    def one_more() -> None:
        world.now_ms += 40
        known.append(TOPICS[len(known)])
        world.give(*map(topic_metadata, known))

    script(world, one_more, one_more, one_more)
    start_ms = world.now_ms
    errors = world.metadata.wait_for_topics(wanted, 60)
    assert list(errors) == ["absent"]
    assert str(errors["absent"]).startswith("Topic absent not present in metadata after 60 ms.")
    assert world.now_ms - start_ms == 3 * 40 + 60


def test_of_several_topics_each_has_its_own_error(world: World) -> None:
    world.metadata.add("few", world.now_ms)
    script(
        world,
        lambda: world.give(
            topic_metadata("good"),
            topic_metadata("bad", error=17),
            topic_metadata("secret", error=29),
            topic_metadata("few", (1, 1)),
        ),
    )
    wanted = {"bad": None, "few": 2, "good": None, "secret": None}
    errors = world.metadata.wait_for_topics(wanted, 100)
    assert {topic: type(error) for topic, error in errors.items()} == {
        "bad": InvalidTopicError,
        "few": MetadataTimeoutError,
        "secret": TopicAuthorizationError,
    }
    assert "with partition count 2" in str(errors["few"])
    again = world.metadata.wait_for_topics({"bad": None, "good": None}, 0)
    assert [type(error) for error in again.values()] == [InvalidTopicError]

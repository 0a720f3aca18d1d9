"""Metadata: what is followed, asked for and applied (P-H.1 to P-H.6); P-L.12, P-L.13, P-L.17,
P-L.176, P-L.177.

Waiting is in test_metadata_wait.py.
"""

from __future__ import annotations

import logging
import random

import pytest

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.metadata.cluster import LeaderHint
from fastprod.client.metadata.metadata import (
    MetadataChanges,
    MetadataRequestAndVersion,
)
from fastprod.errors import (
    IllegalStateError,
    InvalidTopicError,
    KafkaError,
    UnknownTopicOrPartitionError,
)
from fastprod.records import Node
from support.oracle.metadata_world import (
    B1,
    B2,
    MAX_AGE_MS,
    MAX_IDLE_MS,
    World,
    answer,
    topic_metadata,
)
from support.processes.between_lines import interrupted_in_each_line_of_threading

ID1 = bytes([1] * 16)
ID2 = bytes([2] * 16)
B3 = Node(3, "b3", 9092)


@pytest.fixture
def world() -> World:
    return World()


def test_the_first_request_is_full_and_names_no_topic(world: World) -> None:
    """P-H.5.1, P-H.2.8: a request for zero topics, at once."""
    first = Node(-1, "b1", 9092)
    world.metadata.bootstrap([first])
    assert world.time_to_next_ms() == 0
    assert world.ask() == MetadataRequestAndVersion((), 0, False)
    assert world.metadata.update_version == 1
    assert world.metadata.cluster.nodes == (first,)
    changes = world.give()
    assert changes.cluster is world.metadata.cluster
    assert changes.cluster.nodes == (B1, B2)
    assert world.metadata.update_version == 2
    assert world.time_to_next_ms() == MAX_AGE_MS


def test_a_new_topic_is_asked_for_alone_and_at_once(world: World) -> None:
    """P-H.2.2; P-L.177 testTimeToNextUpdateOverwriteBackoff, testMetadataPartialUpdate."""
    world.metadata.add("old", world.now_ms)
    world.give(topic_metadata("old"))
    world.metadata.add("new", world.now_ms)
    assert world.time_to_next_ms() == 0
    assert world.ask() == MetadataRequestAndVersion(("new",), 2, True)
    changes = world.give(topic_metadata("new", (1, 1)))
    assert changes.changed_topics == {"new"}
    assert changes.cluster.topics == {"old", "new"}
    assert not world.is_update_requested
    world.metadata.add("new", world.now_ms)
    assert not world.is_update_requested


def test_a_topic_added_during_a_request_is_asked_for_afterwards(world: World) -> None:
    """P-H.2.3; P-L.177 testMetadataPartialUpdate, the overlapping part."""
    world.give()
    world.metadata.add("first", world.now_ms)
    request = world.ask()
    world.metadata.add("second", world.now_ms)
    world.metadata.update(request, answer(topic_metadata("first")), world.now_ms)
    assert world.is_update_requested
    assert world.ask().topics == ("second",)
    assert world.ask().is_partial


def test_a_known_topic_asks_for_everything_and_a_new_one_for_itself(world: World) -> None:
    """P-L.177 testRequestUpdateForTopic. P-A.4.4."""
    world.give()
    world.metadata.add("known", world.now_ms)
    version = world.metadata.request_update_for_topics(["known"])
    assert version == world.metadata.update_version
    assert world.ask().is_partial
    world.give(topic_metadata("known"))
    world.metadata.request_update_for_topics(["known"])
    assert world.ask() == MetadataRequestAndVersion(("known",), 2, False)


class CountedName(str):
    """A topic's name that counts how often it is looked up, or put, anywhere."""

    __slots__ = ()
    looks = 0

    def __hash__(self) -> int:
        CountedName.looks += 1
        return super().__hash__()


def test_an_answer_about_one_topic_does_not_look_at_all_the_others(world: World) -> None:
    """P-H.2.2: 10,000 topics that are sent to one after the other were 10,000 times 10,000
    looks.
    """
    names = [CountedName(f"t{number}") for number in range(2_000)]
    for name in names:
        world.metadata.add(name, world.now_ms)
    world.give(*[topic_metadata(name) for name in names])
    world.metadata.add("new", world.now_ms)
    CountedName.looks = 0
    changes = world.give(topic_metadata("new"))
    assert CountedName.looks < 500
    assert changes.changed_topics == {"new"}
    assert changes.cluster.partition_count_for_topic("t1999") == 1
    assert len(changes.cluster.topics) == 2_001


def test_a_full_update_that_is_due_takes_the_new_topics_along(world: World) -> None:
    """P-H.2.2."""
    world.metadata.add("a", world.now_ms)
    world.give(topic_metadata("a"))
    world.metadata.request_update()
    world.metadata.add("b", world.now_ms)
    assert world.ask() == MetadataRequestAndVersion(("a", "b"), 2, False)


def test_identical_answers_are_asked_for_ever_more_slowly(world: World) -> None:
    """P-H.2.4; P-L.177 testMetadataEquivalentResponsesBackoff."""
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t", (5,)))
    delays = []
    for _ in range(5):
        world.metadata.request_update()
        delays.append(world.time_to_next_ms())
        world.now_ms += delays[-1]
        world.give(topic_metadata("t", (5,)))
    assert delays == [100, 100, 200, 400, 800]
    world.give(topic_metadata("t", (6,)))
    world.metadata.request_update()
    assert world.time_to_next_ms() == 100


@pytest.mark.parametrize(
    ("epoch", "topic_id", "version"), [(6, ID1, 12), (5, ID2, 12), (5, ID1, 8), (-1, ID1, 12)]
)
def test_news_ends_the_slow_down(world: World, epoch: int, topic_id: bytes, version: int) -> None:
    """P-H.2.4: a newer epoch, a changed topic id, no reliable epoch."""
    world.metadata.add("t", world.now_ms)
    for _ in range(5):
        world.give(topic_metadata("t", (5,), topic_id=ID1))
    world.give(topic_metadata("t", (epoch,), topic_id=topic_id), version=version)
    world.metadata.request_update()
    assert world.time_to_next_ms() == 100


def test_failed_requests_back_off(world: World) -> None:
    """P-H.2.5; P-L.176 testFailedUpdate: the age is not renewed."""
    world.give()
    world.now_ms += MAX_AGE_MS
    assert world.time_to_next_ms() == 0
    for expected in (100, 200, 400):
        world.metadata.failed_update(world.now_ms)
        assert world.time_to_next_ms() == expected
        world.now_ms += expected
    world.give()
    assert world.time_to_next_ms() == MAX_AGE_MS


def test_errors_that_mean_stale_metadata_ask_again(world: World) -> None:
    """P-H.2.6: at topic and at partition level, even in a full answer."""
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t", error=3))
    assert world.is_update_requested
    world.give(topic_metadata("t", partition_error=5))
    assert world.is_update_requested
    world.give(topic_metadata("t", error=29))
    assert not world.is_update_requested
    world.give(topic_metadata("t", error=31_000))
    assert not world.is_update_requested


def test_an_idle_topic_is_dropped_at_the_next_answer(world: World) -> None:
    """P-H.3; P-L.177 testTopicExpiry; P-L.17 testTopicExpiryInMetadata."""
    world.metadata.add("idle", world.now_ms)
    world.give(topic_metadata("idle"))
    world.now_ms += MAX_IDLE_MS - 1
    changes = world.give(topic_metadata("idle"))
    assert changes.removed_topics == frozenset()
    world.now_ms += 1
    assert world.metadata.topics == {"idle"}
    changes = world.give(topic_metadata("idle"))
    assert changes.removed_topics == {"idle"}
    assert world.metadata.topics == frozenset()
    assert world.metadata.cluster.topics == frozenset()
    assert world.last_seen_epoch("idle", 0) is None
    world.metadata.add("idle", world.now_ms)
    assert world.ask() == MetadataRequestAndVersion(("idle",), 2, True)


def test_use_keeps_a_topic(world: World) -> None:
    """P-H.3: by add, or as the engine knows of it."""
    for topic in ("sent", "engine", "idle"):
        world.metadata.add(topic, world.now_ms)
    every = [topic_metadata(topic) for topic in ("sent", "engine", "idle")]
    world.give(*every)
    world.now_ms += MAX_IDLE_MS
    world.metadata.add("sent", world.now_ms)
    world.used_ms = {"engine": world.now_ms - 1}
    changes = world.give(*every)
    assert changes.removed_topics == {"idle"}
    world.now_ms += MAX_IDLE_MS - 1
    world.metadata.add("sent", world.now_ms)
    assert world.give(*every).removed_topics == {"engine"}


def test_a_topic_never_answered_is_kept(world: World) -> None:
    """P-H.3; P-L.177 testTopicExpiry: the topic still in new_topics."""
    world.metadata.add("other", world.now_ms)
    request = world.ask()
    world.metadata.add("unanswered", world.now_ms)
    world.now_ms += 10 * MAX_IDLE_MS
    world.metadata.update(request, answer(topic_metadata("other")), world.now_ms)
    assert world.metadata.topics == {"other", "unanswered"}
    world.now_ms += 10 * MAX_IDLE_MS
    world.give(topic_metadata("unanswered", error=3))
    assert world.metadata.topics == {"unanswered"}
    world.give(topic_metadata("unanswered", error=3))
    assert world.metadata.topics == frozenset()


def test_a_partial_answer_drops_idle_topics_it_does_not_name(world: World) -> None:
    """P-H.3, P-H.2.2."""
    world.metadata.add("idle", world.now_ms)
    world.give(topic_metadata("idle"))
    world.now_ms += MAX_IDLE_MS
    world.metadata.add("new", world.now_ms)
    assert world.ask().is_partial
    changes = world.give(topic_metadata("new"))
    assert changes.removed_topics == {"idle"}
    assert changes.cluster.topics == {"new"}


def test_topics_nobody_follows_are_not_taken(world: World) -> None:
    """P-H.3: an answer may hold more than was asked for."""
    changes = world.give(topic_metadata("unasked"), topic_metadata(""))
    assert changes.cluster.topics == frozenset()
    assert world.metadata.topics == frozenset()


def test_the_brokers_of_a_full_answer_are_all_the_nodes_there_are(world: World) -> None:
    """P-H.2.9: one that is gone is no longer led by anybody."""
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t", leader=2))
    before = world.metadata.cluster
    assert before.nodes == (B1, B2)
    assert before.leader_for("t", 0) == B2
    request = world.ask()
    world.metadata.update(request, answer(topic_metadata("t", leader=2), nodes=[B3]), world.now_ms)
    assert world.metadata.cluster.nodes == (B3,)
    assert world.metadata.cluster.leader_for("t", 0) is None


def test_an_error_removes_the_partitions_and_keeps_the_epochs(world: World) -> None:
    """P-H.4.3; P-L.176 testRejectOldMetadata across an error."""
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t", (10,), topic_id=ID1))
    changes = world.give(topic_metadata("t", error=3))
    assert changes.removed_topics == {"t"}
    assert world.metadata.cluster.partition_count_for_topic("t") is None
    assert world.last_seen_epoch("t", 0) == 10
    world.give(topic_metadata("t", (9,)))
    assert world.metadata.cluster.partition_count_for_topic("t") is None
    world.give(topic_metadata("t", (1,), topic_id=ID1))
    assert world.last_seen_epoch("t", 0) == 1


def test_an_older_answer_keeps_the_newer_leader(world: World) -> None:
    """P-H.4.2; P-L.176 testRejectOldMetadata."""
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t", (10, 10), leader=1))
    changes = world.give(topic_metadata("t", (9, 11), leader=2))
    leaders = [changes.cluster.leader_for("t", number) for number in (0, 1)]
    assert leaders == [B1, B2]


def test_epochs_of_old_brokers_are_ignored(world: World) -> None:
    """P-H.4.1; P-L.176 testIgnoreLeaderEpochInOlderMetadataResponse."""
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t", (10,)), version=8)
    assert world.last_seen_epoch("t", 0) is None
    assert world.metadata.cluster.leader_for("t", 0) == B1


def test_a_node_that_a_hint_brought_is_news_for_the_other_topics_it_leads(world: World) -> None:
    """P-H.4, P-H.6: their leaders were unknown, and are known from the next answer on."""
    for topic in ("hinted", "other"):
        world.metadata.add(topic, world.now_ms)
    world.give(topic_metadata("hinted", (1,)), topic_metadata("other", (1,), leader=3))
    assert world.metadata.cluster.leader_for("other", 0) is None
    hint = LeaderHint("hinted", 0, 3, 2)
    assert world.metadata.apply_leader_hints([hint], [B3]) == [hint]
    topics = topic_metadata("hinted", (2,), leader=3), topic_metadata("other", (1,), leader=3)
    changes = world.metadata.update(world.ask(), answer(*topics, nodes=(B1, B2, B3)), world.now_ms)
    assert "other" in changes.changed_topics
    assert changes.cluster.leader_for("other", 0) == B3


def test_leader_hints_move_leaders_and_ask_for_an_update(world: World) -> None:
    """P-H.6; P-L.176 testTopicMetadataOnUpdatePartitionLeadership."""
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t", (10, 10, 10), topic_id=ID1))
    world.give(topic_metadata("t", (10, 10, 15), topic_id=ID1))
    version = world.metadata.update_version
    world.now_ms += 1000
    taken = LeaderHint("t", 0, 3, 11)
    hints = [
        taken,
        LeaderHint("t", 1, 3, 10),
        LeaderHint("t", 2, 3, 14),
        LeaderHint("t", 9, 3, 99),
        LeaderHint("u", 0, 3, 99),
    ]
    assert world.metadata.apply_leader_hints(hints, [B3]) == [taken]
    assert world.metadata.cluster.leader_for("t", 0) is B3
    assert world.metadata.cluster.topic_id("t") == ID1
    assert world.last_seen_epoch("t", 0) == 11
    assert world.metadata.update_version == version
    assert world.is_update_requested
    world.give(topic_metadata("t", (10, 10, 15)))
    assert world.metadata.cluster.partitions("t").get(0) == taken_partition(world)


def taken_partition(world: World) -> object:
    known = world.metadata.cluster.partitions("t").get(0)
    assert known is not None
    return known._replace(leader_id=3, leader_epoch=11)


def test_a_recreated_topic_replaces_a_higher_epoch(world: World) -> None:
    """P-H.4.2, P-J.3.4; P-L.176 testEpochUpdateOnChangedTopicIds."""
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t", (100,), topic_id=ID1))
    changes = world.give(topic_metadata("t", (0,), topic_id=ID2))
    assert changes.changed_topics == {"t"}
    assert changes.cluster.topic_id("t") == ID2
    assert world.last_seen_epoch("t", 0) == 0


def test_a_topic_forgotten_after_a_new_start_is_told_to_be_gone(world: World) -> None:
    """P-H.3, P-H.5.2: callers took it for known all the while."""
    world.metadata.bootstrap([Node(-1, "b1", 9092)])
    for topic in ("idle", "used"):
        world.metadata.add(topic, world.now_ms)
    every = [topic_metadata(topic) for topic in ("idle", "used")]
    assert world.give(*every).changed_topics == {"idle", "used"}
    world.now_ms += MAX_IDLE_MS
    world.metadata.rebootstrap()
    world.metadata.add("used", world.now_ms)
    changes = world.give(*every)
    assert changes.removed_topics == {"idle"}
    assert changes.cluster.topics == {"used"}


def test_what_could_not_be_applied_is_a_change_once_more(world: World) -> None:
    """P-A.4.6: callers wait until the engine knows; memory may have been short for a moment."""

    def fail(changes: MetadataChanges) -> None:
        raise MemoryError(changes.changed_topics)

    world.metadata.add("t", world.now_ms)
    named = answer(topic_metadata("t"))
    with pytest.raises(MemoryError):
        world.metadata.update(world.ask(), named, world.now_ms, apply=fail)
    assert world.metadata.update(world.ask(), named, world.now_ms).changed_topics == {"t"}


def test_rebootstrap_forgets_the_cluster_but_not_the_topics(world: World) -> None:
    """P-H.5.2, P-H.5.5."""
    first = Node(-1, "b1", 9092)
    world.metadata.bootstrap([first])
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t"))
    version = world.metadata.update_version
    world.metadata.rebootstrap()
    assert world.metadata.update_version == version + 1
    assert world.metadata.cluster.nodes == (first,)
    assert world.metadata.cluster.leader_for("t", 0) is None
    assert world.ask().topics == ("t",)
    assert not world.ask().is_partial


def test_topic_errors_are_remembered_while_the_topic_is_followed(world: World) -> None:
    """P-H.7.1, P-A.4.5."""
    world.metadata.add("t", world.now_ms)
    world.give(topic_metadata("t", error=3))
    assert isinstance(world.metadata.topic_error("t"), UnknownTopicOrPartitionError)
    world.metadata.add("u", world.now_ms)
    world.give(topic_metadata("u", error=17))
    assert isinstance(world.metadata.topic_error("t"), UnknownTopicOrPartitionError)
    assert isinstance(world.metadata.topic_error("u"), InvalidTopicError)
    world.give(topic_metadata("t"))
    assert world.metadata.topic_error("t") is None
    world.now_ms += MAX_IDLE_MS
    world.give(topic_metadata("u", error=17))
    assert world.metadata.topic_error("u") is None


def said(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """By the metadata; threads of other tests may still have something to say."""
    return [each for each in caplog.records if each.name == "fastprod.client.metadata.metadata"]


def test_errors_are_logged_once_and_by_name(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """P-H.7.3: leaders without our listener too."""
    caplog.set_level(logging.WARNING, "fastprod.client.metadata.metadata")
    for topic in ("t", "u", "v"):
        world.metadata.add(topic, world.now_ms)
    for _ in range(3):
        world.give(
            topic_metadata("t", error=3),
            topic_metadata("u", partition_error=72),
            topic_metadata("v", error=31_000),
        )
    (record,) = said(caplog)
    assert record.getMessage() == (
        "the brokers' metadata has errors: {'t': 'UNKNOWN_TOPIC_OR_PARTITION',"
        " 'u': 'LISTENER_NOT_FOUND', 'v': 'error code 31000'}"
    )


def test_errors_of_many_topics_are_counted(world: World, caplog: pytest.LogCaptureFixture) -> None:
    topics = [f"t{number}" for number in range(1_030)]
    world.metadata.add_many(topics, world.now_ms)
    world.give(*(topic_metadata(topic, error=3) for topic in topics))
    (record,) = said(caplog)
    assert record.getMessage().endswith("'t29': 'UNKNOWN_TOPIC_OR_PARTITION'} and 1,000 more")


def test_an_answer_after_close_is_refused(world: World) -> None:
    """P-H.7.4, P-G.1.2."""
    request = world.ask()
    world.metadata.close()
    world.metadata.close()
    assert world.metadata.is_closed
    with pytest.raises(IllegalStateError, match="after close"):
        world.metadata.update(request, answer(), world.now_ms)


def test_delays_agree_until_the_next_refresh_even_with_jitter() -> None:
    """P-D.6.4."""
    world = World(backoff=ExponentialBackoff(100, 1000, uniform=random.Random(1).uniform))
    world.give()
    world.metadata.request_update()
    assert len({world.time_to_next_ms() for _ in range(20)}) == 1


def test_ctrl_c_leaves_no_lock_behind(world: World) -> None:
    def call() -> None:
        world.metadata.add("t", world.now_ms)
        world.metadata.request_update_for_topics(["t"])
        world.metadata.record_failure(KafkaError("why"))

    interrupted_in_each_line_of_threading(call, lambda: world.metadata.topics)

"""Topics: made, found, deleted, taken up again (B-D4)."""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fastprod.broker.cluster.topic_config import TopicConfig
from fastprod.broker.cluster.topics import (
    MAX_PARTITION_COUNT,
    NewTopic,
    SavedTopic,
    Topic,
    TopicError,
    Topics,
    invalid_name_reason,
)
from fastprod.broker.config import BrokerConfig
from fastprod.broker.log.log import Log
from fastprod.broker.threads.clock import FakeClock
from fastprod.error_codes import (
    BROKER_NOT_AVAILABLE,
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    INVALID_TOPIC_EXCEPTION,
    POLICY_VIOLATION,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_OR_PARTITION,
)


class World:
    """Topics of three nodes, and what was written down last."""

    def __init__(self, **config: Any) -> None:
        self.saved: list[SavedTopic] = []
        self.disk_is_full = False
        self.written_count = 0
        self.write_count = 0
        self.open_count = 0
        self.on_open: Callable[[int], None] = lambda count: None
        self.on_save: Callable[[], None] = lambda: None
        self.clock = FakeClock()
        self.topics = Topics(
            BrokerConfig(**config), [0, 1, 2], self._open, self.clock.monotonic_ns, self._save
        )

    def _open(self, topic: str, partition: int, topic_id: bytes, config: TopicConfig) -> Log:
        self.open_count += 1
        self.on_open(self.open_count)
        return Log(None, topic, partition, config.log_config(), self.clock)

    def _save(self, changed: Sequence[SavedTopic], deleted: Sequence[bytes]) -> None:
        if self.disk_is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.on_save()
        stay = [
            each for each in self.saved if each.id not in {*deleted, *(new.id for new in changed)}
        ]
        self.saved = sorted([*stay, *changed])
        self.write_count += 1
        self.written_count += len(changed) + len(deleted)


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a/b", "a b", "caf\u00e9", "a\n"])
def test_an_illegal_name_is_refused(name: str) -> None:
    """B-D1 INVALID_TOPIC_EXCEPTION-name."""
    assert invalid_name_reason(name)
    with pytest.raises(TopicError) as refused:
        World().topics.create(name)
    assert refused.value.code == INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", ["a", "a" * 249, "...", "a.b_c-D9"])
def test_a_legal_name_is_taken(name: str) -> None:
    assert World().topics.create(name).name == name


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_names_of_internal_topics_are_reserved(name: str) -> None:
    """B-E1"""
    with pytest.raises(TopicError) as refused:
        World().topics.create(name)
    assert refused.value.code == INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize(("old", "new"), [("a.b", "a_b"), ("a_b.c", "a.b_c")])
def test_names_that_differ_by_a_dot_or_an_underscore_collide(old: str, new: str) -> None:
    """B-D1: as in Kafka, whose metrics have the same name for both."""
    world = World()
    world.topics.create(old)
    with pytest.raises(TopicError, match=f"'{new}' collides with .*{old}") as refused:
        world.topics.create(new)
    assert refused.value.code == INVALID_TOPIC_EXCEPTION
    world.topics.create("a-b")
    world.topics.delete(old)
    world.topics.create(new)
    # A folder may have both: earlier versions took them.
    both = World()
    for name in (old, new):
        both.topics.restore(world.saved[-1]._replace(name=name, id=name.encode()))
    both.topics.delete(new)
    with pytest.raises(TopicError):
        both.topics.create(new)


def test_leaders_are_spread_over_the_nodes_in_turn() -> None:
    topic = World().topics.create("t", 5, 2)
    assert [each.leader for each in topic.partitions] == [0, 1, 2, 0, 1]
    assert [each.replicas for each in topic.partitions][:3] == [[0, 1], [1, 2], [2, 0]]
    assert all(each.isr == each.replicas for each in topic.partitions)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"partition_count": 0}, INVALID_PARTITIONS),
        ({"partition_count": -2}, INVALID_PARTITIONS),
        ({"partition_count": MAX_PARTITION_COUNT + 1}, INVALID_PARTITIONS),
        ({"replication_factor": 0}, INVALID_REPLICATION_FACTOR),
        ({"config": {"no.such": "1"}}, INVALID_CONFIG),
        ({"assignment": {1: [0]}}, INVALID_REPLICA_ASSIGNMENT),
        ({"assignment": {0: []}}, INVALID_REPLICA_ASSIGNMENT),
        ({"assignment": {0: [0, 0]}}, INVALID_REPLICA_ASSIGNMENT),
        ({"assignment": {0: [9]}}, INVALID_REPLICA_ASSIGNMENT),
        ({"assignment": {0: [1]}, "partition_count": 1}, INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_plan_that_cannot_be_has_kafkas_code(arguments: dict[str, Any], code: int) -> None:
    """B-D4.5"""
    world = World()
    with pytest.raises(TopicError) as refused:
        world.topics.create("t", **arguments)
    assert refused.value.code == code
    assert world.topics.all() == []


def test_more_replicas_than_nodes_are_clamped_or_refused() -> None:
    """B-D4.7"""
    assert len(World().topics.create("t", 1, 5).partitions[0].replicas) == 3
    with pytest.raises(TopicError) as refused:
        World(clamp_replication=False).topics.create("t", 1, 5)
    assert refused.value.code == INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("broker_wide", [False, True])
def test_who_gets_fewer_replicas_needs_no_more_in_sync(broker_wide: bool) -> None:
    """As in Kafka: else nobody could append with acks=all."""
    number = {"min_insync_replicas": 4} if broker_wide else {}
    config = None if broker_wide else {"min.insync.replicas": "4"}
    topics = World(**number).topics
    topic = topics.create("t", 1, 5, config)
    assert topic.partitions[0].min_isr == 3
    assert topic.config.text("min.insync.replicas") == "4"
    assert topics.create("u", 1, 2, config).partitions[0].min_isr == 2
    assert topics.create("v", 1, 5, {"min.insync.replicas": "2"}).partitions[0].min_isr == 2


def test_an_assignment_says_who_leads() -> None:
    topic = World().topics.create("t", assignment={0: [2, 1], 1: [1, 0]})
    assert [(each.leader, each.replicas) for each in topic.partitions] == [
        (2, [2, 1]),
        (1, [1, 0]),
    ]


def test_a_topic_is_found_by_name_and_by_id_until_it_is_deleted() -> None:
    """B-D4.3: made again it has another id."""
    topics = World().topics
    first = topics.create("t", 2)
    assert topics.get("t") is first
    assert topics.by_id(first.id) is first
    assert topics.partition("t", 1) is first.partitions[1]
    assert topics.partition("t", 2) is topics.partition("t", -1) is topics.partition("u", 0) is None
    assert topics.delete("t") is first
    assert all(each.is_deleted for each in first.partitions)
    assert topics.get("t") is topics.by_id(first.id) is None
    assert topics.create("t", 2).id != first.id


def test_a_topic_is_made_once_and_deleted_once() -> None:
    topics = World().topics
    topics.create("t")
    with pytest.raises(TopicError) as again:
        topics.create("t")
    assert again.value.code == TOPIC_ALREADY_EXISTS
    topics.delete("t")
    with pytest.raises(TopicError) as gone:
        topics.delete("t")
    assert gone.value.code == UNKNOWN_TOPIC_OR_PARTITION


def test_each_change_is_written_down() -> None:
    world = World()
    world.topics.create("b")
    world.topics.create("a", 2, config={"retention.ms": "5"})
    assert [(each.name, len(each.partitions)) for each in world.saved] == [("a", 2), ("b", 1)]
    assert world.saved[0].config == {"retention.ms": "5"}
    world.topics.delete("a")
    assert [each.name for each in world.saved] == ["b"]


def test_nothing_changes_after_the_close() -> None:
    """The folder may be another broker's by now."""
    world = World()
    world.topics.create("t")
    world.topics.close()
    saved = list(world.saved)
    for change in (world.topics.create, world.topics.delete):
        with pytest.raises(TopicError) as refused:
            change("u" if change == world.topics.create else "t")
        assert refused.value.code == BROKER_NOT_AVAILABLE
    assert [each.name for each in world.topics.all()] == ["t"]
    assert world.saved == saved


def test_a_stop_ends_a_creation_between_two_partitions() -> None:
    """A topic may have 100,000."""
    world = World()
    world.on_open = lambda count: world.topics.refuse_changes() if count == 3 else None
    with pytest.raises(TopicError) as ended:
        world.topics.create("t", 1000)
    assert ended.value.code == BROKER_NOT_AVAILABLE
    assert world.open_count == 3
    assert world.topics.all() == []
    assert world.saved == []


def test_only_what_has_changed_is_written_down() -> None:
    """Else making topics took the square of their number."""
    world = World()
    for number in range(50):
        world.topics.create(f"t{number}")
    world.topics.delete("t7")
    assert world.written_count == 51


def test_topics_that_are_made_together_are_written_down_together() -> None:
    """On a disk that is what takes the time. Each has an outcome of its own."""
    world = World()
    plans = [NewTopic(name) for name in ("a", "b.c", "b_c", "a", "d e")]
    found = world.topics.create_many([*plans, *(NewTopic(f"t{n}") for n in range(200))])
    refused = [each.code for each in found if isinstance(each, TopicError)]
    assert refused == [17, TOPIC_ALREADY_EXISTS, 17]
    assert [each.name for each in found[:2] if isinstance(each, Topic)] == ["a", "b.c"]
    assert len(world.topics.all()) == len(world.saved) == 202
    assert world.write_count == 4
    # What could not be made has left no name behind.
    world.disk_is_full = True
    (failed,) = world.topics.create_many([NewTopic("x.y", 3)])
    assert isinstance(failed, OSError)
    world.disk_is_full = False
    assert world.topics.create("x_y", 3).name == "x_y"


def test_what_cannot_be_written_down_does_not_happen() -> None:
    """Nobody writes to a topic that a restart would forget, or misses one that comes back."""
    world = World()
    kept = world.topics.create("kept")
    world.disk_is_full = True
    with pytest.raises(OSError, match="No space"):
        world.topics.create("new")
    with pytest.raises(OSError, match="No space"):
        world.topics.delete("kept")
    assert world.topics.all() == [kept]
    assert not kept.partitions[0].is_deleted
    world.disk_is_full = False
    world.topics.create("new")
    world.topics.delete("kept")
    assert [each.name for each in world.saved] == ["new"]


def test_a_topic_of_an_earlier_run_comes_back_with_higher_leader_epochs() -> None:
    """B-C8.6"""
    world = World()
    before = world.topics.create("t", 3, config={"retention.ms": "5"})
    moved = before.partitions[1]
    world.topics.decide({moved: moved.plan_leader(2, [0, 1, 2])})
    later = World()
    after = later.topics.restore(world.saved[0])
    assert (after.id, after.config.overrides) == (before.id, before.config.overrides)
    assert [each.leader_epoch for each in after.partitions] == [1, 2, 1]
    assert after.partitions[1].leader == 2


def test_what_is_decided_holds_once_it_is_written_down() -> None:
    """B-B2: and nothing else of its topic is written between the two."""
    world = World()
    kept = world.topics.create("t", 2).partitions[1]
    decision = kept.plan_leader(2, [0, 1, 2])
    world.disk_is_full = True
    with pytest.raises(OSError, match="No space"):
        world.topics.decide({kept: decision})
    assert (kept.leader, kept.leader_epoch) == (1, 0)
    world.disk_is_full = False
    world.on_save = lambda: seen.append((kept.leader, kept.leader_epoch))
    seen: list[tuple[int, int]] = []
    world.topics.decide({kept: decision})
    assert seen == [(1, 0)]
    assert (kept.leader, kept.leader_epoch) == (2, 1)
    assert [each.leader_epoch for each in world.saved[0].partitions] == [0, 1]


def test_settings_hold_once_they_are_written_down() -> None:
    world = World()
    topic = world.topics.create("t")
    seen: list[dict[str, str]] = []
    world.on_save = lambda: seen.append(topic.config.overrides)
    world.topics.change_config("t", lambda config: {"retention.ms": "5"})
    assert seen == [{}]
    assert topic.config.overrides == world.saved[0].config == {"retention.ms": "5"}


def test_a_partition_whose_nodes_are_gone_is_led_by_one_that_is_there() -> None:
    world = World()
    saved = SavedTopic("t", bytes(range(16)), {}, [])
    from_more_nodes = saved._replace(partitions=[World().topics.create("u").saved().partitions[0]])
    moved = from_more_nodes.partitions[0]._replace(replicas=[7])
    topic = world.topics.restore(from_more_nodes._replace(partitions=[moved]))
    assert topic.partitions[0].leader in (0, 1, 2)


def test_a_partition_that_lost_nodes_for_good_needs_no_more_in_sync_than_it_has() -> None:
    """As in Kafka: else nobody could append with acks=all in a cluster that became smaller."""
    world = World()
    saved = world.topics.create("t", 1, 3, {"min.insync.replicas": "2"}).saved()
    moved = saved.partitions[0]._replace(replicas=[7, 8, 0])
    topic = World().topics.restore(saved._replace(partitions=[moved]))
    assert topic.partitions[0].replicas == [0]
    assert topic.partitions[0].min_isr == 1
    assert topic.config.text("min.insync.replicas") == "2"


def test_partitions_of_all_topics_have_an_end() -> None:
    """Any client can make some."""
    world = World(max_partitions=5)
    world.topics.create("a", 3)
    with pytest.raises(TopicError, match="3 partitions more; there are 3, and max_partitions is 5"):
        world.topics.create("b", 3)
    world.topics.create("c", 2)
    world.topics.delete("a")
    world.topics.create("b", 3)


def test_a_topic_with_billions_of_partitions_is_refused_before_they_are_listed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """CreatePartitions: a list of them takes the memory of the machine, and all threads wait."""

    def listed(count: int, *_: Any) -> list[list[int]]:
        raise AssertionError(f"{count:,} partitions are listed")

    topics = World().topics
    topics.create("t", 1)
    monkeypatch.setattr("fastprod.broker.cluster.topics.spread", listed)
    with pytest.raises(TopicError, match="2,147,483,646 partitions more") as refused:
        topics.add_partitions("t", 2**31 - 1)
    assert refused.value.code == POLICY_VIOLATION


def test_replicas_are_chosen_once_for_all_partitions_that_are_alike() -> None:
    """B-D4.7: who asks for 10,000 topics of 100,000 partitions must not keep others for minutes."""
    topics = World().topics
    topics.set_live([0, 2])
    _, replicas = topics.check_new("t", MAX_PARTITION_COUNT, 3)
    assert replicas[:3] == [[0, 2, 1], [2, 0, 1], [0, 2, 1]]
    assert replicas[-1] == [2, 0, 1]
    assert len(replicas) == MAX_PARTITION_COUNT
    assert len({id(each) for each in replicas}) == 2


@pytest.mark.parametrize("live", [[], [0], [1, 2], [0, 1, 2]])
def test_leaders_go_round_the_live_nodes(live: list[int]) -> None:
    topics = World().topics
    topics.set_live(live)
    _, replicas = topics.check_new("t", 7, 3)
    leaders = live or [0, 1, 2]
    assert [each[0] for each in replicas] == [leaders[at % len(leaders)] for at in range(7)]
    assert all(sorted(each) == [0, 1, 2] for each in replicas)
    assert topics.check_new("u", 1, 2)[1] == [replicas[0][:2]]


def test_a_check_knows_how_many_partitions_there_may_be() -> None:
    """CreateTopics with validate_only says what a creation would say (B-D4.7)."""
    topics = World(max_partitions=5).topics
    topics.create("t", 3)
    with pytest.raises(TopicError) as refused:
        topics.check_new("u", 3)
    assert refused.value.code == POLICY_VIOLATION


def test_the_brokers_own_topic_is_made_once_and_not_deleted() -> None:
    """B-E1: with fewer nodes it has fewer replicas."""
    world = World()
    made = world.topics.create_internal("__consumer_offsets", 5, 7, {"cleanup.policy": "compact"})
    assert world.topics.create_internal("__consumer_offsets", 9, 1, {}) is made
    assert made.is_internal
    assert [len(each.replicas) for each in made.partitions] == [3] * 5
    assert [each.leader for each in made.partitions] == [0, 1, 2, 0, 1]
    with pytest.raises(TopicError) as refused:
        world.topics.delete("__consumer_offsets")
    assert refused.value.code == INVALID_TOPIC_EXCEPTION
    world.topics.refuse_changes()
    with pytest.raises(TopicError) as refused:
        world.topics.create_internal("__transaction_state", 1, 1, {})
    assert refused.value.code == BROKER_NOT_AVAILABLE

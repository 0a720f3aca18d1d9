"""CreateTopics and DeleteTopics (B-D4.3, B-D4.5, B-D4.7)."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from fastprod.broker.cluster.topics import SavedTopic
from fastprod.error_codes import (
    BROKER_NOT_AVAILABLE,
    INVALID_CONFIG,
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    INVALID_TOPIC_EXCEPTION,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_CONTROLLER,
    POLICY_VIOLATION,
    TOPIC_ALREADY_EXISTS,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from fastprod.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fastprod.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.broker.world import BrokerWorld, batch_of, fetch_request


def topic(name: str, **changes: Any) -> CreatableTopic:
    words: dict[str, Any] = {
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }
    return CreatableTopic(name=name, **(words | changes))


def create(world: BrokerWorld, *topics: CreatableTopic, **words: Any) -> list[Any]:
    version, node_id = words.pop("version", 7), words.pop("node_id", 0)
    message = CreateTopicsRequest(topics=list(topics), **words)
    answer: list[Any] = world.post("CreateTopics", version, message, node_id).wait().topics
    return answer


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_makes_topics_that_can_be_used_at_once(version: int) -> None:
    """B-D4.5, B-B2.6."""
    with BrokerWorld() as world:
        (made,) = create(world, topic("t", num_partitions=3), version=version)
        assert (made.name, made.error_code, made.error_message) == ("t", NONE, None)
        assert world.produce(batch_of(b"a"), partition=2).error_code == NONE
        if version >= 5:
            assert (made.num_partitions, made.replication_factor) == (3, 1)
            assert {each.name for each in made.configs} >= {"cleanup.policy", "retention.ms"}
        if version >= 7:
            found = world.state.topics.get("t")
            assert found is not None
            assert made.topic_id == found.id


def test_each_topic_has_an_answer_of_its_own() -> None:
    """B-D4.5"""
    bad_config = [CreatableTopicConfig(name="no.such", value="1")]
    bad_assignment = [CreatableReplicaAssignment(partition_index=0, broker_ids=[9])]
    twice_assigned = [CreatableReplicaAssignment(partition_index=0, broker_ids=[0])] * 2
    unset = {"num_partitions": -1, "replication_factor": -1}
    with BrokerWorld(topics={"old": 1}, clamp_replication=False) as world:
        found = create(
            world,
            topic("good"),
            topic("old"),
            topic("none", num_partitions=0),
            topic("many", replication_factor=3),
            topic("assigned", assignments=bad_assignment, **unset),
            topic("assigned-twice", assignments=twice_assigned, **unset),
            topic("configured", configs=bad_config),
            topic("not legal"),
            topic("twice"),
            topic("twice"),
        )
        assert {each.name: each.error_code for each in found} == {
            "good": NONE,
            "old": TOPIC_ALREADY_EXISTS,
            "none": INVALID_PARTITIONS,
            "many": INVALID_REPLICATION_FACTOR,
            "assigned": INVALID_REPLICA_ASSIGNMENT,
            "assigned-twice": INVALID_REPLICA_ASSIGNMENT,
            "configured": INVALID_CONFIG,
            "not legal": INVALID_TOPIC_EXCEPTION,
            "twice": INVALID_REQUEST,
        }
        assert len(found) == 9
        assert all(each.error_message for each in found if each.error_code)
        assert [each.name for each in world.state.topics.all()] == ["good", "old"]


def test_minus_1_takes_the_brokers_defaults() -> None:
    """B-D4.5."""
    with BrokerWorld(brokers=2, num_partitions=4, default_replication_factor=2) as world:
        (made,) = create(world, topic("t", num_partitions=-1, replication_factor=-1))
        assert (made.num_partitions, made.replication_factor) == (4, 2)


def test_only_looking_makes_nothing() -> None:
    """B-D4.5."""
    with BrokerWorld(topics={"old": 1}) as world:
        found = create(world, topic("t", num_partitions=5), topic("old"), validate_only=True)
        assert [each.error_code for each in found] == [
            NONE,
            TOPIC_ALREADY_EXISTS,
        ]
        assert (found[0].num_partitions, found[0].topic_id) == (5, bytes(16))
        assert world.state.topics.get("t") is None


def test_every_node_that_reaches_the_controller_makes_and_deletes() -> None:
    """B-D4.5: clients may know another controller than the one of now."""

    def delete(name: str) -> int:
        message = DeleteTopicsRequest(topic_names=[name], timeout_ms=1)
        answer = world.ask("DeleteTopics", 5, message, node_id=1)
        return int(answer.responses[0].error_code)

    with BrokerWorld(brokers=2, topics={"t": 1, "v": 1}) as world:
        assert world.state.cluster.controller_id == 0
        assert create(world, topic("u"), node_id=1)[0].error_code == NONE
        assert delete("t") == NONE
        assert {each.name for each in world.state.topics.all()} == {"u", "v"}
        world.state.cluster.node_down(1, True, lives=True)
        assert create(world, topic("w"), node_id=1)[0].error_code == NOT_CONTROLLER
        assert delete("u") == NOT_CONTROLLER
        assert {each.name for each in world.state.topics.all()} == {"u", "v"}


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes(version: int) -> None:
    message = DeleteTopicsRequest(
        topics=[DeleteTopicState(name="t"), DeleteTopicState(name="u")],
        topic_names=["t", "u"],
        timeout_ms=1,
    )
    with BrokerWorld(topics={"t": 1}) as world:
        answer = world.ask("DeleteTopics", version, message)
        found = [(each.name, each.error_code) for each in answer.responses]
        assert found == [("t", NONE), ("u", UNKNOWN_TOPIC_OR_PARTITION)]
        assert world.state.topics.all() == []


def test_a_topic_can_be_deleted_by_its_id() -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        made = world.state.topics.get("t")
        assert made is not None
        both = DeleteTopicState(name="t", topic_id=made.id)
        by_id = DeleteTopicState(name=None, topic_id=made.id)
        found = []
        for asked in (both, by_id, by_id):
            message = DeleteTopicsRequest(topics=[asked], timeout_ms=1)
            found.append(world.ask("DeleteTopics", 6, message).responses[0].error_code)
        assert found == [
            INVALID_REQUEST,
            NONE,
            UNKNOWN_TOPIC_ID,
        ]


def test_a_topic_made_again_is_not_deleted_by_the_id_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """B-D4.3: somebody else was faster."""
    with BrokerWorld(topics={"t": 1}) as world:
        topics = world.state.topics
        before = topics.get("t")
        assert before is not None

        def late(*args: Any) -> Any:
            monkeypatch.undo()
            topics.delete("t")
            topics.create("t", 1)
            return topics.delete(*args)

        monkeypatch.setattr(topics, "delete", late)
        asked = [DeleteTopicState(name=None, topic_id=before.id)]
        answer = world.ask("DeleteTopics", 6, DeleteTopicsRequest(topics=asked))
        assert answer.responses[0].error_code == UNKNOWN_TOPIC_ID
        assert topics.get("t") is not None


def test_a_topic_that_a_request_names_twice_stays() -> None:
    """As in Kafka: it is not known what the client meant."""
    with BrokerWorld(topics={"t": 1, "u": 1, "v": 1, "w": 1}) as world:
        ids = {each.name: each.id for each in world.state.topics.all()}
        message = DeleteTopicsRequest(
            topics=[
                DeleteTopicState(name="t"),
                DeleteTopicState(name="u"),
                DeleteTopicState(name=None, topic_id=ids["v"]),
                DeleteTopicState(name="t"),
                DeleteTopicState(name=None, topic_id=ids["u"]),
                DeleteTopicState(name=None, topic_id=ids["v"]),
                DeleteTopicState(name="w"),
                DeleteTopicState(name=None),
            ],
            timeout_ms=1,
        )
        answer = world.ask("DeleteTopics", 6, message)
        found = [(each.name, bytes(each.topic_id), each.error_code) for each in answer.responses]
        assert found == [
            ("t", bytes(16), INVALID_REQUEST),
            ("u", bytes(16), INVALID_REQUEST),
            (None, ids["v"], INVALID_REQUEST),
            (None, ids["u"], INVALID_REQUEST),
            ("w", ids["w"], NONE),
            (None, bytes(16), INVALID_REQUEST),
        ]
        assert [each.name for each in world.state.topics.all()] == ["t", "u", "v"]
        message = DeleteTopicsRequest(topic_names=["t", "u", "t"], timeout_ms=1)
        answer = world.ask("DeleteTopics", 5, message)
        codes = {each.name: each.error_code for each in answer.responses}
        assert codes == {"t": INVALID_REQUEST, "u": NONE}


def test_a_waiting_fetch_ends_and_the_producer_is_forgotten() -> None:
    """B-D4.3, B-C6.6"""

    def batch(sequence: int) -> bytes:
        return batch_of(b"a", producer_id=1, producer_epoch=0, base_sequence=sequence)

    with BrokerWorld(topics={"t": 1}) as world:
        assert world.produce(batch(0)).error_code == NONE
        waiting = world.post("Fetch", 12, fetch_request([("t", 0, 1)], max_wait_ms=3_600_000))
        assert waiting.answer is None
        message = DeleteTopicsRequest(topic_names=["t"], timeout_ms=1)
        world.ask("DeleteTopics", 5, message)
        found = waiting.wait().responses[0].partitions[0].error_code
        assert found == UNKNOWN_TOPIC_OR_PARTITION
        create(world, topic("t"))
        # Known, it would be out of order.
        assert world.produce(batch(7)).error_code == NONE


def test_a_request_makes_no_more_than_ten_thousand_topics() -> None:
    """Each answer tells all settings of its topic."""
    with BrokerWorld() as world:
        found = create(world, *(topic(f"t{n}") for n in range(10_001)), validate_only=True)
        assert {each.error_code for each in found} == {POLICY_VIOLATION}
        assert found[0].error_message == "10,001 topics in one request, over 10,000"


def test_a_long_name_fits_into_no_answer_and_is_cut() -> None:
    with BrokerWorld() as world:
        (found,) = create(world, topic("\x01" * 32_000), topic("\x01" * 32_000))
        assert found.error_code == INVALID_REQUEST
        assert len(found.error_message) == 1003


def gate_on_logs(world: BrokerWorld, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Nothing of a new topic is opened before the event is set."""
    gate = threading.Event()
    open_log = world.state.topics._open_log

    def wait_and_open(*about: Any) -> Any:
        assert gate.wait(20), "whoever makes topics keeps the others waiting"
        return open_log(*about)

    monkeypatch.setattr(world.state.topics, "_open_log", wait_and_open)
    return gate


@pytest.mark.parametrize("api", ["Metadata", "CreateTopics"])
def test_others_are_answered_while_many_topics_are_made(
    monkeypatch: pytest.MonkeyPatch, api: str
) -> None:
    names = [f"t{number}" for number in range(100)]
    many: Any
    if api == "Metadata":
        many = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
        many.allow_auto_topic_creation = True
    else:
        many = CreateTopicsRequest(topics=[topic(name) for name in names])
    with BrokerWorld(topics={"old": 1}) as world:
        gate = gate_on_logs(world, monkeypatch)
        asked = world.post(api, 4, many)
        assert asked.answer is None
        # Also one that makes a topic: it comes behind the others.
        new = world.post("CreateTopics", 4, CreateTopicsRequest(topics=[topic("new")]))
        assert new.answer is None
        everything = MetadataRequest(topics=None)
        assert [each.name for each in world.ask("Metadata", 4, everything).topics] == ["old"]
        gate.set()
        made = asked.wait().topics
        assert sorted((each.name, each.error_code) for each in made) == sorted(
            (name, NONE) for name in names
        )
        assert new.wait().topics[0].error_code == NONE
        asked = world.post("DeleteTopics", 4, DeleteTopicsRequest(topic_names=names, timeout_ms=1))
        assert {each.error_code for each in asked.wait().responses} == {NONE}
        assert [each.name for each in world.state.topics.all()] == ["new", "old"]


def test_a_stop_ends_the_making_of_many_topics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was answered or made until then is there, and the folder is free."""
    world = BrokerWorld(data_dir=tmp_path)
    open_log = world.state.topics._open_log
    opened: list[str] = []

    def open_and_stop(name: str, *about: Any) -> Any:
        opened.append(name)
        if len(opened) == 5:
            world.state.begin_close()
        return open_log(name, *about)

    monkeypatch.setattr(world.state.topics, "_open_log", open_and_stop)
    names = [f"t{number}" for number in range(100)]
    message = CreateTopicsRequest(topics=[topic(name) for name in names])
    made = world.post("CreateTopics", 4, message).wait().topics
    codes_told = [each.error_code for each in made]
    assert codes_told == [NONE] * 4 + [BROKER_NOT_AVAILABLE] * 96
    world.state.close()
    assert opened == names[:5]
    with BrokerWorld(data_dir=tmp_path) as again:
        assert {each.name for each in again.state.topics.all()} == set(names[:4])


def test_what_a_topic_raises_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one is there, and the client is told so."""
    with BrokerWorld() as world:

        def disk_is_full(changed: list[SavedTopic], deleted: list[bytes]) -> None:
            if any(each.name == "b" for each in changed) or deleted == [kept]:
                raise OSError(errno.ENOSPC, "No space left on device")

        kept = b""
        monkeypatch.setattr(world.state.topics, "_on_change", disk_is_full)
        made = create(world, topic("a"), topic("b"), topic("c"))
        told = [NONE, KAFKA_STORAGE_ERROR, NONE]
        assert [each.error_code for each in made] == told
        assert "No space left" in made[1].error_message
        message = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in "abc"])
        asked = world.ask("Metadata", 4, message).topics
        assert [each.error_code for each in asked] == told
        found = world.state.topics.get("a")
        assert found is not None
        kept = found.id
        gone = world.ask("DeleteTopics", 4, DeleteTopicsRequest(topic_names=["a", "c"]))
        assert [each.error_code for each in gone.responses] == [
            KAFKA_STORAGE_ERROR,
            NONE,
        ]
        assert [each.name for each in world.state.topics.all()] == ["a"]

"""Names of topics that requests name by their ids (KIP-516)."""

from __future__ import annotations

from fastprod.broker.faults.hooks import Park
from fastprod.broker.faults.planned_faults import PlannedFaults, Refuse
from fastprod.broker.faults.target import aim
from fastprod.broker.server.topic_names import name_topics
from fastprod.error_codes import NONE, UNKNOWN_TOPIC_ID
from fastprod.protocol.api_keys import METADATA, PRODUCE
from fastprod.protocol.messages.produce import ProduceRequest, TopicProduceData
from support.broker.world import (
    PRODUCE_TIMEOUT_MS,
    BrokerWorld,
    batch_of,
    fetch_request,
    produce_request,
)

OLD = 6
BATCH = batch_of(b"a")


def by_id(world: BrokerWorld, request: ProduceRequest) -> ProduceRequest:
    for each in request.topic_data:
        topic = world.state.topics.get(each.name)
        each.name, each.topic_id = "", b"?" * 16 if topic is None else topic.id
    return request


def codes(world: BrokerWorld, names: list[str]) -> list[tuple[bytes, int, str | None]]:
    batch = batch_of(b"a")
    request = by_id(world, produce_request([(name, 0, batch) for name in names]))
    answer = world.post("Produce", 13, request).wait()
    return [
        (topic.topic_id, each.error_code, each.error_message)
        for topic in answer.responses
        for each in topic.partition_responses
    ]


def test_records_go_to_the_topic_of_that_id() -> None:
    """B-D1 UNKNOWN_TOPIC_ID"""
    with BrokerWorld(topics={"t": 1, "u": 1}) as world:
        ids = {each.name: each.id for each in world.state.topics.all()}
        # What it would be called is not told.
        assert codes(world, ["t", "gone", "u"]) == [
            (ids["t"], NONE, None),
            (b"?" * 16, UNKNOWN_TOPIC_ID, None),
            (ids["u"], NONE, None),
        ]
        for name in ("t", "u"):
            partition = world.state.topics.partition(name, 0)
            assert partition is not None
            assert partition.log.log_end_offset == 1


def test_a_topic_made_again_is_another_one() -> None:
    """B-D1 UNKNOWN_TOPIC_ID"""
    with BrokerWorld(topics={"t": 1}) as world:
        before = world.state.topics.get("t")
        assert before is not None
        world.state.topics.delete("t")
        world.state.topics.create("t", 1)
        message = produce_request([("t", 0, batch_of(b"a"))])
        message.topic_data[0].topic_id = before.id
        answer = world.post("Produce", 13, message).wait()
        assert answer.responses[0].partition_responses[0].error_code == UNKNOWN_TOPIC_ID


def test_a_topic_made_again_while_requests_wait_is_another_one() -> None:
    """B-D1 UNKNOWN_TOPIC_ID, B-D4.3: they neither write to it nor read from it."""
    faults, park = PlannedFaults(), Park()
    with BrokerWorld(topics={"t": 1}, faults=faults) as world:
        wanted = fetch_request([("t", 0, 0)], max_wait_ms=PRODUCE_TIMEOUT_MS)
        before = world.state.topics.get("t")
        assert before is not None
        wanted.topics[0].topic_id = before.id
        reading = world.post("Fetch", 13, wanted)
        faults.add_interceptor(lambda request: park)
        producing = world.post("Produce", 13, by_id(world, produce_request([("t", 0, BATCH)])))
        faults.forget()
        deleted = world.state.topics.delete("t")
        after = world.state.topics.create("t", 1)
        assert world.produce(BATCH).error_code == NONE
        assert (reading.answer, producing.answer) == (None, None)
        world.state.topic_deleted(deleted)
        park.release()
        read = reading.wait().responses[0].partitions[0]
        assert (read.error_code, bytes(read.records)) == (UNKNOWN_TOPIC_ID, b"")
        produced = producing.wait().responses[0].partition_responses[0]
        assert produced.error_code == UNKNOWN_TOPIC_ID
        assert after.partitions[0].log.log_end_offset == 1


def test_faults_are_aimed_at_names() -> None:
    faults = PlannedFaults()
    with BrokerWorld(topics={"t": 1, "u": 1}, faults=faults) as world:
        faults.plan(Refuse(OLD, 0), aim("Produce", topic="u"), 1, 0)
        assert [code for _, code, _ in codes(world, ["t", "u"])] == [NONE, OLD]
        assert [code for _, code, _ in codes(world, ["t", "u"])] == [NONE, NONE]


def test_older_versions_and_other_requests_stay_as_they_are() -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        topics = world.state.topics
        message = ProduceRequest(
            acks=1, timeout_ms=0, topic_data=[TopicProduceData(name="x", partition_data=[])]
        )
        name_topics(PRODUCE, 12, message, topics)
        name_topics(METADATA, 13, None, topics)
        assert message.topic_data[0].name == "x"

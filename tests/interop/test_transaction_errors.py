"""What the embedded broker says to transactional producers is what Kafka says (B-E4, B-C7)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Any

from conftest import TopicFactory
from fastprod._core.records.record_reader import read_batches
from fastprod.broker import Broker
from fastprod.broker.api_table import APIS
from fastprod.error_codes import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
)
from fastprod.protocol.messages.group.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafka_cluster import KafkaCluster
from support.broker.sasl_client import SaslClient
from support.broker.transaction_asker import TransactionAsker

TIMEOUT_S = 30.0
# What a client asks again after: Kafka writes its markers after it has answered.
_AGAIN = (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
)
_KEYS = {api.name: key for key, api in APIS.items()}
LATEST = -1
Said = list[tuple[str, Any]]


def settled(ask: Callable[[], Any]) -> Any:
    """An answer that does not ask to come again."""
    deadline = time.monotonic() + TIMEOUT_S
    while (found := ask()) in _AGAIN or found in [[each] for each in _AGAIN]:
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
    return found


class Story:
    """Notes what one broker says to one producer, and to others that read what it wrote."""

    def __init__(self, client: SaslClient, topic: str, name: str) -> None:
        self.client = client
        self.said: Said = []
        self._bases: dict[int, int] = {}
        self.group = f"{name} {uuid.uuid4()}"
        self.producer = TransactionAsker(self.ask, f"{name} {uuid.uuid4()}", topic)
        self.offset_before = self.producer.offset(LATEST, 0)
        settled(lambda: self.producer.find())
        settled(lambda: self.producer.find(0, self.group))
        settled(lambda: self.producer.describe().error_code)
        # Kafka has no producer ids to give yet when it has just begun.
        settled(TransactionAsker(self.ask, self.producer.transactional_id + " 2", topic).init)

    def ask(self, name: str, version: int, message: Any) -> Any:
        return self.client.ask(_KEYS[name], version, message)

    def note(self, what: str, *found: Any) -> None:
        self.said.append((what, found))

    def note_settled(self, what: str, ask: Callable[[], Any]) -> None:
        self.note(what, settled(ask))

    def note_epoch(self, what: str) -> None:
        """The epoch, and whether the producer id is that of the beginning."""
        first = self._bases.setdefault(0, self.producer.producer[0])
        self.note(what, self.producer.producer[1], self.producer.producer[0] == first)

    def note_state(self, what: str) -> None:
        """What admins see, once all markers are written."""
        deadline = time.monotonic() + TIMEOUT_S
        while (found := self.producer.describe()).transaction_state.startswith("Prepare"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        self.note(
            what,
            found.error_code,
            found.transaction_state,
            found.transaction_timeout_ms,
            found.transaction_start_time_ms > 0,
            found.producer_epoch,
            [sorted(each.partitions) for each in found.topics if not each.topic.startswith("__")],
        )

    def note_log(self, what: str) -> None:
        """What a reader of committed records gets of the first partition."""
        start = self.offset_before
        found = self.producer.fetch(start)
        batches = read_batches(bytes(found.records))
        self.note(
            what,
            found.error_code,
            found.high_watermark - start,
            found.last_stable_offset - start,
            [each.first_offset - start for each in found.aborted_transactions],
            [
                (
                    each.base_offset - start,
                    each.attributes,
                    each.producer_epoch,
                    each.base_sequence,
                    each.is_control and each.records()[0][2:4],
                )
                for each in batches
            ],
            self.producer.offset(LATEST) - start,
        )

    def note_producers(self, what: str) -> None:
        mine = [
            each
            for each in self.producer.producers().active_producers
            if each.producer_id == self.producer.producer[0]
        ]
        self.note(
            what,
            [
                (
                    each.producer_epoch,
                    each.last_sequence,
                    each.coordinator_epoch,
                    max(each.current_txn_start_offset - self.offset_before, -1),
                )
                for each in mine
            ],
        )

    def note_offset(self, what: str) -> None:
        """What the group has read, for those who want it stable and for the others."""
        topics = [OffsetFetchRequestTopics(name=self.producer.topic, partition_indexes=[0])]
        found = []
        for stable in (True, False):
            asked = OffsetFetchRequest(
                groups=[OffsetFetchRequestGroup(group_id=self.group, topics=topics)],
                require_stable=stable,
            )
            (place,) = self.ask("OffsetFetch", 8, asked).groups[0].topics[0].partitions
            found.append((place.committed_offset, place.error_code))
        self.note(what, *found)


def begin(story: Story) -> None:
    """InitProducerId in all its ways."""
    producer = story.producer
    story.note("no time", producer.init(timeout_ms=0))
    story.note("much time", producer.init(timeout_ms=900_001))
    story.note("not there", producer.describe().error_code)
    story.note("half an id", producer.init(producer_id=5))
    story.note("first", producer.init())
    story.note_epoch("first")
    story.note("again", producer.init(version=1))
    story.note_epoch("again")
    old = producer.twin()
    mine = {"producer_id": producer.producer[0], "producer_epoch": producer.producer[1]}
    story.note("goes on", producer.init(**mine))
    story.note_epoch("goes on")
    story.note("repeated", old.init(**mine), old.producer[1])
    story.note("too old", old.init(producer_id=mine["producer_id"], producer_epoch=0))
    story.note("too old, version 3", old.init(3, producer_id=mine["producer_id"], producer_epoch=0))
    story.note("another id", old.init(producer_id=987_654_321, producer_epoch=0))
    story.note_state("empty")


def without_kip_890(story: Story) -> None:
    """The protocol before KIP-890."""
    producer = story.producer
    story.note("no id yet", producer.add(0), producer.end(), producer.add_offsets(story.group))
    producer.init()
    story.note("nothing to end", producer.end(), producer.end(False))
    story.note("not added", producer.send(), producer.send(version=11))
    story.note("no such partition", producer.add(0, 9), producer.add(0, topic="__consumer_offsets"))
    wrong = producer.twin()
    for what, id_and_epoch in (
        ("newer", (producer.producer[0], 7)),
        ("another", (987_654_321, 0)),
    ):
        wrong.producer = id_and_epoch
        story.note(what, wrong.add(0), wrong.add(0, version=1), wrong.end(), wrong.end(version=1))
        story.note(what, wrong.add_offsets(story.group), wrong.add_offsets(story.group, 1))
        story.note(what, wrong.commit_offset(story.group, 1))
    story.note("added", producer.add(0), producer.add(0, 1))
    story.note("sent", producer.send(b"a", b"b"), producer.send(b"c"))
    story.note("plain", producer.send(transactional=False))
    story.note("without its id", producer.send(named=False))
    story.note_state("open")
    story.note_producers("open")
    story.note_log("open")
    story.note("commit", producer.end())
    story.note_settled("commit again", producer.end)
    story.note("other end", producer.end(False))
    story.note_state("committed")
    story.note_log("committed")
    story.note_producers("committed")
    story.note_settled("begin again", lambda: producer.add(0))
    story.note("send", producer.send(b"d"))
    story.note("abort", producer.end(False))
    story.note_state("aborted")
    story.note_settled("abort again", lambda: producer.end(False))
    story.note("other end", producer.end())
    story.note_log("aborted")
    story.note("late", producer.send(b"e"))


def with_kip_890(story: Story) -> None:
    """The protocol of Kafka 4: Produce adds partitions, and each end has another epoch."""
    producer = story.producer
    producer.init()
    story.note_epoch("first")
    story.note("nothing to commit", producer.end(version=5))
    story.note("nothing to abort", producer.end(False, version=5))
    story.note_epoch("aborted")
    story.note_state("aborted")
    story.note_settled("sent", lambda: producer.send(b"a", version=12))
    story.note("sent", producer.send(b"b", version=12))
    story.note_state("open")
    story.note_log("open")
    before = producer.twin()
    story.note("commit", producer.end(version=5))
    story.note_epoch("committed")
    story.note_state("committed")
    story.note_log("committed")
    story.note_producers("committed")
    story.note("late", before.send(b"c", version=12))
    again = before.twin()
    story.note_settled("commit again", lambda: again.end(version=5))
    story.note("told again", again.producer == producer.producer)
    story.note("other end", before.end(False, version=5))
    story.note_settled("next", lambda: producer.send(b"d", version=12))
    story.note("old epoch", before.end(version=5))
    story.note("abort", producer.end(False, version=5))
    story.note_epoch("aborted")
    story.note_state("aborted")
    story.note_log("aborted")
    story.note("empty abort", producer.end(False, version=5))
    story.note_epoch("empty abort")


def with_offsets(story: Story) -> None:
    """Offsets of groups, by both protocols."""
    producer, group = story.producer, story.group
    producer.init()
    story.note("not added", producer.commit_offset(group, 1), producer.commit_offset(group, 1, 4))
    story.note("added", producer.add_offsets(group))
    story.note("committed", producer.commit_offset(group, 5))
    story.note("no such partition", producer.commit_offset(group, 5, partition=9))
    story.note("no name", producer.commit_offset("", 5))
    story.note("a member", producer.commit_offset(group, 5, member_id="m", generation_id=3))
    story.note("a generation", producer.commit_offset(group, 5, generation_id=3))
    story.note("an instance", producer.commit_offset(group, 5, group_instance_id="i"))
    story.note_offset("open")
    story.note("commit", producer.end())
    story.note_state("committed")
    story.note_offset("committed")
    story.note_settled("sent", lambda: producer.commit_offset(group, 9, version=5))
    story.note_offset("open")
    before = producer.twin()
    story.note("abort", producer.end(False, version=5))
    story.note_epoch("aborted")
    story.note_state("aborted")
    story.note_offset("aborted")
    story.note("late", before.commit_offset(group, 7, version=5))
    story.note_settled("again", lambda: producer.commit_offset(group, 8, version=5))
    story.note("commit", producer.end(version=5))
    story.note_state("committed")
    story.note_offset("committed")


def with_a_zombie(story: Story) -> None:
    """Two that have the same transactional id."""
    zombie = story.producer
    zombie.init()
    zombie.add(0)
    story.note("sent", zombie.send(b"a"))
    other = zombie.twin()
    story.note("the other", other.init())
    story.note_settled("the other", other.init)
    story.note("its epoch", other.producer[1], other.producer[0] == zombie.producer[0])
    story.note(
        "zombie", zombie.add(0), zombie.end(), zombie.send(b"b"), zombie.send(b"b", version=12)
    )
    story.note("zombie", zombie.end(version=1), zombie.add(0, version=1), zombie.end(version=5))
    mine = {"producer_id": zombie.producer[0], "producer_epoch": zombie.producer[1]}
    story.note("zombie goes on", zombie.init(**mine))
    story.note_log("aborted")
    story.note_state("empty")
    story.note("by Kafka 4", other.send(b"c", version=12))
    third = other.twin()
    story.note("the third", third.init())
    story.note_settled("the third", third.init)
    story.note("its epoch", third.producer[1])
    story.note_log("aborted")


def with_a_late_end(story: Story) -> None:
    """Before KIP-890 an EndTxn that was sent again, and is done late, ends the next transaction."""
    producer = story.producer
    producer.init()
    producer.add(0)
    story.note("sent", producer.send(b"a"))
    story.note("commit", producer.end())
    story.note_settled("begin again", lambda: producer.add(0))
    story.note("sent", producer.send(b"b"))
    story.note("late commit", producer.end())
    story.note_state("committed")
    story.note("offset", producer.commit_offset(story.group, 5))
    story.note("more", producer.send(b"c"))
    story.note("abort", producer.end(False))
    story.note_log("committed")


def with_an_epoch_asked_for_too_early(story: Story) -> None:
    """InitProducerId of the next epoch aborts an open transaction; who asks gets that epoch."""
    producer = story.producer
    producer.init()
    producer.add(0)
    story.note("sent", producer.send(b"a"))
    mine = {"producer_id": producer.producer[0], "producer_epoch": producer.producer[1]}
    story.note("next epoch", producer.init(**mine))
    story.note_settled("next epoch", lambda: producer.init(**mine))
    story.note_epoch("next epoch")
    story.note_state("aborted")
    story.note_log("aborted")


SCRIPTS = (
    begin,
    without_kip_890,
    with_kip_890,
    with_offsets,
    with_a_zombie,
    with_a_late_end,
    with_an_epoch_asked_for_too_early,
)


def said_by(port: int, topic: str) -> Said:
    said: Said = []
    for script in SCRIPTS:
        with SaslClient(port) as client:
            story = Story(client, topic, script.__name__)
            script(story)
            said += [(f"{script.__name__}: {what}", found) for what, found in story.said]
    return said


def test_errors_and_answers_are_those_of_kafka(kafka: KafkaCluster, topic: TopicFactory) -> None:
    """B-E4, B-C7.1, B-C7.2, B-C7.5, B-D1 INVALID_TXN_STATE: codes, and what is in the log."""
    name = topic(kafka, 2)
    theirs = said_by(int(kafka.bootstrap_servers.rpartition(":")[2]), name)
    with Broker(topics={name: 2}) as broker:
        ours = said_by(broker.nodes[0].port, name)
    different = [
        f"{what}: {mine} instead of {found}"
        for (what, mine), (_, found) in zip(ours, theirs, strict=True)
        if mine != found
    ]
    assert different == [], "\n".join(different)

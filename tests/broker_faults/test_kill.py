"""A broker with files survives kill -9 at any moment (contract B-C1.1, B-C8.3, B-C8.6, B-D4.3)."""

from __future__ import annotations

import random
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fastprod._core.records.record_reader import read_batches
from fastprod.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from fastprod.protocol.messages.delete_topics import DeleteTopicsRequest
from fastprod.protocol.messages.init_producer_id import InitProducerIdRequest
from fastprod.protocol.messages.metadata import MetadataRequest
from support.broker.hostile_stage import PATIENCE_S, ask, decoded, request
from support.broker.own_broker import OwnBroker
from support.broker.world import batch_of, fetch_request, produce_request

SEED = 20_241_120
NAMES = [f"t{number}" for number in range(6)]
PARTITIONS = 3
ANSWERS_A_LIFE = 10


class KnownTopic:
    """What a client was told of one topic."""

    def __init__(self, topic_id: bytes | None) -> None:
        self.id = topic_id  # None: its creation was not answered
        self.is_sure = topic_id is not None
        self.records: dict[tuple[int, int], bytes] = {}
        self.epochs = dict.fromkeys(range(PARTITIONS), -1)


class Witness:
    """A client that remembers every answer it got, over the deaths of its broker."""

    def __init__(self, broker: OwnBroker, seed: int) -> None:
        self.broker = broker
        self.chosen = random.Random(seed)
        self.topics: dict[str, KnownTopic] = {}
        self.producer_ids: set[int] = set()
        self.answer_count = 0
        self._socket: socket.socket | None = None

    def ask(self, name: str, version: int, message: Any) -> Any:
        assert self._socket is not None
        answer = decoded(name, version, ask(self._socket, request(name, version, message)))
        self.answer_count += 1
        return answer

    def live(self) -> None:
        """Ask for one thing after the other until the broker is killed."""
        host, port = self.broker.bootstrap_servers.split(",")[0].split(":")
        with socket.create_connection((host, int(port)), PATIENCE_S) as self._socket:
            self.check()
            enough = self.answer_count + ANSWERS_A_LIFE
            while self.answer_count < enough:
                self.step()
            killer = threading.Timer(self.chosen.uniform(0.02, 0.25), self.broker.kill)
            killer.start()
            try:
                while True:
                    self.step()
            except ConnectionError:
                killer.join()

    def step(self) -> None:
        self.chosen.choice((self.create, self.delete, self.take_id, *[self.produce] * 5))()

    def create(self) -> None:
        name = self.chosen.choice(NAMES)
        if name in self.topics:
            return
        self.topics[name] = KnownTopic(None)
        topic = CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=1)
        message = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
        (made,) = self.ask("CreateTopics", 7, message).topics
        assert made.error_code == 0
        self.topics[name] = KnownTopic(made.topic_id)

    def delete(self) -> None:
        name = self.chosen.choice(NAMES)
        if name not in self.topics or self.chosen.random() < 0.7:
            return
        self.topics[name].is_sure = False
        message = DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)
        (gone,) = self.ask("DeleteTopics", 5, message).responses
        assert gone.error_code == 0
        del self.topics[name]

    def take_id(self) -> None:
        message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        taken = self.ask("InitProducerId", 4, message).producer_id
        assert taken not in self.producer_ids
        self.producer_ids.add(taken)

    def produce(self) -> None:
        if not self.topics:
            return
        name = self.chosen.choice(sorted(self.topics))
        partition = self.chosen.randrange(PARTITIONS)
        values = [self.chosen.randbytes(50) for _ in range(self.chosen.randrange(1, 5))]
        message = produce_request([(name, partition, batch_of(*values))])
        (told,) = self.ask("Produce", 9, message).responses[0].partition_responses
        assert told.error_code == 0
        for step, value in enumerate(values):
            self.topics[name].records[partition, told.base_offset + step] = value

    def check(self) -> None:
        """What was answered is still so, and nothing is there that nobody asked for."""
        found = {each.name: each for each in self.ask("Metadata", 11, ALL_TOPICS).topics}
        assert found.keys() <= self.topics.keys()
        for name, known in list(self.topics.items()):
            if name not in found:
                assert not known.is_sure, f"{name} is lost"
                del self.topics[name]
                continue
            assert found[name].topic_id == (known.id or found[name].topic_id)
            known.id, known.is_sure = found[name].topic_id, True
            assert len(found[name].partitions) == PARTITIONS
            for each in found[name].partitions:
                assert each.error_code == 0
                assert each.leader_epoch > known.epochs[each.partition_index]
                known.epochs[each.partition_index] = each.leader_epoch
            for partition in range(PARTITIONS):
                self._check_records(name, partition)
        # A deletion is finished soon, and a folder of no topic is never taken for one.
        deadline_s = time.monotonic() + PATIENCE_S
        while list(self.broker.data_dir.glob("*-delete")):
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        folders = {path.name for path in self.broker.data_dir.iterdir() if path.is_dir()}
        wanted = {f"{name}-{index}" for name in self.topics for index in range(PARTITIONS)}
        assert wanted <= folders
        others = [self.broker.data_dir / name for name in folders - wanted]
        assert not any(any(folder.iterdir()) for folder in others)

    def _check_records(self, name: str, partition: int) -> None:
        message = fetch_request([(name, partition, 0)], max_bytes=1 << 26)
        (told,) = self.ask("Fetch", 12, message).responses[0].partitions
        assert told.error_code == 0
        stored = {
            record.offset: record.value
            for batch in read_batches(told.records)
            for record in batch.records()
        }
        for (index, offset), value in self.topics[name].records.items():
            if index == partition:
                assert stored[offset] == value


ALL_TOPICS = MetadataRequest(topics=None)


def die_often(folder: Path, times: int, seed: int) -> None:
    with OwnBroker(folder) as broker:
        witness = Witness(broker, seed)
        for life in range(times):
            if life:
                broker.restart()
            witness.live()
        assert witness.answer_count > ANSWERS_A_LIFE * times
        assert len(witness.producer_ids) > 1


def test_what_a_broker_answered_outlives_its_kills(tmp_path: Path) -> None:
    """B-C8.3, B-C8.6: topics, ids, records, producer ids; epochs grow."""
    die_often(tmp_path, 5, SEED)


@pytest.mark.long
def test_what_a_broker_answered_outlives_twenty_kills(tmp_path: Path) -> None:
    """B-C8.3, B-C8.6."""
    die_often(tmp_path, 20, SEED + 1)

"""Transactions in any order, and a model of what readers of committed records see (B-C7)."""

from __future__ import annotations

import random

import pytest

from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.broker.coordinator.transaction.transaction_metadata import TV_0, TV_2, TopicPartition
from fastprod.broker.log.log import Log
from fastprod.broker.log.record_batch import Producer
from fastprod.error_codes import CONCURRENT_TRANSACTIONS, NONE
from support.broker.log_batches import TIME, encoded
from support.broker.transaction_world import T0, T1, U0, TransactionWorld
from support.broker.world import move_leader

PLACES = (T0, T1, U0)
NAMES = ("x", "y", "z")
STEPS = 120


def read_committed(log: Log) -> list[bytes]:
    """What Kafka's consumers make of records, markers and the list of the aborted."""
    aborted = sorted(
        log.aborted_transactions(0, log.last_stable_offset), key=lambda each: each.first_offset
    )
    skipped: set[int] = set()
    values: list[bytes] = []
    for batch in log.batches():
        if batch.base_offset >= log.last_stable_offset:
            break
        while aborted and aborted[0].first_offset <= batch.base_offset:
            skipped.add(aborted.pop(0).producer_id)
        if batch.is_control:
            skipped.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in skipped):
            values += [each.value or b"" for each in batch.records()]
    return values


class Model:
    """Producers that do anything, and what becomes of it."""

    def __init__(self, chosen: random.Random) -> None:
        self.chosen = chosen
        self.world = TransactionWorld()
        self.producers: dict[str, Producer] = {}
        # Values of the open transaction of each id, and the decided ones in their order.
        self.open: dict[str, list[tuple[TopicPartition, int, bytes]]] = {}
        self.decided: dict[TopicPartition, dict[int, bytes]] = {place: {} for place in PLACES}
        self.sequences: dict[tuple[str, TopicPartition], int] = {}
        self.count = 0

    def began(self, name: str) -> None:
        """A producer has a new epoch: its sequences begin with 0."""
        for place in PLACES:
            self.sequences[name, place] = 0

    def init(self, name: str) -> None:
        code, producer = self.world.init(name)
        if code == CONCURRENT_TRANSACTIONS:
            # What was open is aborted.
            self.open.pop(name, None)
            code, producer = self.world.init(name)
        assert code == NONE
        self.producers[name] = producer
        self.began(name)

    def send(self, name: str) -> None:
        producer, place = self.producers[name], self.chosen.choice(PLACES)
        partition = self.world.topics.partition(*place)
        assert partition is not None
        value = b"%d" % self.count
        sequence = self.sequences[name, place]
        batch = encoded(
            [(TIME, None, value)],
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        done = self.world.transactions.in_transaction(
            name, producer, place, True, lambda: partition.append(batch, is_verified=True)
        )
        self.count += 1
        self.sequences[name, place] = sequence + 1
        self.open.setdefault(name, []).append((place, done.base_offset, value))

    def send_plain(self) -> None:
        place = self.chosen.choice(PLACES)
        partition = self.world.topics.partition(*place)
        assert partition is not None
        value = b"%d" % self.count
        self.count += 1
        done = partition.append(encoded([(TIME, None, value)]))
        self.decided[place][done.base_offset] = value

    def end(self, name: str, is_commit: bool) -> None:
        version = self.chosen.choice([TV_0, TV_2])
        sent = self.open.pop(name, None)
        if sent is None:
            return
        code, following = self.world.transactions.end_transaction(
            name, self.producers[name], is_commit, version, self.world.txn_node(name)
        )
        assert code == NONE
        if following != self.producers[name]:
            self.producers[name] = following
            self.began(name)
        if is_commit:
            for place, offset, value in sent:
                self.decided[place][offset] = value

    def late(self, name: str) -> None:
        """Somebody comes with an older epoch: nothing comes of it."""
        producer = self.producers[name]
        zombie = producer._replace(epoch=producer.epoch - 1)
        with pytest.raises(CoordinatorError):
            self.world.transactions.in_transaction(name, zombie, T0, True, lambda: None)

    def step(self) -> None:
        name = self.chosen.choice(NAMES)
        what = self.chosen.choices(
            ["init", "send", "plain", "commit", "abort", "late", "move", "restart", "time"],
            [1, 12, 4, 4, 3, 2, 1, 1, 1],
        )[0]
        if what == "init" or name not in self.producers:
            self.init(name)
        elif what == "send":
            self.send(name)
        elif what == "plain":
            self.send_plain()
        elif what in ("commit", "abort"):
            self.end(name, what == "commit")
        elif what == "late":
            self.late(name)
        elif what == "move":
            partition = self.world.metadata(name).partition
            move_leader(partition, 1 - partition.leader, [0, 1])
        elif what == "restart":
            self.world = self.world.restarted()
            self.world.transactions.begin()
            self.world.worker.run()
        else:
            self.world.purgatory.advance(60_000)
            # All that was open is aborted; its producers have to begin anew.
            for each in list(self.producers):
                if self.open.pop(each, None) is not None:
                    self.init(each)

    def check(self) -> None:
        for place in PLACES:
            log = self.world.log(place)
            first = min(
                (
                    offset
                    for sent in self.open.values()
                    for where, offset, _ in sent
                    if where == place
                ),
                default=log.log_end_offset,
            )
            assert log.last_stable_offset == first
            expected = [value for at, value in sorted(self.decided[place].items()) if at < first]
            assert read_committed(log) == expected


@pytest.mark.parametrize("seed", range(25))
def test_readers_see_each_transaction_whole_or_not_at_all(seed: int) -> None:
    """B-E4, B-C7.3, B-C7.5: through restarts, other coordinators, time-outs and zombies."""
    model = Model(random.Random(seed))
    for _ in range(STEPS):
        model.step()
        model.check()
    for name in NAMES:
        model.end(name, True)
    model.check()
    assert any(model.decided.values())

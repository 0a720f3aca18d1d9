"""What admins are told of transactions and producers (KIP-664, B-E4)."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from fastprod.broker.threads.clock import FakeClock
from fastprod.error_codes import (
    INVALID_REQUEST,
    NONE,
    TRANSACTIONAL_ID_NOT_FOUND,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.transaction.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from fastprod.protocol.messages.transaction.describe_transactions import (
    DescribeTransactionsRequest,
)
from support.broker.transaction_asker import TIMEOUT_MS, TransactionAsker
from support.broker.world import BrokerWorld, batch_of

NOW_MS = time.time_ns() // 1_000_000


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    clock = FakeClock(NOW_MS)
    with BrokerWorld(topics={"t": 2}, clock=clock, transaction_state_log_num_partitions=1) as made:
        yield made


def producer(world: BrokerWorld, transactional_id: str) -> TransactionAsker:
    made = TransactionAsker(world.ask, transactional_id, "t")
    assert made.find() == NONE
    assert made.init() == NONE
    return made


def names(found: object) -> list[str]:
    assert found.error_code == NONE  # type: ignore[attr-defined]
    return [each.transactional_id for each in found.transaction_states]  # type: ignore[attr-defined]


def test_transactions_are_listed_by_state_producer_and_age(world: BrokerWorld) -> None:
    idle, open_one = producer(world, "idle"), producer(world, "open")
    open_one.add(0)
    assert sorted(names(idle.listed())) == ["idle", "open"]
    assert names(idle.listed(state_filters=["Ongoing"])) == ["open"]
    assert names(idle.listed(producer_id_filters=[idle.producer[0]])) == ["idle"]
    found = idle.listed(state_filters=["Ongoing", "Strange"])
    assert (names(found), found.unknown_state_filters) == (["open"], ["Strange"])
    assert names(idle.listed(duration_filter=1000)) == []
    assert isinstance(world.clock, FakeClock)
    world.clock.advance(1001)
    assert names(idle.listed(duration_filter=1000)) == ["open"]


def test_a_transaction_is_described(world: BrokerWorld) -> None:
    asker = producer(world, "x")
    found = asker.describe()
    assert (found.transaction_state, found.transaction_start_time_ms) == ("Empty", -1)
    asker.add(1, 0)
    found = asker.describe()
    assert (found.error_code, found.transaction_state) == (NONE, "Ongoing")
    assert (found.producer_id, found.producer_epoch) == asker.producer
    assert (found.transaction_timeout_ms, found.transaction_start_time_ms) == (TIMEOUT_MS, NOW_MS)
    assert [(each.topic, each.partitions) for each in found.topics] == [("t", [0, 1])]
    asker.end()
    found = asker.describe()
    assert (found.transaction_state, found.topics) == ("CompleteCommit", [])
    assert TransactionAsker(world.ask, "nobody", "t").describe().error_code == (
        TRANSACTIONAL_ID_NOT_FOUND
    )
    assert TransactionAsker(world.ask, "", "t").describe().error_code == INVALID_REQUEST


def test_the_producers_of_a_partition_are_described(world: BrokerWorld) -> None:
    asker = producer(world, "x")
    plain = batch_of(
        b"a", b"b", timestamp=NOW_MS, producer_id=77, producer_epoch=3, base_sequence=0
    )
    assert world.produce(plain).error_code == NONE
    asker.add(0)
    assert asker.send(b"1", b"2") == NONE
    found = {each.producer_id: each for each in asker.producers().active_producers}
    assert found.keys() == {77, asker.producer[0]}
    other, mine = found[77], found[asker.producer[0]]
    assert (other.producer_epoch, other.last_sequence, other.last_timestamp) == (3, 1, NOW_MS + 1)
    assert (other.coordinator_epoch, other.current_txn_start_offset) == (-1, -1)
    assert (mine.last_sequence, mine.coordinator_epoch, mine.current_txn_start_offset) == (1, -1, 2)
    asker.end()
    found = {each.producer_id: each for each in asker.producers().active_producers}
    mine = found[asker.producer[0]]
    assert (mine.coordinator_epoch, mine.current_txn_start_offset) == (0, -1)
    assert asker.producers(9).error_code == UNKNOWN_TOPIC_OR_PARTITION


def test_a_small_request_has_no_huge_answer(world: BrokerWorld) -> None:
    asker = producer(world, "x")
    asker.add(0)
    asker.send()
    topics = [TopicRequest(name="t", partition_indexes=[0] * 1000)]
    for asked in (topics, topics * 100):
        found = world.ask("DescribeProducers", 0, DescribeProducersRequest(topics=asked))
        assert [len(each.partitions) for each in found.topics] == [1]
    many = DescribeTransactionsRequest(transactional_ids=["x"] * 1000)
    assert len(world.ask("DescribeTransactions", 0, many).transaction_states) == 1

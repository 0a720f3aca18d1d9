"""AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit: what each error means (P-I.5, P-I.6)."""

from __future__ import annotations

import pytest

from fastprod.client.transactions.transaction_state import TransactionState as State
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.errors import IllegalStateError, ProducerFencedError, UnsupportedVersionError
from fastprod.protocol.messages.transaction.add_offsets_to_txn import AddOffsetsToTxnResponse
from fastprod.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from support.engine.transaction_world import (
    GROUP,
    PRODUCER_ID,
    RETRY_BACKOFF_MS,
    TRANSACTIONAL_ID,
    World,
    added,
    committed,
    error_of,
)

CONCURRENT_TRANSACTIONS = 51
TRANSACTION_ABORTABLE = 120
A0, B0 = TopicPartition("a", 0), TopicPartition("b", 0)
MEMBER = ConsumerGroupMetadata(GROUP, 3, "member", "instance")


def joining(*partitions: TopicPartition) -> World:
    world = World(1)
    world.begin()
    for each in partitions:
        world.manager.partition_joined(each)
    return world


# AddPartitionsToTxn.


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (47, State.FATAL_ERROR),
        (90, State.FATAL_ERROR),
        (53, State.FATAL_ERROR),
        (48, State.FATAL_ERROR),
        (49, State.FATAL_ERROR),
        (59, State.ABORTABLE_ERROR),
        (29, State.ABORTABLE_ERROR),
        (55, State.ABORTABLE_ERROR),
        (43, State.ABORTABLE_ERROR),
        (TRANSACTION_ABORTABLE, State.ABORTABLE_ERROR),
        (42, State.ABORTABLE_ERROR),
        (14, State.IN_TRANSACTION),
        (16, State.IN_TRANSACTION),
        (3, State.IN_TRANSACTION),
    ],
)
def test_what_refused_partitions_mean(code: int, state: State) -> None:
    """P-I.6, P-L.148, P-L.149, P-L.163."""
    world = joining(A0)
    world.answer(world.take("AddPartitionsToTxn"), added(code, A0))
    assert world.manager.state is state
    if state is State.IN_TRANSACTION:
        if code == 16:
            world.take("FindCoordinator")
        again = world.take("AddPartitionsToTxn")
        world.answer(again, added(0, A0))
        assert world.engine.take("add_partition") == [("a", 0)]


def test_the_first_partitions_wait_a_little_for_the_transaction_before() -> None:
    """P-I.3.5, P-L.134 testAddPartitionToTransactionOverridesRetryBackoffForConcurrentTransactions
    and the variants that retain it."""
    world = joining(A0)
    began_ms = world.now_ms
    world.answer(world.take("AddPartitionsToTxn"), added(CONCURRENT_TRANSACTIONS, A0))
    first = world.take("AddPartitionsToTxn")
    pauses_ms = []
    for _ in range(7):
        pauses_ms.append(first.due_ms - began_ms)
        began_ms = world.now_ms
        world.answer(first, added(CONCURRENT_TRANSACTIONS, A0))
        first = world.take("AddPartitionsToTxn")
    assert pauses_ms == [1, 2, 4, 8, 16, 20, 20]
    world.answer(first, added(0, A0))
    world.manager.partition_joined(B0)
    began_ms = world.now_ms
    world.answer(world.take("AddPartitionsToTxn"), added(CONCURRENT_TRANSACTIONS, B0))
    assert world.take("AddPartitionsToTxn").due_ms == began_ms + RETRY_BACKOFF_MS


def test_every_partition_that_was_refused_is_named() -> None:
    world = joining(A0, B0)
    world.answer(world.take("AddPartitionsToTxn"), added(42, A0, B0))
    error = world.manager._last_error
    for word in ("a-0", "b-0", "INVALID_REQUEST"):
        assert word in str(error)
    assert world.engine.take("add_partition") == []


def test_a_partition_without_an_answer_was_not_added() -> None:
    world = joining(A0, B0)
    world.answer(world.take("AddPartitionsToTxn"), added(0, A0))
    assert world.manager.state is State.ABORTABLE_ERROR


# Offsets.


def offering(level: int) -> tuple[World, TransactionalRequestResult]:
    world = World(level)
    world.begin()
    result = world.manager.send_offsets({A0: OffsetAndMetadata(5, "m", 2), B0: 6}, MEMBER)
    assert result is not None
    return world, result


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (47, State.FATAL_ERROR),
        (90, State.FATAL_ERROR),
        (53, State.FATAL_ERROR),
        (48, State.FATAL_ERROR),
        (49, State.FATAL_ERROR),
        (42, State.FATAL_ERROR),
        (59, State.ABORTABLE_ERROR),
        (30, State.ABORTABLE_ERROR),
        (TRANSACTION_ABORTABLE, State.ABORTABLE_ERROR),
        (14, State.IN_TRANSACTION),
        (15, State.IN_TRANSACTION),
    ],
)
def test_what_a_refused_group_means(code: int, state: State) -> None:
    """P-I.6, P-L.144, P-L.149, P-L.154, P-L.163."""
    world, result = offering(1)
    world.offsets_answer(code)
    assert world.manager.state is state
    assert result.is_completed == state.is_error
    if code == 15:
        world.take("FindCoordinator")
    if not state.is_error:
        world.offsets_answer()
        world.take("TxnOffsetCommit")


@pytest.mark.parametrize("level", [1, 2])
def test_offsets_carry_the_group_and_its_member(level: int) -> None:
    """P-I.5, P-I.4, P-I.7.5"""
    world, _ = offering(level)
    if level == 1:
        asked = world.take("AddOffsetsToTxn")
        message = world.message(asked)
        assert (message.transactional_id, message.group_id) == (TRANSACTIONAL_ID, GROUP)
        world.answer(asked, AddOffsetsToTxnResponse())
    handler = world.take("TxnOffsetCommit")
    assert world.version(handler) == (5 if level == 2 else 4)
    message = world.message(handler)
    assert (message.group_id, message.generation_id) == (GROUP, 3)
    assert (message.member_id, message.group_instance_id) == ("member", "instance")
    assert (message.producer_id, message.producer_epoch) == (PRODUCER_ID, 0)
    first, second = message.topics
    (a,), (b,) = first.partitions, second.partitions
    assert (a.committed_offset, a.committed_metadata, a.committed_leader_epoch) == (5, "m", 2)
    assert (b.committed_offset, b.committed_metadata, b.committed_leader_epoch) == (6, "", -1)


def test_a_broker_that_knows_no_members_gets_the_group_alone() -> None:
    """P-I.5, P-L.155 testSendOffsetWithGroupMetadataFailAsAutoDowngradeTxnCommitNotEnabled."""
    world, _ = offering(2)
    with pytest.raises(UnsupportedVersionError, match=r"2\.5"):
        world.take("TxnOffsetCommit").message(2)
    world = World()
    world.begin()
    world.manager.send_offsets({A0: 5}, GROUP)
    assert world.take("TxnOffsetCommit").message(2).group_id == GROUP


def test_offsets_that_were_not_taken_for_now_are_sent_again_alone() -> None:
    """P-I.5, P-I.6"""
    world, result = offering(2)
    world.answer(world.take("TxnOffsetCommit"), committed(a=0, b=14))
    again = world.take("TxnOffsetCommit")
    assert [topic.name for topic in world.message(again).topics] == ["b"]
    world.answer(again, committed(b=16))
    assert world.take("FindCoordinator").message(4).key_type == 0
    world.answer(world.take("TxnOffsetCommit"), committed(b=0))
    result.acknowledge()


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (47, State.FATAL_ERROR),
        (90, State.FATAL_ERROR),
        (53, State.FATAL_ERROR),
        (43, State.FATAL_ERROR),
        (42, State.FATAL_ERROR),
        (30, State.ABORTABLE_ERROR),
        (82, State.ABORTABLE_ERROR),
        (25, State.ABORTABLE_ERROR),
        (22, State.ABORTABLE_ERROR),
        (113, State.ABORTABLE_ERROR),
        (TRANSACTION_ABORTABLE, State.ABORTABLE_ERROR),
    ],
)
def test_what_refused_offsets_mean(code: int, state: State) -> None:
    """P-I.6, P-L.143, P-L.144, P-L.149, P-L.163."""
    world, result = offering(2)
    world.answer(world.take("TxnOffsetCommit"), committed(a=code, b=0))
    assert world.manager.state is state
    error = error_of(result)
    assert error.fatal == (state is State.FATAL_ERROR)
    assert isinstance(error, ProducerFencedError) == (code in (47, 90))
    assert not isinstance(error, IllegalStateError)


def test_no_offsets_are_no_request() -> None:
    """P-A.8.4"""
    world = World()
    world.begin()
    assert world.manager.send_offsets({}, GROUP) is None
    assert world.manager.next_request() is None

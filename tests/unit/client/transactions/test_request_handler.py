"""TxnRequestHandler: priorities, and what errors mean to most requests (P-I.3.1, P-I.6)."""

from __future__ import annotations

import pytest

from fastprod.client.transactions.producer_id_handlers import FindCoordinatorHandler
from fastprod.client.transactions.request_handler import CoordinatorType, Priority
from fastprod.client.transactions.transaction_state import TransactionState as State
from fastprod.errors import KafkaError, TransactionAbortedError
from fastprod.records import TopicPartition
from support.engine.transaction_world import GROUP, World, added, committed, error_of

UNKNOWN_TOPIC = 3
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
CONCURRENT_TRANSACTIONS = 51
T0 = TopicPartition("t", 0)
BOTH = pytest.mark.parametrize("level", [1, 2], ids=["before KIP-890", "KIP-890"])


def test_the_order_of_requests() -> None:
    """P-I.3.1"""
    assert sorted(Priority) == [
        Priority.FIND_COORDINATOR,
        Priority.INIT_PRODUCER_ID,
        Priority.ADD_PARTITIONS_OR_OFFSETS,
        Priority.END_TXN,
        Priority.EPOCH_BUMP,
    ]


def test_an_error_that_no_answer_should_have_is_fatal_and_keeps_its_code() -> None:
    """P-I.6, its last row."""
    world = World()
    result = world.manager.initialize_transactions()
    world.init_answer(42)
    error = error_of(result)
    assert (error.code, error.fatal) == (42, True)
    assert "InitProducerId was answered with INVALID_REQUEST" in str(error)


@pytest.mark.parametrize("code", [42, 29])
def test_errors_that_are_not_common_are_left_to_the_request(code: int) -> None:
    world = World()
    world.manager.initialize_transactions()
    handler = world.take("InitProducerId")
    assert not handler.common_error(code)
    assert world.manager.state is State.INITIALIZING


def test_a_lost_connection_means_to_look_for_the_coordinator_again() -> None:
    """P-I.3.6, P-L.141 testLookupCoordinatorOnDisconnectAfterSend."""
    world = World()
    world.manager.initialize_transactions()
    world.manager.lost(world.take("InitProducerId"))
    world.take("FindCoordinator")
    world.take("InitProducerId")


# What an abort does not wait for (P-I.3.8).


@BOTH
def test_an_abort_does_not_wait_for_the_coordinator_of_a_group(level: int) -> None:
    """P-I.3.8, P-A.8.6: it may be away for long, and offsets do not count before a commit."""
    world = World(level)
    world.begin()
    world.join()
    offsets = world.manager.send_offsets({T0: 7}, GROUP)
    assert offsets is not None
    if level == 1:
        world.offsets_answer()
    world.answer(world.take("TxnOffsetCommit"), committed(t=COORDINATOR_NOT_AVAILABLE))
    world.take("FindCoordinator").lost()
    result = world.manager.begin_abort()
    world.drained()
    world.end_answer()
    result.acknowledge()
    assert isinstance(error_of(offsets), TransactionAbortedError)
    assert world.manager.state is State.READY
    assert world.manager.next_request() is None


@pytest.mark.parametrize(
    ("call", "is_lost"), [("partitions", False), ("partitions", True), ("offsets", False)]
)
def test_an_abort_does_not_wait_for_what_the_coordinator_has_refused(
    call: str, is_lost: bool
) -> None:
    """P-I.3.8, P-I.6.5: such as partitions of a topic that was deleted."""
    world = World(1)
    world.begin()
    if call == "partitions":
        world.manager.partition_joined(T0)
        if is_lost:
            world.manager.lost(world.take("AddPartitionsToTxn"))
            world.take("FindCoordinator")
        world.answer(world.take("AddPartitionsToTxn"), added(UNKNOWN_TOPIC, T0))
    else:
        world.manager.send_offsets({T0: 7}, GROUP)
        world.offsets_answer(COORDINATOR_NOT_AVAILABLE)
        world.take("FindCoordinator")
    result = world.manager.begin_abort()
    world.drained()
    if is_lost:
        world.init_answer(epoch=1)
    assert world.manager.next_request() is None, "nothing was added: no EndTxn either"
    result.acknowledge()


@pytest.mark.parametrize("refusal", [None, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS])
def test_an_abort_waits_for_what_may_have_been_added(refusal: int | None) -> None:
    """P-I.3.8: else the transaction would stay open, and be that of the next records; what is said
    to a repetition does not tell whether the first one was done."""
    world = World(1)
    world.begin()
    world.manager.partition_joined(T0)
    world.manager.lost(world.take("AddPartitionsToTxn"))
    world.take("FindCoordinator")
    if refusal is not None:
        world.answer(world.take("AddPartitionsToTxn"), added(refusal, T0))
    if refusal == NOT_COORDINATOR:
        world.take("FindCoordinator")
    result = world.manager.begin_abort()
    world.drained()
    world.answer(world.take("AddPartitionsToTxn"), added(0, T0))
    world.end_answer()
    result.acknowledge()


@BOTH
def test_what_fails_does_not_wait_for_a_search(level: int) -> None:
    """P-I.3.3, P-I.8.3: no broker may be there to answer it."""
    world = World(level)
    world.begin()
    world.join()
    world.manager.line.lookup_coordinator(CoordinatorType.TRANSACTION)
    result = world.manager.begin_commit()
    world.manager.transition_to_abortable_error(KafkaError("expired"))
    assert world.manager.next_request() is not None
    assert not result.is_completed, "records are still under way"
    world.drained()
    assert isinstance(world.manager.next_request(), FindCoordinatorHandler)
    assert "expired" in str(error_of(result))

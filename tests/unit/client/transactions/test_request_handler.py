"""TxnRequestHandler: priorities, and what errors mean to most requests (P-I.3.1, P-I.6)."""

from __future__ import annotations

import pytest

from fastprod.client.transactions.request_handler import Priority
from fastprod.client.transactions.transaction_state import TransactionState as State
from support.engine.transaction_world import World, error_of


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

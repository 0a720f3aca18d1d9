"""DescribeTransactionsHandler: a transaction right behind another one (P-I.7.8)."""

from __future__ import annotations

import pytest

from fastprod.client.transactions.request_handler import TxnRequestHandler
from fastprod.errors import UnsupportedVersionError
from fastprod.protocol.messages.transaction.describe_transactions import (
    DescribeTransactionsResponse,
    TransactionState,
)
from support.engine.transaction_world import LONG_MS, TRANSACTIONAL_ID, World

NOT_AUTHORIZED = 53
ASK = "DescribeTransactions"


def behind_another(level: int = 2) -> World:
    """A transaction has just ended."""
    world = World(level)
    world.begin()
    world.join()
    end(world)
    return world


def end(world: World, partitions: int = 1) -> None:
    result = world.manager.begin_commit()
    world.drained(partitions)
    if partitions:
        world.end_answer()
    else:
        assert world.manager.next_request() is None
    result.acknowledge()
    world.engine.commands.clear()


def described(state: str, code: int = 0) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            TransactionState(
                error_code=code, transactional_id=TRANSACTIONAL_ID, transaction_state=state
            )
        ]
    )


def begun(world: World) -> TxnRequestHandler:
    world.manager.begin_transaction()
    assert world.engine.take("begin_transaction") == [(True, True)]
    return world.take(ASK)


def is_released(world: World) -> bool:
    return world.engine.take("release_transaction") == [()]


def test_records_wait_until_the_transaction_before_has_ended() -> None:
    """P-I.7.8: asked at 1 ms and more seldom, up to 20 ms."""
    world = behind_another()
    request = begun(world)
    assert world.message(request).transactional_ids == [TRANSACTIONAL_ID]
    pauses_ms = []
    for turn in range(7):
        world.answer(request, described("PrepareCommit" if turn % 2 else "PrepareAbort"))
        began_ms = world.now_ms
        request = world.take(ASK)
        pauses_ms.append(request.due_ms - began_ms)
    assert pauses_ms == [1, 2, 4, 8, 16, 20, 20]
    assert not is_released(world)
    world.answer(request, described("CompleteCommit"))
    assert is_released(world)
    assert world.manager.next_request() is None


@pytest.mark.parametrize("state", ["CompleteCommit", "CompleteAbort", "Ongoing", "Empty", "?"])
def test_any_other_state_lets_them_go(state: str) -> None:
    """P-I.7.8: the brokers decide."""
    world = behind_another()
    world.answer(begun(world), described(state))
    assert is_released(world)
    end(world)
    begun(world)


def test_an_answer_about_nothing_lets_them_go() -> None:
    """P-I.7.8"""
    world = behind_another()
    world.answer(begun(world), DescribeTransactionsResponse())
    assert is_released(world)


def test_a_lost_connection_lets_them_go() -> None:
    """P-I.7.8"""
    world = behind_another()
    world.manager.lost(begun(world))
    assert is_released(world)
    end(world)
    begun(world)


@pytest.mark.parametrize("is_refused", [True, False], ids=["refused", "unsupported"])
def test_a_broker_that_does_not_tell_is_not_asked_again(is_refused: bool) -> None:
    """P-I.7.8"""
    world = behind_another()
    request = begun(world)
    if is_refused:
        world.answer(request, described("", NOT_AUTHORIZED))
    else:
        world.manager.unsupported(request, UnsupportedVersionError("too old"))
    assert is_released(world)
    assert world.fatal == []
    end(world)
    world.manager.begin_transaction()
    assert world.engine.take("begin_transaction") == [(True, False)]
    assert world.manager.next_request() is None


@pytest.mark.parametrize("why", ["first", "late", "before KIP-890", "without records"])
def test_there_is_nothing_to_wait_for(why: str) -> None:
    """P-I.7.8"""
    is_v2 = why != "before KIP-890"
    if why in ("first", "without records"):
        world = World()
        world.ready()
        if why == "without records":
            world.manager.begin_transaction()
            end(world, partitions=0)
    else:
        world = behind_another(2 if is_v2 else 1)
        world.now_ms += LONG_MS if why == "late" else 0
    world.manager.begin_transaction()
    assert world.engine.take("begin_transaction") == [(is_v2, False)]
    assert world.manager.next_request() is None


def test_an_abort_does_not_ask() -> None:
    """P-I.3.8"""
    world = behind_another()
    world.answer(begun(world), described("PrepareCommit"))
    result = world.manager.begin_abort()
    world.drained()
    world.end_answer()
    result.acknowledge()

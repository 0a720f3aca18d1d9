"""FindCoordinator, InitProducerId and EndTxn: what each error means (P-I.6, P-L.142-149)."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.client.transactions.producer_id_handlers import FindCoordinatorHandler
from fastprod.client.transactions.request_handler import CoordinatorType
from fastprod.client.transactions.transaction_state import TransactionState as State
from fastprod.errors import ProducerFencedError
from fastprod.protocol.field_types import SchemaError
from fastprod.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from fastprod.protocol.messages.init_producer_id import InitProducerIdResponse
from fastprod.protocol.messages.transaction.end_txn import EndTxnResponse
from fastprod.records import Node
from support.engine.transaction_world import TRANSACTIONAL_ID, World, error_of

RETRIED = (7, 14, 51)
MOVED = (15, 16)
FENCED = (47, 90)
FATAL = (48, 49, 53, 42)
TRANSACTION_ABORTABLE = 120


def found(code: int = 0, count: int = 1) -> FindCoordinatorResponse:
    one = Coordinator(key=TRANSACTIONAL_ID, node_id=2, host="b2", port=9093, error_code=code)
    return FindCoordinatorResponse(coordinators=[one] * count)


def finder(world: World) -> FindCoordinatorHandler:
    world.begin()
    world.manager.line.lookup_coordinator(CoordinatorType.TRANSACTION)
    handler = world.take("FindCoordinator")
    assert isinstance(handler, FindCoordinatorHandler)
    return handler


def test_a_coordinator_is_looked_for_by_either_form() -> None:
    """P-I.3.7"""
    world = World()
    handler = finder(world)
    old, new = handler.message(3), handler.message(4)
    assert (old.key, old.key_type) == (TRANSACTIONAL_ID, 1)
    assert (new.coordinator_keys, new.key_type) == ([TRANSACTIONAL_ID], 1)
    handler.answered(FindCoordinatorResponse(node_id=1, host="b1", port=9092), 3)
    world.manager.begin_commit()
    (end,) = world.manager.line._waiting
    assert world.manager.line.coordinator(end) == Node(1, "b1", 9092)
    world.answer(handler, found())
    assert world.manager.line.coordinator(end) == Node(2, "b2", 9093)


@pytest.mark.parametrize("count", [0, 2])
def test_an_answer_without_exactly_one_coordinator_is_fatal(count: int) -> None:
    """P-I.3.7"""
    world = World()
    world.answer(finder(world), found(count=count))
    assert world.manager.state is State.FATAL_ERROR


@pytest.mark.parametrize("code", [*RETRIED, *MOVED])
def test_a_search_is_repeated(code: int) -> None:
    """P-I.6, P-L.148 testRetriableErrors."""
    world = World()
    world.answer(finder(world), found(code))
    assert world.manager.next_request() is not None
    world.answer(world.take("FindCoordinator"), found())


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (53, State.FATAL_ERROR),
        (31, State.FATAL_ERROR),
        (48, State.FATAL_ERROR),
        (90, State.FATAL_ERROR),
        (30, State.ABORTABLE_ERROR),
        (TRANSACTION_ABORTABLE, State.ABORTABLE_ERROR),
    ],
)
def test_what_a_refused_search_means(code: int, state: State) -> None:
    """P-I.6, P-L.144, P-L.163."""
    world = World()
    world.answer(finder(world), found(code))
    assert world.manager.state is state


def answer_of(name: str, code: int) -> Any:
    kind = InitProducerIdResponse if name == "InitProducerId" else EndTxnResponse
    return kind(error_code=code, producer_id=-1, producer_epoch=-1)


def waiting(name: str) -> tuple[World, Any]:
    """A world that has sent this request, and the result of its call."""
    world = World()
    if name == "InitProducerId":
        return world, world.manager.initialize_transactions()
    world.begin()
    world.join()
    result = world.manager.begin_commit()
    world.drained()
    return world, result


REQUESTS = pytest.mark.parametrize("name", ["InitProducerId", "EndTxn"])


@REQUESTS
@pytest.mark.parametrize("code", [*RETRIED, *MOVED])
def test_what_passes_is_sent_again_after_the_backoff(name: str, code: int) -> None:
    """P-I.6, P-I.3.5, P-L.141, P-L.148; the coordinator is looked up anew where it moved."""
    world, result = waiting(name)
    world.answer(world.take(name), answer_of(name, code))
    if code in MOVED:
        assert world.take("FindCoordinator").due_ms == world.now_ms
    again = world.manager.next_request()
    assert again is not None
    assert again.due_ms == world.now_ms + world.manager.retry_backoff_ms
    assert again.api.name == name
    assert not result.is_completed


@REQUESTS
@pytest.mark.parametrize("code", [*FENCED, *FATAL])
def test_what_does_not_pass_is_fatal(name: str, code: int) -> None:
    """P-I.6, P-L.149 testInvalidProducerEpochConvertToProducerFenced."""
    if (name, code) == ("InitProducerId", 53):
        return  # may be tried again: test_transaction_manager.py
    world, result = waiting(name)
    world.answer(world.take(name), answer_of(name, code))
    assert world.manager.state is State.FATAL_ERROR
    assert error_of(result).fatal
    assert isinstance(error_of(result), ProducerFencedError) == (code in FENCED)


@REQUESTS
def test_what_is_to_be_aborted(name: str) -> None:
    """P-I.6, P-L.163"""
    world, result = waiting(name)
    world.answer(world.take(name), answer_of(name, TRANSACTION_ABORTABLE))
    assert world.manager.state is State.ABORTABLE_ERROR
    assert error_of(result).abortable


def test_an_abort_that_is_to_be_aborted_is_fatal() -> None:
    """P-I.6, its last column."""
    world = World()
    world.begin()
    world.join()
    result = world.manager.begin_abort()
    world.drained()
    world.end_answer(TRANSACTION_ABORTABLE)
    assert error_of(result).fatal


@pytest.mark.parametrize(("producer_id", "epoch"), [(-5, 0), (7, -1)])
def test_an_id_that_cannot_be_is_no_answer(producer_id: int, epoch: int) -> None:
    world, _ = waiting("InitProducerId")
    handler = world.take("InitProducerId")
    with pytest.raises(SchemaError):
        world.answer(handler, InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch))


def test_the_last_epoch_is_followed_by_a_new_id() -> None:
    """P-I.4: EndTxn says both."""
    world, result = waiting("EndTxn")
    world.answer(world.take("EndTxn"), EndTxnResponse(producer_id=9000, producer_epoch=0))
    result.acknowledge()
    assert world.manager.producer_id_and_epoch == (9000, 0)
    assert world.engine.take("set_producer_id")[-1] == (9000, 0)

"""RequestLine: who goes next, and who is asked (P-I.3)."""

from __future__ import annotations

from fastprod.client.transactions.producer_id_handlers import EndTxnHandler, InitProducerIdHandler
from fastprod.client.transactions.request_handler import CoordinatorType, TxnRequestHandler
from fastprod.client.transactions.transaction_content_handlers import (
    AddOffsetsToTxnHandler,
    AddPartitionsToTxnHandler,
    TxnOffsetCommitHandler,
)
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.errors import KafkaError
from fastprod.records import ConsumerGroupMetadata, Node, OffsetAndMetadata, TopicPartition
from support.engine.transaction_world import GROUP, TRANSACTIONAL_ID, World

NODE = Node(1, "b1", 9092)


def handlers(world: World) -> list[TxnRequestHandler]:
    """One of each, in the order in which they are to go."""
    result = TransactionalRequestResult("x")
    manager = world.manager
    return [
        InitProducerIdHandler(manager, result, is_epoch_bump=False),
        AddPartitionsToTxnHandler(manager, [TopicPartition("t", 0)]),
        AddPartitionsToTxnHandler(manager, [TopicPartition("t", 1)]),
        EndTxnHandler(manager, result, committed=True, is_v2=True),
        InitProducerIdHandler(manager, result, is_epoch_bump=True),
    ]


def test_requests_go_by_priority_and_else_in_order() -> None:
    """P-I.3.1"""
    world = World()
    line = world.manager.line
    expected = handlers(world)
    first_added, second_added = expected[1], expected[2]
    for handler in (expected[4], expected[3], first_added, second_added, expected[0]):
        line.enqueue(handler)
    found = []
    while (first := line.first()) is not None:
        found.append(first)
        line.remove(first)
    assert found == expected


def test_a_search_goes_first_and_is_not_begun_twice() -> None:
    """P-I.3.4"""
    world = World()
    line = world.manager.line
    (init, *_) = handlers(world)
    line.enqueue(init)
    line.lookup_coordinator(CoordinatorType.TRANSACTION)
    line.lookup_coordinator(CoordinatorType.TRANSACTION)
    line.lookup_coordinator(CoordinatorType.GROUP, GROUP)
    names = []
    while (found := line.first()) is not None:
        names.append(found.api.name)
        line.remove(found)
    assert names == ["FindCoordinator", "FindCoordinator", "InitProducerId"]


def test_a_coordinator_is_that_of_its_key() -> None:
    """P-I.3.4: another group has another one."""
    world = World()
    line = world.manager.line
    (init, *_) = handlers(world)
    assert line.coordinator(init) is None
    line.coordinator_found(CoordinatorType.TRANSACTION, TRANSACTIONAL_ID, NODE)
    assert line.coordinator(init) == NODE
    world.begin()
    for group, expected in ((GROUP, NODE), ("others", None)):
        line.coordinator_found(CoordinatorType.GROUP, GROUP, NODE)
        world.manager.send_offsets({("t", 0): 1}, group)
        assert line.coordinator(world.take("TxnOffsetCommit")) == expected
    line.lookup_coordinator(CoordinatorType.TRANSACTION)
    assert line.coordinator(init) is None, "forgotten until it is found"


def test_a_repeated_request_waits_for_its_backoff() -> None:
    """P-I.3.5"""
    world = World()
    (init, *_) = handlers(world)
    world.manager.line.reenqueue(init)
    assert init.due_ms == world.now_ms + world.manager.retry_backoff_ms
    world.manager.line.remove(init)
    world.manager.line.reenqueue(init, 20)
    assert init.due_ms == world.now_ms + 20


def test_repeated_offsets_stay_in_front_of_later_ones_of_their_group() -> None:
    """P-I.3.10"""
    world = World()
    line = world.manager.line
    offsets = {TopicPartition("t", 0): OffsetAndMetadata(5)}
    mine, other = ConsumerGroupMetadata(GROUP), ConsumerGroupMetadata("another")
    result = TransactionalRequestResult("x")
    of_other = TxnOffsetCommitHandler(world.manager, result, offsets, other, is_v2=True)
    later = AddOffsetsToTxnHandler(world.manager, result, offsets, mine)
    first = TxnOffsetCommitHandler(world.manager, result, offsets, mine, is_v2=False)
    for handler in (handlers(world)[1], later, of_other):
        line.enqueue(handler)
    line.reenqueue(first)
    assert line.all()[1:] == (first, later, of_other)
    line.remove(later)
    line.remove(first)
    line.reenqueue(first)
    assert line.all()[1:] == (of_other, first)


def test_all_that_wait_may_be_told_that_they_will_not_go() -> None:
    world = World()
    for handler in handlers(world):
        world.manager.line.enqueue(handler)
    first = world.manager.line.first()
    assert first is not None
    world.manager.line.fail_all(KafkaError("over"))
    assert world.manager.line.first() is None
    assert str(first.result.error) == "over"

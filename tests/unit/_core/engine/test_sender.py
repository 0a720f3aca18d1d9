"""The sender's two promises that are no matter of sequences: order, and what waits (contract P-F.2,
P-F.3.5), by steps; with a network they are tests/faults'.

P-L.83-86 and P-L.118 (SenderTest).
"""

from __future__ import annotations

import socket
from typing import Any

import pytest

from fastprod._core.testing.engine_doors import incomplete_for_test
from fastprod.errors import DeliveryTimeoutError
from support.engine.sender_steps import TOPIC, Steps, offset, outcome

NOT_LEADER = 6
NOT_ENOUGH_REPLICAS = 19


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_with_the_order_guaranteed_a_partition_has_one_batch_under_way(
    is_idempotent: bool,
) -> None:
    """P-L.85 testSendInOrder, P-F.3.5: even if the leader moves meanwhile."""
    sender = Steps(
        [(0, 0), (1, 0)],
        max_in_flight_requests_per_connection=1,
        enable_idempotence=is_idempotent,
    )
    first = sender.send(b"1", 1)
    handle = sender.drain(1)
    sender.send(b"2", 1)
    sender.lead([(0, 0), (0, 1)])
    assert sender.nothing_goes(0)
    assert sender.nothing_goes(1)
    sender.succeed(handle, 0)
    assert offset(first) == 0
    assert sender.values(sender.drain(0)) == [b"2"]


def test_with_the_order_guaranteed_a_retry_goes_before_what_came_later() -> None:
    """P-F.3.5: without idempotence too."""
    sender = Steps(max_in_flight_requests_per_connection=1, enable_idempotence=False)
    sender.send(b"1")
    handle = sender.drain()
    sender.send(b"2")
    sender.refuse(handle, NOT_ENOUGH_REPLICAS)
    assert sender.nothing_goes(), "2 does not pass 1 while that backs off"
    sender.pass_time(1000)
    for value in (b"1", b"2"):
        handle = sender.drain()
        assert sender.values(handle) == [value]
        sender.succeed(handle)


def test_callbacks_of_expired_records_may_send_again() -> None:
    """P-L.86 testAppendInExpiryCallback: into a new batch."""
    sender = Steps(delivery_timeout_ms=1000, request_timeout_ms=100, linger_ms=10)
    again: list[Any] = []

    def send_again(error: Exception) -> None:
        assert isinstance(error, DeliveryTimeoutError)
        again.append(sender.send(b"again"))

    sender.send().add_errback(send_again)
    sender.send().add_errback(send_again)
    sender.door.mute(TOPIC, 0, True)
    sender.pass_time(1000)
    sender.door.expire()
    sender.engine.run_deliveries(0)
    assert [each["count"] for each in sender.queue()] == [2]
    sender.door.mute(TOPIC, 0, False)
    sender.succeed(sender.drain_anyhow(), 3)
    assert [offset(each) for each in again] == [3, 4]


def test_a_partition_is_left_when_there_is_nothing_to_do_for_it() -> None:
    """P-D.1.2: and found again with the next record."""
    sender = Steps()
    assert not sender.state()["is_listed"]
    for _ in range(2):
        future = sender.send()
        assert sender.state()["is_listed"]
        sender.succeed(sender.drain(), 1)
        sender.nothing_goes()
        assert outcome(future) is not None
        assert not sender.state()["is_listed"]


@pytest.mark.parametrize("kick_count", [1, 2])
def test_what_comes_while_the_io_thread_looks_for_work_keeps_it_awake(kick_count: int) -> None:
    """P-A.3.11."""
    sender = Steps()
    assert sender.door.sleep_ms(0) > 0
    assert sender.door.sleep_ms(kick_count) == 0
    assert sender.door.sleep_ms(0) > 0


MANY = 50


def test_a_turn_has_an_end_whatever_a_node_takes() -> None:
    """P-F.2: with acks=0 nothing is waited for: what senders add meanwhile could go on for ever."""
    sender = Steps(acks=0, enable_idempotence=False, batch_size=100)
    near, far = socket.socketpair()
    with far:
        sender.door.connect_socket(0, near.detach())
        futures = [sender.send(b"x" * 60) for _ in range(MANY)]
        turns = []
        while sender.queue():
            turns.append(sender.door.serve(0))
        assert sum(turns) == MANY
        assert max(turns) <= MANY // 4
        assert sender.door.serve(0) == 0
        assert all(outcome(each) is not None for each in futures)


def test_a_batch_is_incomplete_until_its_end() -> None:
    """P-D.1.2: queued, in flight and to be sent again."""
    sender = Steps()
    sender.send()
    assert incomplete_for_test(sender.engine)[0] == 1
    handle = sender.drain()
    assert incomplete_for_test(sender.engine)[0] == 1
    sender.refuse(handle, NOT_ENOUGH_REPLICAS)
    assert incomplete_for_test(sender.engine)[0] == 1
    sender.pass_time(1000)
    sender.succeed(sender.drain())
    assert incomplete_for_test(sender.engine)[0] == 0


@pytest.mark.parametrize("code", [NOT_LEADER, 13])
def test_requests_to_several_nodes_are_independent(code: int) -> None:
    """P-F.2: what happens at one does not hold up the others."""
    sender = Steps([(0, 0), (1, 0)])
    futures = [sender.send(partition=partition) for partition in (0, 1)]
    bad, good = sender.drain(0), sender.drain(1)
    if code == NOT_LEADER:
        sender.refuse(bad, code)
    else:
        sender.door.fail(bad)
    sender.succeed(good, 5)
    assert [outcome(futures[0]), offset(futures[1])] == [None, 5]

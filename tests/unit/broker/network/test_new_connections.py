"""The queue between an Acceptor and a Processor."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from fastprod.broker.network.new_connections import NewConnection, NewConnections

PATIENCE_S = 20.0


@pytest.fixture
def new() -> Iterator[NewConnection]:
    with socket.socket() as sock:
        yield NewConnection(sock, ("127.0.0.1", 1), ("127.0.0.1", 2))


def test_an_ipv4_client_of_a_listener_for_both_is_called_by_its_ipv4_address() -> None:
    """B-D6.3: as in Java; a rule about a host holds however its client has come."""
    with socket.socket() as sock:
        for told, known in (
            ("::ffff:127.0.0.1", "127.0.0.1"),
            ("10.0.0.7", "10.0.0.7"),
            ("::1", "::1"),
            ("fe80::7", "fe80::7"),
        ):
            new = NewConnection.of(sock, (told, 1), (told, 2))
            assert (new.local, new.remote) == ((known, 1), (known, 2))


def test_a_full_queue_refuses_whoever_may_not_block(new: NewConnection) -> None:
    """B-A2.6."""
    queue = NewConnections(2)
    assert [queue.put(new, may_block=False) for _ in range(3)] == [True, True, False]
    assert len(queue) == 2
    assert queue.take() is new
    assert queue.put(new, may_block=False)


def test_a_blocking_put_waits_for_room_or_the_end(new: NewConnection) -> None:
    """B-A2.6, B-A2.9."""
    for release, expected in ((NewConnections.take, True), (NewConnections.shut, False)):
        queue = NewConnections(1)
        assert queue.put(new, may_block=False)
        took: list[bool] = []
        putting = threading.Thread(target=lambda q=queue, t=took: t.append(q.put(new, True)))
        putting.start()
        release(queue)
        putting.join(PATIENCE_S)
        assert took == [expected]


def test_a_shut_queue_takes_nothing_more_but_gives_what_it_has(new: NewConnection) -> None:
    queue = NewConnections(2)
    assert queue.put(new, may_block=False)
    queue.shut()
    queue.shut()
    assert not queue.put(new, may_block=True)
    assert queue.take() is new
    assert queue.take() is None


def test_a_queue_needs_room() -> None:
    with pytest.raises(ValueError, match="1 or more, not 0"):
        NewConnections(0)

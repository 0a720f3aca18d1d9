"""What is known of a connection."""

from __future__ import annotations

import socket

from fastprod.broker.network.connection import (
    ANONYMOUS,
    UNKNOWN_SOFTWARE,
    Connection,
    connection_id,
    hang_up,
)


def test_an_id_names_both_ends_the_processor_and_an_index() -> None:
    """B-A3.2."""
    name = connection_id(("127.0.0.1", 9092), ("10.0.0.7", 50001), 3, 17)
    assert name == "127.0.0.1:9092-10.0.0.7:50001-3-17"


def test_a_new_connection_is_anonymous_and_of_unknown_software() -> None:
    """B-A10.28, B-A3.8."""
    connection = Connection("a", 1, "PLAINTEXT", 0, ("127.0.0.1", 1), ("127.0.0.2", 2))
    assert connection.principal == ANONYMOUS
    assert connection.client_software is UNKNOWN_SOFTWARE
    assert connection.client_address == "127.0.0.2"
    assert connection.is_open
    assert repr(connection) == "Connection(a, PLAINTEXT)"


def test_a_client_is_told_of_the_end_even_if_another_process_has_the_socket_too() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.dup():
        hang_up(ours)
        theirs.settimeout(20)
        assert theirs.recv(1) == b""
    hang_up(ours)

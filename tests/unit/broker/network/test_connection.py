"""What is known of a connection."""

from __future__ import annotations

from fastprod.broker.network.connection import (
    ANONYMOUS,
    UNKNOWN_SOFTWARE,
    Connection,
    connection_id,
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

"""ConnectionIds: Kafka's ids of connections; no two open connections share one (B-A3.2)."""

from __future__ import annotations

from typing import Final

from fastprod.broker.network.connection import Address, connection_id
from fastprod.errors import IllegalStateError

_INT_MAX: Final = 2**31 - 1


class ConnectionIds:
    """The ids of one Processor's connections; its thread alone uses them.

    Args:
        processor_id: part of each.
    """

    def __init__(self, processor_id: int) -> None:
        self._processor_id = processor_id
        self._next_index = 0
        self._taken: set[str] = set()

    def take(self, local: Address, remote: Address) -> str:
        """An id for a connection with these ends.

        Raises:
            IllegalStateError: an open connection has this id.
        """
        name = self.following(local, remote)
        if name in self._taken:
            raise IllegalStateError(f"there is a connection {name}")
        self._taken.add(name)
        return name

    def following(self, local: Address, remote: Address) -> str:
        """The next id, of which there are 2^31 for two ends."""
        index = self._next_index
        self._next_index = 0 if index == _INT_MAX else index + 1
        return connection_id(local, remote, self._processor_id, index)

    def give_back(self, name: str) -> None:
        """The connection has ended."""
        self._taken.discard(name)

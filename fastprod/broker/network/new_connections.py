"""Accepted sockets on their way from the Acceptor to a Processor (B-A2.6, B-A3.1)."""

from __future__ import annotations

import socket
import threading
from collections import deque
from typing import NamedTuple

from fastprod.broker.network.connection import Address, canonical_address


class NewConnection(NamedTuple):
    """An accepted socket and what it was called when it was accepted."""

    sock: socket.socket
    local: Address
    remote: Address

    @classmethod
    def of(
        cls, sock: socket.socket, local: Address | None, remote: Address | None
    ) -> NewConnection:
        """Return `sock` with its addresses; those not given are asked of the socket.

        Raises:
            OSError: it does not know them.
        """
        local, remote = local or sock.getsockname(), remote or sock.getpeername()
        return cls(sock, _canonical(local), _canonical(remote))


def _canonical(address: Address) -> Address:
    """Host and port; ACLs and quotas know a client of a listener for both IPs by its IPv4."""
    return canonical_address(address[0]), address[1]


class NewConnections:
    """A bounded queue that can be shut. Any thread.

    Args:
        capacity_count: sockets that may wait, 1 or more.
    """

    def __init__(self, capacity_count: int) -> None:
        if capacity_count < 1:
            raise ValueError(f"new connections need room for 1 or more, not {capacity_count}")
        self.capacity_count = capacity_count
        self._waiting: deque[NewConnection] = deque()
        self._changed = threading.Condition()
        self._is_shut = False

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, new: NewConnection, may_block: bool) -> bool:
        """Queue `new`; false if the queue is shut, or full and the caller may not block."""
        with self._changed:
            while len(self._waiting) >= self.capacity_count and not self._is_shut:
                if not may_block:
                    return False
                self._changed.wait()
            if self._is_shut:
                return False
            self._waiting.append(new)
        return True

    def take(self) -> NewConnection | None:
        """The one that waited longest, None if there is none. Does not block."""
        with self._changed:
            if not self._waiting:
                return None
            self._changed.notify()
            return self._waiting.popleft()

    def shut(self) -> None:
        """Accept nothing more, and end the wait of whoever blocks in `put`. May be repeated."""
        with self._changed:
            self._is_shut = True
            self._changed.notify_all()

    def abandon(self) -> None:
        """In the child of a fork: close this process's descriptors, whoever held the lock."""
        self._is_shut = True
        for new in list(self._waiting):
            new.sock.close()

"""RequestLog: the last requests of clients, for `Broker.requests`."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from typing import Any, Final, NamedTuple

from fastprod.broker.api_table import APIS
from fastprod.broker.network.request import Request
from fastprod.protocol.api_keys import ALTER_USER_SCRAM_CREDENTIALS, PRODUCE

# A decoded message takes several times the bytes that it came in.
_MOST_BYTES: Final = 4 * 1024 * 1024

# A salted password is as good as the password.
_SECRET: Final = (ALTER_USER_SCRAM_CREDENTIALS,)

_Row = tuple[int, int, int, int, str | None, int, str, int, Any]


class LoggedRequest(NamedTuple):
    """One request that the broker took.

    Attributes:
        number: 0 for the first since the start.
        api: Kafka's name, as "Produce".
        version: of the request.
        correlation_id: chosen by the client.
        client_id: the client's name for itself.
        node_id: node that was asked.
        connection_id: Kafka's name of the connection (B-A3.2).
        received_ns: by the broker's clock.
        message: the decoded request; None for Produce, whose records it would keep alive, for
            AlterUserScramCredentials, which holds secrets, and for a version that cannot be
            decoded.
    """

    number: int
    api: str
    version: int
    correlation_id: int
    client_id: str | None
    node_id: int
    connection_id: str
    received_ns: int
    message: Any


class RequestLog:
    """The last requests of all nodes, in the order in which they were handled. Any thread.

    Args:
        capacity_count: how many; fewer if they had more than 4 MiB together; 0: none.
    """

    def __init__(self, capacity_count: int) -> None:
        self._capacity_count = capacity_count
        # Plain tuples: cheap, as every request pays for it.
        self._rows: deque[_Row] = deque()
        self._sizes: deque[int] = deque()
        self._size_bytes = 0
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def add(self, request: Request, message: Any) -> None:
        """Note a request before it is handled."""
        header = request.header
        is_produce = header.api_key == PRODUCE
        size_bytes = header.body_offset if is_produce else len(request.frame)
        with self._lock:
            self._rows.append(
                (
                    next(self._numbers),
                    header.api_key,
                    header.version,
                    header.correlation_id,
                    header.client_id,
                    request.node_id,
                    request.connection.id,
                    request.received_ns,
                    None if is_produce or header.api_key in _SECRET else message,
                )
            )
            self._sizes.append(size_bytes)
            self._size_bytes += size_bytes
            while len(self._rows) > self._capacity_count or self._size_bytes > _MOST_BYTES:
                self._rows.popleft()
                self._size_bytes -= self._sizes.popleft()

    def entries(self, api: str | int | None = None) -> list[LoggedRequest]:
        """Return what is remembered, oldest first.

        Args:
            api: name or key of the API; None: every one.
        """
        return [
            LoggedRequest(number, APIS[key].name, *rest)
            for number, key, *rest in self._snapshot()
            if api is None or api == key or api == APIS[key].name
        ]

    def clear(self) -> None:
        """Forget all."""
        with self._lock:
            self._rows.clear()
            self._sizes.clear()
            self._size_bytes = 0

    def _snapshot(self) -> list[_Row]:
        with self._lock:
            return list(self._rows)

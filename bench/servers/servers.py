"""Servers: those that points are measured with, by name, of which one runs at a time."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from types import TracebackType

from bench.servers.server import BrokerServer, KafkaServer, MockServer, Server

SERVERS: dict[str, Callable[[], Server]] = {
    "mock": MockServer,
    "discard": functools.partial(BrokerServer, "discard"),
    "discard_tls": functools.partial(BrokerServer, "discard", has_tls=True),
    "memory": functools.partial(BrokerServer, "memory"),
    "disk": functools.partial(BrokerServer, "disk"),
    "hundred": functools.partial(BrokerServer, "discard", nodes=100),
    "distant": functools.partial(BrokerServer, "discard", later_ms=(20,)),
    "slowed": functools.partial(BrokerServer, "discard", later_ms=(0, 0, 200)),
    "kafka": KafkaServer,
    "kafka_tls": functools.partial(KafkaServer, has_tls=True),
}


class Servers(contextlib.AbstractContextManager["Servers"]):
    """The one that runs ends when another one is asked for, and with the `with`."""

    def __init__(self) -> None:
        self._running: dict[str, Server] = {}
        self._stack = contextlib.ExitStack()

    def __getitem__(self, name: str) -> Server:
        """That server, running."""
        if name not in self._running:
            self.close()
            self._running = {name: self._stack.enter_context(SERVERS[name]())}
        return self._running[name]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the one that runs."""
        self._running = {}
        self._stack.close()

"""CountingRelay: passes connections on to a server, and counts them."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

_PART_BYTES = 64 * 1024


class CountingRelay:
    """Listens on loopback while its `with` lasts.

    Args:
        target: host:port of the server.

    Threads: one to accept and two a connection; `connection_count` from any.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closing = False
        self.connection_count = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._closing = True
            end(self._listener)
            for sock in self._sockets:
                end(sock)
            threads = list(self._threads)
        for thread in threads:
            thread.join(10)
            assert not thread.is_alive()
        for sock in (self._listener, *self._sockets):
            sock.close()

    def _start(self, work: object, *args: socket.socket) -> None:
        assert callable(work)
        thread = threading.Thread(target=work, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
                server = socket.create_connection(self._target, timeout=10)
            except OSError:
                return
            server.settimeout(None)
            with self._lock:
                self._sockets += [client, server]
                self.connection_count += 1
                if self._closing:
                    return
                self._start(pass_on, client, server)
                self._start(pass_on, server, client)


def pass_on(source: socket.socket, sink: socket.socket) -> None:
    """Until the source ends; blocks."""
    with contextlib.suppress(OSError):
        while part := source.recv(_PART_BYTES):
            sink.sendall(part)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


def end(sock: socket.socket) -> None:
    """Wake whoever reads from it; it is not closed."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)

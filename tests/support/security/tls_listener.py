"""Listeners that count who connects, and speak TLS or plain text until they close."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import threading
import time

_LARGEST_REQUEST = 100 << 20
_SHORTLY_S = 5.0


class CountingListener:
    """Accepts in a thread. Close it, or use it in a `with`.

    Attributes:
        moments: when each connection came, monotonic.
        failures: what ended handshakes.

    Args:
        context: a server's, for TLS; None: what comes is taken for Kafka's requests, one of more
            than 100 MiB closes the connection, as in Kafka, and any other gets an empty answer.
    """

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self._is_closing = False
        self.moments: list[float] = []
        self.failures: list[Exception] = []
        self._thread = threading.Thread(target=self._run, name="counting listener")
        self._thread.start()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self._listener.getsockname()
        return str(host), int(port)

    @property
    def bootstrap(self) -> str:
        """Host and port, for bootstrap_servers."""
        return "{}:{}".format(*self.address)

    def most_in(self, seconds: float) -> int:
        """The most connections that came within so long."""
        return max(
            (sum(0 <= one - first < seconds for one in self.moments) for first in self.moments),
            default=0,
        )

    def _run(self) -> None:
        while not self._is_closing:
            with contextlib.suppress(TimeoutError):
                connection, _ = self._listener.accept()
                self.moments.append(time.monotonic())
                with connection:
                    connection.settimeout(_SHORTLY_S)
                    try:
                        self._serve(connection)
                    except OSError as error:  # ssl.SSLError is one
                        self.failures.append(error)

    def _serve(self, connection: socket.socket) -> None:
        if self._context is not None:
            with self._context.wrap_socket(connection, server_side=True) as tls:
                tls.recv(1)
            return
        head = connection.recv(12, socket.MSG_WAITALL)
        if len(head) == 12 and struct.unpack_from(">i", head)[0] <= _LARGEST_REQUEST:
            connection.sendall(struct.pack(">i", 10) + head[8:] + b"\0\x23\0\0\0\0")

    def close(self) -> None:
        self._is_closing = True
        self._thread.join()
        self._listener.close()

    def __enter__(self) -> CountingListener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

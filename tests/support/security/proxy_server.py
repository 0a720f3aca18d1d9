"""A proxy on loopback that speaks SOCKS5 or HTTP, as the test wants it: right, or wrong."""

from __future__ import annotations

import base64
import dataclasses
import socket
import struct
import threading
from types import TracebackType
from typing import Self

from support.security.counting_relay import end, pass_on

_TIMEOUT_S = 20.0


@dataclasses.dataclass(frozen=True)
class Manners:
    """How the proxy behaves.

    Attributes:
        protocol: "socks5" or "http".
        user: that it asks for; empty: it asks for nobody.
        password: of the user.
        reply: SOCKS5's code, or HTTP's status, of what it answers to the request to connect; 0: it
            connects.
        raw: sent instead of the first answer, and then the end; empty: nothing of the kind.
        in_bytes: every answer is sent a byte at a time.
    """

    protocol: str = "socks5"
    user: str = ""
    password: str = ""
    reply: int = 0
    raw: bytes = b""
    in_bytes: bool = False


class ProxyServer:
    """Listens while its `with` lasts; `asked` has host:port of each connection that was wanted.

    Threads: one to accept, two a connection.
    """

    def __init__(self, manners: Manners) -> None:
        self._manners = manners
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []
        self.asked: list[str] = []
        self.errors: list[str] = []

    @property
    def url(self) -> str:
        manners = self._manners
        who = f"{manners.user}:{manners.password}@" if manners.user else ""
        return f"{manners.protocol}://{who}127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        self._threads.append(threading.Thread(target=self._accept, daemon=True))
        self._threads[0].start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        while self._threads:
            for each in self._sockets:
                end(each)
            # The first is the one that accepts; each of the others may have made one more.
            thread = self._threads.pop(0)
            thread.join(_TIMEOUT_S)
            assert not thread.is_alive()
        for each in self._sockets:
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            self._sockets.append(client)
            thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, client: socket.socket) -> None:
        try:
            server = self._let_through(client)
        except OSError as error:
            self.errors.append(str(error))
            server = None
        if server is None:
            end(client)
            return
        self._sockets.append(server)
        back = threading.Thread(target=pass_on, args=(server, client), daemon=True)
        self._threads.append(back)
        back.start()
        pass_on(client, server)

    def _let_through(self, client: socket.socket) -> socket.socket | None:
        """The connection to the broker; None: there is none, and the client was told."""
        if self._manners.raw:
            _read(client, 1)
            self._say(client, self._manners.raw)
            return None
        if self._manners.protocol == "http":
            return self._http(client)
        return self._socks(client)

    def _say(self, client: socket.socket, answer: bytes) -> None:
        parts = [answer]
        if self._manners.in_bytes:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            parts = [answer[at : at + 1] for at in range(len(answer))]
        for part in parts:
            client.sendall(part)

    def _socks(self, client: socket.socket) -> socket.socket | None:
        methods = _read(client, _read(client, 2)[1])
        wanted = 2 if self._manners.user else 0
        self._say(client, bytes([5, wanted if wanted in methods else 0xFF]))
        if wanted not in methods:
            return None
        if wanted == 2:
            user = _read(client, _read(client, 2)[1])
            password = _read(client, _read(client, 1)[0])
            is_right = (user.decode(), password.decode()) == (
                self._manners.user,
                self._manners.password,
            )
            self._say(client, bytes([1, 0 if is_right else 1]))
            if not is_right:
                return None
        kind = _read(client, 4)[3]
        if kind == 3:
            host = _read(client, _read(client, 1)[0]).decode()
        else:
            family, size = (socket.AF_INET, 4) if kind == 1 else (socket.AF_INET6, 16)
            host = socket.inet_ntop(family, _read(client, size))
        (port,) = struct.unpack("!H", _read(client, 2))
        self.asked.append(f"{host}:{port}")
        if self._manners.reply:
            self._say(client, bytes([5, self._manners.reply, 0, 1]) + bytes(6))
            return None
        server = _connected(host, port)
        # The form with a name is the rarer one.
        self._say(client, bytes([5, 0, 0, 3, 4]) + b"here" + bytes(2))
        return server

    def _http(self, client: socket.socket) -> socket.socket | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += _read(client, 1)
        first, *lines = head.decode().split("\r\n")
        address = first.split(" ")[1]
        self.asked.append(address)
        pair = f"{self._manners.user}:{self._manners.password}".encode()
        proof = f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}"
        status = self._manners.reply
        if self._manners.user and proof not in lines:
            status = 407
        if status:
            self._say(client, f"HTTP/1.1 {status} No\r\nX: y\r\n\r\n".encode())
            return None
        host, _, port = address.rpartition(":")
        server = _connected(host.strip("[]"), int(port))
        self._say(client, b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n")
        return server


def _connected(host: str, port: int) -> socket.socket:
    # Without asking for the name: a test may see to it that nobody else does.
    server = socket.create_connection(("127.0.0.1" if host == "localhost" else host, port), 20)
    server.settimeout(None)
    return server


def _read(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = sock.recv(size - len(data))
        if not part:
            raise OSError("the client has ended the connection")
        data += part
    return data

"""Which protocol a listener speaks, that ended a connection without a word."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

from fastprod._core.engine.control_queue import ControlEvent
from fastprod.client.connections.addresses import Address
from fastprod.client.system_threads import threads

PROBE_S: Final = 0.5
"""The longest that one takes: an error within a second can still say what it found."""

VERDICT_MS: Final = 5_000
"""How long it is believed what a node speaks, before it is asked again."""

_CORRELATION_ID: Final = 0x70726F62
_MOST_ANSWER_BYTES: Final = 1 << 20


def speaks_tls(address: Address) -> bool:
    """Whether who listens there answers a TLS ClientHello. Blocks for at most `PROBE_S`."""
    answer = _ask(address, _client_hello(), 2)
    # A handshake record or an alert, of any version since SSL 3.
    return len(answer) == 2 and answer[0] in {0x15, 0x16} and answer[1] == 3


def speaks_kafka(address: Address) -> bool:
    """Whether who listens there answers ApiVersions in plain text. Blocks for at most `PROBE_S`."""
    request = struct.pack(">hhih", 18, 0, _CORRELATION_ID, -1)
    answer = _ask(address, struct.pack(">i", len(request)) + request, 8)
    if len(answer) < 8:
        return False
    size, correlation_id = struct.unpack(">ii", answer)
    return bool(4 < size < _MOST_ANSWER_BYTES and correlation_id == _CORRELATION_ID)


class ProtocolProbes:
    """Which nodes speak the protocol that we do not. Used by the control thread.

    Args:
        uses_tls: whether we do.
        clock_ms: monotonic ms.
        wake: called, in another thread, when there is something to `take`.
    """

    def __init__(
        self, uses_tls: bool, clock_ms: Callable[[], int], wake: Callable[[], None]
    ) -> None:
        self._speaks_other = speaks_kafka if uses_tls else speaks_tls
        self._clock_ms = clock_ms
        self._wake = wake
        self._ends: dict[int, ControlEvent] = {}
        self._answers: deque[tuple[int, bool]] = deque()
        self._verdicts: dict[int, tuple[int, bool]] = {}  # at what time, and what

    def forget(self, node_id: int) -> None:
        """A node has answered us: what was found of it is true no longer."""
        self._verdicts.pop(node_id, None)

    def speaks_other(self, node_id: int) -> bool:
        """Whether a node speaks the other protocol, as far as is known."""
        return self._verdicts.get(node_id, (0, False))[1]

    def told(self, node_id: int) -> None:
        """A node said itself that it speaks the other protocol."""
        self._verdicts[node_id] = (self._clock_ms(), True)

    def is_running(self, node_id: int) -> bool:
        """Whether a node is being probed."""
        return node_id in self._ends

    def start(self, node_id: int, address: Address, event: ControlEvent) -> bool:
        """Probe a node whose connection ended without a word; `take` will give the event back.

        Returns:
            False if that was done in the last `VERDICT_MS`, or the system gives no thread: nothing
            is started.
        """
        probed_ms = self._verdicts.get(node_id, (-VERDICT_MS, False))[0]
        if self._clock_ms() - probed_ms < VERDICT_MS:
            return False
        self._ends[node_id] = event

        def run() -> None:
            is_other = False
            try:
                is_other = self._speaks_other(address)
            finally:  # whatever happens, the node's end is told
                self._answers.append((node_id, is_other))
                self._wake()

        try:
            threads().Thread(target=run, name="fastprod-protocol-probe", daemon=True).start()
        except RuntimeError:
            self._ends.pop(node_id)
            return False
        return True

    def take(self) -> Iterator[tuple[int, ControlEvent]]:
        """The nodes whose probes are over, with what `start` was given; `speaks_other` knows."""
        while self._answers:
            node_id, speaks_other = self._answers.popleft()
            self._verdicts[node_id] = (self._clock_ms(), speaks_other)
            yield node_id, self._ends.pop(node_id)


def _ask(address: Address, question: bytes, answer_bytes: int) -> bytes:
    """The first bytes of an answer; fewer: it ended, or took too long."""
    answer = b""
    end = time.monotonic() + PROBE_S
    try:
        with socket.socket(address.family, socket.SOCK_STREAM) as connection:
            connection.settimeout(PROBE_S)
            connection.connect((address.ip, address.port, *_scope(address)))
            connection.sendall(question)
            while len(answer) < answer_bytes:
                connection.settimeout(max(end - time.monotonic(), 0.001))
                part = connection.recv(answer_bytes - len(answer))
                if not part:
                    break
                answer += part
    except OSError:
        pass
    return answer


def _scope(address: Address) -> tuple[int, ...]:
    if address.family == socket.AF_INET6:
        return address.flow_info, address.scope_id
    return ()


def _client_hello() -> bytes:
    """A ClientHello of TLS 1.2 that offers what every server has (RFC 5246, 7.4.1.2)."""
    ciphers = struct.pack(">7H", 0xC02F, 0xC02B, 0xC030, 0xC02C, 0x009C, 0x002F, 0x00FF)
    groups = struct.pack(">HHHHH", 10, 6, 4, 23, 24)
    signatures = struct.pack(">HHH5H", 13, 12, 10, 0x0401, 0x0403, 0x0501, 0x0804, 0x0503)
    extensions = groups + signatures
    body = b"\3\3" + os.urandom(32) + b"\0" + struct.pack(">H", len(ciphers)) + ciphers + b"\1\0"
    body += struct.pack(">H", len(extensions)) + extensions
    handshake = b"\1" + len(body).to_bytes(3, "big") + body
    return b"\x16\3\1" + struct.pack(">H", len(handshake)) + handshake

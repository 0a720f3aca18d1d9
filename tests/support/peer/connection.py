"""One accepted connection: requests in, replies out, every byte of both kept."""

from __future__ import annotations

import contextlib
import enum
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from support.peer.event_loop import READ, WRITE, EventLoop, LoopStoppedError
from support.peer.journal import Request

SIZE_BYTES = 4
# Size, API key and version: enough to know which script a frame is for.
OPENING_BYTES = 8
MAX_FRAME_BYTES = 100 * 1024 * 1024
_CLIENT_HELLO = b"\x16\x03\x01"  # what a connection by TLS begins with
_PART_BYTES = 64 * 1024
_PARTS_PER_EVENT = 16


class After(enum.Enum):
    """What becomes of the connection once a reply is out."""

    STAY = enum.auto()
    CLOSE = enum.auto()
    RESET = enum.auto()
    HALF_CLOSE = enum.auto()
    SILENCE = enum.auto()


@dataclass(eq=False)
class Reply:
    """Bytes to send when their turn comes: replies leave in the order of the requests.

    Attributes:
        parts: the bytes, each part given to the kernel by itself.
        due_s: not before this `time.monotonic()`.
        arrival: number of the request; 0 for a frame that nobody asked for.
        is_held: waits for `release`.
        pause_s: time between two parts.
        after: what the connection does next.
        is_begun: some of it is out.
    """

    parts: deque[bytes]
    arrival: int = 0
    due_s: float = 0.0
    is_held: bool = False
    pause_s: float = 0.0
    after: After = After.STAY
    is_begun: bool = False


class ConnectionOwner(Protocol):
    """Whom a connection tells; all calls come in the loop's thread."""

    def frame_opened(self, connection: Connection, api_key: int, version: int) -> int | None:
        """A frame began; returns after how many of its bytes `mark_reached` is to be called."""

    def mark_reached(self, connection: Connection) -> None: ...

    def frame_complete(self, connection: Connection, payload: bytes) -> None: ...

    def reply_sent(self, connection: Connection, reply: Reply) -> None: ...

    def connection_closed(self, connection: Connection, dropped: Sequence[Reply]) -> None: ...

    def client_fault(self, connection: Connection, text: str) -> None: ...


class Connection:
    """OWNER: a `Peer`. THREADS: the properties, `close`, `stop_reading`, `resume_reading` and
    `send` any; the rest the loop's.

    Attributes:
        node_id: the peer.
        number: in the order of accepting, from 1.
        requests: what arrived on it.
        closed_by: "client", "peer", or "" while it is open.
    """

    def __init__(
        self,
        sock: socket.socket,
        number: int,
        node_id: int,
        loop: EventLoop,
        owner: ConnectionOwner,
    ) -> None:
        self.node_id = node_id
        self.number = number
        self.requests: list[Request] = []
        self.closed_by = ""
        self._sock = sock
        self._loop = loop
        self._owner = owner
        self._received = bytearray()
        self._sent = bytearray()
        self._frame = bytearray()
        self._is_opened = False
        self._mark: int | None = None
        self._stopped_for: set[str] = set()
        self._replies: deque[Reply] = deque()
        self._wants_write = False
        self._is_silent = False

    @property
    def is_open(self) -> bool:
        return not self.closed_by

    @property
    def received(self) -> bytes:
        """Every byte taken from the socket so far."""
        return self._copy(self._received)

    @property
    def sent(self) -> bytes:
        """Every byte given to the kernel so far."""
        return self._copy(self._sent)

    @property
    def partial_frame(self) -> bytes:
        """What has arrived of a frame that is not complete, size prefix included."""
        return self._copy(self._frame)

    def close(self, *, reset: bool = False) -> None:
        """Close from this side at once; `reset` sends RST in place of FIN."""
        self._loop.call(lambda: self.drop("peer", reset=reset))

    def stop_reading(self) -> None:
        """Take no byte more from the socket once this returns."""
        self._loop.call(lambda: self.halt("test"))

    def resume_reading(self) -> None:
        """Go on reading after `stop_reading`, whether called or scripted."""
        self._loop.call(self.unhalt_all)

    def send(self, data: bytes) -> None:
        """Send bytes that answer no request, ahead of replies that still wait."""
        self._loop.call(lambda: self.interject(data))

    def start(self) -> None:
        self._sock.setblocking(False)
        # A reply must not wait for the client's ACK of the one before it.
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rewatch()

    def halt(self, reason: str) -> None:
        self._stopped_for.add(reason)
        self._rewatch()

    def unhalt(self, reason: str) -> None:
        self._stopped_for.discard(reason)
        self._rewatch()

    def unhalt_all(self) -> None:
        self.unhalt("test")
        self.unhalt("script")

    def queue(self, reply: Reply) -> None:
        """Send `reply` after those queued before it; nothing once the connection is closed."""
        if self.closed_by:
            return
        self._replies.append(reply)
        self._pump()

    def interject(self, data: bytes) -> None:
        is_amid = bool(self._replies) and self._replies[0].is_begun
        self._replies.insert(1 if is_amid else 0, Reply(deque([data])))
        self._pump()

    def release(self, arrival: int) -> None:
        """Un-hold the reply to request number `arrival`."""
        for reply in self._replies:
            if reply.arrival == arrival:
                reply.is_held = False
        self._pump()

    def drop(self, by: str, *, reset: bool = False) -> None:
        """Close the socket; a second call is harmless."""
        if self.closed_by:
            return
        self._loop.watch(self._sock, 0, self._ready)
        self.closed_by = by
        if reset:
            with contextlib.suppress(OSError):
                linger = struct.pack("ii", 1, 0)
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        dropped = list(self._replies)
        self._replies.clear()
        self._owner.connection_closed(self, dropped)
        # Last, so that a client that sees the end finds everything written down.
        self._sock.close()

    def _copy(self, data: bytearray) -> bytes:
        # The loop may be amid a send whose bytes the client has already seen.
        try:
            return self._loop.call(lambda: bytes(data))
        except LoopStoppedError:
            return bytes(data)

    def _rewatch(self) -> None:
        if self.closed_by:
            return
        events = (0 if self._stopped_for else READ) | (WRITE if self._wants_write else 0)
        self._loop.watch(self._sock, events, self._ready)

    def _ready(self, events: int) -> None:
        if events & WRITE:
            self._wants_write = False
            self._pump()
            self._rewatch()
        if events & READ:
            self._read()

    def _read(self) -> None:
        for _ in range(_PARTS_PER_EVENT):
            if self._stopped_for or self.closed_by:
                return
            try:
                part = self._sock.recv(min(self._readable_count(), _PART_BYTES))
            except BlockingIOError:
                return
            except OSError:
                part = b""
            if not part:
                self.drop("client")
                return
            self._received += part
            self._frame += part
            self._advance()

    def _readable_count(self) -> int:
        """How many bytes may be taken without passing a place where something may happen."""
        taken = len(self._frame)
        if taken < SIZE_BYTES:
            return SIZE_BYTES - taken
        if not self._is_opened:
            return OPENING_BYTES - taken
        end = SIZE_BYTES + self._frame_size()
        return (end if self._mark is None else min(end, self._mark)) - taken

    def _frame_size(self) -> int:
        return int.from_bytes(self._frame[:SIZE_BYTES], "big", signed=True)

    def _advance(self) -> None:
        taken = len(self._frame)
        if taken == SIZE_BYTES and self._frame.startswith(_CLIENT_HELLO):
            self.close()  # as Kafka does: fastprod asks whether we speak TLS, if we say nothing
            return
        if taken == SIZE_BYTES and not OPENING_BYTES <= self._frame_size() <= MAX_FRAME_BYTES:
            self._owner.client_fault(self, f"a frame of {self._frame_size()} bytes")
            return
        if taken == OPENING_BYTES and not self._is_opened:
            self._is_opened = True
            api_key, version = struct.unpack_from(">hh", self._frame, SIZE_BYTES)
            mark = self._owner.frame_opened(self, api_key, version)
            # A frame may be shorter than the script thought.
            self._mark = None if mark is None else min(mark, SIZE_BYTES + self._frame_size())
        if self._mark is not None and taken >= self._mark:
            self._mark = None
            self._owner.mark_reached(self)
        self._complete_frame()

    def _complete_frame(self) -> None:
        if self.closed_by or not self._is_opened:
            return
        if len(self._frame) == SIZE_BYTES + self._frame_size():
            payload = bytes(self._frame[SIZE_BYTES:])
            self._frame.clear()
            self._is_opened = False
            self._owner.frame_complete(self, payload)

    def _pump(self) -> None:
        while self._replies and not self.closed_by and not self._wants_write:
            reply = self._replies[0]
            if reply.is_held:
                return
            if reply.due_s > time.monotonic():
                self._loop.at(reply.due_s, self._pump)
                return
            if reply.parts and not self._is_silent:
                self._send_part(reply)
            else:
                self._replies.popleft()
                self._owner.reply_sent(self, reply)
                self._conclude(reply.after)

    def _send_part(self, reply: Reply) -> None:
        part = reply.parts[0]
        try:
            sent_count = self._sock.send(part)
        except BlockingIOError:
            sent_count = 0
        except OSError:
            self.drop("client")
            return
        self._sent += part[:sent_count]
        reply.is_begun = reply.is_begun or sent_count > 0
        if sent_count < len(part):
            reply.parts[0] = part[sent_count:]
            self._wants_write = True
            self._rewatch()
            return
        reply.parts.popleft()
        if reply.parts and reply.pause_s:
            reply.due_s = time.monotonic() + reply.pause_s

    def _conclude(self, after: After) -> None:
        if after in (After.CLOSE, After.RESET):
            self.drop("peer", reset=after is After.RESET)
        elif after is After.HALF_CLOSE:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_WR)
            self._is_silent = True
        elif after is After.SILENCE:
            self._is_silent = True

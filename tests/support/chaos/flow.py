"""Flow and Pair: one proxied connection, and each of its two ways."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections import deque
from typing import Protocol

from support.chaos.conditions import ANSWERS, REQUESTS, Conditions
from support.chaos.request_spotter import FrameCounter, RequestSpotter, Spotted

_READ_BYTES = 64 * 1024
_QUEUE_BYTES = 512 * 1024
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets


class Link(Protocol):
    """What a connection needs to know of the way to its node."""

    conditions: Conditions

    def requested(self, request: Spotted) -> None:
        """A request has begun, and is not passed on yet."""

    def given_up(self, request: Spotted) -> None:
        """A client has ended its connection before it had the answer to this one."""


class Flow:
    """The bytes from one socket to the other, in order, each due at some time.

    Args:
        way: REQUESTS or ANSWERS.
        source: not blocking.
        sink: not blocking.
        chance: for jitter and cuts.
    """

    def __init__(
        self, way: str, source: socket.socket, sink: socket.socket, chance: random.Random
    ) -> None:
        self.way = way
        self.source = source
        self.sink = sink
        self._chance = chance
        self._queue: deque[tuple[float, bytes]] = deque()
        self._frames = FrameCounter()
        self.frame_count = 0  # that the sink has, whole
        self._queued = 0
        self._last_due_s = 0.0
        self.is_ended = False  # the source has
        self.is_blocked = False  # the sink is full
        self.is_finished = False  # the sink knows that, or is gone

    @property
    def wants_bytes(self) -> bool:
        return not self.is_ended and not self.is_finished and self._queued < _QUEUE_BYTES

    def read(self) -> bytes:
        """What the source has; nothing: it has ended, or has nothing now."""
        try:
            data = self.source.recv(_READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError:
            data = b""
        self.is_ended = not data
        return data

    def put(self, data: bytes, now_s: float, conditions: Conditions) -> None:
        """Queue what was read, each piece with the time at which it arrives."""
        delay_s = conditions.latency_s + conditions.jitter_s * self._chance.random()
        due_s = max(now_s + delay_s, self._last_due_s)
        for piece in self._pieces(data, conditions.pieces):
            if conditions.bytes_per_s:
                due_s += len(piece) / conditions.bytes_per_s
            if conditions.merge_s:
                due_s = (due_s // conditions.merge_s + 1) * conditions.merge_s
            self._queue.append((due_s, piece))
        self._last_due_s = due_s
        self._queued += len(data)

    def _pieces(self, data: bytes, count: int) -> list[bytes]:
        if count <= 1 or len(data) < 2:
            return [data]
        cuts = sorted({self._chance.randrange(1, len(data)) for _ in range(count - 1)})
        return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]

    def next_due_s(self, conditions: Conditions) -> float | None:
        """When there is something to send; None: not before something happens."""
        if self.is_finished or self.is_blocked or self.way in conditions.held or not self._queue:
            return None
        return self._queue[0][0]

    def pump(self, now_s: float, conditions: Conditions, most: int) -> int:
        """Send what is due, at most `most` bytes; how many went."""
        sent = 0
        if self.is_finished or self.way in conditions.held:
            return 0
        while self._queue and self._queue[0][0] <= now_s and sent < most and not self.is_blocked:
            due_s, piece = self._queue.popleft()
            while conditions.merge_s and self._queue and self._queue[0][0] <= now_s:
                piece += self._queue.popleft()[1]
            try:
                size = self.sink.send(piece[: most - sent])
            except BlockingIOError:
                size = 0
            except OSError:
                self.give_up()
                return sent
            self.frame_count += self._frames.feed(piece[:size])
            sent += size
            self._queued -= size
            if size < len(piece):
                self._queue.appendleft((due_s, piece[size:]))
                self.is_blocked = sent < most
        if self.is_ended and not self._queue:
            self.is_finished = True
            with contextlib.suppress(OSError):
                self.sink.shutdown(socket.SHUT_WR)
        return sent

    def give_up(self) -> None:
        """The sink is gone; what is queued is lost."""
        self.is_finished = True
        self._queue.clear()
        self._queued = 0


class Pair:
    """One connection of a client, and the one to the node that belongs to it.

    Args:
        link: the way to the node.
        client: accepted, not blocking.
        server: connecting or connected, not blocking.
        chance: for jitter and cuts.
    """

    def __init__(
        self, link: Link, client: socket.socket, server: socket.socket, chance: random.Random
    ) -> None:
        self.link = link
        self.client = client
        self.server = server
        self.flows = (
            Flow(REQUESTS, client, server, chance),
            Flow(ANSWERS, server, client, chance),
        )
        self.is_connected = False
        self.left_bytes = 0  # until a reset; 0: none is due
        self._spotter = RequestSpotter()
        self._requests: list[Spotted] = []

    def readable(self, sock: socket.socket, now_s: float) -> None:
        """Read from one of the two."""
        for flow in self.flows:
            if flow.source is sock and flow.wants_bytes:
                data = flow.read()
                if flow.way == REQUESTS:
                    for request in self._spotter.feed(data):
                        self._requests.append(request)
                        self.link.requested(request)
                if data:
                    flow.put(data, now_s, self.link.conditions)
                elif flow.is_ended and flow.way == REQUESTS:
                    self._give_up()

    def _give_up(self) -> None:
        """The client is gone; note what it has no answer to. (Each of its requests gets one.)"""
        for request in self._requests[self.flows[1].frame_count :]:
            self.link.given_up(request)
        self._requests.clear()

    def writable(self, sock: socket.socket) -> None:
        """One of the two takes bytes again; the server: is connected, or refuses."""
        if sock is self.server and not self.is_connected:
            if sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self.reset()
                return
            self.is_connected = True
        for flow in self.flows:
            if flow.sink is sock:
                flow.is_blocked = False

    def pump(self, now_s: float) -> None:
        """Send what is due both ways."""
        if not self.is_connected:
            return
        for flow in self.flows:
            most = self.left_bytes or 1 << 60
            sent = flow.pump(now_s, self.link.conditions, most)
            if self.left_bytes:
                self.left_bytes -= sent
                if self.left_bytes == 0:
                    self.reset()
                    return

    def next_due_s(self) -> float | None:
        if not self.is_connected:
            return None
        due = [flow.next_due_s(self.link.conditions) for flow in self.flows]
        return min((each for each in due if each is not None), default=None)

    @property
    def is_over(self) -> bool:
        return all(flow.is_finished for flow in self.flows)

    def reset(self) -> None:
        """End both connections at once, by resets; the proxy closes them."""
        for sock in (self.client, self.server):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._give_up()
        for flow in self.flows:
            flow.give_up()

    def lose_server(self) -> None:
        """End the node's connection; the client is told nothing, and what it sends vanishes."""
        with contextlib.suppress(OSError):
            self.server.shutdown(socket.SHUT_RDWR)

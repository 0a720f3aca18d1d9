"""A Selector, plain sockets at the other end, and the promises every single poll must keep."""

from __future__ import annotations

import gc
import socket
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

from fastprod._core.testing.selector_harness import Disconnect, PollEvents, SelectorForTest
from support.processes.closing import Closing

PATIENCE_SECONDS = 30.0


def open_descriptor_count() -> int:
    """Those of this process; what other tests left for the garbage collector is gone."""
    gc.collect()
    folder = Path("/proc/self/fd") if sys.platform == "linux" else Path("/dev/fd")
    return len(list(folder.iterdir()))


class Loopback(Closing):
    """Records what the polls say, by channel id. Close it, or use it in a `with`."""

    def __init__(self, force_poll: bool, max_receive_bytes: int = -1) -> None:
        self.selector = SelectorForTest(force_poll, max_receive_bytes)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.peers: list[socket.socket] = []
        self.connected: list[int] = []
        self.sent: list[int] = []
        self.received: defaultdict[int, list[bytes]] = defaultdict(list)
        self.gone: dict[int, Disconnect] = {}

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.listener.getsockname()
        return str(host), int(port)

    def open(
        self, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1
    ) -> tuple[int, socket.socket]:
        """A connected channel and the socket at its other end."""
        channel = self.selector.connect(self.address, send_buffer_bytes, receive_buffer_bytes)
        peer = self.accept()
        self.until(lambda: channel in self.connected)
        return channel, peer

    def accept(self) -> socket.socket:
        self.listener.settimeout(PATIENCE_SECONDS)
        peer, _ = self.listener.accept()
        peer.settimeout(PATIENCE_SECONDS)
        self.peers.append(peer)
        return peer

    def poll(self, timeout_ms: int = 0, max_idle_ms: int = -1) -> PollEvents:
        events = self.selector.poll(timeout_ms, max_idle_ms)
        receivers = [channel for channel, _ in events.receives]
        gone = [disconnect.channel_id for disconnect in events.disconnected]
        lists = (events.connected, events.completed_sends, receivers, gone)
        for ids in lists:
            assert len(ids) == len(set(ids)), f"a channel is listed twice: {events}"
        assert not set(gone) & {i for ids in lists[:3] for i in ids}, f"gone and alive: {events}"
        assert not set(gone) & set(self.gone), f"gone twice: {events}"
        self.connected += events.connected
        self.sent += events.completed_sends
        for channel, payload in events.receives:
            self.received[channel].append(payload)
        self.gone.update((disconnect.channel_id, disconnect) for disconnect in events.disconnected)
        return events

    def until(self, done: Callable[[], bool]) -> None:
        """Poll until `done()`."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not done():
            assert time.monotonic() < deadline, f"not done after {PATIENCE_SECONDS} s: {self!r}"
            self.poll(timeout_ms=100)

    def drain(self, peer: socket.socket, count: int, part_bytes: int = 1 << 20) -> Iterator[bytes]:
        """Read `count` bytes at the other end, polling in between."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        peer.setblocking(False)
        while count > 0:
            assert time.monotonic() < deadline, f"{count} bytes missing: {self!r}"
            try:
                part = peer.recv(min(count, part_bytes))
            except BlockingIOError:
                self.poll(timeout_ms=10)
                continue
            assert part, f"the stream ended {count} bytes early"
            count -= len(part)
            yield part
            self.poll()
        peer.settimeout(PATIENCE_SECONDS)

    def close(self) -> None:
        self.selector.close()
        self.listener.close()
        for peer in self.peers:
            peer.close()

    def __repr__(self) -> str:
        received = {channel: len(frames) for channel, frames in self.received.items()}
        return f"connected={self.connected} sent={self.sent} received={received} gone={self.gone}"


def read_exactly(peer: socket.socket, count: int) -> bytes:
    parts = []
    while count > 0:
        part = peer.recv(min(count, 1 << 20))
        assert part, f"the stream ended {count} bytes early"
        parts.append(part)
        count -= len(part)
    return b"".join(parts)

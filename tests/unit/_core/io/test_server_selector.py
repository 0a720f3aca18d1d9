"""The selector as a server's loop uses it: SelectorTest's cases that a server meets (B-A10,
B-A4).
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import socket
import struct
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator

import pytest

from fastprod._core.io.server_selector import (
    FAILED,
    PENDING,
    SENT,
    Disconnect,
    Frame,
    PollEvents,
    ServerSelector,
)
from support.oracle.framing import frame
from support.oracle.loopback import open_descriptor_count, read_exactly

PATIENCE_S = 20.0
LINUX = sys.platform == "linux"


class Server:
    """A ServerSelector, plain sockets at the other ends, and what the polls told, by channel."""

    def __init__(self, force_poll: bool, max_receive_bytes: int = -1, pool_bytes: int = -1) -> None:
        self.selector = ServerSelector(max_receive_bytes, force_poll, pool_bytes)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.clients: list[socket.socket] = []
        self.descriptors: dict[int, int] = {}
        self.frames: defaultdict[int, list[Frame]] = defaultdict(list)
        self.sent: list[int] = []
        self.gone: dict[int, Disconnect] = {}

    def open(self, buffer_bytes: int | None = None) -> tuple[int, socket.socket]:
        client = socket.socket()
        self.clients.append(client)
        if buffer_bytes is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        client.settimeout(PATIENCE_S)
        client.connect(self.listener.getsockname())
        accepted, _ = self.listener.accept()
        if buffer_bytes is not None:
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer_bytes)
        accepted.setblocking(False)
        channel = self.selector.register(accepted.fileno())
        self.descriptors[channel] = accepted.detach()
        return channel, client

    def await_reset(self, channel: int) -> None:
        """Until the system, which may be busy, has handed it on."""
        ended = select.poll()
        ended.register(self.descriptors[channel], 0)
        assert ended.poll(PATIENCE_S * 1000)

    def poll(self, timeout_ms: float = 0, max_idle_ms: float = -1) -> PollEvents:
        events = self.selector.poll(timeout_ms, max_idle_ms)
        receivers = [each.channel_id for each in events.receives]
        gone = [each.channel_id for each in events.disconnected]
        for ids in (receivers, events.completed_sends, gone):
            assert len(ids) == len(set(ids)), f"a channel is listed twice: {events}"
        assert not set(gone) & {*receivers, *events.completed_sends, *self.gone}
        for each in events.receives:
            self.frames[each.channel_id].append(each)
        self.sent += events.completed_sends
        self.gone.update((each.channel_id, each) for each in events.disconnected)
        return events

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < deadline, f"not done after {PATIENCE_S} s"
            self.poll(100)

    def received(self, channel: int) -> list[bytes]:
        return [bytes(each) for each in self.frames[channel]]

    def close(self) -> None:
        self.selector.close()
        self.listener.close()
        for client in self.clients:
            client.close()


@pytest.fixture
def server(force_poll: bool) -> Iterator[Server]:
    """Its end is also the check that no descriptor leaks, for every test here."""
    before = open_descriptor_count()
    with contextlib.closing(Server(force_poll)) as opened:
        yield opened
    assert open_descriptor_count() == before


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def test_the_back_end_can_be_chosen(server: Server, force_poll: bool) -> None:
    assert server.selector.backend == ("epoll" if LINUX and not force_poll else "poll")


# Frames in.


def test_a_frame_is_the_callers_to_keep(server: Server) -> None:
    """It outlives its channel, the next polls and the selector, and may be written to."""
    channel, client = server.open()
    client.sendall(frame(b"kept"))
    server.until(lambda: len(server.frames[channel]) == 1)
    view = memoryview(server.frames[channel].pop())
    client.sendall(frame(b"other"))
    server.until(lambda: len(server.frames[channel]) == 1)
    server.selector.close()
    gc.collect()
    assert (bytes(view), view.readonly, view.format) == (b"kept", False, "B")
    view[0] = ord("K")
    assert bytes(view) == b"Kept"


def test_a_frame_is_received_never_made() -> None:
    with pytest.raises(TypeError, match="received, not made"):
        Frame()


@pytest.mark.parametrize("size", [0, 1, 1000, 16 * 1024, 32 * 1024, 100_000, 3_000_000])
def test_large_and_empty_requests_arrive_whole(server: Server, size: int) -> None:
    """SelectorTest.testSendLargeRequest, SelectorTest.testEmptyRequest: the next one is not
    disturbed.
    """
    channel, client = server.open()
    large = os.urandom(size)
    sending = threading.Thread(target=client.sendall, args=(frame(large) + frame(b"next"),))
    sending.start()
    server.until(lambda: len(server.frames[channel]) == 2)
    sending.join(PATIENCE_S)
    assert server.received(channel) == [large, b"next"]


def test_a_sequence_of_large_messages_is_echoed_in_order(server: Server) -> None:
    """SelectorTest.testLargeMessageSequence."""
    channel, client = server.open()
    echoed: list[bytes] = []

    def converse() -> None:
        for index in range(20):
            client.sendall(frame(bytes([index]) * 300_000))
            echoed.append(read_exactly(client, 300_004)[4:])

    conversing = threading.Thread(target=converse)
    conversing.start()
    deadline = time.monotonic() + PATIENCE_S
    while conversing.is_alive() and time.monotonic() < deadline:
        for each in server.poll(20).receives:
            server.selector.send(channel, [struct.pack(">i", len(each)), each])
    conversing.join(PATIENCE_S)
    assert echoed == [bytes([index]) * 300_000 for index in range(20)]


def test_one_frame_a_channel_and_poll_and_none_is_starved(server: Server) -> None:
    """B-A3.10; buffered frames do not let the poll sleep."""
    many, client = server.open()
    other, other_client = server.open()
    client.sendall(b"".join(frame(b"%d" % i) for i in range(50)))
    server.until(lambda: len(server.frames[many]) == 1)
    other_client.sendall(frame(b"hello"))
    sent = 50
    deadline = time.monotonic() + PATIENCE_S
    while len(server.received(many)) < sent or not server.frames[other]:
        assert time.monotonic() < deadline
        if not server.frames[other]:  # which the system may hand on late
            client.sendall(frame(b"%d" % sent))
            sent += 1
        assert len([e for e in server.poll(0).receives if e.channel_id == many]) <= 1
    assert server.received(many) == [b"%d" % i for i in range(sent)]
    assert server.received(other) == [b"hello"]


def test_a_frame_byte_by_byte_arrives_once_and_its_bytes_are_counted(server: Server) -> None:
    """B-A4.2, SelectorTest.testPartialSendAndReceiveReflectedInMetrics."""
    channel, client = server.open()
    for index, byte in enumerate(frame(b"dribble")):
        assert server.received(channel) == []
        client.sendall(bytes([byte]))
        server.until(lambda index=index: server.selector.bytes_of(channel)[0] == index + 1)  # type: ignore[misc]
    assert server.received(channel) == [b"dribble"]


@pytest.mark.parametrize(
    ("size", "reason"), [(-1, "BAD_FRAME"), (-(2**31), "BAD_FRAME"), (1001, "FRAME_TOO_LARGE")]
)
def test_a_bad_size_ends_the_channel_and_is_told(force_poll: bool, size: int, reason: str) -> None:
    """B-A4.1."""
    with contextlib.closing(Server(force_poll, max_receive_bytes=1000)) as server:
        channel, client = server.open()
        client.sendall(frame(bytes(1000)) + struct.pack(">i", size))
        server.until(lambda: channel in server.gone)
        assert server.gone[channel] == Disconnect(channel, reason, 0, size)
        assert len(server.frames[channel]) == 1
        assert client.recv(1) == b""


def test_one_channel_may_have_a_lower_limit(force_poll: bool) -> None:
    """B-A4.1: it ends by the size alone; the others, and the selector's limit, stay as they are."""
    with contextlib.closing(Server(force_poll, max_receive_bytes=1000)) as server:
        (low, told), (other, client), (high, asking) = (server.open() for _ in range(3))
        server.selector.limit(low, 100)
        server.selector.limit(high, 5000)
        told.sendall(frame(bytes(100)) + struct.pack(">i", 101))
        client.sendall(frame(bytes(101)))
        asking.sendall(struct.pack(">i", 1001))
        server.until(lambda: {low, high} <= server.gone.keys() and bool(server.frames[other]))
        assert server.gone[low] == Disconnect(low, "FRAME_TOO_LARGE", 0, 101)
        assert server.gone[high] == Disconnect(high, "FRAME_TOO_LARGE", 0, 1001)
        assert server.received(low) == [bytes(100)]


def test_a_limit_that_is_raised_holds_for_the_frame_that_waits(force_poll: bool) -> None:
    """B-A7.5: what came with the last small frame; and the channel ends for its own reason."""
    with contextlib.closing(Server(force_poll, max_receive_bytes=1000)) as server:
        channel, client = server.open()
        server.selector.limit(channel, 100)
        client.sendall(frame(b"small") + frame(bytes(101)))
        server.until(lambda: bool(server.frames[channel]))
        server.selector.mute(channel, True)
        server.poll()
        server.selector.limit(channel, -1)
        server.selector.mute(channel, False)
        server.until(lambda: len(server.frames[channel]) == 2)
        client.close()
        server.until(lambda: channel in server.gone)
        assert server.gone[channel].reason == "REMOTE"


# Buffers out.


def test_a_send_that_fits_is_done_at_once(server: Server) -> None:
    channel, client = server.open()
    parts: list[bytes | bytearray | memoryview] = [
        b"\0\0\0\x05",
        bytearray(b"he"),
        memoryview(b"llo"),
        b"",
    ]
    assert server.selector.send(channel, parts) == SENT
    assert read_exactly(client, 9) == b"\0\0\0\x05hello"
    assert server.poll(0).completed_sends == []
    assert server.selector.bytes_of(channel) == (0, 9)


def test_a_send_without_bytes_is_done(server: Server) -> None:
    """SelectorTest.testWriteCompletesSendWithNoBytesWritten."""
    channel, _ = server.open()
    assert server.selector.send(channel, []) == SENT
    assert server.selector.send(channel, [b"", b""]) == SENT


def test_a_large_send_completes_later_and_keeps_its_parts(server: Server) -> None:
    """B-A4.2, SelectorTest.testPartialSendAndReceiveReflectedInMetrics."""
    channel, client = server.open(buffer_bytes=4096)
    part = bytearray(os.urandom(1 << 20))
    expected = bytes(part) * 3 + b"end"
    assert server.selector.send(channel, [part, part, part, b"", b"end"]) == PENDING
    assert 0 < server.selector.bytes_of(channel)[1] < len(expected)
    with pytest.raises(BufferError):
        part.append(0)
    got = bytearray()
    client.settimeout(0.001)
    while len(got) < len(expected):
        with contextlib.suppress(TimeoutError):
            got += client.recv(1 << 16)
        server.poll(0)
    assert bytes(got) == expected
    server.until(lambda: server.sent == [channel])
    part.append(0)


def test_large_frames_wait_while_those_before_them_fill_the_pool(force_poll: bool) -> None:
    """SelectorTest.testMuteOnOOM, B-A4.6: small ones do not; as soon as memory returns, all go on.

    A sender who is slow with his frame would be closed after a second; these are not.
    """
    with contextlib.closing(Server(force_poll, pool_bytes=150_000)) as server:
        large = [server.open() for _ in range(4)]
        small, small_client = server.open()
        for channel, client in large[:2]:
            client.sendall(frame(bytes(100_000)))
            server.until(lambda channel=channel: bool(server.frames[channel]))  # type: ignore[misc]
        assert server.selector.held_bytes == 200_000
        for _, client in large[2:]:
            client.sendall(frame(bytes(100_000)))
        until = time.monotonic() + 1.2
        while time.monotonic() < until:
            server.poll()
        small_client.sendall(frame(b"small"))
        server.until(lambda: server.received(small) == [b"small"])
        assert [len(server.frames[channel]) for channel, _ in large] == [1, 1, 0, 0]
        for channel, _ in large[:2]:
            del server.frames[channel]
        server.until(lambda: all(server.frames[channel] for channel, _ in large[2:]))
        assert {bytes(server.frames[channel][0]) for channel, _ in large[2:]} == {bytes(100_000)}
        assert server.gone == {}
        server.frames.clear()
        assert server.selector.held_bytes == 0


def test_who_stops_in_a_large_frame_makes_room_for_others_in_the_end(force_poll: bool) -> None:
    """B-A4.6: else a few senders who stop would keep everybody's large frames out for ever."""
    with contextlib.closing(Server(force_poll, pool_bytes=300_000)) as server:
        stopped, stopped_client = server.open()
        other, other_client = server.open()
        stopped_client.sendall(frame(bytes(400_000))[:140_000])
        server.until(lambda: server.selector.held_bytes > 250_000)
        other_client.sendall(frame(bytes(200_000)))
        server.until(lambda: bool(server.frames[other]))
        assert list(server.gone) == [stopped]
        assert (server.gone[stopped].reason, server.gone[stopped].err) == ("OUTGROWN", 0)
        server.frames.clear()
        assert server.selector.held_bytes == 0


def test_a_second_send_is_an_error_that_ends_the_channel(server: Server) -> None:
    """SelectorTest.testCantSendWithInProgress, B-A4.3."""
    channel, _ = server.open(buffer_bytes=4096)
    assert server.selector.send(channel, [bytes(1 << 22)]) == PENDING
    with pytest.raises(RuntimeError, match="has a send pending"):
        server.selector.send(channel, [b"x"])
    assert [each.reason for each in server.poll(0).disconnected] == ["FAILED_SEND"]
    assert server.sent == []


def test_a_failed_send_is_followed_by_the_disconnect(server: Server) -> None:
    """B-A3.4: at once if the channel is muted, although frames are buffered."""
    channel, client = server.open()
    client.sendall(frame(b"1") + frame(b"2"))
    server.until(lambda: server.received(channel) == [b"1"])
    server.selector.mute(channel, True)
    reset(client)
    server.await_reset(channel)
    assert server.selector.send(channel, [b"x"]) == FAILED
    assert [each.channel_id for each in server.poll(-1).disconnected] == [channel]
    assert server.received(channel) == [b"1"]


@pytest.mark.parametrize("parts", [["text"], [None], [b"ok", 5]])
def test_what_is_no_buffer_is_refused_and_nothing_is_sent(
    server: Server, parts: list[object]
) -> None:
    channel, client = server.open()
    with pytest.raises(TypeError):
        server.selector.send(channel, parts)  # type: ignore[arg-type]
    assert server.selector.send(channel, [b"after"]) == SENT
    assert read_exactly(client, 5) == b"after"


def test_parts_are_released_with_the_channel(server: Server) -> None:
    """However it ends."""
    for end in ("close", "disconnect", "selector"):
        channel, client = server.open(buffer_bytes=4096)
        part = bytearray(1 << 22)
        assert server.selector.send(channel, [part]) == PENDING
        if end == "close":
            server.selector.close_channel(channel)
        elif end == "disconnect":
            reset(client)
            server.until(lambda channel=channel: channel in server.gone)  # type: ignore[misc]
        else:
            server.selector.close()
        part.append(0)


# Muting.


def test_a_muted_channel_is_read_after_it_is_unmuted(server: Server) -> None:
    """SelectorTest.testMute."""
    muted, client = server.open()
    other, other_client = server.open()
    server.selector.mute(muted, True)
    client.sendall(frame(b"1") + frame(b"2"))
    other_client.sendall(frame(b"x"))
    server.until(lambda: server.received(other) == [b"x"])
    server.poll(0)
    assert server.received(muted) == []
    server.selector.mute(muted, False)
    server.until(lambda: server.received(muted) == [b"1"])
    server.selector.mute(muted, True)
    for _ in range(3):
        assert server.poll(0).receives == []
    server.selector.mute(muted, False)
    # The second is in the channel's buffer: no readiness will tell.
    assert [bytes(each) for each in server.poll(-1).receives] == [b"2"]


# Connections end.


def test_every_complete_frame_comes_before_the_end(server: Server) -> None:
    """SelectorTest.testGracefulClose, SelectorTest.testPartialReceiveGracefulClose, B-A4.5."""
    channel, client = server.open()
    client.sendall(frame(b"1") + frame(b"2") + frame(b"3")[:-1])
    client.close()
    server.until(lambda: channel in server.gone)
    assert server.received(channel) == [b"1", b"2"]
    assert server.gone[channel].reason == "REMOTE"


def test_a_client_that_disconnects_is_told_once(server: Server) -> None:
    """SelectorTest.testServerDisconnect, SelectorTest.testConnectDisconnectDuringInSinglePoll."""
    for leave in (socket.socket.close, reset):
        channel, client = server.open()
        leave(client)
        server.until(lambda channel=channel: channel in server.gone)  # type: ignore[misc]
        server.poll(0)
        assert server.selector.channel_count == 0


def test_a_closed_channel_is_unknown(server: Server) -> None:
    """SelectorTest.testMetricsCleanupOnSelectorClose."""
    channel, client = server.open()
    server.selector.close_channel(channel)
    server.selector.close_channel(channel)
    assert client.recv(1) == b""
    assert server.poll(0).disconnected == []
    for call in (
        lambda: server.selector.send(channel, [b"x"]),
        lambda: server.selector.mute(channel, True),
        lambda: server.selector.bytes_of(channel),
    ):
        with pytest.raises(KeyError):
            call()


def test_a_channel_closed_while_receives_are_processed_gets_nothing_more(server: Server) -> None:
    """SelectorTest.testChannelCloseWhileProcessingReceives."""
    channel, client = server.open()
    client.sendall(b"".join(frame(b"%d" % i) for i in range(5)))
    server.until(lambda: len(server.frames[channel]) == 1)
    server.selector.close_channel(channel)
    for _ in range(5):
        server.poll(0)
    assert server.received(channel) == [b"0"]


def test_a_descriptor_that_cannot_be_watched_stays_the_callers(server: Server) -> None:
    """SelectorTest.registerFailure."""
    ours, theirs = socket.socketpair()
    number = theirs.fileno()
    theirs.close()
    with pytest.raises(OSError, match="cannot be watched"):
        server.selector.register(number)
    ours.close()
    channel, client = server.open()
    client.sendall(frame(b"fine"))
    server.until(lambda: server.received(channel) == [b"fine"])


# Idle.


def test_the_least_recently_used_expires_one_a_poll(server: Server) -> None:
    """SelectorTest.testCloseOldestConnection, SelectorTest.testLowestPriorityChannel, B-A4.4."""
    channels = [server.open() for _ in range(3)]
    for channel, client in channels[:1]:
        client.sendall(frame(b"active"))
        server.until(lambda channel=channel: server.received(channel) == [b"active"])  # type: ignore[misc]
    ids = [channel for channel, _ in channels]
    assert server.selector.least_recently_used() == ids[1]
    expired = [[gone.channel_id for gone in server.poll(-1, 0).disconnected] for _ in range(3)]
    assert expired == [[ids[1]], [ids[2]], [ids[0]]]
    assert {gone.reason for gone in server.gone.values()} == {"EXPIRED"}
    assert server.selector.least_recently_used() is None


def test_idle_expiry_ends_an_unbounded_wait(server: Server) -> None:
    """B-A4.4, SelectorTest.testIdleExpiryWithoutReadyKeys."""
    channel, _ = server.open()
    server.until(lambda: bool(server.poll(-1, 20).disconnected) or channel in server.gone)
    assert server.gone[channel].reason == "EXPIRED"


def test_pending_receives_of_a_muted_channel_expire_with_it(server: Server) -> None:
    """SelectorTest.testExpireConnectionWithPendingReceives,
    SelectorTest.testExpireClosedConnectionWithPendingReceives, B-A10.47.
    """
    for leaves in (False, True):
        channel, client = server.open()
        client.sendall(frame(b"1") + frame(b"2"))
        server.until(lambda channel=channel: server.received(channel) == [b"1"])  # type: ignore[misc]
        server.selector.mute(channel, True)
        client.sendall(frame(b"3"))
        if leaves:
            client.close()
        while channel not in server.gone:
            server.poll(-1, 10)
        assert server.gone[channel].reason == "EXPIRED"
        assert server.received(channel) == [b"1"]


@pytest.mark.parametrize("ms", [1e300, float(2**63), float("inf"), -1])
def test_a_time_without_bound_is_no_bound(server: Server, ms: float) -> None:
    channel, client = server.open()
    client.sendall(frame(b"x"))
    assert [each.channel_id for each in server.selector.poll(ms, ms).receives] == [channel]


# Waking and the end.


def test_a_wake_ends_the_wait_once_the_thread_is_parked(server: Server) -> None:
    server.selector.park()
    waking = threading.Thread(target=server.selector.wake)
    waking.start()
    assert server.poll(-1) == ([], [], [])
    waking.join(PATIENCE_S)


def test_waiting_is_accounted_for_while_it_lasts(server: Server) -> None:
    """B-A9: io-wait of a thread that sleeps for hours.

    What is seen meanwhile counts from the call; the thread may have slept for less of it.
    """
    seen: list[int] = []

    def watch() -> None:
        first = server.selector.io_wait_ns
        deadline = time.monotonic() + PATIENCE_S
        while server.selector.io_wait_ns <= first and time.monotonic() < deadline:
            time.sleep(0.001)
        seen.extend((first, server.selector.io_wait_ns))
        server.selector.wake()

    server.selector.park()
    watching = threading.Thread(target=watch)
    watching.start()
    server.poll(-1)
    watching.join(PATIENCE_S)
    assert seen[0] < seen[1]
    assert seen[0] < server.selector.io_wait_ns


def test_a_closed_selector_says_so(server: Server) -> None:
    _, client = server.open()
    server.selector.close()
    server.selector.close()
    server.selector.wake()
    assert client.recv(1) == b""
    assert server.selector.channel_count == 0
    ours, theirs = socket.socketpair()
    for call in (
        lambda: server.selector.poll(0),
        lambda: server.selector.register(ours.fileno()),
        lambda: server.selector.backend,
    ):
        with pytest.raises(ValueError, match="closed"):
            call()
    ours.close()
    theirs.close()


def test_two_hundred_connections_are_served_together(server: Server) -> None:
    opened = [server.open() for _ in range(200)]
    for channel, client in opened:
        client.sendall(frame(b"%d" % channel))
    server.until(lambda: sum(map(len, server.frames.values())) == 200)
    for channel, client in opened:
        assert server.selector.send(channel, [frame(b"%d" % channel)]) == SENT
        assert read_exactly(client, 4 + len(b"%d" % channel))[4:] == b"%d" % channel
    assert len({channel for channel, _ in opened}) == 200

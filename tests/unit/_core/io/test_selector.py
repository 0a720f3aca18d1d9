"""Many channels and one poll, over real loopback sockets and both poll backends."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import socket
import struct
import sys
import time
from pathlib import Path

import pytest

from fastprod._core.testing.selector_harness import SelectorForTest
from support.oracle.framing import frame
from support.oracle.loopback import Loopback, open_descriptor_count, read_exactly

LINUX = sys.platform == "linux"
READ = 1


@pytest.fixture
def short_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a Unix socket has a hundred bytes at most."""
    monkeypatch.chdir(tmp_path)


def test_poll_is_used_where_there_is_no_epoll_or_when_forced() -> None:
    for force_poll, name in ((False, "epoll" if LINUX else "poll"), (True, "poll")):
        selector = SelectorForTest(force_poll)
        assert selector.backend == name
        selector.close()
        selector.close()


# Connecting.


def test_a_connection_that_nobody_accepts_is_refused(loopback: Loopback) -> None:
    """SelectorTest.testConnectionRefused (P-L.179), P-G.7.8."""
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = nobody.getsockname()
    channel = loopback.selector.connect(address)
    loopback.until(lambda: channel in loopback.gone)
    assert loopback.gone[channel].reason == "NOT_CONNECTED"
    assert loopback.gone[channel].err == errno.ECONNREFUSED
    assert loopback.connected == []


def test_an_ipv6_address_connects(loopback: Loopback) -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        channel = loopback.selector.connect(listener.getsockname())
        loopback.until(lambda: loopback.connected == [channel])
        listener.accept()[0].close()


def test_an_immediate_connect_is_reported_by_the_next_poll(
    loopback: Loopback, short_paths: None
) -> None:
    """P-G.7.7: a Unix socket connects within connect(2). P-G.7.6: the next poll tells it no
    more.
    """
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        listener.listen()
        channel = loopback.selector.connect("s")
        assert loopback.selector.send(channel, [frame(b"early")]) == "CLOSED"
        assert loopback.poll(timeout_ms=-1).connected == [channel]
        assert loopback.poll().connected == []
        peer, _ = listener.accept()
        with peer:
            assert loopback.selector.send(channel, [frame(b"now")]) == "OK"
            assert read_exactly(peer, 7) == frame(b"now")


def test_an_immediate_refusal_is_reported_by_the_next_poll(
    loopback: Loopback, short_paths: None
) -> None:
    """P-G.7.7."""
    channel = loopback.selector.connect("nobody")
    events = loopback.poll(timeout_ms=-1)
    assert [gone.channel_id for gone in events.disconnected] == [channel]
    assert loopback.gone[channel].reason == "NOT_CONNECTED"
    assert loopback.gone[channel].err == errno.ENOENT


def test_a_muted_channel_still_learns_of_its_immediate_refusal(
    loopback: Loopback, short_paths: None
) -> None:
    channel = loopback.selector.connect("nobody")
    loopback.selector.mute(channel, True)
    assert len(loopback.poll(timeout_ms=-1).disconnected) == 1


def test_an_immediately_connected_channel_closed_before_the_poll_leaves_nothing(
    loopback: Loopback, short_paths: None
) -> None:
    """SelectorTest.testImmediatelyConnectedCleaned (P-L.179)."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        listener.listen()
        for path in ("s", "nobody"):
            channel = loopback.selector.connect(path)
            loopback.selector.close_channel(channel)
    events = loopback.poll()
    assert events.connected == []
    assert events.disconnected == []
    assert loopback.selector.counters()["channels"] == 0


def test_a_connection_made_and_reset_before_the_poll_is_gone_once(loopback: Loopback) -> None:
    """SelectorTest.testConnectDisconnectDuringInSinglePoll (P-L.179).

    Loopback.poll asserts that no poll lists a channel both as connected and as disconnected.
    """
    channel = loopback.selector.connect(loopback.address)
    peer = loopback.accept()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    loopback.until(lambda: channel in loopback.gone)
    assert loopback.gone[channel].reason in ("NOT_CONNECTED", "REMOTE")
    assert loopback.selector.counters()["channels"] == 0


def test_every_connection_has_its_own_id_for_ever(loopback: Loopback) -> None:
    """SelectorTest.testExistingConnectionId (P-L.179), P-G.7.7: ids are given, so none exists
    twice.
    """
    ids = []
    for _ in range(20):
        first, _ = loopback.open()
        second, _ = loopback.open()
        ids += [first, second]
        loopback.selector.close_channel(first)
    assert len(set(ids)) == 40


def test_connections_get_no_delay_keep_alive_and_buffer_sizes(loopback: Loopback) -> None:
    """P-G.7.1."""
    connected, _ = loopback.open(send_buffer_bytes=40_000, receive_buffer_bytes=50_000)
    with socket.create_connection(loopback.address):
        accepted = loopback.selector.register(loopback.accept().detach())
        for channel in (connected, accepted):
            fd = loopback.selector.channel(channel).fd
            assert not os.get_blocking(fd)
            assert not os.get_inheritable(fd)
            with socket.socket(fileno=os.dup(fd)) as copy:
                assert copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
                assert copy.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) != 0
                sizes = [
                    copy.getsockopt(socket.SOL_SOCKET, option)
                    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)
                ]
            # Linux doubles what it is asked for.
            asked = sizes[0] in (40_000, 80_000) and sizes[1] in (50_000, 100_000)
            assert asked == (channel == connected)


def test_a_descriptor_that_cannot_be_watched_stays_with_the_caller(loopback: Loopback) -> None:
    with pytest.raises(OSError) as caught:
        loopback.selector.register(2**20)
    assert caught.value.errno == errno.EBADF
    assert loopback.selector.counters()["channels"] == 0


# Frames over several channels.


def test_five_connections_echo_five_hundred_requests_each_in_order(force_poll: bool) -> None:
    """SelectorTest.testNormalOperation (P-L.179); the server is a Selector too (design, idea 5)."""
    with Loopback(force_poll) as client, Loopback(force_poll) as server:
        channels = [client.selector.connect(server.address) for _ in range(5)]
        served = {server.selector.register(server.accept().detach()) for _ in range(5)}
        client.until(lambda: len(client.connected) == 5)
        for channel in channels:
            client.selector.send(channel, [frame(b"%d-0" % channel)])
        deadline = time.monotonic() + 30
        while any(len(client.received[channel]) < 500 for channel in channels):
            assert time.monotonic() < deadline
            for channel, request in server.poll().receives:
                assert server.selector.send(channel, [frame(request)]) == "OK"
            for channel, answer in client.poll().receives:
                done = len(client.received[channel])
                assert answer == b"%d-%d" % (channel, done - 1)
                if done < 500:
                    client.selector.send(channel, [frame(b"%d-%d" % (channel, done))])
        for channel in channels:
            expected = [b"%d-%d" % (channel, number) for number in range(500)]
            assert client.received[channel] == expected
        assert server.selector.counters()["channels"] == len(served) == 5


def test_a_large_request_is_echoed_whole(force_poll: bool) -> None:
    """SelectorTest.testSendLargeRequest (P-L.179)."""
    large = bytes(range(256)) * 40_000
    with Loopback(force_poll) as client, Loopback(force_poll) as server:
        channel = client.selector.connect(server.address)
        served = server.selector.register(server.accept().detach())
        client.until(lambda: client.connected == [channel])
        client.selector.send(channel, [frame(large)])
        deadline = time.monotonic() + 30
        while client.received[channel] == []:
            assert time.monotonic() < deadline
            for _, request in server.poll(timeout_ms=1).receives:
                server.selector.send(served, [frame(request)])
            client.poll(timeout_ms=1)
        assert client.received[channel] == [large]


def test_a_channel_with_many_buffered_frames_does_not_starve_another(loopback: Loopback) -> None:
    busy, busy_peer = loopback.open()
    quiet, quiet_peer = loopback.open()
    busy_peer.sendall(frame(b"x") * 100)
    loopback.until(lambda: len(loopback.received[busy]) == 1)
    quiet_peer.sendall(frame(b"y"))
    loopback.until(lambda: len(loopback.received[quiet]) == 1)
    assert len(loopback.received[busy]) < 100


def test_a_thousand_channels_all_get_their_frames(force_poll: bool) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 4096:
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, hard))
    before = open_descriptor_count()
    with Loopback(force_poll) as loopback:
        pairs = [loopback.open() for _ in range(1000)]
        for channel, peer in pairs:
            peer.sendall(frame(b"%d" % channel))
        loopback.until(lambda: len(loopback.received) == 1000)
        for _, peer in pairs[::2]:
            peer.close()
        loopback.until(lambda: len(loopback.gone) == 500)
        for channel, peer in pairs[1::2]:
            assert loopback.selector.send(channel, [frame(b"again")]) == "OK"
            peer.sendall(read_exactly(peer, 9))
        loopback.until(lambda: all(len(loopback.received[c]) == 2 for c, _ in pairs[1::2]))
        for index, (channel, _) in enumerate(pairs):
            again = [b"again"] if index % 2 else []
            assert loopback.received[channel] == [b"%d" % channel, *again]
        assert set(loopback.gone) == {channel for channel, _ in pairs[::2]}
        assert loopback.selector.counters()["channels"] == 500
    assert open_descriptor_count() == before


# Muting.


def test_a_muted_channel_receives_after_it_is_unmuted(loopback: Loopback) -> None:
    """SelectorTest.testMute (P-L.179), P-G.7.9."""
    muted, muted_peer = loopback.open()
    other, other_peer = loopback.open()
    loopback.selector.mute(muted, True)
    for peer in (muted_peer, other_peer):
        peer.sendall(frame(b"x"))
    loopback.until(lambda: loopback.received[other] == [b"x"])
    assert loopback.received[muted] == []
    loopback.selector.mute(muted, False)
    assert loopback.poll(timeout_ms=-1).receives == [(muted, b"x")]


def test_muting_costs_nothing_until_bytes_arrive(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    loopback.selector.mute(channel, True)
    loopback.poll()
    assert loopback.selector.channel(channel).interest == READ
    peer.sendall(frame(b"x"))
    loopback.poll(timeout_ms=-1)
    assert loopback.selector.channel(channel).interest == 0
    polls = loopback.selector.counters()["io_wait_ns"]
    assert loopback.poll(timeout_ms=20) == ([], [], [], [])
    assert loopback.selector.counters()["io_wait_ns"] - polls >= 10_000_000


def test_frames_buffered_by_a_muted_channel_come_after_unmuting(loopback: Loopback) -> None:
    """A muted channel with a frame in its buffer must not keep the poll awake."""
    channel, peer = loopback.open()
    peer.sendall(frame(b"1") + frame(b"2") + frame(b"3"))
    loopback.until(lambda: loopback.received[channel] == [b"1"])
    loopback.selector.mute(channel, True)
    waited_ns = loopback.selector.counters()["io_wait_ns"]
    assert loopback.poll(timeout_ms=20) == ([], [], [], [])
    assert loopback.selector.counters()["io_wait_ns"] - waited_ns >= 10_000_000
    assert not loopback.selector.counters()["has_buffered"]
    loopback.selector.mute(channel, False)
    assert loopback.selector.counters()["has_buffered"]
    assert loopback.poll(timeout_ms=-1).receives == [(channel, b"2")]
    assert loopback.poll(timeout_ms=-1).receives == [(channel, b"3")]


def test_muting_and_unmuting_between_two_polls_changes_nothing(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    peer.sendall(frame(b"1") + frame(b"2"))
    loopback.until(lambda: loopback.received[channel] == [b"1"])
    loopback.selector.mute(channel, True)
    loopback.selector.mute(channel, False)
    assert loopback.poll(timeout_ms=-1).receives == [(channel, b"2")]
    assert loopback.poll().receives == []


def test_a_muted_channel_still_sends(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    loopback.selector.mute(channel, True)
    request = frame(bytes(16 << 20))
    assert loopback.selector.send(channel, [request]) == "BLOCKED"
    assert b"".join(loopback.drain(peer, len(request))) == request
    loopback.until(lambda: loopback.sent == [channel])


def test_a_muted_channel_notices_the_end_after_it_is_unmuted(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    loopback.selector.mute(channel, True)
    peer.sendall(frame(b"last"))
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    for _ in range(3):
        assert loopback.poll(timeout_ms=5) == ([], [], [], [])
    loopback.selector.mute(channel, False)
    loopback.until(lambda: channel in loopback.gone)


# Ends.


def test_a_server_that_disconnects_is_listed_once(loopback: Loopback) -> None:
    """SelectorTest.testServerDisconnect (P-L.179)."""
    channel, peer = loopback.open()
    peer.close()
    loopback.until(lambda: channel in loopback.gone)
    assert (loopback.gone[channel].reason, loopback.gone[channel].err) == ("REMOTE", 0)
    assert loopback.poll().disconnected == []
    again, peer = loopback.open()
    peer.sendall(frame(b"back"))
    loopback.until(lambda: loopback.received[again] == [b"back"])


def test_a_reset_is_a_remote_close_with_its_errno(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()
    loopback.until(lambda: channel in loopback.gone)
    assert loopback.gone[channel].reason == "REMOTE"
    assert loopback.gone[channel].err == errno.ECONNRESET


def test_every_frame_sent_before_a_close_is_delivered_first(loopback: Loopback) -> None:
    """SelectorTest.testGracefulClose (P-L.179), P-G.7.5, contract B-A4.5."""
    channel, peer = loopback.open()
    payloads = [b"%d" % number * 3000 for number in range(100)]
    peer.sendall(b"".join(map(frame, payloads)))
    peer.close()
    loopback.until(lambda: channel in loopback.gone)
    assert loopback.received[channel] == payloads


def test_a_partial_frame_before_a_close_is_dropped(loopback: Loopback) -> None:
    """SelectorTest.testPartialReceiveGracefulClose (P-L.179)."""
    channel, peer = loopback.open()
    peer.sendall(frame(b"a") + frame(b"b") + frame(bytes(100_000))[:50_000])
    peer.close()
    loopback.until(lambda: channel in loopback.gone)
    assert loopback.received[channel] == [b"a", b"b"]
    assert loopback.gone[channel].reason == "REMOTE"


def test_closing_a_channel_is_not_listed_and_reaches_the_peer(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    peer.sendall(frame(b"1") + frame(b"2"))
    loopback.until(lambda: loopback.received[channel] == [b"1"])
    loopback.selector.close_channel(channel)
    assert loopback.poll() == ([], [], [], [])
    with pytest.raises(KeyError):
        loopback.selector.send(channel, [])
    peer.settimeout(10)
    with contextlib.suppress(ConnectionResetError):
        assert peer.recv(1) == b""


def test_closing_any_channel_leaves_the_others_in_place(loopback: Loopback) -> None:
    pairs = [loopback.open() for _ in range(7)]
    for index in (3, 0, 6, 1):
        loopback.selector.close_channel(pairs[index][0])
    for index in (2, 4, 5):
        channel, peer = pairs[index]
        peer.sendall(frame(b"%d" % index))
        assert loopback.poll(timeout_ms=10_000).receives == [(channel, b"%d" % index)]


# Idle expiry.


def test_the_least_recently_used_channel_expires_one_per_poll(loopback: Loopback) -> None:
    """SelectorTest.testCloseOldestConnection (P-L.179), P-G.3.1. Limit 0: all but the active
    expire.
    """
    channels = [loopback.open()[0] for _ in range(4)]
    received, sent = channels[0], channels[2]
    loopback.peers[0].sendall(frame(b"x"))
    loopback.until(lambda: loopback.received[received] == [b"x"])
    assert loopback.selector.send(sent, [frame(b"y")]) == "OK"
    for channel in (channels[1], channels[3], received, sent):
        events = loopback.poll(max_idle_ms=0)
        assert [gone.channel_id for gone in events.disconnected] == [channel]
        assert events.disconnected[0].reason == "EXPIRED"
    assert loopback.poll(max_idle_ms=0).disconnected == []


def test_a_channel_that_is_active_in_this_poll_does_not_expire(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    peer.sendall(frame(b"x"))
    deadline = time.monotonic() + 10
    while not select.select([loopback.selector.channel(channel).fd], [], [], 1)[0]:
        assert time.monotonic() < deadline
    events = loopback.poll(max_idle_ms=0)
    assert events.receives == [(channel, b"x")]
    assert events.disconnected == []


def test_nothing_expires_within_the_limit_or_without_one(loopback: Loopback) -> None:
    """P-G.3.1: a negative limit means never."""
    loopback.open()
    for max_idle_ms in (-1, 3_600_000):
        assert loopback.poll(timeout_ms=1, max_idle_ms=max_idle_ms).disconnected == []


def test_a_channel_that_never_connects_expires_too(loopback: Loopback) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        queued = [loopback.selector.connect(full.getsockname()) for _ in range(6)]
        for _ in queued:
            loopback.poll(max_idle_ms=0)
        loopback.until(lambda: len(loopback.gone) + len(set(loopback.connected)) >= 6)
        for _ in queued:
            loopback.poll(max_idle_ms=0)
        assert set(loopback.gone) == set(queued)


def test_a_muted_channel_expires_whatever_its_buffer_holds(loopback: Loopback) -> None:
    """P-G.7.9, B-A4.4, B-A10.47: buffered or unread bytes are not activity."""
    muted, muted_peer = loopback.open()
    active, active_peer = loopback.open()
    muted_peer.sendall(frame(b"1") + frame(b"2"))
    loopback.until(lambda: loopback.received[muted] == [b"1"])
    loopback.selector.mute(muted, True)
    active_peer.sendall(frame(b"x"))
    loopback.until(lambda: loopback.received[active] == [b"x"])
    muted_peer.sendall(frame(b"3"))
    loopback.poll(timeout_ms=1000)
    events = loopback.poll(max_idle_ms=0)
    assert [gone.channel_id for gone in events.disconnected] == [muted]
    assert loopback.received[muted] == [b"1"]

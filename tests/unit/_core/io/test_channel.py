"""One channel: frames in, frames out, over real loopback sockets and both poll backends."""

from __future__ import annotations

import select
import socket
import struct
import zlib
from collections.abc import Iterator

import pytest

from fastprod._core.io.channel import CLOSE_REASONS
from support.oracle.framing import cut, frame
from support.oracle.loopback import Loopback, open_descriptor_count, read_exactly

KIB = 1024
MIB = 1024 * KIB
FIRST_BUFFER_BYTES = 16 * KIB
SMALL_BUFFER_BYTES = 64 * KIB
KEPT_BUFFER_BYTES = 2 * MIB
PATIENCE_MS = 20_000

BACKENDS = pytest.mark.parametrize("force_poll", [False, True], ids=["epoll", "poll"])


@pytest.fixture(params=[False, True], ids=["epoll", "poll"])
def loopback(request: pytest.FixtureRequest) -> Iterator[Loopback]:
    before = open_descriptor_count()
    with Loopback(request.param) as opened:
        yield opened
    assert open_descriptor_count() == before


# Receiving.


def test_a_frame_delivered_byte_by_byte_arrives_once_and_whole(loopback: Loopback) -> None:
    """B-A4.2."""
    channel, peer = loopback.open()
    stream = frame(b"one") + frame(b"") + frame(b"three")
    for byte in stream:
        peer.sendall(bytes([byte]))
        loopback.poll(timeout_ms=1000)
    loopback.until(lambda: len(loopback.received[channel]) == 3)
    assert loopback.received[channel] == [b"one", b"", b"three"]


def test_partial_receives_are_visible(loopback: Loopback) -> None:
    """NetworkReceiveTest.testBytesRead, KafkaChannelTest.testReceiving (P-L.182)."""
    channel, peer = loopback.open()
    stream = frame(bytes(128))
    sent = 0
    for piece in cut(stream, [2, 4, 68]):
        peer.sendall(piece)
        sent += len(piece)
        assert loopback.received[channel] == []
        loopback.poll(timeout_ms=1000)
        assert loopback.selector.channel(channel).received_bytes == sent
    assert loopback.received[channel] == [bytes(128)]


def test_partial_sends_are_visible(loopback: Loopback) -> None:
    """KafkaChannelTest.testSending (P-L.182)."""
    channel, peer = loopback.open()
    request = frame(bytes(16 * MIB))
    assert loopback.selector.send(channel, [request]) == "BLOCKED"
    first = loopback.selector.channel(channel)
    assert 0 < first.sent_bytes < len(request)
    assert first.sending
    read_exactly(peer, first.sent_bytes)
    loopback.until(lambda: loopback.selector.channel(channel).sent_bytes > first.sent_bytes)
    assert loopback.sent == []
    for _ in loopback.drain(peer, len(request) - first.sent_bytes):
        pass
    loopback.until(lambda: loopback.sent == [channel])
    last = loopback.selector.channel(channel)
    assert (last.sent_bytes, last.sending) == (len(request), False)


def test_small_frames_of_one_read_come_one_per_poll_without_sleeping(loopback: Loopback) -> None:
    """P-G.7.3."""
    channel, peer = loopback.open()
    payloads = [b"%d" % number for number in range(50)]
    stream = b"".join(frame(payload) for payload in payloads)
    peer.sendall(stream)
    loopback.until(lambda: loopback.selector.channel(channel).received_bytes == len(stream))
    assert loopback.received[channel] == payloads[:1]
    for number in range(1, 50):
        assert loopback.selector.counters()["has_buffered"]
        # Without a bound: a poll that slept here would never come back.
        events = loopback.poll(timeout_ms=-1)
        assert events.receives == [(channel, payloads[number])]
    assert not loopback.selector.counters()["has_buffered"]
    assert loopback.poll().receives == []


def test_an_empty_frame_is_a_frame(loopback: Loopback) -> None:
    """SelectorTest.testEmptyRequest (P-L.179), contract B-A4.1."""
    channel, peer = loopback.open()
    assert loopback.selector.send(channel, [frame(b"")]) == "OK"
    peer.sendall(read_exactly(peer, 4))
    loopback.until(lambda: loopback.received[channel] == [b""])


def test_a_peer_that_dies_inside_a_frame_loses_that_frame_alone(loopback: Loopback) -> None:
    """P-G.7.5."""
    channel, peer = loopback.open()
    peer.sendall(frame(b"whole") + frame(b"never to be finished")[:-1])
    peer.close()
    loopback.until(lambda: channel in loopback.gone)
    assert loopback.received[channel] == [b"whole"]
    assert (loopback.gone[channel].reason, loopback.gone[channel].err) == ("REMOTE", 0)


@pytest.mark.parametrize("size", [-1, -(2**31)])
def test_a_negative_frame_size_closes_the_channel_after_the_frames_before_it(
    loopback: Loopback, size: int
) -> None:
    """P-G.7.2."""
    channel, peer = loopback.open()
    peer.sendall(frame(b"good") + frame(b"better") + struct.pack(">i", size))
    loopback.until(lambda: channel in loopback.gone)
    assert loopback.received[channel] == [b"good", b"better"]
    assert loopback.gone[channel].reason == "BAD_FRAME"
    assert loopback.gone[channel].bad_size == size
    assert peer.recv(1) == b""


@BACKENDS
def test_only_a_frame_above_the_limit_closes_the_channel(force_poll: bool) -> None:
    """P-G.7.2: the limit itself is allowed."""
    with Loopback(force_poll, max_receive_bytes=1000) as loopback:
        channel, peer = loopback.open()
        peer.sendall(frame(bytes(1000)) + struct.pack(">i", 1001))
        loopback.until(lambda: channel in loopback.gone)
        assert loopback.received[channel] == [bytes(1000)]
        assert loopback.gone[channel].reason == "FRAME_TOO_LARGE"
        assert loopback.gone[channel].bad_size == 1001


@BACKENDS
def test_a_limit_of_zero_allows_empty_frames(force_poll: bool) -> None:
    with Loopback(force_poll, max_receive_bytes=0) as loopback:
        channel, peer = loopback.open()
        peer.sendall(frame(b"") + frame(b"x"))
        loopback.until(lambda: channel in loopback.gone)
        assert loopback.received[channel] == [b""]
        assert loopback.gone[channel].bad_size == 1


def test_announcing_two_gigabytes_allocates_no_more_than_arrives(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    arrived = 0
    for piece in (struct.pack(">i", 2**31 - 1), bytes(10), bytes(100 * KIB), bytes(300 * KIB)):
        peer.sendall(piece)
        arrived += len(piece)
        while (now := loopback.selector.channel(channel)).received_bytes < arrived:
            loopback.poll(timeout_ms=1000)
        assert now.buffer_bytes <= max(FIRST_BUFFER_BYTES, 2 * arrived)
    assert loopback.received[channel] == []
    peer.close()
    loopback.until(lambda: channel in loopback.gone)


def test_a_channel_that_never_received_has_no_buffer(loopback: Loopback) -> None:
    channel, _ = loopback.open()
    assert loopback.selector.channel(channel).buffer_bytes == 0


def receive(loopback: Loopback, channel: int, peer: socket.socket, payload_bytes: int) -> int:
    """Move one frame through; returns the buffer's size afterwards."""
    payload = bytes([payload_bytes % 251]) * payload_bytes
    left = memoryview(frame(payload))
    loopback.received[channel].clear()
    while len(left) > 0:
        left = left[peer.send(left[: 64 * KIB]) :]
        loopback.poll()
    loopback.until(lambda: len(loopback.received[channel]) == 1)
    assert loopback.received[channel] == [payload]
    loopback.poll()
    return loopback.selector.channel(channel).buffer_bytes


def test_the_buffer_grows_to_the_frame_and_shrinks_after_small_ones(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    assert receive(loopback, channel, peer, 1000) == FIRST_BUFFER_BYTES
    assert receive(loopback, channel, peer, MIB) == MIB + 4
    sizes = [receive(loopback, channel, peer, 1000) for _ in range(10)]
    assert sizes[0] == MIB + 4
    assert sizes[-1] <= SMALL_BUFFER_BYTES


def test_a_mixed_stream_of_large_and_small_frames_keeps_its_buffer(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    receive(loopback, channel, peer, MIB)
    for _ in range(3):
        assert receive(loopback, channel, peer, 100) == MIB + 4
        assert receive(loopback, channel, peer, MIB) == MIB + 4


def test_a_very_large_buffer_does_not_outlive_its_frame(loopback: Loopback) -> None:
    for size, kept in ((KEPT_BUFFER_BYTES, 0), (KEPT_BUFFER_BYTES - 4, KEPT_BUFFER_BYTES)):
        channel, peer = loopback.open()
        assert receive(loopback, channel, peer, size) == kept


def test_a_frame_that_straddles_two_reads_behind_others_is_whole(loopback: Loopback) -> None:
    """The rest of one read is moved to the front of the buffer before the next."""
    channel, peer = loopback.open()
    small = [bytes([number]) * 1500 for number in range(10)]
    large = bytes(range(256)) * 200
    stream = b"".join(map(frame, small)) + frame(large) + frame(b"end")
    for piece in cut(stream, [FIRST_BUFFER_BYTES, FIRST_BUFFER_BYTES + 1, 40_000]):
        peer.sendall(piece)
        loopback.poll(timeout_ms=1000)
    loopback.until(lambda: len(loopback.received[channel]) == 12)
    assert loopback.received[channel] == [*small, large, b"end"]


# Sending.


def test_a_request_of_five_thousand_pieces_reaches_a_slow_reader_whole(loopback: Loopback) -> None:
    """50 MB in more iovecs than one sendmsg takes (IOV_MAX is 1024)."""
    channel, peer = loopback.open()
    pieces = [struct.pack(">i", 49_999_996)]
    pieces += [number.to_bytes(4, "big") * 2500 for number in range(4999)]
    pieces.append(b"tail" * 2499)
    expected = 0
    for piece in pieces:
        expected = zlib.crc32(piece, expected)
    total = sum(map(len, pieces))
    assert total == 50_000_000
    assert loopback.selector.send(channel, pieces) == "BLOCKED"
    actual = 0
    for part in loopback.drain(peer, total, part_bytes=128 * KIB):
        actual = zlib.crc32(part, actual)
    assert actual == expected
    loopback.until(lambda: loopback.sent == [channel])


def test_a_send_the_socket_takes_at_once_is_not_listed(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    assert loopback.selector.send(channel, [b"\0\0\0\3", b"a", b"", b"bc"]) == "OK"
    assert loopback.poll().completed_sends == []
    assert read_exactly(peer, 7) == frame(b"abc")


@pytest.mark.parametrize("pieces", [[], [b""], [b"", b"", b""]])
def test_a_send_without_bytes_completes_without_a_write(
    loopback: Loopback, pieces: list[bytes]
) -> None:
    """SelectorTest.testWriteCompletesSendWithNoBytesWritten (P-L.179)."""
    channel, peer = loopback.open()
    assert loopback.selector.send(channel, pieces) == "OK"
    assert loopback.selector.channel(channel).sent_bytes == 0
    assert loopback.selector.send(channel, [frame(b"next")]) == "OK"
    assert read_exactly(peer, 8) == frame(b"next")


def test_a_blocked_send_with_only_empty_pieces_left_completes(loopback: Loopback) -> None:
    """SelectorTest.testWriteCompletesSendWithNoBytesWritten (P-L.179), behind real bytes."""
    channel, peer = loopback.open()
    request = frame(bytes(16 * MIB))
    assert loopback.selector.send(channel, [request, b"", b""]) == "BLOCKED"
    assert b"".join(loopback.drain(peer, len(request))) == request
    loopback.until(lambda: loopback.sent == [channel])


def test_a_second_send_while_one_is_under_way_closes_the_channel(loopback: Loopback) -> None:
    """SelectorTest.testCantSendWithInProgress (P-L.179), P-G.7.4."""
    channel, peer = loopback.open()
    assert loopback.selector.send(channel, [frame(bytes(16 * MIB))]) == "BLOCKED"
    assert loopback.selector.send(channel, [frame(b"too early")]) == "BUSY"
    peer.sendall(frame(b"not delivered any more"))
    assert [gone.reason for gone in loopback.poll().disconnected] == ["FAILED_SEND"]
    assert loopback.received[channel] == []
    with pytest.raises(KeyError):
        loopback.selector.send(channel, [frame(b"")])


def test_two_large_requests_follow_each_other(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    for number in (1, 2):
        request = frame(bytes([number]) * (16 * MIB))
        assert loopback.selector.send(channel, [request]) == "BLOCKED"
        assert b"".join(loopback.drain(peer, len(request))) == request
        loopback.until(lambda: not loopback.selector.channel(channel).sending)
        assert loopback.sent == [channel] * number


def test_a_finished_send_does_not_keep_the_poll_awake(loopback: Loopback) -> None:
    """The interest in writing is dropped late, to spare a streaming channel the system calls."""
    channel, peer = loopback.open()
    request = frame(bytes(16 * MIB))
    assert loopback.selector.send(channel, [request]) == "BLOCKED"
    assert b"".join(loopback.drain(peer, len(request))) == request
    loopback.until(lambda: loopback.sent == [channel])
    loopback.poll(timeout_ms=20)
    waited_ns = loopback.selector.counters()["io_wait_ns"]
    loopback.poll(timeout_ms=20)
    assert loopback.selector.counters()["io_wait_ns"] - waited_ns >= 10_000_000


def test_a_channel_that_is_not_open_yet_refuses_a_send(loopback: Loopback) -> None:
    channel = loopback.selector.connect(loopback.address)
    assert loopback.selector.send(channel, [frame(b"early")]) == "CLOSED"
    loopback.until(lambda: loopback.connected == [channel])
    assert loopback.selector.send(channel, [frame(b"now")]) == "OK"


def break_sending(loopback: Loopback, channel: int, peer: socket.socket, *frames: bytes) -> None:
    """The peer answers and goes away with a reset, because it leaves our bytes unread."""
    assert loopback.selector.send(channel, [frame(b"never read")]) == "OK"
    peer.sendall(b"".join(map(frame, frames)))
    peer.close()
    # A busy system hands the reset on a moment later.
    ended = select.poll()
    ended.register(loopback.selector.channel(channel).fd, 0)
    assert ended.poll(PATIENCE_MS)
    assert loopback.selector.send(channel, [frame(b"fails")]) == "IO"
    assert loopback.selector.send(channel, [frame(b"fails again")]) == "IO"


def test_answers_that_arrived_before_a_failed_send_are_still_delivered(loopback: Loopback) -> None:
    """P-G.7.5."""
    channel, peer = loopback.open()
    break_sending(loopback, channel, peer, b"1", b"2", b"3")
    for answer in (b"1", b"2", b"3"):
        assert loopback.poll(timeout_ms=-1).receives == [(channel, answer)]
    assert [gone.reason for gone in loopback.poll(timeout_ms=-1).disconnected] == ["REMOTE"]
    assert loopback.gone[channel].err != 0


def test_a_failed_send_with_nothing_to_read_is_listed_by_the_next_poll(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    break_sending(loopback, channel, peer)
    assert [gone.channel_id for gone in loopback.poll(timeout_ms=-1).disconnected] == [channel]


def test_a_failed_send_ends_a_muted_channel_at_once(loopback: Loopback) -> None:
    """B-A3.4: requests behind the one that cannot be answered are dropped."""
    channel, peer = loopback.open()
    loopback.selector.mute(channel, True)
    break_sending(loopback, channel, peer, b"dropped")
    assert [gone.channel_id for gone in loopback.poll(timeout_ms=-1).disconnected] == [channel]
    assert loopback.received[channel] == []


def test_a_peer_that_resets_during_a_blocked_send_is_a_disconnect(loopback: Loopback) -> None:
    channel, peer = loopback.open()
    assert loopback.selector.send(channel, [frame(bytes(16 * MIB))]) == "BLOCKED"
    peer.close()
    loopback.until(lambda: channel in loopback.gone)
    assert loopback.gone[channel].reason == "REMOTE"
    assert loopback.sent == []


def test_every_close_reason_has_a_name() -> None:
    assert CLOSE_REASONS.index("PROXY") == len(CLOSE_REASONS) - 1 == 11

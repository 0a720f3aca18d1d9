"""What stands above a transport that shakes hands and keeps bytes back, as TLS does.

The transport is that of fastprod/_core/testing/record_transport.pyx; the peer of these tests
speaks its records.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterator

import pytest

from support.oracle.framing import frame
from support.oracle.loopback import Loopback, open_descriptor_count, read_exactly

RECORD_BYTES = 1_000
READ, WRITE = 1, 2


def record(data: bytes) -> bytes:
    """One record, inverted."""
    assert len(data) <= RECORD_BYTES
    return len(data).to_bytes(2, "big") + bytes(byte ^ 0xFF for byte in data)


def records(data: bytes) -> bytes:
    return b"".join(
        record(data[at : at + RECORD_BYTES]) for at in range(0, len(data), RECORD_BYTES)
    )


def read_records(peer: socket.socket, size: int) -> bytes:
    """The next `size` bytes that the channel sent."""
    found = b""
    while len(found) < size:
        inverted = read_exactly(peer, int.from_bytes(read_exactly(peer, 2), "big"))
        found += bytes(byte ^ 0xFF for byte in inverted)
    return found


@pytest.fixture(params=[False, True], ids=["epoll", "poll"])
def loopback(request: pytest.FixtureRequest) -> Iterator[Loopback]:
    """Its end is also the check that no descriptor leaks, for every test here."""
    before = open_descriptor_count()
    with Loopback(bool(request.param)) as opened:
        yield opened
    assert open_descriptor_count() == before


def connect(loopback: Loopback, send_buffer_bytes: int = -1) -> tuple[int, socket.socket]:
    """A channel that has said hello, and its peer."""
    channel = loopback.selector.connect(loopback.address, send_buffer_bytes, in_records=True)
    peer = loopback.accept()
    loopback.until(lambda: loopback.selector.channel(channel).interest == READ)
    assert read_exactly(peer, 1) == b"H"
    return channel, peer


def opened(loopback: Loopback, send_buffer_bytes: int = -1) -> tuple[int, socket.socket]:
    channel, peer = connect(loopback, send_buffer_bytes)
    peer.sendall(b"h")
    loopback.until(lambda: channel in loopback.connected)
    return channel, peer


def test_a_channel_is_open_when_its_transport_is(loopback: Loopback) -> None:
    """P-G.4.4: until then it takes nothing, and nobody hears of it."""
    channel, peer = connect(loopback)
    loopback.poll(0)
    assert loopback.connected == []
    assert loopback.selector.send(channel, [frame(b"early")]) == "CLOSED"
    peer.sendall(b"h")
    loopback.until(lambda: loopback.connected == [channel])
    assert loopback.selector.send(channel, [frame(b"in time")]) == "OK"
    assert read_records(peer, 11) == frame(b"in time")


def test_a_handshake_waits_for_what_it_asks_for(loopback: Loopback) -> None:
    """It reads, writes, and reads again."""
    channel, peer = connect(loopback)
    peer.sendall(b"w")
    loopback.until(lambda: loopback.selector.channel(channel).interest == WRITE)
    loopback.until(lambda: loopback.selector.channel(channel).interest == READ)
    assert read_exactly(peer, 1) == b"W"
    assert loopback.connected == []
    peer.sendall(b"h")
    loopback.until(lambda: loopback.connected == [channel])


@pytest.mark.parametrize("answer", [b"?", b""])
def test_a_handshake_that_fails_is_a_connection_that_was_not_made(
    loopback: Loopback, answer: bytes
) -> None:
    channel, peer = connect(loopback)
    peer.sendall(answer)
    peer.shutdown(socket.SHUT_WR)
    loopback.until(lambda: channel in loopback.gone)
    assert loopback.gone[channel].reason == "NOT_CONNECTED"
    assert loopback.gone[channel].err == errno.EPROTO
    assert loopback.connected == []
    assert peer.recv(1) == b""


def test_what_comes_along_with_the_handshake_is_read(loopback: Loopback) -> None:
    channel, peer = connect(loopback)
    peer.sendall(b"h" + record(frame(b"at once")))
    loopback.until(lambda: loopback.received[channel] == [b"at once"])


def test_frames_that_the_transport_holds_are_all_delivered(loopback: Loopback) -> None:
    """P-G.7.3: nothing more comes from the peer, and no poller tells of what is decoded already."""
    channel, peer = opened(loopback)
    large = os.urandom(20_001)  # its buffer ends with it, in the midst of a record
    frames = [large, b"one", b"two", os.urandom(100_000), b"three"]
    peer.sendall(records(b"".join(map(frame, frames))))
    loopback.until(lambda: len(loopback.received[channel]) == len(frames))
    assert loopback.received[channel] == frames


def test_a_muted_channel_goes_on_with_what_its_transport_holds(loopback: Loopback) -> None:
    channel, peer = opened(loopback)
    large = os.urandom(20_001)
    peer.sendall(records(frame(large) + frame(b"next")))
    loopback.until(lambda: loopback.received[channel] == [large])
    loopback.selector.mute(channel, True)
    loopback.poll(0)
    loopback.poll(0)
    assert len(loopback.received[channel]) == 1
    loopback.selector.mute(channel, False)
    loopback.until(lambda: loopback.received[channel] == [large, b"next"])


def test_a_send_larger_than_the_socket_takes_arrives_whole(loopback: Loopback) -> None:
    """A record that the socket took a part of is gone on with."""
    channel, peer = opened(loopback, send_buffer_bytes=4096)
    data = os.urandom(2_000_000)
    expected = record(frame(data)[:4]) + records(data)
    assert loopback.selector.send(channel, [frame(data)[:4], b"", data]) == "BLOCKED"
    assert b"".join(loopback.drain(peer, len(expected))) == expected
    loopback.until(lambda: channel in loopback.sent)


def test_an_end_of_the_stream_behind_a_frame_ends_the_channel(loopback: Loopback) -> None:
    channel, peer = opened(loopback)
    peer.sendall(record(frame(b"last")))
    peer.shutdown(socket.SHUT_WR)
    loopback.until(lambda: channel in loopback.gone)
    assert loopback.received[channel] == [b"last"]
    assert loopback.gone[channel].reason == "REMOTE"

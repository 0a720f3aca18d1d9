"""Plain TCP as a transport: no handshake, nothing held back, and an end that the peer hears of."""

from __future__ import annotations

import errno
import socket

from support.oracle.framing import frame
from support.oracle.loopback import Loopback, read_exactly


def test_a_connection_is_open_without_a_byte_from_either_side() -> None:
    with Loopback(force_poll=False) as loopback:
        channel = loopback.selector.connect(loopback.address)
        loopback.until(lambda: loopback.connected == [channel])
        counters = loopback.selector.channel(channel)
        assert (counters.sent_bytes, counters.received_bytes) == (0, 0)


def test_bytes_go_to_the_socket_as_they_are() -> None:
    with Loopback(force_poll=False) as loopback:
        channel, peer = loopback.open()
        assert loopback.selector.send(channel, [frame(b"there")]) == "OK"
        assert read_exactly(peer, 9) == frame(b"there")
        peer.sendall(frame(b"and back"))
        loopback.until(lambda: loopback.received[channel] == [b"and back"])


def test_a_refusal_has_its_errno() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = nobody.getsockname()
    with Loopback(force_poll=False) as loopback:
        channel = loopback.selector.connect(address)
        loopback.until(lambda: channel in loopback.gone)
        assert loopback.gone[channel][1:4] == ("NOT_CONNECTED", errno.ECONNREFUSED, 0)


def test_the_peer_hears_of_the_end() -> None:
    with Loopback(force_poll=False) as loopback:
        channel, peer = loopback.open()
        loopback.selector.close_channel(channel)
        assert peer.recv(1) == b""

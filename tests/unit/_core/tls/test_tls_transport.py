"""Bytes through TLS: what is sent comes, in one piece, whatever the peer and the network do."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import random
import ssl

import pytest

from fastprod._core.tls.tls_context import TlsContext
from support.security.tls_peer import server_context
from support.security.tls_stage import TlsStage, frame

KIB = 1 << 10
MIB = 1 << 20
VERSIONS = pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])


@VERSIONS
@pytest.mark.parametrize("size", [0, 1, 100, 16 * KIB, 16 * KIB + 1, 100_000, 3 * MIB])
def test_frames_go_and_come(stage: TlsStage, version: ssl.TLSVersion, size: int) -> None:
    """P-L.180"""
    channel, peer = stage.open(server_context(stage.identity, version))
    payload = os.urandom(size)
    assert stage.exchange(channel, peer, payload) == payload
    assert stage.loopback.gone == {}


def test_many_pieces_of_every_size_keep_their_order(stage: TlsStage) -> None:
    channel, peer = stage.open()
    dice = random.Random(13)
    sizes = [dice.choice((1, 7, 100, 4_095, 4_096, 16_384, 20_000, 200_000)) for _ in range(300)]
    pieces = [os.urandom(size) for size in sizes]
    whole = frame(b"".join(pieces))
    stage.loopback.selector.send(channel, [whole[:4], *pieces])
    stage.until(lambda: len(peer.received) == len(whole))
    assert bytes(peer.received) == whole
    assert stage.loopback.selector.channel(channel).sent_bytes == len(whole)


@VERSIONS
def test_segments_of_one_byte(stage: TlsStage, version: ssl.TLSVersion) -> None:
    channel, peer = stage.open(server_context(stage.identity, version), segment_bytes=1)
    assert stage.exchange(channel, peer, b"slowly but surely") == b"slowly but surely"


def test_a_send_is_complete_only_when_its_bytes_have_left(stage: TlsStage) -> None:
    channel, peer = stage.open()
    payload = os.urandom(32 * MIB)
    assert stage.loopback.selector.send(channel, [frame(payload)]) == "BLOCKED"
    for _ in range(50):
        stage.loopback.poll(timeout_ms=1)
    assert stage.loopback.sent == []
    assert stage.loopback.selector.channel(channel).sending
    stage.until(lambda: len(peer.received) == len(payload) + 4)
    stage.until(lambda: stage.loopback.sent == [channel])
    assert bytes(peer.received[4:]) == payload
    assert stage.exchange(channel, peer, b"next") == b"next"


def test_several_answers_in_one_record_are_all_delivered(stage: TlsStage) -> None:
    """P-L.180"""
    channel, peer = stage.open()
    payloads = [bytes([65 + i]) * (100 + i) for i in range(20)]
    peer.send(b"".join(frame(payload) for payload in payloads))
    stage.until(lambda: stage.loopback.received[channel] == payloads)
    assert stage.loopback.selector.counters()["has_buffered"] is False


def test_half_a_record_keeps_nobody_busy(stage: TlsStage) -> None:
    channel, peer = stage.open()
    wire = peer.encrypted(frame(b"halved"))
    peer.connection.sendall(wire[:20])
    for _ in range(10):
        stage.loopback.poll(timeout_ms=5)
    assert stage.loopback.selector.counters()["has_buffered"] is False
    peer.connection.sendall(wire[20:])
    stage.until(lambda: stage.loopback.received[channel] == [b"halved"])


def test_a_muted_channel_goes_on_with_what_was_decrypted(stage: TlsStage) -> None:
    """P-L.180"""
    channel, peer = stage.open()
    stage.loopback.selector.mute(channel, True)
    peer.send(frame(b"one") + frame(b"two"))
    for _ in range(10):
        stage.loopback.poll(timeout_ms=2)
    assert stage.loopback.received[channel] == []
    stage.loopback.selector.mute(channel, False)
    stage.until(lambda: stage.loopback.received[channel] == [b"one", b"two"])


def test_the_end_is_said_in_tls(stage: TlsStage) -> None:
    channel, peer = stage.open()
    stage.loopback.selector.close_channel(channel)
    stage.until(lambda: peer.at_end)
    assert peer.said_goodbye
    assert peer.failure is None


def test_what_came_before_a_goodbye_is_delivered(stage: TlsStage) -> None:
    channel, peer = stage.open()
    peer.send(frame(b"last"))
    with pytest.raises(ssl.SSLWantReadError):
        peer.tls.unwrap()
    peer.flush()
    gone = stage.end_of(channel)
    assert (gone.reason, gone.err, gone.text) == ("REMOTE", 0, "")
    assert stage.loopback.received[channel] == [b"last"]


@pytest.mark.parametrize("size", [1, 40, 300])
def test_a_record_that_is_cut_is_a_lost_connection(stage: TlsStage, size: int) -> None:
    channel, peer = stage.open()
    peer.connection.sendall(peer.encrypted(frame(bytes(400)))[:size])
    peer.connection.close()
    gone = stage.end_of(channel)
    assert (gone.reason, gone.tls_reason) == ("REMOTE", 0)
    assert stage.loopback.received[channel] == []


@pytest.mark.parametrize("size", [0, 3, 100, -1])
def test_a_handshake_that_is_cut_is_a_lost_connection(stage: TlsStage, size: int) -> None:
    """P-L.180"""
    channel = stage.loopback.selector.connect(
        stage.loopback.address, tls=stage.context, server_name="localhost"
    )
    connection = stage.loopback.accept()
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context(stage.identity).wrap_bio(incoming, outgoing, server_side=True)
    stage.loopback.poll(timeout_ms=1_000)
    incoming.write(connection.recv(1 << 16))
    with pytest.raises(ssl.SSLWantReadError):
        server.do_handshake()
    connection.sendall(outgoing.read()[:size])
    connection.close()
    stage.loopback.until(lambda: channel in stage.loopback.gone)
    assert stage.loopback.gone[channel].reason == "REMOTE"
    assert stage.loopback.connected == []


def test_garbage_after_the_handshake_is_said(stage: TlsStage) -> None:
    channel, peer = stage.open()
    peer.send(frame(b"good"))
    peer.connection.sendall(b"\x17\x03\x03\x00\x20" + bytes(32))
    gone = stage.end_of(channel)
    assert gone.reason == "TLS"
    assert "reason=decryption failed or bad record mac" in gone.text
    assert stage.loopback.received[channel] == [b"good"]
    stage.until(lambda: peer.failure is not None)
    assert "BAD_RECORD_MAC" in str(peer.failure)


def test_a_server_that_is_none_of_tls_is_said(stage: TlsStage) -> None:
    channel = stage.loopback.selector.connect(
        stage.loopback.address, tls=stage.context, server_name="localhost"
    )
    stage.loopback.accept().sendall(b"220 mail.example ESMTP\r\n")
    stage.loopback.until(lambda: channel in stage.loopback.gone)
    assert stage.loopback.gone[channel].reason == "TLS"
    assert "reason=wrong version number" in stage.loopback.gone[channel].text


def test_a_refused_connection_is_one_by_tls_too(stage: TlsStage) -> None:
    address = stage.loopback.address
    stage.loopback.listener.close()
    channel = stage.loopback.selector.connect(address, tls=stage.context, server_name="localhost")
    assert stage.end_of(channel).reason == "NOT_CONNECTED"


def test_an_alert_that_comes_after_our_handshake_is_said(stage: TlsStage) -> None:
    context = server_context(stage.identity)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(stage.identity.certificate)
    channel, _ = stage.start(context)
    gone = stage.end_of(channel)
    assert (gone.reason, gone.tls_reason) == ("TLS", 1116)
    assert "certificate required" in gone.text


def test_no_version_in_common_is_said(stage: TlsStage) -> None:
    newest = TlsContext(min_version="TLSv1.3", verify=False)
    channel, _ = stage.start(server_context(stage.identity, ssl.TLSVersion.TLSv1_2), newest)
    gone = stage.end_of(channel)
    assert (gone.reason, gone.tls_reason) == ("TLS", 1070)
    assert "protocol version" in gone.text


def test_a_peer_that_reads_nothing_holds_nobody_up(stage: TlsStage) -> None:
    stalled, idle = stage.open()
    stage.peers.remove(idle)
    other, peer = stage.open()
    assert stage.loopback.selector.send(stalled, [frame(bytes(64 * MIB))]) == "BLOCKED"
    assert stage.exchange(other, peer, b"meanwhile") == b"meanwhile"
    stage.loopback.selector.close_channel(stalled)
    assert stage.exchange(other, peer, b"and after") == b"and after"


def test_a_peer_that_leaves_in_a_large_send_is_a_lost_connection(stage: TlsStage) -> None:
    channel, peer = stage.open()
    assert stage.loopback.selector.send(channel, [frame(bytes(64 * MIB))]) == "BLOCKED"
    peer.connection.close()
    stage.peers.remove(peer)
    assert stage.end_of(channel).reason == "REMOTE"
    assert stage.loopback.sent == []


def test_a_peer_that_closed_its_half_hears_the_rest(stage: TlsStage) -> None:
    channel, peer = stage.open()
    peer.send(frame(b"bye"))
    peer.connection.shutdown(1)
    gone = stage.end_of(channel)
    assert (gone.reason, gone.err) == ("REMOTE", 0)
    assert stage.loopback.received[channel] == [b"bye"]
    stage.until(lambda: peer.at_end)
    assert peer.said_goodbye


def _pair(stage: TlsStage, version: str) -> tuple[int, int, ctypes.CDLL]:
    """A server's channel and a client's in one selector, and OpenSSL to play tricks with."""
    server = TlsContext(
        certificate=stage.identity.both.read_bytes(), server_side=True, max_version=version
    )
    client = stage.loopback.selector.connect(
        stage.loopback.address, tls=stage.context, server_name="localhost"
    )
    accepted, _ = stage.loopback.listener.accept()
    accepting = stage.loopback.selector.register(accepted.detach(), tls=server)
    stage.until(lambda: {client, accepting} <= set(stage.loopback.connected))
    spec = importlib.util.find_spec("_ssl")
    assert spec is not None
    assert spec.origin is not None
    return client, accepting, ctypes.CDLL(spec.origin)


def _pass(stage: TlsStage, sender: int, receiver: int, payload: bytes) -> None:
    stage.loopback.selector.send(sender, [frame(payload)])
    stage.until(lambda: stage.loopback.received[receiver][-1:] == [payload])


def test_keys_that_change_go_unnoticed(stage: TlsStage) -> None:
    """KeyUpdate of TLS 1.3, which asks the other side for the same."""
    client, server, openssl = _pair(stage, "TLSv1.3")
    for channel, other in ((client, server), (server, client)):
        address = ctypes.c_void_p(stage.loopback.selector.ssl_address(channel))
        for round_number in range(3):
            assert openssl.SSL_key_update(address, 1) == 1
            _pass(stage, channel, other, b"new keys %d" % round_number)
            _pass(stage, other, channel, b"here too %d" % round_number)
    assert stage.loopback.gone == {}


def test_a_new_handshake_inside_tls_1_2_is_refused(stage: TlsStage) -> None:
    """Renegotiation: a server that asks for it (HelloRequest) is told that there is none."""
    client, server, openssl = _pair(stage, "TLSv1.2")
    _pass(stage, client, server, b"before")
    address = ctypes.c_void_p(stage.loopback.selector.ssl_address(server))
    openssl.SSL_clear_options(address, ctypes.c_ulong(1 << 30))
    assert openssl.SSL_renegotiate(address) == 1
    assert openssl.SSL_do_handshake(address) == 1
    _pass(stage, server, client, b"and again")
    gone = stage.end_of(server)
    assert (gone.reason, gone.text.splitlines()[0]) == ("TLS", "reason=no renegotiation")
    assert stage.end_of(client).reason in {"REMOTE", "TLS"}


def test_a_chain_of_certificates_without_end_is_refused(stage: TlsStage) -> None:
    """16 MB of them: OpenSSL takes some 100 kB of an unknown peer's."""
    channel, _ = stage.start()
    connection = stage.peers.pop().connection
    stage.loopback.poll(timeout_ms=100)
    connection.setblocking(True)
    hello = (
        b"\x02\x00\x00\x2d\x03\x03"
        + bytes(32)
        + b"\x00\xc0\x2f\x00"
        + b"\x00\x05\xff\x01\x00\x01\x00"
    )
    record = b"\x16\x03\x03" + len(hello).to_bytes(2, "big") + hello
    certificates = b"\x0b\xff\xff\xff" + bytes(16_000)
    with contextlib.suppress(OSError):
        connection.sendall(record + b"\x16\x03\x03" + (16_004).to_bytes(2, "big") + certificates)
    gone = stage.end_of(channel)
    assert gone.reason == "TLS"
    assert "excessive message size" in gone.text

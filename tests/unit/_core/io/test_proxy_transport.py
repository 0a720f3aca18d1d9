"""The way through a proxy, by bytes: every cut, every answer, and what comes after it."""

from __future__ import annotations

import random
import socket
from collections.abc import Iterator

import pytest

from fastprod._core.io.proxy_transport import ProxyKind
from fastprod._core.testing.selector_harness import Disconnect
from fastprod.client.connections.proxy import Proxy
from fastprod.security.proxy_settings import ProxySettings
from fastprod.security.secret import Secret
from support.oracle.loopback import Loopback

SOCKS = Proxy(ProxySettings("socks5", "p", 1, username="u", password=Secret("w")))
HTTP = Proxy(ProxySettings("http", "p", 1))
PLANS = {"socks": SOCKS.plan("b.test", 9092), "http": HTTP.plan("b.test", 9092)}
SOCKS_ANSWERS = (b"\x05\x02", b"\x01\x00", b"\x05\x00\x00\x03\x04here\x00\x50")
HTTP_ANSWERS = (b"HTTP/1.0 200 OK\r\nVia: x\r\n\r\n",)
ANSWERS = {"socks": SOCKS_ANSWERS, "http": HTTP_ANSWERS}
FRAME = b"\x00\x00\x00\x02hi"


@pytest.fixture(params=[False, True], ids=["epoll", "poll"])
def loopback(request: pytest.FixtureRequest) -> Iterator[Loopback]:
    with Loopback(request.param) as made:
        yield made


def start(loopback: Loopback, plan: bytes) -> tuple[int, socket.socket]:
    channel = loopback.selector.connect(loopback.address, proxy=plan)
    proxy = loopback.accept()
    proxy.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return channel, proxy


def said(loopback: Loopback, proxy: socket.socket) -> bytes:
    """The next message to the proxy."""
    proxy.setblocking(False)
    found = b""
    for _ in range(1_000):
        loopback.poll(timeout_ms=1)
        try:
            found += proxy.recv(4_096)
        except BlockingIOError:
            if found:
                break
    proxy.setblocking(True)
    return found


def end(loopback: Loopback, channel: int) -> Disconnect:
    loopback.until(lambda: channel in loopback.gone)
    return loopback.gone[channel]


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("part", [1, 2, 3, 1_000])
def test_answers_may_come_in_any_pieces(loopback: Loopback, name: str, part: int) -> None:
    channel, proxy = start(loopback, PLANS[name])
    for answer in ANSWERS[name]:
        assert said(loopback, proxy)
        assert channel not in loopback.connected
        for at in range(0, len(answer), part):
            proxy.sendall(answer[at : at + part])
            loopback.poll(timeout_ms=1)
    loopback.until(lambda: channel in loopback.connected)
    assert loopback.selector.send(channel, [FRAME]) == "OK"
    assert proxy.recv(100) == FRAME
    proxy.sendall(FRAME)
    loopback.until(lambda: channel in loopback.received)
    assert loopback.received[channel] == [b"hi"]


@pytest.mark.parametrize("name", PLANS)
def test_what_follows_the_last_answer_at_once_is_the_brokers(loopback: Loopback, name: str) -> None:
    channel, proxy = start(loopback, PLANS[name])
    *first, last = ANSWERS[name]
    for answer in first:
        assert said(loopback, proxy)
        proxy.sendall(answer)
    assert said(loopback, proxy)
    proxy.sendall(last + FRAME)
    loopback.until(lambda: channel in loopback.received)
    assert loopback.received[channel] == [b"hi"]


@pytest.mark.parametrize("name", PLANS)
def test_a_proxy_may_leave_at_any_byte(loopback: Loopback, name: str) -> None:
    answers = ANSWERS[name]
    for number, answer in enumerate(answers):
        for cut in range(len(answer)):
            channel, proxy = start(loopback, PLANS[name])
            for before in answers[:number]:
                assert said(loopback, proxy)
                proxy.sendall(before)
            assert said(loopback, proxy)
            proxy.sendall(answer[:cut])
            proxy.close()
            gone = end(loopback, channel)
            assert gone.reason == "PROXY"
            assert gone.text == "lost=1"


def test_an_answer_without_end_is_cut_off(loopback: Loopback) -> None:
    channel, proxy = start(loopback, PLANS["http"])
    assert said(loopback, proxy)
    proxy.sendall(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 1_000)
    assert end(loopback, channel).text == "http_bytes=4096"


@pytest.mark.parametrize("name", PLANS)
def test_garbage_is_refused_or_waits_for_more(loopback: Loopback, name: str) -> None:
    dice = random.Random(7)
    for _ in range(100):
        channel, proxy = start(loopback, PLANS[name])
        assert said(loopback, proxy)
        proxy.sendall(dice.randbytes(dice.randrange(1, 40)))
        proxy.close()
        assert end(loopback, channel).reason in ("PROXY", "REMOTE")


def test_a_channel_may_be_closed_while_it_talks(loopback: Loopback) -> None:
    for name in PLANS:
        channel, proxy = start(loopback, PLANS[name])
        assert said(loopback, proxy)
        loopback.selector.close_channel(channel)
        assert proxy.recv(1) == b""


@pytest.mark.parametrize(
    "plan",
    [
        bytes([ProxyKind.PROXY_HTTP, 0]),
        bytes([ProxyKind.PROXY_HTTP, 0, 5]) + b"four",
        PLANS["socks"] + b"\x00",
        PLANS["socks"] + b"\x00\x00",
    ],
)
def test_a_damaged_plan_is_refused(loopback: Loopback, plan: bytes) -> None:
    with pytest.raises(ValueError, match="plan"):
        loopback.selector.connect(loopback.address, proxy=plan)

"""Proxy: the bytes that are said to it, and what its answers are called."""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from fastprod._core.engine.control_queue import ControlEvent
from fastprod._core.io.channel import CloseReason
from fastprod.client.connections.addresses import Address
from fastprod.client.connections.proxy import Proxy
from fastprod.errors import AuthenticationError, NetworkError
from fastprod.security.proxy_settings import ProxySettings
from fastprod.security.secret import Secret

BROKER = Address(socket.AF_INET, "10.1.2.3", 9092)
SECRET = "gr\u00fc\u00dfe"


def proxy(protocol: str = "socks5", **more: Any) -> Proxy:
    return Proxy(ProxySettings(protocol, "127.0.0.1", 1080, **more))


def messages(plan: bytes) -> Iterator[bytes]:
    """What a plan says, message by message."""
    at = 1
    while at < len(plan):
        (size,) = struct.unpack_from("!H", plan, at)
        yield plan[at + 2 : at + 2 + size]
        at += 2 + size
    assert at == len(plan)


def test_socks_is_told_names_or_addresses() -> None:
    """RFC 1928, 3 to 5."""
    for host, address in {
        "b.test": b"\x03\x06b.test",
        "10.1.2.3": b"\x01\x0a\x01\x02\x03",
        "::1": b"\x04" + bytes(15) + b"\x01",
    }.items():
        plan = proxy().plan(host, 9092)
        assert plan[0] == 1
        assert [*messages(plan)] == [b"\x05\x01\x00", b"", b"\x05\x01\x00" + address + b"\x23\x84"]


def test_socks_is_told_the_password_when_it_asks() -> None:
    """RFC 1929, 2."""
    found = proxy(username="ada", password=Secret(SECRET)).plan("b.test", 1)
    greeting, password, _ = messages(found)
    assert greeting == b"\x05\x02\x00\x02"
    assert password == b"\x01\x03ada\x07" + SECRET.encode()


def test_http_is_asked_to_connect() -> None:
    """RFC 9110, 9.3.6; RFC 7617, 2."""
    assert proxy("http").plan("::1", 9092)[0] == 2
    [request] = messages(proxy("http").plan("::1", 9092))
    assert request == b"CONNECT [::1]:9092 HTTP/1.1\r\nHost: [::1]:9092\r\n\r\n"
    known = proxy("http", username="Aladdin", password=Secret("open sesame"))
    [request] = messages(known.plan("b.test", 1))
    assert b"\r\nProxy-Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n" in request
    nobody = proxy("http", password=Secret("token"))
    [request] = messages(nobody.plan("b.test", 1))
    assert b"\r\nProxy-Authorization: Basic OnRva2Vu\r\n" in request


@pytest.mark.parametrize("host", ["x" * 256, "br\u00fccke.test"])
def test_a_name_that_no_proxy_takes_is_refused(host: str) -> None:
    with pytest.raises(OSError, match="cannot be told to a proxy"):
        proxy().plan(host, 1)


@pytest.mark.parametrize(
    "host", ["b.test\r\nX-Evil: 1", "b test", "br\u00fccke.test", "x" * 256, "x" * 32_767]
)
def test_a_name_cannot_put_headers_into_a_request(host: str) -> None:
    with pytest.raises(OSError, match="cannot be told to a proxy"):
        proxy("http").plan(host, 1)


def test_a_name_is_resolved_here_or_there() -> None:
    where, what = proxy().route("b.test", 9092, lambda: BROKER)
    assert where == Address(socket.AF_INET, "127.0.0.1", 1080)
    assert what.data == proxy().plan("10.1.2.3", 9092)

    def nobody() -> Address:
        raise AssertionError("it was to be left to the proxy")

    there = proxy(resolves_names=True).route("b.test", 9092, nobody)
    assert there[1].data == proxy().plan("b.test", 9092)


def test_a_proxy_without_address_is_told_apart_from_a_broker_without() -> None:
    lost = Proxy(ProxySettings("socks5", "a..b", 1080))
    with pytest.raises(OSError, match=r"^that of proxy a\.\.b:1080: "):
        lost.route("b.test", 9092, lambda: BROKER)


def event(reason: CloseReason, text: str = "", err: int = 0) -> ControlEvent:
    blank: dict[str, Any] = dict.fromkeys(ControlEvent._fields, 0)
    return ControlEvent(**{**blank, "reason": reason, "err": err, "data": text.encode()})


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        ("socks_version=72", NetworkError, "does not speak SOCKS5"),
        ("socks_method=255", AuthenticationError, "give it in proxy_url"),
        ("socks_password=1", AuthenticationError, "give it in proxy_url"),
        ("socks_reply=5", NetworkError, "the broker refused the connection"),
        ("socks_reply=77", NetworkError, "SOCKS5 reply 77"),
        ("socks_address=9", NetworkError, "its answer makes no sense"),
        ("http=HTTP/1.1 502 Bad Gateway", NetworkError, "it answered 'HTTP/1.1 502 Bad Gateway'"),
        ("http=HTTP/1.1 407 Who?", AuthenticationError, "give it in proxy_url"),
        ("http=", NetworkError, "it does not speak HTTP"),
        ("http_bytes=4096", NetworkError, "more than 4,096 bytes"),
        ("lost=1", NetworkError, "Connection reset by peer"),
    ],
)
def test_what_a_proxy_answers_is_put_into_words(text: str, kind: type, says: str) -> None:
    found = proxy().failure("b.test:9092", event(CloseReason.CLOSE_PROXY, text, errno.ECONNRESET))
    assert type(found) is kind
    assert str(found).startswith("proxy 127.0.0.1:1080 did not connect to broker b.test:9092: ")
    assert says in str(found)


def test_a_proxy_that_refuses_the_connection_is_the_one_that_does() -> None:
    found = proxy().failure("b:1", event(CloseReason.CLOSE_NOT_CONNECTED, err=errno.ECONNREFUSED))
    assert type(found) is NetworkError
    assert "connection to proxy 127.0.0.1:1080 for broker b:1" in str(found)


def test_other_ends_are_not_the_proxys_doing() -> None:
    for reason in (CloseReason.CLOSE_REMOTE, CloseReason.CLOSE_BAD_FRAME):
        assert proxy().failure("b:1", event(reason)) is None

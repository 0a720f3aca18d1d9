"""Connections through a proxy, and through one that does not let them through."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from fastprod.broker import Broker
from fastprod.errors import AuthenticationError, KafkaError, MetadataTimeoutError
from support.engine.quick_producer import WAIT_S, quick_producer, wait_for_failure
from support.peer.scripted_peer import Peer
from support.security.proxy_server import Manners, ProxyServer

SECRET = "s3cret:/@ %"
QUOTED = "s3cret%3A%2F%40%20%25"

GOOD = {
    "socks5": Manners("socks5"),
    "socks5 with a password": Manners("socks5", "ada", SECRET),
    "http": Manners("http"),
    "http with a password": Manners("http", "ada", SECRET),
    "socks5 a byte at a time": Manners("socks5", "ada", SECRET, in_bytes=True),
    "http a byte at a time": Manners("http", in_bytes=True),
}


def url_of(proxy: ProxyServer, scheme: str | None = None) -> str:
    url = proxy.url.replace(SECRET, QUOTED)
    return url if scheme is None else scheme + url[url.index("://") :]


@pytest.mark.parametrize("name", GOOD)
def test_every_connection_goes_through_the_proxy(name: str) -> None:
    with Broker(brokers=2, topics={"t": 4}) as broker, ProxyServer(GOOD[name]) as proxy:
        with quick_producer(broker.bootstrap_servers, proxy_url=url_of(proxy)) as producer:
            for partition in range(4):
                producer.send("t", b"x" * 100_000, partition=partition).result(WAIT_S)
        assert len(broker.records("t")) == 4
        assert {*broker.bootstrap_servers.split(",")} <= {*proxy.asked}
        assert proxy.errors == []


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
def test_names_are_left_to_the_proxy_if_it_resolves_them(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getaddrinfo(host: str | bytes, *more: Any, **words: Any) -> Any:
        assert host not in ("localhost", b"localhost")
        return resolve(host, *more, **words)

    resolve = socket.getaddrinfo
    manners = Manners("http" if scheme == "http" else "socks5")
    with (
        Broker(topics={"t": 1}, advertised_host="localhost") as broker,
        ProxyServer(manners) as proxy,
    ):
        server = f"localhost:{broker.nodes[0].port}"
        monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
        with quick_producer(server, proxy_url=url_of(proxy, scheme)) as producer:
            producer.send("t", b"x").result(WAIT_S)
        assert {*proxy.asked} == {server}


REFUSALS = {
    "wrong password": (Manners("socks5", "ada", "other"), AuthenticationError, "proxy_url"),
    "no password": (Manners("http", "bob", "other"), AuthenticationError, "407.*proxy_url"),
    "rules": (Manners("socks5", reply=2), MetadataTimeoutError, "its rules do not allow"),
    "unknown reply": (Manners("socks5", reply=99), MetadataTimeoutError, "SOCKS5 reply 99"),
    "forbidden": (Manners("http", reply=403), MetadataTimeoutError, "HTTP/1.1 403 No"),
    "another protocol": (
        Manners("socks5", raw=b"HTTP/1.1 400 Bad\r\n\r\n"),
        MetadataTimeoutError,
        "does not speak SOCKS5",
    ),
    "no HTTP": (Manners("http", raw=b"\x05\xff" * 5_000), MetadataTimeoutError, "more than 4,096"),
    "an early end": (Manners("http", raw=b"HT"), MetadataTimeoutError, "it ended the connection"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_proxy_that_does_not_connect_is_named_with_its_reason(peer: Peer, name: str) -> None:
    manners, kind, pattern = REFUSALS[name]
    with ProxyServer(manners) as proxy:
        address = proxy.url.rpartition("@")[2].rpartition("/")[2]
        url = f"{manners.protocol}://ada:{QUOTED}@{address}"
        # What no time helps against is told at once, whatever max_block_ms is.
        max_block_ms = 300 if kind is MetadataTimeoutError else 60_000
        with quick_producer(peer, proxy_url=url, max_block_ms=max_block_ms) as producer:
            wait_for_failure(producer)
            began_s = time.monotonic()
            with pytest.raises(kind, match=pattern) as caught:
                producer.partitions_for("t")
            assert time.monotonic() - began_s < WAIT_S
        for part in (f"proxy {address}", f"broker {peer.bootstrap_servers}"):
            assert part in str(caught.value)
        assert SECRET not in str(caught.value)
        assert QUOTED not in str(caught.value)


def test_a_proxy_that_is_not_there_is_named(peer: Peer) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        settings = {"proxy_url": f"socks5://{address}", "max_block_ms": 300}
        refused = pytest.raises(KafkaError, match=f"connection to proxy {address}.*refused")
        with quick_producer(peer, **settings) as producer, refused:
            wait_for_failure(producer)
            producer.partitions_for("t")


def test_a_proxy_that_says_nothing_is_left_after_the_setup_timeout(peer: Peer) -> None:
    """P-G.4.4."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with quick_producer(
            peer,
            proxy_url=f"http://{address}",
            socket_connection_setup_timeout_ms=200,
            max_block_ms=300,
        ) as producer:
            wait_for_failure(producer)
            with pytest.raises(KafkaError, match="socket_connection_setup_timeout_ms") as caught:
                producer.partitions_for("t")
            said = f"proxy {address} did not connect to broker {peer.bootstrap_servers} within"
            assert said in str(caught.value)
            assert "proxy_url" in str(caught.value)
            peer.wait_until(lambda: producer._engine.counters()["connections_opened"] >= 2)


@pytest.mark.parametrize("protocol", ["socks5", "http"])
def test_tls_and_sasl_go_through_the_proxy_too(protocol: str) -> None:
    users = {"ada": "lovelace"}
    with (
        Broker(topics={"t": 1}, tls=True, sasl_users=users) as broker,
        ProxyServer(Manners(protocol)) as proxy,
    ):
        settings = {**broker.client_settings("ada"), "proxy_url": url_of(proxy)}
        servers = settings.pop("bootstrap.servers")
        with quick_producer(servers, **settings) as producer:
            producer.send("t", b"x" * 100_000).result(WAIT_S)
        assert {*proxy.asked} == {servers}
        assert [len(each.value or b"") for each in broker.records("t")] == [100_000]

"""fastprod.client.connections.addresses: contract P-G.4.5, P-A.1.4; P-L.172, P-L.174, P-L.178."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Mapping, Sequence

import pytest

from fastprod.client.connections.addresses import (
    Address,
    NodeAddresses,
    bootstrap_nodes,
    canonical_name,
    resolve,
    resolve_by_system,
)
from fastprod.config_values import BootstrapAddress
from fastprod.errors import ConfigError
from fastprod.records import Node

CANONICAL = "resolve_canonical_bootstrap_servers_only"
ALL_IPS = "use_all_dns_ips"


def v4(ip: str, port: int = 9092) -> Address:
    return Address(socket.AF_INET, ip, port)


def v6(ip: str, port: int = 9092) -> Address:
    return Address(socket.AF_INET6, ip, port)


class Dns:
    """A resolver with answers to order that counts the questions."""

    def __init__(self, answers: Mapping[str, Sequence[Address]]) -> None:
        self.answers = dict(answers)
        self.questions = 0

    def __call__(self, host: str, port: int) -> Sequence[Address]:
        self.questions += 1
        if host not in self.answers:
            raise socket.gaierror(f"{host}: unknown")
        return [address._replace(port=port) for address in self.answers[host]]


A, B, C = v4("10.0.0.1"), v4("10.0.0.2"), v4("10.0.0.3")


def test_addresses_are_of_one_family_and_ipv4_if_there_is_any() -> None:
    """P-G.4.5: the family of the first one, which in Java is IPv4."""
    dns = Dns({"both": [v6("::1"), A, v6("::2"), B], "six": [v6("::1"), v6("::2")], "none": []})
    assert resolve("both", 9092, dns) == [A, B]
    assert resolve("six", 9092, dns) == [v6("::1"), v6("::2")]
    with pytest.raises(OSError, match="'none' has no address"):
        resolve("none", 9092, dns)
    with pytest.raises(socket.gaierror):
        resolve("unknown", 9092, dns)


def test_each_attempt_takes_the_next_address() -> None:
    """P-G.4.5; P-L.172 testFailedConnectionToFirstAddress: not resolved again for that."""
    dns = Dns({"b1": [A, B, C]})
    addresses = NodeAddresses("b1", 9092, dns)
    tried = []
    for _ in range(3):
        tried.append(addresses.current())
        assert addresses.current() == tried[-1]
        addresses.move_to_next()
    assert tried == [A, B, C]
    assert dns.questions == 1


def test_an_exhausted_list_is_resolved_again() -> None:
    """P-G.4.5; P-L.172 testReconnectAfterAddressChange: the new addresses are used."""
    dns = Dns({"b1": [A, B]})
    addresses = NodeAddresses("b1", 9092, dns)
    for _ in range(2):
        addresses.current()
        addresses.move_to_next()
    dns.answers["b1"] = [C]
    assert addresses.current() == C
    assert dns.questions == 2


def test_a_lost_connection_resolves_again() -> None:
    """P-G.4.5; P-L.172 testFailedConnectionToFirstAddressAfterReconnect."""
    dns = Dns({"b1": [A, B, C]})
    addresses = NodeAddresses("b1", 9092, dns)
    addresses.current()
    addresses.clear()
    addresses.current()
    assert dns.questions == 2


def test_a_fresh_list_does_not_start_with_the_address_tried_last() -> None:
    """P-L.174 testSkipLastAttemptedIp."""
    dns = Dns({"b1": [A, B]})
    addresses = NodeAddresses("b1", 9092, dns)
    assert addresses.current() == A
    addresses.clear()
    assert addresses.current() == B
    addresses.clear()
    assert addresses.current() == A
    dns.answers["b1"] = [A]
    addresses.clear()
    assert addresses.current() == A


def test_moving_on_before_the_first_question_is_harmless() -> None:
    dns = Dns({"b1": [A, B]})
    addresses = NodeAddresses("b1", 9092, dns)
    addresses.move_to_next()
    assert addresses.current() == A


def test_a_name_that_fails_is_asked_for_again() -> None:
    dns = Dns({})
    addresses = NodeAddresses("b1", 9092, dns)
    with pytest.raises(OSError, match="unknown"):
        addresses.current()
    dns.answers["b1"] = [A]
    assert addresses.current() == A


def test_bootstrap_servers_become_nodes_with_negative_ids(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P-H.5.1, P-A.1.4; P-L.178 ClientUtilsTest: what does not resolve is a warning, and later."""
    servers = [BootstrapAddress("b1", 9092), BootstrapAddress("gone", 1), BootstrapAddress("b2", 2)]
    nodes = bootstrap_nodes(servers, ALL_IPS, Dns({"b1": [A, B], "b2": [C]}))
    assert nodes.first == (Node(-1, "b1", 9092), Node(-2, "b2", 2))
    assert nodes.later == (Node(-3, "gone", 1),)
    (record,) = [each for each in caplog.records if each.name.endswith(".addresses")]
    assert record.levelno == logging.WARNING
    assert "gone:1" in record.getMessage()


def test_canonical_names_stand_for_every_address_of_a_server() -> None:
    """P-A.1.4: each name expanded to its addresses, each address to its canonical host name."""
    names = {A: "k1.example", B: "k2.example", C: "lost.example"}
    dns = Dns({"kafka": [A, B, C, A], "k1.example": [A], "k2.example": [B]})
    nodes = bootstrap_nodes(
        [BootstrapAddress("kafka", 9092)], CANONICAL, dns, name_of=lambda address: names[address]
    )
    assert nodes.first == (Node(-1, "k1.example", 9092), Node(-2, "k2.example", 9092))
    assert nodes.later == ()


@pytest.mark.parametrize("lookup", [ALL_IPS, CANONICAL])
def test_nothing_resolvable_is_a_config_error(lookup: str) -> None:
    """P-A.1.4."""
    with pytest.raises(ConfigError, match="No resolvable bootstrap urls given in") as caught:
        bootstrap_nodes([BootstrapAddress("gone", 9092)], lookup, Dns({}))
    assert caught.value.key == "bootstrap_servers"


def test_addresses_are_packed_as_the_kernel_takes_them() -> None:
    """A bound socket's own name, read back as raw bytes."""
    four = v4("127.0.0.1", 0x1234).packed()
    six = Address(socket.AF_INET6, "::1", 0x1234, 5, 7).packed()
    assert (len(four), len(six)) == (16, 28)
    assert four[2:8] == bytes.fromhex("1234 7f000001")
    assert six[2:24] == bytes.fromhex("1234 00000005") + bytes(15) + b"\x01"
    assert int.from_bytes(six[24:], sys.byteorder) == 7
    family = four[1] if sys.platform == "darwin" else int.from_bytes(four[:2], sys.byteorder)
    assert family == socket.AF_INET


def test_the_systems_resolver_is_asked_for_stream_addresses() -> None:
    """Literal addresses need no DNS."""
    assert resolve_by_system("127.0.0.1", 9092) == [v4("127.0.0.1")]
    assert resolve("::1", 9092) == [v6("::1")]
    assert resolve("localhost", 9092)[0].ip == "127.0.0.1"
    assert str(v4("127.0.0.1")) == "127.0.0.1:9092"
    assert str(v6("::1")) == "[::1]:9092"


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ("kafka-1.example.", b"kafka-1.example."),
        ("fe80::1%lo", b"fe80::1%lo"),
        ("b\u00fccher.example", "b\u00fccher.example"),
        ("x" * 64, "x" * 64),
        ("two..dots", "two..dots"),
        ("", ""),
    ],
)
def test_pythons_codec_sees_names_that_are_not_plain_ascii_alone(
    monkeypatch: pytest.MonkeyPatch, host: str, asked: str | bytes
) -> None:
    """To load it takes half of the time of a first constructor."""
    seen: list[str | bytes] = []

    def getaddrinfo(name: str | bytes, *more: object, **words: object) -> list[object]:
        seen.append(name)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    assert resolve_by_system(host, 9092) == []
    assert seen == [asked]


def test_an_address_without_name_keeps_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """P-A.1.4."""

    def unknown(ip: str) -> object:
        raise socket.herror(1, "Unknown host")

    monkeypatch.setattr(socket, "gethostbyaddr", unknown)
    assert canonical_name(A) == "10.0.0.1"
    monkeypatch.setattr(socket, "gethostbyaddr", lambda ip: ("k1", [], [ip]))
    assert canonical_name(A) == "k1"

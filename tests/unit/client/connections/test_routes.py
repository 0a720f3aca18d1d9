"""Routes: what the engine is told of the way to a broker."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod._core.io.channel import CloseReason
from fastprod._core.io.proxy_transport import ProxyPlan
from fastprod._core.tls.tls_context import TlsContext
from fastprod.client.connections.addresses import Address
from fastprod.client.connections.routes import Routes
from fastprod.config import ProducerConfig
from fastprod.errors import NetworkError
from fastprod.records import Node
from support.engine.network_world import RecordedEngine
from support.security.authority import CertificateAuthority

BROKER = Address(socket.AF_INET, "127.0.0.9", 9092)
NODE = Node(3, "b3", 9092)


def opened(**config: Any) -> tuple[Routes, Address, tuple[Any, ...]]:
    engine = RecordedEngine()
    routes = Routes(
        engine, ProducerConfig(bootstrap_servers="b0:9092", **config), lambda node_id: BROKER
    )
    address = routes.open(7, NODE, "b3:9092 (node 3)")
    ((slot, node_id, packed, where, *rest),) = engine.take("connect")
    assert (slot, node_id, packed, where) == (7, 3, address.packed(), "b3:9092 (node 3)")
    return routes, address, tuple(rest)


def test_a_broker_is_connected_to_at_its_address() -> None:
    """P-G.4.5"""
    routes, address, rest = opened()
    assert address == BROKER
    assert rest == (None, "", None)
    assert not routes.has_tls
    assert not routes.has_proxy
    event = ControlEvent(EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_NOT_CONNECTED)
    assert routes.proxy_failure("b3", event) is None


def test_over_tls_the_brokers_certificate_has_its_host(tmp_path: Path) -> None:
    authority = CertificateAuthority(tmp_path)
    routes, address, (tls, name, plan) = opened(
        security_protocol="SSL", ssl_truststore_location=str(authority.certificate)
    )
    assert address == BROKER
    assert isinstance(tls, TlsContext)
    assert (name, plan) == ("b3", None)
    event = ControlEvent(
        EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_TLS, data=b"reason=bad record mac\n"
    )
    assert "b3:9092 (node 3)" in routes.tls_reason("b3:9092 (node 3)", NODE, event)


def test_through_a_proxy_the_connection_goes_to_that() -> None:
    routes, address, (tls, name, plan) = opened(proxy_url="socks5://127.0.0.1:1080")
    assert (address.ip, address.port) == ("127.0.0.1", 1080)
    assert (tls, name) == (None, "")
    assert isinstance(plan, ProxyPlan)
    event = ControlEvent(EventKind.ON_DISCONNECTED, reason=CloseReason.CLOSE_NOT_CONNECTED, err=111)
    failure = routes.proxy_failure("b3", event)
    assert isinstance(failure, NetworkError)
    assert "127.0.0.1:1080" in str(failure)


def test_a_name_that_dns_does_not_know_is_told() -> None:
    """P-G.4.5"""

    def unknown(node_id: int) -> Address:
        raise OSError("name not known")

    engine = RecordedEngine()
    routes = Routes(engine, ProducerConfig(bootstrap_servers="b0:9092"), unknown)
    with pytest.raises(OSError, match="name not known"):
        routes.open(7, NODE, "b3")
    assert engine.take("connect") == []


def test_a_spare_connection_is_that_of_the_first_one() -> None:
    """P-G.10.7: a TLS session goes from one to the other."""
    engine = RecordedEngine()
    routes = Routes(engine, ProducerConfig(bootstrap_servers="b0:9092"), lambda node_id: BROKER)
    routes.open(8, NODE, "b3", home=7)
    ((slot, *_, home),) = engine.take("connect")
    assert (slot, home) == (8, 7)

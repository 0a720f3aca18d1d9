"""Listeners: names, protocols and addresses; a client is told those it came by (KIP-103)."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from fastprod.broker import Broker
from fastprod.broker.config import BrokerConfig
from fastprod.broker.listeners import BrokerListener, checked_listeners
from fastprod.broker.server.dynamic_settings import DynamicSettings
from fastprod.errors import ConfigError
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
from fastprod.protocol.messages.metadata import MetadataRequest
from support.broker.sasl_client import SaslClient, payload

METADATA, FIND_COORDINATOR = 3, 10


def nodes_seen_by(port: int) -> list[tuple[str, int]]:
    """What a client of a port is told of the nodes."""
    with SaslClient(port) as client:
        answer = client.ask(METADATA, 5, MetadataRequest(topics=[]))
        return [(each.host, each.port) for each in answer.brokers]


def test_a_client_sees_the_listener_that_it_came_by() -> None:
    """B-D6.4: advertised.listeners; each has its own addresses, in every answer."""
    told = BrokerListener(advertised_host="kafka.example", advertised_port=7000)
    with Broker(brokers=2, listeners={"INTERNAL": "PLAINTEXT", "EXTERNAL": told}) as broker:
        inner = [node.endpoints["INTERNAL"].port for node in broker.nodes]
        servers = [each.server for each in broker._servers]
        outer = [each.bound_port("EXTERNAL") for each in servers if each is not None]
        for port in inner:
            assert nodes_seen_by(port) == [("127.0.0.1", each) for each in inner]
        for port in outer:
            assert nodes_seen_by(port) == [("kafka.example", 7000), ("kafka.example", 7001)]
        with SaslClient(outer[0]) as client:
            found = client.ask(FIND_COORDINATOR, 2, FindCoordinatorRequest(key="g", key_type=0))
            assert (found.host, found.port) == ("kafka.example", 7000 + found.node_id)
        assert broker.bootstrap_servers == ",".join(f"127.0.0.1:{port}" for port in inner)
        assert broker.bootstrap_servers_of("EXTERNAL") == "kafka.example:7000,kafka.example:7001"
        with pytest.raises(ConfigError, match="there are INTERNAL, EXTERNAL"):
            broker.bootstrap_servers_of("PLAINTEXT")


def test_a_node_has_the_same_ports_when_it_comes_up_again() -> None:
    """B-D6.4."""
    with Broker(listeners={"A": "PLAINTEXT", "B": "PLAINTEXT"}) as broker:
        node = broker.nodes[0]
        before = node.endpoints
        node.down()
        for endpoint in before.values():
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(endpoint)
        node.up()
        assert node.endpoints == before
        for endpoint in before.values():
            assert nodes_seen_by(endpoint.port) == [("127.0.0.1", node.port)] or (
                endpoint == before["B"]
            )


def test_listeners_ask_for_what_their_protocols_say() -> None:
    """B-A7.5: only where the protocol is SASL_ must a client say who it is."""
    with Broker(
        listeners={"OPEN": "PLAINTEXT", "CLOSED": "SASL_PLAINTEXT"}, sasl_users={"ada": "x"}
    ) as broker:
        ends = broker.nodes[0].endpoints
        assert nodes_seen_by(ends["OPEN"].port) == [("127.0.0.1", ends["OPEN"].port)]
        with SaslClient(ends["CLOSED"].port) as client:
            client.say(payload(METADATA, 5, MetadataRequest(topics=[])))
            assert client.is_ended()
        with SaslClient(ends["CLOSED"].port) as client:
            assert client.authenticate(b"\0ada\0x").error_code == 0


def test_the_first_of_several_nodes_has_the_port_and_the_others_follow() -> None:
    listener = BrokerListener(port=9000, advertised_port=1000)
    assert listener.of_node(2) == BrokerListener(port=9002, advertised_port=1002)
    assert BrokerListener().of_node(2) == BrokerListener()
    assert str(BrokerListener(host="::1").endpoint(5)) == "[::1]:5"
    assert str(BrokerListener(host="::").endpoint(5)) == "127.0.0.1:5"
    assert str(BrokerListener(host="h", advertised_host="a").endpoint(5)) == "a:5"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "must map names"),
        (["A"], "must map names"),
        ({"": "SSL"}, "its name must be"),
        ({"a b": "SSL"}, "its name must be"),
        ({"A": "SSL", "a": "SSL"}, "upper and lower case"),
        ({"A": "TLS"}, "protocol 'TLS'; there are PLAINTEXT"),
        ({"A": 9092}, "neither a protocol nor"),
        ({"A": BrokerListener(port=-1)}, "port is -1; with 3 node"),
        ({"A": BrokerListener(port=65_535)}, "must be from 0 to 65533"),
        ({"A": BrokerListener(advertised_port=True)}, "advertised_port is True"),
        ({"A": BrokerListener(host=5)}, "host is 5"),  # type: ignore[arg-type]
        (
            {"A": BrokerListener(port=9000), "B": BrokerListener(port=9002)},
            "port 9002 is also that of listener A; each needs 3",
        ),
    ],
)
def test_listeners_that_cannot_be_are_refused(given: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        checked_listeners(given, 3, "127.0.0.1", None)


def test_a_port_of_its_own_goes_with_one_listener_only() -> None:
    with pytest.raises(ConfigError, match="with listeners each has its own"):
        Broker(port=9092, listeners={"A": "PLAINTEXT"})


def test_the_limits_of_a_listener_are_changed_by_its_name() -> None:
    """B-D4.9."""
    settings = DynamicSettings(BrokerConfig(), [0], ["EXTERNAL.1"])
    settings.alter(0, {"listener.name.external.1.max.connections": "5"})
    assert settings.changed(0) == {"listener.name.external.1.max.connections": "5"}
    for name in ("plaintext", "EXTERNAL.1", "external"):
        with pytest.raises(ConfigError, match=r"cannot be changed .* external\.1"):
            settings.alter(0, {f"listener.name.{name}.max.connections": "5"})

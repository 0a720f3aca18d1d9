"""fastprod.cli.cluster.engine_channel: the same connections, errors and bounds as a producer's."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fastprod.broker.broker import Broker
from fastprod.cli.cluster.broker_access import BrokerAccess
from fastprod.cli.cluster.broker_connection import BrokerConnection
from fastprod.cli.cluster.connection_trouble import ConnectionTrouble
from fastprod.cli.cluster.engine_channel import EngineChannel
from fastprod.client.sasl.plain import PlainMechanism
from fastprod.config import ProducerConfig
from support.peer.scripted_peer import Peer
from unit.cli.conftest import CannedServer

TIMEOUT_S = 20.0
SHORT_S = 0.3
SECRET = "s3cret, of ada"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(tls=True, sasl_users={"ada": SECRET}, topics={"t": 3}) as made:
        yield made


def connected(settings: dict[str, Any], timeout_s: float = TIMEOUT_S) -> BrokerConnection:
    access = BrokerAccess(ProducerConfig(settings))
    server = access.config.bootstrap_servers[0]
    try:
        route = access.routes(server, timeout_s)[0]
        return BrokerConnection(EngineChannel(access, server, route, timeout_s), timeout_s)
    finally:
        access.close()


def trouble(settings: dict[str, Any], timeout_s: float = TIMEOUT_S) -> ConnectionTrouble:
    with pytest.raises(ConnectionTrouble) as raised:
        connected(settings, timeout_s)
    assert str(settings["bootstrap.servers"]) in str(raised.value)
    assert SECRET not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_protected_broker_tells_the_same_as_another(broker: Broker, mechanism: str) -> None:
    with connected(broker.client_settings("ada", mechanism=mechanism)) as connection:
        assert connection.where == broker.bootstrap_servers
        assert [topic.name for topic in connection.metadata(["t"]).topics] == ["t"]
        connection.create_topic("new", 2)
        connection.delete_topic("new")


def test_a_wrong_password_is_told_without_it(broker: Broker) -> None:
    wrong = broker.client_settings("ada") | {"sasl.password": "wr0ng, of ada"}
    error = trouble(wrong)
    assert error.cause == "authentication"
    assert "check sasl_username and sasl_password" in str(error)
    assert "wr0ng" not in str(error)


def test_a_client_without_sasl_is_told_that_the_listener_asks_for_it(broker: Broker) -> None:
    given = broker.client_settings("ada")
    settings = {name: each for name, each in given.items() if not name.startswith("sasl.")}
    refusal = pytest.raises(ConnectionTrouble, match="does its listener ask for SASL")
    with connected(settings | {"security.protocol": "SSL"}) as connection, refusal:
        connection.metadata(["t"])


def test_a_mechanism_that_is_not_offered_is_told(broker: Broker) -> None:
    given = broker.client_settings("ada") | {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.config": "principal=ada",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
    }
    del given["sasl.username"], given["sasl.password"]
    assert "it offers" in str(trouble(given))


def test_a_certificate_that_is_not_trusted_is_told(broker: Broker) -> None:
    given = broker.client_settings("ada")
    del given["ssl.truststore.certificates"], given["ssl.truststore.type"]
    error = trouble(given)
    assert error.cause == "tls"
    assert "ssl_truststore_location" in str(error)


def test_another_protocol_is_told(broker: Broker, peer: Peer) -> None:
    given = broker.client_settings("ada") | {"security.protocol": "SASL_PLAINTEXT"}
    error = trouble({name: each for name, each in given.items() if not name.startswith("ssl")})
    assert error.cause == "protocol"
    assert "set it to SASL_SSL" in str(error)
    plain = {"bootstrap.servers": peer.bootstrap_servers, "security.protocol": "SSL"}
    error = trouble(plain)
    assert error.cause in ("protocol", "tls")
    assert "does not speak TLS" in str(error)


def test_a_connection_that_is_refused_or_closed_is_told(
    free_port: int, canned_server: CannedServer
) -> None:
    gone = {"bootstrap.servers": f"127.0.0.1:{free_port}", "security.protocol": "SSL"}
    assert trouble(gone).cause == "refused"
    closing = {
        "bootstrap.servers": canned_server(b""),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ada",
        "sasl.password": SECRET,
    }
    error = trouble(closing)
    assert error.cause == "closed"
    assert "ApiVersions" in str(error)
    garbage = closing | {
        "bootstrap.servers": canned_server(bytes.fromhex("00000006 00000000 0000"))
    }
    assert trouble(garbage).cause == "not kafka"


def test_who_says_nothing_is_not_waited_for_longer_than_the_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        error = trouble({"bootstrap.servers": where, "security.protocol": "SSL"}, SHORT_S)
        proxied = {"bootstrap.servers": "127.0.0.1:9092", "proxy.url": f"http://{where}"}
        error_behind = trouble(proxied, SHORT_S)
    assert error.cause == error_behind.cause == "timeout"
    late = f"did not take the connection, or no handshake of TLS ended, within {SHORT_S} s"
    assert late in str(error)
    assert f"proxy {where} did not connect to broker 127.0.0.1:9092 within" in str(error_behind)


def test_a_proxy_that_is_not_there_is_told(free_port: int) -> None:
    given = {"bootstrap.servers": "127.0.0.1:9092", "proxy.url": f"http://127.0.0.1:{free_port}"}
    error = trouble(given)
    assert error.cause == "proxy"
    assert f"proxy 127.0.0.1:{free_port}" in str(error)


def test_a_mechanism_that_waits_for_others_is_not_waited_for(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()

    def initial(self: PlainMechanism) -> bytes:
        release.wait(TIMEOUT_S)
        return b""

    monkeypatch.setattr(PlainMechanism, "may_block", True)
    monkeypatch.setattr(PlainMechanism, "initial", initial)
    began_s = time.monotonic()
    try:
        error = trouble(broker.client_settings("ada", mechanism="PLAIN"), SHORT_S)
    finally:
        release.set()
    assert error.cause == "timeout"
    assert time.monotonic() - began_s < TIMEOUT_S

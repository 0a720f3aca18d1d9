"""fastprod.cli.cluster.broker_access: what all connections to a protected cluster share."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import click
import pytest

from fastprod.cli.cluster.broker_access import BrokerAccess, broker_access
from fastprod.cli.cluster.connection_trouble import ConnectionTrouble
from fastprod.config import ProducerConfig
from fastprod.config_values import BootstrapAddress
from fastprod.errors import AuthenticationError

BROKER = BootstrapAddress("127.0.0.1", 9092)
TIMEOUT_S = 20.0


def config(**settings: Any) -> ProducerConfig:
    return ProducerConfig(bootstrap_servers="b0:9092", **settings)


def test_a_cluster_in_plain_text_needs_none() -> None:
    with broker_access(config()) as access:
        assert access is None


def test_a_file_that_is_missing_is_a_usage_error(tmp_path: Path) -> None:
    missing = tmp_path / "ca.pem"
    settings = config(security_protocol="SSL", ssl_truststore_location=missing)
    with (
        pytest.raises(click.UsageError, match=r"ssl_truststore_location = .*ca\.pem"),
        broker_access(settings),
    ):
        pass


def test_without_a_proxy_each_address_is_a_way() -> None:
    with broker_access(config(security_protocol="SSL")) as access:
        assert access is not None
        [route] = access.routes(BROKER, TIMEOUT_S)
    assert (route.address.ip, route.address.port, route.plan) == ("127.0.0.1", 9092, None)


def test_a_proxy_is_told_the_name_or_the_address() -> None:
    named = BootstrapAddress("no.invalid", 9092)
    with broker_access(config(proxy_url="socks5h://127.0.0.1:1080")) as access:
        assert access is not None
        [route] = access.routes(named, TIMEOUT_S)
        assert route.address.port == 1080
        assert route.plan is not None
        assert b"no.invalid" in route.plan.data
    with broker_access(config(proxy_url="socks5://127.0.0.1:1080")) as access:
        assert access is not None
        [route] = access.routes(BROKER, TIMEOUT_S)
        assert route.plan is not None
        assert bytes([127, 0, 0, 1]) in route.plan.data
        with pytest.raises(ConnectionTrouble, match="DNS does not know"):
            access.routes(named, TIMEOUT_S)
    with broker_access(config(proxy_url="http://127.0.0.1:3128")) as access:
        assert access is not None
        with pytest.raises(ConnectionTrouble, match="cannot be told to a proxy") as caught:
            access.routes(BootstrapAddress("b\u00fcro", 9092), TIMEOUT_S)
    assert caught.value.cause == "proxy"


def token_config(provider: object) -> ProducerConfig:
    return config(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=provider,
    )


def test_a_token_that_does_not_come_is_not_waited_for() -> None:
    release = threading.Event()

    def slow() -> str:
        release.wait(TIMEOUT_S)
        return ""

    access = BrokerAccess(token_config(slow))
    try:
        with pytest.raises(ConnectionTrouble, match=r"slow did not come in time") as caught:
            access.mechanism("b0", time.monotonic() + 0.05)
    finally:
        release.set()
        access.close()
    assert caught.value.cause == "authentication"


def test_a_token_that_cannot_be_had_is_told() -> None:
    def broken() -> str:
        raise RuntimeError("no")

    access = BrokerAccess(token_config(broken))
    try:
        with pytest.raises(AuthenticationError, match="no access token"):
            access.mechanism("b0", time.monotonic() + TIMEOUT_S)
    finally:
        access.close()

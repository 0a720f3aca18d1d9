"""fastprod.cli.cluster.connected_producer: ready to send, or a failure that says why not."""

from __future__ import annotations

import click
import pytest

from fastprod.cli.cluster.connected_producer import connected_producer
from fastprod.cli.options.client_settings import ClientSettings
from fastprod.cli.output.failure import Unreachable
from fastprod.protocol.api_keys import METADATA
from support.peer.scripted_peer import Peer

TIMEOUT_S = 10.0


def client(servers: str, timeout_s: float = TIMEOUT_S) -> ClientSettings:
    return ClientSettings("me", servers, properties=["linger.ms=3"], timeout_s=timeout_s)


def test_a_producer_is_connected_and_has_the_settings(peer: Peer) -> None:
    with connected_producer(client(peer.bootstrap_servers), "t") as producer:
        assert (producer.config.client_id, producer.config.linger_ms) == ("me", 3)
        assert producer.send("t", b"v", partition=1).result(TIMEOUT_S).partition == 1
    assert peer.values("t", 1) == [b"v"]


def test_a_cluster_that_is_down_is_told_at_once(free_port: int) -> None:
    with pytest.raises(Unreachable, match="refused the connection"):
        connected_producer(client(f"127.0.0.1:{free_port}"), "t")


def test_a_listener_that_wants_sasl_is_told_at_once(peer: Peer) -> None:
    peer.on(METADATA).close()
    with pytest.raises(Unreachable, match="its listener wants SASL"):
        connected_producer(client(peer.bootstrap_servers), "t")


def test_a_topic_that_is_not_there_is_told_after_the_timeout(peer: Peer) -> None:
    with pytest.raises(Unreachable, match="Topic none not present"):
        connected_producer(client(peer.bootstrap_servers, 2.0), "none")


def test_a_name_that_no_topic_can_have_is_a_usage_error(peer: Peer) -> None:
    with pytest.raises(click.UsageError, match="1 to 249 characters"):
        connected_producer(client(peer.bootstrap_servers), "x" * 250)


@pytest.mark.parametrize("name", ["x" * 40_000, "\udcff"])
def test_a_name_that_no_request_can_hold_is_a_usage_error(peer: Peer, name: str) -> None:
    with pytest.raises(click.UsageError, match="the topic's name cannot be one"):
        connected_producer(client(peer.bootstrap_servers), name)

"""Connections that end, are made anew, and how often that is tried (contract P-G.3, P-G.4)."""

from __future__ import annotations

import itertools
import logging
import socket
import time

import pytest

from fastprod.errors import MetadataTimeoutError
from fastprod.protocol.api_keys import METADATA, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerClusterFactory
from support.peer.scripted_peer import Peer


def test_a_port_that_refuses_is_tried_ever_more_slowly() -> None:
    """P-G.4.2, P-L.174 testExponentialReconnectBackoff: 0, 20, 60, 140, 300, 620, ... ms."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with quick_producer(
            f"127.0.0.1:{bound.getsockname()[1]}",
            reconnect_backoff_ms=20,
            reconnect_backoff_max_ms=10_000,
            max_block_ms=3_000,
        ) as producer:
            error = producer.send("t", b"x").exception(WAIT_S)
            assert isinstance(error, MetadataTimeoutError)
            tries = producer._engine.counters()["connections_opened"]
    assert 3 <= tries <= 10, "20 ms each time would be 150"


def test_a_connection_that_was_good_starts_the_backoff_anew(peer: Peer) -> None:
    """P-G.4.2, P-L.174: else the ninth would come after 25 seconds."""
    with quick_producer(
        peer, reconnect_backoff_ms=100, reconnect_backoff_max_ms=100_000
    ) as producer:
        began_s = time.monotonic()
        for number in range(9):
            assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == number
            peer.close_all()
        assert time.monotonic() - began_s < 15


@pytest.mark.parametrize("reset", [False, True])
def test_connections_that_break_all_the_time_lose_and_double_nothing(
    peer: Peer, reset: bool
) -> None:
    """P-G.7.5, P-G.7.8, P-F.5.3: closed, or reset, in the midst of requests, answers, and
    between.
    """
    count = 3_000
    with quick_producer(peer, batch_size=2_000) as producer:
        futures = []
        for number in range(count):
            futures.append(producer.send("t", b"%d" % number, partition=0))
            if number % 300 == 299:
                futures[number - 200].result(WAIT_S)
                peer.close_all(reset=reset)
        for future in futures:
            future.result(WAIT_S)
    assert peer.values("t", 0) == [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("read_bytes", [8, 40, 5_000])
def test_a_connection_that_ends_within_a_request_loses_and_doubles_nothing(
    peer: Peer, read_bytes: int
) -> None:
    """P-G.7.5: the broker has read a part of it."""
    for skipped in (0, 2, 3):
        peer.on(PRODUCE).close(after_bytes_read=read_bytes).after(skipped)
    with quick_producer(peer, batch_size=20_000) as producer:
        futures = [
            producer.send("t", b"%d" % number + bytes(1_000), partition=0) for number in range(100)
        ]
        for future in futures:
            future.result(WAIT_S)
    found = [value.rstrip(b"\0") for value in peer.values("t", 0) if value is not None]
    assert found == [b"%d" % number for number in range(100)]


def test_idle_connections_are_closed_quietly_and_made_anew(
    new_peer_cluster: PeerClusterFactory, caplog: pytest.LogCaptureFixture
) -> None:
    """P-G.3.1, P-G.3.2, P-L.179 testCloseOldestConnection: all of them, one after the other; no
    error is said or counted, and the next record finds its way."""
    cluster = new_peer_cluster(3, {"t": 3})
    with (
        caplog.at_level(logging.WARNING),
        quick_producer(cluster, connections_max_idle_ms=2_500) as producer,
    ):
        for round_number in range(2):
            for partition in range(3):
                future = producer.send("t", b"x", partition=partition)
                assert future.result(WAIT_S).offset == round_number
            cluster.wait_until(
                lambda: not any(each.open_connections for each in cluster.nodes), WAIT_S
            )
        counters = producer._engine.counters()
        assert counters["connections_opened"] >= 2 * 3
        assert counters["records_retried"] == 0
    assert caplog.records == []


def test_an_idle_time_shorter_than_an_answer_takes_sends_again(peer: Peer) -> None:
    """P-G.3.1: activity is bytes; what was under way is retried, and is there once."""
    peer.on(PRODUCE).hold().times(2)
    with quick_producer(peer, connections_max_idle_ms=150) as producer:
        assert producer.send("t", b"x", partition=0).result(WAIT_S).topic == "t"
    assert peer.values("t", 0) == [b"x"]
    assert len(peer.requests(PRODUCE)) >= 3


def test_never_means_never_and_traffic_keeps_a_connection(peer: Peer) -> None:
    """P-G.3.1: -1; and metadata that comes and goes is activity."""
    with (
        quick_producer(peer, connections_max_idle_ms=1_500, metadata_max_age_ms=20) as busy,
        quick_producer(peer, connections_max_idle_ms=-1) as never,
    ):
        for producer in (busy, never):
            producer.send("t", b"x", partition=0).result(WAIT_S)
        idle_at_s = time.monotonic() + 2.0
        peer.wait_until(lambda: time.monotonic() > idle_at_s, WAIT_S, "idle long enough")
        peer.wait_for(METADATA, len(peer.requests(METADATA)) + 2, WAIT_S)
        assert producer._engine.counters()["connections_closed"] == 0
        came_s = [each.received_s for each in peer.requests(METADATA)]
        gap_s = max(after - before for before, after in itertools.pairwise(came_s))
        busy_opened = busy._engine.counters()["connections_opened"]
        # If the machine stood still for that long there was no traffic.
        assert busy_opened == 2 or gap_s > 1.2, "to the bootstrap server, and to the broker itself"
        assert never._engine.counters()["connections"] == 2


def test_an_idle_time_longer_than_the_clock_is_never(peer: Peer) -> None:
    """P-G.3.1: as Java's Long.MAX_VALUE; in ns the number does not fit."""
    settings = {"connections_max_idle_ms": 2**60, "max_block_ms": 20_000}
    with quick_producer(peer, metadata_max_age_ms=20, **settings) as producer:
        producer.send("t", b"x", partition=0).result(WAIT_S)
        peer.wait_for(METADATA, len(peer.requests(METADATA)) + 5, WAIT_S)
        assert producer._engine.counters()["connections_closed"] == 0

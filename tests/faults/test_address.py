"""Addresses of brokers that lead nowhere, or to something that is no broker (P-A.4, P-G.4).

Each fault is named with the address, within the bound, and its end is enough to go on.
"""

from __future__ import annotations

import contextlib
import http.server
import math
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fastprod.errors import (
    AuthenticationError,
    ConfigError,
    DeliveryTimeoutError,
    KafkaError,
    KafkaTimeoutError,
    MetadataTimeoutError,
    NetworkError,
)
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, METADATA, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer, wait_for_failure
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.scripted_peer import Peer

MAX_BLOCK_MS = 300
HTTP = ("127.0.0.1", 0)


class _Page(http.server.BaseHTTPRequestHandler):
    """Greets before it is asked, as an old server with an error page does."""

    def handle(self) -> None:
        self.wfile.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")


@contextmanager
def http_server() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(HTTP, _Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def tls_listener() -> Iterator[str]:
    """Answers what is no TLS as OpenSSL does: with an alert."""
    with socket.create_server(HTTP) as listening:
        listening.settimeout(WAIT_S)
        over = threading.Event()

        def serve() -> None:
            while not over.is_set():
                taken, _ = listening.accept()
                with taken:
                    taken.sendall(bytes.fromhex("15 0303 0002 0246"))

        thread = threading.Thread(target=serve)
        thread.start()
        host, port = listening.getsockname()
        try:
            yield f"{host}:{port}"
        finally:
            over.set()
            socket.create_connection((host, port)).close()
            thread.join()


@contextmanager
def nobody() -> Iterator[str]:
    """A port that nobody listens on, and nobody else gets."""
    with socket.socket() as bound:
        bound.bind(HTTP)
        host, port = bound.getsockname()
        yield f"{host}:{port}"


def test_a_host_that_no_dns_knows_is_refused_by_the_constructor() -> None:
    """P-A.1.4: unknown host."""
    for host in ("no-such-host.invalid", "two..dots", "x" * 70):
        with pytest.raises(ConfigError, match="resolvable") as caught:
            quick_producer(f"{host}:9092")
        assert caught.value.key == "bootstrap_servers"


def test_bootstrap_servers_that_do_not_resolve_are_named_each_with_its_reason() -> None:
    """P-A.1.4: all of them, as none will do."""
    with pytest.raises(ConfigError) as caught:
        quick_producer("no-such-host.invalid:9092,two..dots:9093")
    for word in (
        "no-such-host.invalid:9092",
        "Name or service not known",
        "two..dots:9093",
        "'two..dots' cannot be a host name",
    ):
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (nobody, ["could not be established", "Connection refused", "errno 111"]),
        (http_server, ["1,213,486,160 bytes", "'HTTP'", "speaks another protocol"]),
    ],
)
def test_what_is_no_broker_is_named_with_its_address_and_others_are_asked(
    peer: Peer, where: Callable[[], Any], words: list[str]
) -> None:
    """P-A.4.5, P-G.7.8: refused port, a port that speaks HTTP."""
    with where() as address:
        with quick_producer(address, max_block_ms=MAX_BLOCK_MS) as producer:
            wait_for_failure(producer)
            error = producer.send("t", b"x").exception(WAIT_S)
            assert isinstance(error, MetadataTimeoutError)
            assert isinstance(error.__cause__, NetworkError)
            for word in [address, f"{MAX_BLOCK_MS} ms", *words]:
                assert word in str(error), error
            with pytest.raises(MetadataTimeoutError, match=address):
                producer.partitions_for("t")
        with quick_producer(f"{address},{peer.bootstrap_servers}") as producer:
            assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0


def test_init_transactions_names_who_could_not_be_reached(peer: Peer) -> None:
    """P-A.8.2: the first call of such a producer, so that it is the one to say it."""
    with (
        nobody() as address,
        quick_producer(address, max_block_ms=MAX_BLOCK_MS, transactional_id="ledger") as producer,
    ):
        wait_for_failure(producer)
        with pytest.raises(KafkaTimeoutError) as caught:
            producer.init_transactions()
        for word in [address, f"{MAX_BLOCK_MS} ms", "Connection refused", "call it again"]:
            assert word in str(caught.value), caught.value


def test_a_listener_with_tls_is_told_at_once_and_others_are_asked(peer: Peer) -> None:
    """P-G.7.8: its alert is no frame."""
    with tls_listener() as address:
        with quick_producer(address) as producer:
            error = producer.send("t", b"x").exception(WAIT_S)
            assert isinstance(error, AuthenticationError)
            for word in [address, "speaks TLS, and was spoken to in plain text"]:
                assert word in str(error), error
        with quick_producer(f"{address},{peer.bootstrap_servers}") as producer:
            assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0


def test_a_broker_that_starts_late_gets_everything_once(peer: Peer) -> None:
    """P-G.4.2: refused at first; the records wait in line."""
    peer.refuse_connections()
    with quick_producer(peer) as producer:
        found: list[int] = []
        sending = threading.Thread(
            target=lambda: found.append(producer.send("t", b"1", partition=0).result().offset)
        )
        sending.start()
        peer.wait_until(lambda: producer._engine.counters()["connections_opened"] >= 3)
        peer.accept_connections()
        sending.join(WAIT_S)
        assert found == [0]
    assert peer.values("t", 0) == [b"1"]


def advertise(peer: Any, node: int, host: str) -> Any:
    """Let Metadata name another host for a node, until the rule is cancelled."""

    def change(message: dict[str, Any]) -> None:
        for broker in message["brokers"]:
            if broker["node_id"] == node:
                broker["host"] = host

    return peer.on(METADATA).change(change).always()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "two..dots", "x" * 70, ""])
def test_a_leader_at_a_host_that_no_dns_knows_stops_nobody_else(
    new_peer_cluster: PeerClusterFactory, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """P-G.4.5: unknown host. When metadata names a better one, all is well."""
    real = socket.getaddrinfo

    def resolve(name: str | bytes, port: int, **words: Any) -> list[Any]:
        if name == b"no-such-host.invalid":  # a real resolver may take its time
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return list(real(name, port, **words))

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    cluster = new_peer_cluster(2, {"t": 2})
    lost, found = (
        next(each for each in (0, 1) if cluster.leader("t", each) == node) for node in (1, 2)
    )
    rule = advertise(cluster, 1, host)
    servers = cluster.node(2).bootstrap_servers
    with (
        quick_producer(servers, delivery_timeout_ms=1_500, request_timeout_ms=1_000) as hasty,
        quick_producer(servers) as patient,
    ):
        hasty.partitions_for("t")
        hasty._network_client.warm(1)
        cluster.wait_until(lambda: "DNS" in hasty._network_client.disconnect_reason(1), WAIT_S)
        error = hasty.send("t", b"lost", partition=lost).exception(WAIT_S)
        assert isinstance(error, DeliveryTimeoutError)
        assert f"DNS does not know the host of broker {host}:{cluster.node(1).port}" in str(error)
        assert error.attempts == 0
        waiting = patient.send("t", b"waited", partition=lost)
        assert patient.send("t", b"x", partition=found).result(WAIT_S).offset == 0
        assert not waiting.done()
        rule.cancel()
        assert waiting.result(WAIT_S).offset == 0
        hasty.warmup("t", timeout=WAIT_S)
        assert hasty.send("t", b"x", partition=lost).result(WAIT_S).offset == 1
    assert cluster.values("t", lost) == [b"waited", b"x"]


def test_every_address_of_a_name_is_tried_in_turn(
    new_peer: PeerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-G.4.5, KIP-302, P-L.172: the name is asked for again when its addresses are used up.

    Metadata has that name, too: so it does not matter when which of both nodes is tried.
    """
    asked: list[str | bytes] = []
    real = socket.getaddrinfo

    def resolve(host: str | bytes, port: int, **words: Any) -> list[Any]:
        asked.append(host)
        answer = real("127.0.0.1", port, **words)[0]
        return [(*answer[:4], (ip, port)) for ip in ("127.0.0.2", "127.0.0.3", "127.0.0.1")]

    peer = new_peer({"t": 3}, advertised_host="brokers.example")
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with quick_producer(f"brokers.example:{peer.port}") as producer:
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0
        assert asked == [b"brokers.example"] * 3, "by the constructor, and for each node"
        assert producer._engine.counters()["connections_opened"] == 3 + 3
        peer.refuse_connections()
        peer.close_all()
        opened = producer._engine.counters()["connections_opened"]
        peer.wait_until(lambda: producer._engine.counters()["connections_opened"] >= opened + 8)
        assert len(asked) > 3
        peer.accept_connections()
        assert producer.send("t", b"y", partition=0).result(WAIT_S).offset == 1


def hang_up(listening: socket.socket) -> None:
    """Take connections and end them, as a load balancer does that has no broker behind it."""
    with contextlib.suppress(OSError):
        while True:
            listening.accept()[0].close()


def test_addresses_behind_some_that_take_connections_and_never_answer_are_tried(
    new_peer: PeerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-G.4.5: the name resolves to the same addresses, in this order, each time."""
    real = socket.getaddrinfo

    def resolve(host: str | bytes, port: int, **words: Any) -> list[Any]:
        answer = real("127.0.0.1", port, **words)[0]
        return [(*answer[:4], (ip, port)) for ip in ("127.0.0.2", "127.0.0.3", "127.0.0.1")]

    peer = new_peer({"t": 1}, advertised_host="brokers.example")
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with socket.create_server(("127.0.0.3", peer.port)) as listening:
        taking = threading.Thread(target=hang_up, args=(listening,))
        taking.start()
        try:
            with quick_producer(f"brokers.example:{peer.port}", max_block_ms=10_000) as producer:
                assert producer.send("t", b"x").result(WAIT_S).offset == 0
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            taking.join(WAIT_S)


def test_a_server_that_dns_does_not_know_yet_is_asked_when_the_others_have_failed(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-A.1.4: what was wrong with DNS for a moment, as the producer was made, is not kept."""
    real = socket.getaddrinfo
    is_known = threading.Event()

    def resolve(host: str | bytes, port: int, **words: Any) -> list[Any]:
        if host == b"broker.example" and not is_known.is_set():
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return list(real("127.0.0.1", port, **words))

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with (
        nobody() as dead,
        quick_producer(f"{dead},broker.example:{peer.port}", max_block_ms=10_000) as producer,
    ):
        wait_for_failure(producer)
        is_known.set()
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0


def test_a_connection_that_is_never_taken_is_given_up_and_the_next_server_asked(
    peer: Peer, new_peer_cluster: PeerClusterFactory
) -> None:
    """P-G.4.4, KIP-601: the error names the limit, and no other."""
    peer.hang_connections()
    other = new_peer_cluster(1, {"t": 1})
    quick = {
        "socket_connection_setup_timeout_ms": 100,
        "socket_connection_setup_timeout_max_ms": 200,
    }
    with quick_producer(peer, max_block_ms=MAX_BLOCK_MS, **quick) as producer:
        wait_for_failure(producer)
        error = producer.send("t", b"x").exception(WAIT_S)
        assert isinstance(error, MetadataTimeoutError)
        assert f"broker {peer.bootstrap_servers}" in str(error)
        assert " did not take the connection within" in str(error)
        assert "socket_connection_setup_timeout_ms" in str(error)
        assert "request_timeout_ms" not in str(error)
        peer.wait_until(lambda: producer._engine.counters()["connections_opened"] >= 2)
        peer.accept_connections()
        producer.warmup("t", timeout=WAIT_S)
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0
    peer.hang_connections()
    servers = f"{peer.bootstrap_servers},{other.bootstrap_servers}"
    with quick_producer(servers, **quick) as producer:
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0
    assert other.values("t", 0) == [b"x"]


def test_a_broker_that_accepts_and_never_answers_is_named(peer: Peer) -> None:
    """P-G.2.4, P-G.4.4: it is the request that times out, and the error says whose and which."""
    peer.stop_reading()
    with quick_producer(
        peer, max_block_ms=MAX_BLOCK_MS, request_timeout_ms=200, delivery_timeout_ms=60_000
    ) as producer:
        wait_for_failure(producer)
        error = producer.send("t", b"x").exception(WAIT_S)
        assert isinstance(error, MetadataTimeoutError)
        assert f"broker {peer.bootstrap_servers}" in str(error)
        assert " did not answer within" in str(error)
        assert "request_timeout_ms = 200" in str(error)
        peer.resume_reading()
        producer.warmup("t", timeout=WAIT_S)
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0
    assert peer.values("t", 0) == [b"x"]


def test_without_retries_a_lost_connection_is_told_with_its_address(peer: Peer) -> None:
    """P-F.4.1: what became of the record is not known, and the error says so."""
    with quick_producer(peer, retries=0, acks=1) as producer:
        producer.warmup("t")
        peer.on(PRODUCE).close()
        error = producer.send("t", b"x", partition=0).exception(WAIT_S)
        assert isinstance(error, NetworkError)
        assert f"connection to broker {peer.bootstrap_servers}" in str(error)
        assert " ended" in str(error)
        assert "may have been written" in str(error)
        assert (error.topic, error.partition, error.retriable) == ("t", 0, True)
    with quick_producer(peer, retries=0, acks=1, request_timeout_ms=200) as producer:
        producer.warmup("t")
        peer.on(PRODUCE).silence()
        late = producer.send("t", b"x", partition=0).exception(WAIT_S)
        assert isinstance(late, KafkaError)
        assert late.code == 7
        assert f"broker {peer.bootstrap_servers}" in str(late)
        assert " did not answer within" in str(late)
        assert "request_timeout_ms = 200" in str(late)


def test_a_warm_up_that_fails_says_why(new_peer_cluster: PeerClusterFactory) -> None:
    """Which leader, and what is the matter with it."""
    cluster = new_peer_cluster(2, {"t": 2})
    first, second = cluster.nodes
    second.refuse_connections()
    with quick_producer(first) as producer:
        producer.partitions_for("t")
        for node in (1, 2):
            producer._network_client.warm(node)
        cluster.wait_until(
            lambda: (
                producer._network_client.is_warm(1)
                and "refused" in producer._network_client.disconnect_reason(2)
            ),
            WAIT_S,
        )
        with pytest.raises(KafkaTimeoutError) as caught:
            producer.warmup("t", timeout=0.3)
        for word in ("300 ms", "1 of 2 leader(s)", second.bootstrap_servers, "refused"):
            assert word in str(caught.value)
        second.accept_connections()
        producer.warmup("t", timeout=WAIT_S)


@pytest.mark.parametrize("what", ["it is back", "another leads"])
def test_a_warm_up_tries_again_until_the_leaders_are_there(
    new_peer_cluster: PeerClusterFactory, what: str
) -> None:
    """A connection that was refused is nothing final, nor is a leader."""
    cluster = new_peer_cluster(2, {"t": 2})
    first, second = cluster.nodes
    second.refuse_connections()
    failures: list[BaseException] = []
    with quick_producer(first) as producer:

        def warm() -> None:
            try:
                producer.warmup("t", timeout=WAIT_S)
            except KafkaError as error:
                failures.append(error)

        warming = threading.Thread(target=warm)
        warming.start()
        cluster.wait_until(lambda: "refused" in producer._network_client.disconnect_reason(2))
        attempts = producer._engine.counters()["connections_opened"]
        cluster.wait_until(lambda: producer._engine.counters()["connections_opened"] > attempts + 1)
        if what == "it is back":
            second.accept_connections()
        else:
            for partition in (0, 1):
                cluster.move_leader("t", partition, 1)
        warming.join(2 * WAIT_S)
        assert not warming.is_alive()
    for failure in failures:
        raise failure


def test_a_warm_up_without_a_producer_id_says_who_refused_it(peer: Peer) -> None:
    """P-F.5.1."""
    peer.on(INIT_PRODUCER_ID).error(14).always()
    with quick_producer(peer) as producer:
        producer.partitions_for("t")
        client = producer._network_client
        client.warm(peer.node_id)
        peer.wait_until(
            lambda: client.is_warm(peer.node_id) and bool(client.producer_id_error()), WAIT_S
        )
        with pytest.raises(KafkaTimeoutError) as caught:
            producer.warmup("t", timeout=0.3)
        peer.clear_script()
    for word in (
        "no broker has given the producer id that enable_idempotence needs",
        f"broker {peer.bootstrap_servers} (node 1) refused InitProducerId",
        "COORDINATOR_LOAD_IN_PROGRESS (14)",
    ):
        assert word in str(caught.value)


def test_a_warm_up_may_take_for_ever_but_no_negative_time(peer: Peer) -> None:
    with quick_producer(peer) as producer:
        producer.warmup("t", timeout=math.inf)
        with pytest.raises(ValueError, match="timeout = -1"):
            producer.warmup("t", timeout=-1)

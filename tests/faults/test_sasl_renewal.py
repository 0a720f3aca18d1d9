"""Sessions that are renewed on a second connection, and second connections that come to nothing.

To a scripted peer, whose first two connections are those of the bootstrap server and of the leader.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fastprod import KafkaProducer, RecordFuture
from fastprod.broker import Broker
from fastprod.errors import UndeliveredError
from fastprod.protocol.api_keys import API_VERSIONS, PRODUCE, SASL_AUTHENTICATE, SASL_HANDSHAKE
from support.engine.quick_producer import WAIT_S
from support.peer.fixtures import PeerFactory
from support.peer.journal import Request
from support.peer.scripted_peer import Peer
from support.security.sasl_script import (
    accepted,
    asked,
    offer_sasl,
    refused,
    sasl_peer,
    sasl_producer,
)

BOOTSTRAP, LEADER = 1, 2
EARLY = pytest.mark.usefixtures("early_renewals")
OFTEN_MS = 20_000
"""With EARLY: every two seconds, and a second connection has ten to be ready."""
EXCHANGE = [
    ("ApiVersions", 0),
    ("SaslHandshake", 1),
    ("SaslAuthenticate", 2),
    ("ApiVersions", 4),
]
USER, PASSWORD = "ada", "wonderland"


def metric(producer: KafkaProducer, name: str) -> float:
    return float(producer.metrics()["producer-metrics"][name])


def renewals(producer: KafkaProducer) -> float:
    return metric(producer, "successful-reauthentication-total")


def is_second(request: Request) -> bool:
    """Whether it is on a connection that was made to renew a session."""
    return request.connection > LEADER


def wait_until(producer: KafkaProducer, predicate: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not predicate():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def check_turns(peer: Peer) -> None:
    """Each connection has had its time: no record went to an earlier one afterwards."""
    turns = [request.connection for request in peer.requests(PRODUCE)]
    assert turns == sorted(turns)


@EARLY
def test_a_session_is_renewed_on_a_second_connection(new_peer: PeerFactory) -> None:
    """P-G.10.1, P-G.10.7: it begins as every connection does; the first one is closed then."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN", lifetime_ms=OFTEN_MS)
    with sasl_producer(peer, linger_ms=0) as producer:
        sent = 0
        turns: set[int] = set()
        while renewals(producer) < 3 or len(turns) < 2:
            assert producer.send("t", b"x").result(WAIT_S).offset == sent
            sent += 1
            turns.add(peer.requests(PRODUCE)[-1].connection)
        assert metric(producer, "record-retry-total") == 0
        assert metric(producer, "failed-reauthentication-total") == 0
        assert metric(producer, "successful-authentication-total") == 2
    check_turns(peer)
    for each in peer.connections:
        asked_first = asked(peer, each.number)[: len(EXCHANGE)]
        assert asked_first == EXCHANGE[: len(asked_first)], "the last ones may not have come far"
    peer.wait_until(lambda: all(each.closed_by == "client" for each in peer.connections))


def test_records_keep_their_order_over_many_renewals(new_peer: PeerFactory) -> None:
    """P-G.10.7, P-F.5: under load, every few hundred ms; none is lost, sent again or overtaken."""
    peer = sasl_peer(new_peer)
    peer.add_topic("many", 3)
    offer_sasl(peer, "PLAIN", lifetime_ms=600)
    with sasl_producer(peer, linger_ms=0, batch_size=500) as producer:
        futures: list[RecordFuture] = []
        while renewals(producer) < 10:
            for _ in range(100):
                count = len(futures)
                futures.append(producer.send("many", b"%d" % count, partition=count % 3))
            if len(futures) % 500 == 0:
                futures[-1].result(WAIT_S)
        producer.flush(WAIT_S)
        assert metric(producer, "record-retry-total") == 0
        assert metric(producer, "record-error-total") == 0
    for partition in range(3):
        values = [int(value or b"-1") for value in peer.values("many", partition)]
        assert values == sorted(set(values))
        assert len(values) == len(
            [each for each in futures if each.result(0).partition == partition]
        )
    check_turns(peer)


@EARLY
def test_what_is_in_flight_is_waited_for(new_peer: PeerFactory) -> None:
    """P-G.10.7: the second connection gets nothing while the first one owes an answer."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN", lifetime_ms=OFTEN_MS)
    with sasl_producer(peer, linger_ms=0) as producer:
        producer.send("t", b"first").result(WAIT_S)
        peer.on(PRODUCE).hold()
        futures = [producer.send("t", b"held")]
        peer.wait_until_held()
        leader = peer.held[0].connection  # not the first one any more if the machine is slow
        authenticated = len(peer.requests(SASL_AUTHENTICATE))
        # The one to the bootstrap server is renewed at once, the other one is ready and waits.
        wait_until(producer, lambda: renewals(producer) >= 1)
        peer.wait_until(lambda: len(peer.requests(SASL_AUTHENTICATE)) >= authenticated + 2)
        futures += [producer.send("t", b"%d" % number) for number in range(5)]
        assert not any(each.done() for each in futures)
        assert not any(each.connection > leader for each in peer.requests(PRODUCE))
        peer.release()
        assert [each.result(WAIT_S).offset for each in futures] == [1, 2, 3, 4, 5, 6]
        wait_until(producer, lambda: renewals(producer) >= 2)
        assert producer.send("t", b"last").result(WAIT_S).offset == 7
        assert metric(producer, "record-retry-total") == 0
    check_turns(peer)
    assert peer.requests(PRODUCE)[-1].connection > leader


def refuse_connections(peer: Peer) -> None:
    peer.refuse_connections()


def drop_connections(peer: Peer) -> None:
    """As a broker does that has max.connections.per.ip."""
    peer.drop_next_connections(1_000)


def cut(api: int, version: int) -> Callable[[Peer], None]:
    def tell(peer: Peer) -> None:
        peer.on(api).when(lambda each: is_second(each) and each.version == version).close().always()

    return tell


def silence(api: int, version: int) -> Callable[[Peer], None]:
    def tell(peer: Peer) -> None:
        rule = peer.on(api).when(lambda each: is_second(each) and each.version == version)
        rule.silence().always()

    return tell


def garble(peer: Peer) -> None:
    peer.on(SASL_HANDSHAKE).when(is_second).reply(b"\0\0\0\x05\0\0\0\x01\0").always()


def refuse_token(peer: Peer) -> None:
    answer = peer.on(SASL_AUTHENTICATE).when(is_second)
    answer.reply(lambda request: refused(request.version, "not here")).always()


@pytest.mark.parametrize(
    "misfortune",
    [
        refuse_connections,
        drop_connections,
        cut(API_VERSIONS, 0),
        cut(SASL_HANDSHAKE, 1),
        cut(SASL_AUTHENTICATE, 2),
        cut(API_VERSIONS, 4),
        silence(API_VERSIONS, 0),
        silence(SASL_AUTHENTICATE, 2),
        silence(API_VERSIONS, 4),
        garble,
        refuse_token,
    ],
)
def test_without_a_second_connection_the_first_one_authenticates_again(
    new_peer: PeerFactory, misfortune: Callable[[Peer], None]
) -> None:
    """P-G.10.7: in time, with no record lost or sent again."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN", lifetime_ms=2_000)
    meets_all = misfortune in (refuse_connections, drop_connections)
    if not meets_all:
        misfortune(peer)
    with sasl_producer(peer, linger_ms=0) as producer:
        producer.send("t", b"first").result(WAIT_S)
        if meets_all:  # the first ones, too
            misfortune(peer)
        sent = 1
        while renewals(producer) < 2:
            assert producer.send("t", b"x").result(WAIT_S).offset == sent
            sent += 1
        assert metric(producer, "record-retry-total") == 0
        assert metric(producer, "failed-reauthentication-total") == 0
    assert {request.connection for request in peer.requests(PRODUCE)} == {LEADER}
    for connection in (BOOTSTRAP, LEADER):
        assert asked(peer, connection).count(("SaslHandshake", 1)) >= 2
    peer.wait_until(lambda: peer.connection(LEADER).closed_by == "client")


def keep_waiting(peer: Peer, count: int) -> None:
    """Second connections wait for the answer to their token."""
    rule = peer.on(SASL_AUTHENTICATE).when(is_second)
    rule.reply(lambda request: accepted(request.version, 3_000)).hold().times(count)


@EARLY
def test_a_connection_that_dies_after_it_took_over_is_an_ordinary_loss(
    new_peer: PeerFactory,
) -> None:
    """P-G.10.7, P-F.5: the record was written, and is not written twice."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN", lifetime_ms=OFTEN_MS)
    rule = peer.on(PRODUCE).when(is_second).close_after_append()
    with sasl_producer(peer, linger_ms=0) as producer:
        sent = 0
        while rule.hits == 0 or sent % 10:
            assert producer.send("t", b"%d" % sent).result(WAIT_S).offset == sent
            sent += 1
        assert metric(producer, "record-retry-total") == 1
    assert peer.values("t", 0) == [b"%d" % number for number in range(sent)]


@EARLY
def test_a_first_connection_that_dies_takes_the_second_one_along(new_peer: PeerFactory) -> None:
    """P-G.10.7: it is made anew, and nothing is left of the one that was prepared."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN", lifetime_ms=OFTEN_MS)
    with sasl_producer(peer, linger_ms=0) as producer:
        producer.send("t", b"0").result(WAIT_S)
        keep_waiting(peer, 2)
        peer.wait_until(lambda: peer.held_count == 2)
        peer.on(PRODUCE).on_connection(LEADER).close()
        assert producer.send("t", b"1").result(WAIT_S).offset == 1
        peer.wait_until(lambda: sum(each.is_open for each in peer.connections[LEADER:4]) == 1)
        peer.release()
        wait_until(producer, lambda: renewals(producer) >= 1)
        assert producer.send("t", b"2").result(WAIT_S).offset == 2
    assert peer.values("t", 0) == [b"0", b"1", b"2"]


@EARLY
def test_a_producer_closes_while_a_second_connection_is_prepared(new_peer: PeerFactory) -> None:
    """P-A.9.4: both are closed."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN", lifetime_ms=OFTEN_MS)
    with sasl_producer(peer, linger_ms=0) as producer:
        producer.send("t", b"0").result(WAIT_S)
        keep_waiting(peer, 1)
        peer.wait_until_held()
    peer.wait_until(lambda: not peer.open_connections)
    peer.release()


@EARLY
def test_a_producer_closes_while_a_second_connection_waits(new_peer: PeerFactory) -> None:
    """P-A.9.4: for an answer that does not come on the first one."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN", lifetime_ms=OFTEN_MS)
    with sasl_producer(peer, linger_ms=0) as producer:
        producer.send("t", b"0").result(WAIT_S)
        peer.on(PRODUCE).hold()
        future = producer.send("t", b"1")
        peer.wait_until_held()
        ready = len(peer.requests(API_VERSIONS))
        peer.wait_until(lambda: len(peer.requests(API_VERSIONS)) >= ready + 4)
        with pytest.raises(UndeliveredError):
            producer.close(0.1)
        assert future.exception(WAIT_S) is not None
        peer.wait_until(lambda: not peer.open_connections)


def test_without_acks_a_session_is_renewed_where_it_is(new_peer: PeerFactory) -> None:
    """P-G.10.7: nobody knows what is in flight, and on another connection it might be overtaken."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN", lifetime_ms=1_000)
    with sasl_producer(peer, linger_ms=0, acks=0, enable_idempotence=False) as producer:
        sent = 0
        while renewals(producer) < 4:
            producer.send("t", b"%d" % sent).result(WAIT_S)
            sent += 1
            time.sleep(0.002)
        peer.wait_for_log("t", 0, sent)
    assert peer.values("t", 0) == [b"%d" % number for number in range(sent)]
    assert len(peer.connections) == 2


@EARLY
@pytest.mark.parametrize("tls", [False, True])
def test_a_user_who_is_replaced_comes_with_the_next_session(tls: bool) -> None:
    """P-G.10.7: a connection keeps its user, but another one may have another; over TLS too."""
    users = {USER: PASSWORD, "bob": "builder"}
    with Broker(
        topics={"t": 1}, tls=tls, sasl_users=users, connections_max_reauth_ms=OFTEN_MS
    ) as broker:
        settings: dict[str, Any] = broker.client_settings(USER, mechanism="SCRAM-SHA-256")
        with KafkaProducer(settings) as producer:
            assert producer.send("t", b"x").result(WAIT_S).offset == 0
            producer.set_sasl_credentials("bob", "builder")
            sent = 1
            while renewals(producer) < 2:
                assert producer.send("t", b"x").result(WAIT_S).offset == sent
                sent += 1
            assert metric(producer, "failed-reauthentication-total") == 0
            assert metric(producer, "record-retry-total") == 0
            assert metric(producer, "connection-creation-total") >= 4


def connections_to(port: int) -> int:
    """How many descriptors of this process are connected to it."""
    count = 0
    for path in tuple(Path("/proc/self/fd").iterdir()):
        with contextlib.suppress(OSError):  # the folder's own
            if str(path.readlink()).startswith("socket:"):
                with socket.socket(fileno=os.dup(int(path.name))) as each:
                    is_internet = each.family == socket.AF_INET
                    count += is_internet and each.getpeername()[1] == port
    return count


@EARLY
def test_a_forked_child_has_no_second_connection_either(new_peer: PeerFactory) -> None:
    """P-G.10.7: the fork is while a session is being renewed; the parent's goes on."""
    peer = sasl_peer(new_peer)
    offer_sasl(peer, "PLAIN", lifetime_ms=OFTEN_MS)
    with sasl_producer(peer, linger_ms=0) as producer:
        producer.send("t", b"first").result(WAIT_S)
        peer.on(API_VERSIONS).hold()
        peer.wait_until_held()
        assert connections_to(peer.port) >= 3
        child = os.fork()
        if child == 0:
            os._exit(min(connections_to(peer.port), 100))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        peer.release()
        wait_until(producer, lambda: renewals(producer) >= 2)
        assert producer.send("t", b"last").result(WAIT_S).offset == 1
        assert metric(producer, "failed-reauthentication-total") == 0

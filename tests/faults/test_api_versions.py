"""Brokers that refuse ApiVersions, do not answer it, or change what they speak (contract P-G.5)."""

from __future__ import annotations

import time

import pytest

from fastprod.errors import MetadataTimeoutError, UnsupportedVersionError
from fastprod.protocol.api_keys import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerFactory
from support.peer.peer_options import Versions
from support.peer.script import Body
from support.peer.scripted_peer import Peer

CLUSTER_AUTHORIZATION_FAILED = 31
UNSUPPORTED_VERSION = 35


def versions_asked(peer: Peer, connection: int = 1) -> list[int]:
    return [each.version for each in peer.requests(API_VERSIONS) if each.connection == connection]


@pytest.mark.parametrize(
    ("body", "highest", "asked"),
    [
        ("v0", 2, [4, 2]),
        ("v0", 0, [4, 0]),
        ("asked", 0, [4, 0]),
        ("junk", 2, [4, 0]),
        ("bare", 2, [4, 0]),
    ],
)
def test_a_refusal_in_any_form_is_understood_on_the_same_connection(
    new_peer: PeerFactory, body: Body, highest: int, asked: list[int]
) -> None:
    """P-G.5.1, P-G.5.2, P-G.5.3, P-L.164
    testUnsupportedApiVersionsRequestWith/WithoutVersionProvided.
    """
    peer = new_peer({"t": 1}, versions={API_VERSIONS: (0, highest)}, unsupported_body=body)
    with quick_producer(peer) as producer:
        assert producer.send("t", b"x").result(WAIT_S).offset == 0
    assert [versions_asked(peer, each.number) for each in peer.connections] == [asked] * 2


@pytest.mark.parametrize(
    ("code", "version"), [(CLUSTER_AUTHORIZATION_FAILED, 4), (UNSUPPORTED_VERSION, 0)]
)
def test_an_error_that_no_other_version_helps_ends_the_connection(
    new_peer: PeerFactory, caplog: pytest.LogCaptureFixture, code: int, version: int
) -> None:
    """P-G.5.3, P-L.164 testInvalidApiVersionsRequest: named meanwhile, and tried again later."""
    peer = new_peer({"t": 1}, versions={API_VERSIONS: (0, version)})
    rule = peer.on(API_VERSIONS).error(code).when(lambda request: request.version == version)
    rule.always()
    with quick_producer(peer, max_block_ms=800) as producer:
        rule.wait_for_hits(2)
        error = producer.send("t", b"x").exception(WAIT_S)
        assert isinstance(error, MetadataTimeoutError)
        assert f"broker {peer.bootstrap_servers}" in str(error)
        assert " refused ApiVersions" in str(error)
        assert f"({code})" in str(error)
        peer.wait_until(lambda: " refused ApiVersions" in caplog.text)
        assert {each.api_key for each in peer.requests()} == {API_VERSIONS}
        assert rule.hits > 1
        asked = [each for each in peer.requests() if each.version == version]
        connections = [each.connection for each in asked]
        assert len(set(connections)) == len(connections)
        rule.cancel()
        producer.warmup("t", timeout=WAIT_S)
        assert producer.send("t", b"x").result(WAIT_S).offset == 0


def test_nothing_else_is_asked_before_a_good_answer(peer: Peer) -> None:
    """P-G.5.7: neither metadata, nor a producer id, nor records."""
    peer.on(API_VERSIONS).hold().times(2)
    with quick_producer(peer) as producer:
        waiting = producer.try_send("t", b"x")
        assert isinstance(waiting.exception(0), MetadataTimeoutError)
        peer.wait_until_held()
        assert [each.api_key for each in peer.requests()] == [API_VERSIONS]
        peer.release()
        producer.partitions_for("t")
        future = producer.send("t", b"x", partition=0)
        peer.wait_until_held()
        assert [each.api_key for each in peer.requests() if each.connection == 2] == [API_VERSIONS]
        assert not future.done()
        peer.release()
        assert future.result(WAIT_S).offset == 0


def test_an_answer_that_never_comes_is_waited_for_no_longer_than_a_request(peer: Peer) -> None:
    """P-G.4.3, P-G.4.4, P-L.166 ...ConnectionDoesNotRemainStuckInCheckingApiVersionsState...: then
    the request's own time-out guards."""
    peer.on(API_VERSIONS).silence().times(2)
    began_s = time.monotonic()
    with quick_producer(peer, request_timeout_ms=200, delivery_timeout_ms=60_000) as producer:
        assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == 0
    assert time.monotonic() - began_s >= 2 * 0.19
    first, second, third, *_ = peer.requests(API_VERSIONS)
    assert len({each.connection for each in (first, second, third)}) == 3


def test_a_broker_that_was_replaced_is_asked_what_it_speaks(peer: Peer) -> None:
    """P-G.5.4, P-G.5.5: down, and up again; each connection goes by its own answer."""
    asked = []
    with quick_producer(peer) as producer:
        for number, highest in enumerate((13, 8, 3, 12)):
            peer.speak(PRODUCE, 0, highest)
            peer.close_all()
            assert producer.send("t", b"x", partition=0).result(WAIT_S).offset == number
            asked.append(peer.requests(PRODUCE)[-1].version)
    assert asked == [13, 8, 3, 12]


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({PRODUCE: (0, 2)}, ["Produce", "offers 0 to 2", "speaks 3 to 13"]),
        ({PRODUCE: (14, 20)}, ["Produce", "offers 14 to 20"]),
        ({PRODUCE: None}, ["does not offer Produce"]),
        ({METADATA: (0, 3)}, ["Metadata", "offers 0 to 3"]),
        ({INIT_PRODUCER_ID: None}, ["does not offer InitProducerId"]),
    ],
)
def test_a_broker_too_old_or_too_new_is_told_at_once(
    new_peer: PeerFactory, versions: Versions, words: list[str]
) -> None:
    """P-G.2.7, P-G.5.4, P-F.4.1: by every record, and long before any timeout."""
    peer = new_peer({"t": 1}, versions=versions)
    with quick_producer(peer) as producer:
        said = []
        for _ in range(3):
            error: BaseException | None
            try:
                error = producer.send("t", b"x").exception(WAIT_S)
            except Exception as raised:
                error = raised
            assert error is not None
            said.append(str(error))
            if producer.closed:
                break
        for word in words:
            assert all(word in text for text in said), said
        assert all(f"broker {peer.bootstrap_servers}" in text for text in said), said
    assert peer.requests(PRODUCE) == []


def test_without_idempotence_a_broker_that_was_upgraded_can_be_used(new_peer: PeerFactory) -> None:
    """P-F.4.1, P-F.4.8: a version that was not there is no lasting error."""
    peer = new_peer({"t": 1}, versions={PRODUCE: (0, 2)})
    with quick_producer(peer, acks=1) as producer:
        for _ in range(3):
            error = producer.send("t", b"x").exception(WAIT_S)
            assert isinstance(error, UnsupportedVersionError)
            assert f"broker {peer.bootstrap_servers}" in str(error)
        peer.speak(PRODUCE, 0, 13)
        peer.close_all()
        # Until it has connected again, what the broker spoke before holds.
        deadline_s = time.monotonic() + WAIT_S
        while (error := (future := producer.send("t", b"x")).exception(WAIT_S)) is not None:
            assert isinstance(error, UnsupportedVersionError)
            assert time.monotonic() < deadline_s
        assert future.result().offset == 0

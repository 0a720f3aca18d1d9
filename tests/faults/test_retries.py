"""Requests that fail: what is tried again, how often, and what is not (contract P-F.4, P-F.5.1).

P-L.84, P-L.89, P-L.90, P-L.91, P-L.112, P-L.113, P-L.125, P-L.126 and P-L.129 (SenderTest), through
the public API and as far as transactions are not concerned.
"""

from __future__ import annotations

import pytest

from fastprod import KafkaProducer
from fastprod.errors import (
    ClusterAuthorizationError,
    DeliveryTimeoutError,
    InvalidRecordError,
    KafkaError,
    NetworkError,
    UnsupportedVersionError,
)
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, METADATA, PRODUCE
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.scripted_peer import Peer

BOUND_S = 20.0
LONG_MS = 60_000
COORDINATOR_LOADING = 14
NOT_LEADER = 6
CLUSTER_AUTHORIZATION_FAILED = 31
UNSUPPORTED_VERSION = 35
UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
INVALID_RECORD = 87


def new_producer(peer: Peer, **config: object) -> KafkaProducer:
    settings = {"linger_ms": 0, "retry_backoff_ms": 20, "reconnect_backoff_ms": 20, **config}
    return KafkaProducer(bootstrap_servers=peer.bootstrap_servers, **settings)


def warm(peer: Peer) -> None:
    """The peer's first answers take long, because its schemas are imported for them."""
    with new_producer(peer) as producer:
        producer.send("t", b"warm", partition=0).result(BOUND_S)


def test_one_lost_connection_is_within_one_retry_and_two_are_not(peer: Peer) -> None:
    """P-L.84 testRetries, P-F.4.3."""
    with new_producer(peer, retries=1, enable_idempotence=False) as producer:
        peer.on(PRODUCE).close()
        assert producer.send("t", b"1", partition=0).result(BOUND_S).offset == 0
        peer.on(PRODUCE).close().times(2)
        with pytest.raises(NetworkError):
            producer.send("t", b"2", partition=0).result(BOUND_S)
        assert peer.values("t", 0) == [b"1"]


@pytest.mark.parametrize("is_appended", [True, False])
def test_a_record_is_there_once_whether_the_answer_or_the_request_was_lost(
    peer: Peer, is_appended: bool
) -> None:
    """P-F.5.3: idempotence."""
    rule = peer.on(PRODUCE)
    if is_appended:
        rule.close_after_append().times(3)
    else:
        rule.close().times(3)
    with new_producer(peer) as producer:
        futures = [producer.send("t", b"%d" % number, partition=0) for number in range(10)]
        assert [each.result(BOUND_S).offset for each in futures] == list(range(10))
    assert peer.values("t", 0) == [b"%d" % number for number in range(10)]


def test_the_producer_id_is_asked_for_until_it_comes(peer: Peer) -> None:
    """P-L.126 testSenderShouldRetryWithBackoffOnRetriableError, P-F.5.1: nothing leaves before."""
    peer.on(INIT_PRODUCER_ID).error(COORDINATOR_LOADING).times(4)
    with new_producer(peer) as producer:
        assert producer.send("t", b"x", partition=0).result(BOUND_S).offset == 0
    asked = peer.requests(INIT_PRODUCER_ID)
    assert len(asked) == 5
    assert asked[-1].arrival < peer.requests(PRODUCE)[0].arrival


def test_the_producer_id_comes_although_metadata_holds_the_only_slot(peer: Peer) -> None:
    """P-L.89 testInitProducerIdRequestWithMaxInFlightOne."""
    peer.on(METADATA).hold()
    with new_producer(peer, max_in_flight_requests_per_connection=1) as producer:
        future = producer.try_send("t", b"too early", partition=0)
        assert isinstance(future.exception(0), KafkaError), "nothing is known of the topic yet"
        peer.wait_until_held()
        peer.release()
        assert producer.send("t", b"x", partition=0).result(BOUND_S).offset == 0
    assert len(peer.requests(INIT_PRODUCER_ID)) == 1


def test_the_producer_id_is_asked_for_again_after_a_lost_connection(peer: Peer) -> None:
    """P-L.90 testNodeNotReady, P-F.5.1."""
    peer.on(INIT_PRODUCER_ID).close().times(2)
    with new_producer(peer) as producer:
        assert producer.send("t", b"x", partition=0).result(BOUND_S).offset == 0
    assert len(peer.requests(INIT_PRODUCER_ID)) == 3


def test_a_client_that_may_not_be_idempotent_fails_and_may_try_again(peer: Peer) -> None:
    """P-L.91 testClusterAuthorizationExceptionInInitProducerIdRequest, P-F.5.1."""
    refusal = peer.on(INIT_PRODUCER_ID).error(CLUSTER_AUTHORIZATION_FAILED).always()
    with new_producer(peer) as producer:
        for _ in range(2):
            with pytest.raises(ClusterAuthorizationError):
                producer.send("t", b"x", partition=0).result(BOUND_S)
        refusal.cancel()
        assert producer.send("t", b"y", partition=0).result(BOUND_S).offset == 0
    assert peer.values("t", 0) == [b"y"]


def test_a_client_that_may_not_produce_at_all_is_at_its_end(peer: Peer) -> None:
    """P-L.112 testClusterAuthorizationExceptionInProduceRequest,
    testCancelInFlightRequestAfterFatalError, P-F.1.2: what is under way fails too, its answer is
    harmless, and later sends are refused."""
    held = peer.on(PRODUCE).for_partition("t", 1).hold()
    with new_producer(peer) as producer:
        other = producer.send("t", b"1", partition=1)
        peer.wait_until_held()
        peer.on(PRODUCE).for_partition("t", 0).error(CLUSTER_AUTHORIZATION_FAILED)
        first = producer.send("t", b"0", partition=0)
        peer.wait_for(PRODUCE, 2, BOUND_S)
        peer.release()
        with pytest.raises(ClusterAuthorizationError):
            first.result(BOUND_S)
        assert held.hits == 1
        other.exception(BOUND_S)
        with pytest.raises(KafkaError):
            producer.send("t", b"2", partition=2).result(BOUND_S)
    assert peer.values("t", 2) == []


def test_a_message_format_of_old_fails_the_batch_alone(peer: Peer) -> None:
    """P-L.113 testUnsupportedForMessageFormatInProduceRequest."""
    with new_producer(peer) as producer:
        peer.on(PRODUCE).error(UNSUPPORTED_FOR_MESSAGE_FORMAT)
        error = producer.send("t", b"1", partition=0).exception(BOUND_S)
        assert isinstance(error, KafkaError)
        assert error.code == UNSUPPORTED_FOR_MESSAGE_FORMAT
        assert producer.send("t", b"2", partition=0).result(BOUND_S).offset == 0


def test_a_version_refused_is_the_end(peer: Peer) -> None:
    """P-L.113 testUnsupportedVersionInProduceRequest."""
    peer.on(PRODUCE).error(UNSUPPORTED_VERSION)
    with new_producer(peer) as producer:
        with pytest.raises(UnsupportedVersionError):
            producer.send("t", b"1", partition=0).result(BOUND_S)
        with pytest.raises(KafkaError):
            producer.send("t", b"2", partition=0).result(BOUND_S)


def test_the_brokers_own_text_is_in_the_error(peer: Peer) -> None:
    """P-L.125 testCustomErrorMessage, P-F.4.4."""
    peer.on(PRODUCE).error(INVALID_RECORD, message="no key, no entry")
    with (
        new_producer(peer) as producer,
        pytest.raises(InvalidRecordError, match="no key, no entry"),
    ):
        producer.send("t", b"1", partition=0).result(BOUND_S)


def test_every_batch_that_cannot_be_sent_fails_at_once(new_peer: PeerFactory) -> None:
    """P-F.3.3: zstd needs Produce 7; also those behind the first, and nothing is the matter with
    the sequences of the records that come after them."""
    peer = new_peer({"t": 1}, versions={PRODUCE: (3, 6)})
    with new_producer(
        peer,
        compression_type="zstd",
        batch_size=200,
        linger_ms=LONG_MS,
        request_timeout_ms=LONG_MS,
        delivery_timeout_ms=2 * LONG_MS,
    ) as producer:
        futures = [producer.send("t", b"x" * 150, partition=0) for _ in range(20)]
        for future in futures:
            assert isinstance(future.exception(BOUND_S), UnsupportedVersionError)
        assert producer._engine.counters()["epoch_bumps"] == 0
    assert peer.requests(PRODUCE) == []


@pytest.mark.parametrize("new_leader", [1, 2])
def test_a_leader_named_in_the_answer_is_used_without_waiting_for_metadata(
    new_peer_cluster: PeerClusterFactory, new_leader: int
) -> None:
    """P-L.129 testWhenProduceResponseReturnsWithALeaderShipChangeErrorAndNewLeaderInformation,
    P-H.6, P-D.6.3: no backoff, and whichever node is served first."""
    cluster = new_peer_cluster(2, {"t": 2})
    partition = next(each for each in (0, 1) if cluster.leader("t", each) != new_leader)
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        linger_ms=0,
        retry_backoff_ms=LONG_MS,
        retry_backoff_max_ms=LONG_MS,
    ) as producer:
        for each in (0, 1):
            producer.send("t", b"warm", partition=each).result(BOUND_S)
        cluster.on(METADATA).hold().always()
        cluster.move_leader("t", partition, new_leader)
        future = producer.send("t", b"moved", partition=partition)
        assert future.result(BOUND_S).offset == 1
        cluster.clear_script()
        cluster.release()
    assert cluster.values("t", partition) == [b"warm", b"moved"]


def test_without_a_new_leader_in_the_answer_metadata_tells(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-L.129 ...ButNoNewLeaderInformation: a full update is asked for at once."""
    cluster = new_peer_cluster(2, {"t": 2}, leader_hints=False)
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=20
    ) as producer:
        producer.send("t", b"warm", partition=0).result(BOUND_S)
        old = cluster.leader("t", 0)
        asked = len(cluster.requests(METADATA))
        cluster.move_leader("t", 0, 3 - old)
        assert producer.send("t", b"moved", partition=0).result(BOUND_S).offset == 1
        assert len(cluster.requests(METADATA)) > asked


def test_a_partition_that_lost_its_leader_waits_for_the_next(
    new_peer_cluster: PeerClusterFactory,
) -> None:
    """P-D.5.1, P-H.2: nothing is lost meanwhile."""
    cluster = new_peer_cluster(2, {"t": 2})
    with KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, linger_ms=0, retry_backoff_ms=20
    ) as producer:
        producer.send("t", b"0", partition=0).result(BOUND_S)
        leader = cluster.leader("t", 0)
        cluster.move_leader("t", 0, -1)
        futures = [producer.send("t", b"%d" % number, partition=0) for number in range(1, 5)]
        asked = len(cluster.requests(METADATA))
        cluster.wait_for(METADATA, asked + 2, BOUND_S)
        cluster.move_leader("t", 0, leader)
        assert [each.result(BOUND_S).offset for each in futures] == [1, 2, 3, 4]


def test_a_request_without_an_answer_is_sent_again_on_a_new_connection(peer: Peer) -> None:
    """P-G.2.4, P-F.4.1: after request_timeout_ms, although nothing else wakes the I/O thread."""
    warm(peer)
    with new_producer(peer, request_timeout_ms=300, delivery_timeout_ms=LONG_MS) as producer:
        producer.send("t", b"0", partition=1).result(BOUND_S)
        before = len(peer.requests(PRODUCE))
        peer.on(PRODUCE).silence()
        assert producer.send("t", b"1", partition=1).result(BOUND_S).offset == 1
    first, second, *_ = peer.requests(PRODUCE)[before:]
    assert first.connection != second.connection
    assert peer.values("t", 1) == [b"0", b"1"]


def test_no_answer_ever_ends_in_the_records_own_timeout(peer: Peer) -> None:
    """P-D.8.1: a request that times out is retried as long as there is time."""
    warm(peer)
    peer.on(PRODUCE).when(lambda request: request.batches[0].values == [b"x"]).silence().always()
    with new_producer(peer, request_timeout_ms=200, delivery_timeout_ms=3_000) as producer:
        error = producer.send("t", b"x", partition=1).exception(BOUND_S)
        assert isinstance(error, DeliveryTimeoutError)
        assert error.attempts > 1
        assert producer.send("t", b"y", partition=1).result(BOUND_S).offset == 0
    assert peer.values("t", 1) == [b"y"]

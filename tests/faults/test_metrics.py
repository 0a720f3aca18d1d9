"""metrics() when things go wrong: every retry, error, split, throttle time and byte is counted."""

from __future__ import annotations

from typing import Any

from fastprod import KafkaProducer
from fastprod.protocol.api_keys import API_VERSIONS, METADATA, PRODUCE
from support.peer.scripted_peer import Peer

NOT_LEADER = 6
MESSAGE_TOO_LARGE = 10
TOPIC_AUTHORIZATION_FAILED = 29
TIMEOUT_S = 30.0


def new_producer(peer: Peer, **settings: Any) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=peer.bootstrap_servers, **settings)


def figures(producer: KafkaProducer, group: str = "producer-metrics") -> dict[str, Any]:
    return dict(producer.metrics()[group])


def test_retries_count_as_sent_again(peer: Peer) -> None:
    """K: record-send counts retries again; P-F.4.3."""
    peer.on(PRODUCE).error(NOT_LEADER).times(2)
    with new_producer(peer, retry_backoff_ms=1, retry_backoff_max_ms=2) as producer:
        producer.send("t", b"value", partition=0).result(TIMEOUT_S)
    for found in (figures(producer), figures(producer, "producer-topic-metrics.t")):
        assert found["record-send-total"] == 3
        assert found["record-retry-total"] == 2
        assert found["record-error-total"] == 0
        assert found["record-ack-time-p50"] <= found["record-ack-time-max"]
    assert figures(producer)["record-ack-total"] == 1
    # Queue time is that of the first try alone, the acknowledgement's that of all three.
    found = figures(producer)
    assert found["record-ack-time-max"] > found["request-latency-avg"] * 2


def test_records_refused_for_good_are_errors(peer: Peer) -> None:
    peer.on(PRODUCE).error(TOPIC_AUTHORIZATION_FAILED).once()
    with new_producer(peer) as producer:
        assert producer.send("t", b"refused", partition=0).exception(TIMEOUT_S) is not None
        producer.send("t", b"taken", partition=0).result(TIMEOUT_S)
    for found in (figures(producer), figures(producer, "producer-topic-metrics.t")):
        assert found["record-send-total"] == 2
        assert found["record-error-total"] == 1
        assert found["record-retry-total"] == 0


def test_a_batch_that_is_too_large_counts_as_split(peer: Peer) -> None:
    """P-D.9.4, P-L.115."""
    rule = (
        peer.on(PRODUCE)
        .error(MESSAGE_TOO_LARGE)
        .when(lambda request: any(len(batch.records) > 1 for batch in request.batches))
    )
    rule.once()
    with new_producer(peer, linger_ms=60_000) as producer:
        futures = [producer.send("t", bytes(1_000), partition=0) for _ in range(20)]
        producer.flush(TIMEOUT_S)
        for future in futures:
            future.result(TIMEOUT_S)
    found = figures(producer)
    assert found["batch-split-total"] == 1
    assert found["record-retry-total"] == 0
    assert found["record-ack-total"] == 20
    assert found["record-send-total"] == 40


def test_throttle_times_of_every_kind_of_answer_count(peer: Peer) -> None:
    """P-L.130 testQuotaMetrics, P-G.8: the mean is over all answers that tell a throttle time."""
    peer.on(API_VERSIONS).throttle(40).once()
    for throttle_ms in (10, 20, 30):
        peer.on(PRODUCE).throttle(throttle_ms).once()
    with new_producer(peer) as producer:
        for _ in range(3):
            producer.send("t", b"value").result(TIMEOUT_S)
    found = figures(producer)
    answers = len(peer.requests())
    assert answers == found["response-total"]
    assert found["produce-throttle-time-avg"] == (40 + 10 + 20 + 30) / answers
    assert found["produce-throttle-time-max"] == 40


def test_throttle_times_of_a_broker_that_waited_before_it_answered_count(peer: Peer) -> None:
    """P-G.8: old versions do not make us wait, and the metric records them all the same."""
    peer.speak(METADATA, 5, 5)
    peer.on(METADATA).throttle(70).always()
    with new_producer(peer) as producer:
        producer.send("t", b"value").result(TIMEOUT_S)
    assert figures(producer)["produce-throttle-time-max"] == 70


def test_every_byte_on_the_wire_is_counted_across_connections(peer: Peer) -> None:
    """K: totals of a node go on when its connection is made anew."""

    def has_counted_every_byte() -> bool:
        found = figures(producer)
        sent = sum(len(each.received) for each in peer.connections)
        received = sum(len(each.sent) for each in peer.connections)
        return (found["outgoing-byte-total"], found["incoming-byte-total"]) == (sent, received)

    with new_producer(peer, reconnect_backoff_ms=1, reconnect_backoff_max_ms=2) as producer:
        producer.send("t", bytes(100_000)).result(TIMEOUT_S)
        connected = len(peer.connections)
        peer.close_all()
        # A request into a connection that is closed already is sent, and nobody receives it.
        peer.wait_until(lambda: figures(producer)["connection-close-total"] >= connected)
        producer.send("t", bytes(1_000)).result(TIMEOUT_S)
        # The metadata that the closed connections asked for may still be on its way.
        peer.wait_until(has_counted_every_byte, what="both ends count the same bytes")
    found = figures(producer)
    # The peer takes what was opened last when it gets round to it.
    peer.wait_until(lambda: found["connection-creation-total"] == len(peer.connections))
    assert found["connection-close-total"] == len(peer.connections)
    nodes = [figures(producer, f"producer-node-metrics.node-{each}") for each in (-1, 1)]
    for name in ("outgoing-byte-total", "incoming-byte-total", "request-total", "response-total"):
        assert found[name] == sum(node[name] for node in nodes)


def test_requests_without_an_answer_are_in_flight(peer: Peer) -> None:
    peer.on(PRODUCE).hold().times(2)
    with new_producer(peer) as producer:
        futures = [producer.send("t", b"value", partition=each) for each in (0, 1)]
        peer.wait_until_held()
        assert figures(producer)["requests-in-flight"] >= 1
        peer.clear_script()
        peer.release()
        for future in futures:
            future.result(TIMEOUT_S)
    assert figures(producer)["requests-in-flight"] == 0

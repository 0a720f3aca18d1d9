"""metrics() of real producers: contract P-A.6, P-K; what it says is what the brokers got."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from kafka_cluster import KafkaCluster
from mock_cluster import MockCluster
from support.processes.child_python import run_python

RECORDS = 5_000
PARTITIONS = 3
TIMEOUT_S = 30.0


def open_partitions(kafka: KafkaCluster, names: list[str]) -> None:
    """One record into each: the first batch of a new topic may come before its leader is ready."""
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for name in names:
            for partition in range(PARTITIONS):
                producer.send(name, b"first", partition=partition).result(TIMEOUT_S)


@pytest.mark.parametrize("codec", [pytest.param("none", marks=pytest.mark.slow), "lz4"])
def test_totals_are_what_kafka_has_in_its_log(
    kafka: KafkaCluster, topic: TopicFactory, codec: str
) -> None:
    """Records, and to the byte what their batches take."""
    names = [topic(kafka, PARTITIONS), topic(kafka, PARTITIONS)]
    open_partitions(kafka, names)
    settings = {"bootstrap_servers": kafka.bootstrap_servers, "compression_type": codec}
    with KafkaProducer(settings, batch_size=16_384) as producer:
        for number in range(RECORDS):
            producer.send(names[number % 5 == 0], b"value %d " % number * 5)
        producer.flush(TIMEOUT_S)
    metrics = producer.metrics()
    overall = metrics["producer-metrics"]
    assert overall["record-send-total"] == overall["record-ack-total"] == RECORDS
    assert overall["record-error-total"] == overall["record-retry-total"] == 0
    every_size = []
    for name, count in zip(names, (RECORDS * 4 // 5, RECORDS // 5), strict=True):
        dumped = [batches[1:] for batches in kafka.dump_logs(name, PARTITIONS)]
        sizes = [batch.number("size") for batches in dumped for batch in batches]
        found = metrics[f"producer-topic-metrics.{name}"]
        assert found["record-send-total"] == count
        assert found["byte-total"] == sum(sizes)
        assert (found["compression-rate"] == 1.0) == (codec == "none")
        assert 0 < found["compression-rate"] <= 1.0
        every_size += sizes
    assert overall["batch-size-avg"] == pytest.approx(sum(every_size) / len(every_size))
    assert overall["batch-size-max"] == max(every_size)


def test_requests_bytes_and_times_of_a_run_fit_together(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka, PARTITIONS)
    open_partitions(kafka, [name])
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(200):
            producer.send(name, b"%0100d" % number).result(TIMEOUT_S)
        metrics = producer.metrics()
    found, one_topic = metrics["producer-metrics"], metrics[f"producer-topic-metrics.{name}"]
    nodes = [group for each, group in metrics.items() if "node-metrics" in each]
    assert found["request-total"] == found["response-total"]
    assert found["request-total"] == sum(node["request-total"] for node in nodes)
    assert 200 < found["request-total"] < 230
    assert found["network-io-total"] == 2 * found["request-total"]
    # A request is its batch and less than 200 bytes of header; what is left over is the handshake.
    assert one_topic["byte-total"] < found["outgoing-byte-total"]
    assert found["outgoing-byte-total"] < one_topic["byte-total"] + 200 * found["request-total"]
    assert found["request-size-avg"] * found["request-total"] == pytest.approx(
        found["outgoing-byte-total"]
    )
    assert found["record-size-avg"] <= found["record-size-max"] < 120
    assert found["records-per-request-avg"] == 1.0
    for stem in ("record-queue-time", "request-latency", "record-ack-time"):
        percentiles = [found[f"{stem}-{each}"] for each in ("p50", "p99", "p999", "max")]
        assert percentiles == sorted(percentiles)
        assert 0 < found[f"{stem}-avg"] <= found[f"{stem}-max"]
    assert found["record-ack-time-avg"] == pytest.approx(
        found["record-queue-time-avg"] + found["request-latency-avg"], rel=0.2
    )
    assert 0 < found["metadata-age"] < TIMEOUT_S
    assert found["connection-count"] == found["connection-creation-total"] == 2
    assert 0 < found["io-wait-ratio"] <= 1
    assert 0 < found["io-time-ns-total"] < TIMEOUT_S * 1e9


def test_time_in_flush_and_for_metadata_grows_with_each_call(mock_cluster: MockCluster) -> None:
    """P-L.25 testFlushMeasureLatency."""
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        seen = []
        for name in ("first", "second"):
            producer.send(name, b"value")
            producer.flush(TIMEOUT_S)
            found = producer.metrics()["producer-metrics"]
            seen.append((found["flush-time-ns-total"], found["metadata-wait-time-ns-total"]))
    (flush_1, wait_1), (flush_2, wait_2) = seen
    assert 0 < flush_1 < flush_2
    assert 0 < wait_1 < wait_2


def test_an_error_of_send_itself_is_a_record_error(mock_cluster: MockCluster) -> None:
    with KafkaProducer(
        bootstrap_servers=mock_cluster.bootstrap_servers, max_request_size=1_000
    ) as producer:
        producer.send("any", b"fits").result(TIMEOUT_S)
        assert producer.send("any", bytes(2_000)).exception(TIMEOUT_S) is not None
        found = producer.metrics()["producer-metrics"]
    assert (found["record-send-total"], found["record-error-total"]) == (1, 1)


def test_after_close_the_last_figures_stay(mock_cluster: MockCluster) -> None:
    """P-A.9.8: harmless; and the run can still be told about."""
    producer = KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers)
    producer.send("any", b"value")
    producer.close()
    found = producer.metrics()
    assert found["producer-metrics"]["record-ack-total"] == 1
    assert found["producer-metrics"]["connection-count"] == 0
    assert found["producer-metrics"]["requests-in-flight"] == 0
    assert found["producer-metrics"]["connection-close-total"] == 2
    assert found == producer.metrics()


class Reporter:
    """Waits for a window in which nothing was sent any more."""

    def __init__(self) -> None:
        self.config: Mapping[str, Any] = {}
        self.seen: list[Mapping[str, Mapping[str, Any]]] = []
        self.is_closed = False
        self.has_seen_silence = threading.Event()

    def configure(self, config: Mapping[str, Any]) -> None:
        self.config = config

    def report(self, metrics: Mapping[str, Mapping[str, Any]]) -> None:
        self.seen.append(metrics)
        found = metrics["producer-metrics"]
        if found["record-send-total"] == 2 and found["record-send-rate"] == 0:
            self.has_seen_silence.set()

    def close(self) -> None:
        self.is_closed = True


def test_reporters_see_windows_roll_and_the_last_figures(mock_cluster: MockCluster) -> None:
    """metric_reporters, metrics_sample_window_ms, metrics_num_samples (P-B); P-A.1.2."""
    reporter = Reporter()
    with KafkaProducer(
        bootstrap_servers=mock_cluster.bootstrap_servers,
        metric_reporters=[reporter],
        metrics_sample_window_ms=100,
    ) as producer:
        producer.send("any", b"1")
        producer.send("any", b"2")
        assert reporter.has_seen_silence.wait(TIMEOUT_S)
        producer.send("any", b"3")
        producer.flush(TIMEOUT_S)
        client_id = producer.config.client_id
    assert reporter.config["client.id"] == client_id
    assert reporter.is_closed
    assert reporter.seen[-1] == producer.metrics()
    assert reporter.seen[-1]["producer-metrics"]["record-send-total"] == 3


def test_the_child_of_a_fork_counts_for_itself(mock_cluster: MockCluster) -> None:
    told = run_python(
        """
        import json, os, sys
        from fastprod import KafkaProducer
        with KafkaProducer(bootstrap_servers=sys.argv[1]) as producer:
            for _ in range(3):
                producer.send("any", b"parent").result(30)
            reading, writing = os.pipe()
            if os.fork() == 0:
                before = producer.metrics()
                producer.send("any", b"child").result(30)
                after = producer.metrics()["producer-metrics"]["record-send-total"]
                os.write(writing, json.dumps([before, after]).encode())
                os._exit(0)
            os.wait()
            child = json.loads(os.read(reading, 4096))
            parent = producer.metrics()["producer-metrics"]["record-send-total"]
        print(json.dumps({"child": child, "parent": parent}))
        """,
        mock_cluster.bootstrap_servers,
    ).told
    assert told == {"child": [{}, 1], "parent": 3}


def test_the_engine_has_figures_of_each_node_and_topic(mock_cluster: MockCluster) -> None:
    """What the unit tests of the arithmetic stand on."""
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        producer.send("any", b"value").result(TIMEOUT_S)
        *_, nodes, topics = producer._engine.measure(False)
    assert {node.node_id for node in nodes} == {-1, 1}
    assert [topic.name for topic in topics] == ["any"]

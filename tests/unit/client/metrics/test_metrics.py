"""Every metric of contract P-K with its arithmetic, on a fake engine and a fake clock."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from fastprod.client.metrics.call_counters import TIMED_CALLS
from fastprod.client.metrics.metrics import MetricGroups, ProducerMetrics
from fastprod.config import ProducerConfig
from fastprod.version import VERSION
from support.oracle.fake_engine import FakeEngine, FakeNode, FakeTopic

MS = 1_000_000
PERCENTILES = ("-p50", "-p99", "-p999")


def both(*stems: str) -> set[str]:
    return {stem + suffix for stem in stems for suffix in ("-rate", "-total")}


def spread(*stems: str) -> set[str]:
    return {stem + suffix for stem in stems for suffix in ("-avg", "-max")}


def percentiles(*stems: str) -> set[str]:
    return {stem + suffix for stem in stems for suffix in PERCENTILES}


# Contract P-K.
KAFKAS_NAMES = {
    *spread("batch-size", "record-queue-time", "request-latency", "record-size"),
    *spread("produce-throttle-time", "request-size"),
    *both("batch-split", "record-send", "record-retry", "record-error", "buffer-exhausted"),
    *both("connection-creation", "connection-close", "network-io", "outgoing-byte"),
    *both("incoming-byte", "request", "response", "select"),
    *both("successful-authentication", "failed-authentication"),
    *both("successful-reauthentication", "failed-reauthentication"),
    *spread("reauthentication-latency"),
    "successful-authentication-no-reauth-total",
    *("compression-rate-avg", "records-per-request-avg", "requests-in-flight", "metadata-age"),
    *("waiting-threads", "buffer-total-bytes", "buffer-available-bytes", "bufferpool-wait-ratio"),
    *("bufferpool-wait-time-ns-total", "bufferpool-wait-time-total", "flush-time-ns-total"),
    *("metadata-wait-time-ns-total", "txn-init-time-ns-total", "txn-begin-time-ns-total"),
    *("txn-send-offsets-time-ns-total", "txn-commit-time-ns-total", "txn-abort-time-ns-total"),
    *("connection-count", "io-wait-time-ns-avg", "io-wait-ratio", "io-wait-time-ns-total"),
    *("io-time-ns-avg", "io-ratio", "io-time-ns-total"),
}
OUR_NAMES = {
    *both("record-ack"),
    "buffer-callback-bytes",
    *spread("record-ack-time"),
    *percentiles("record-queue-time", "request-latency", "record-ack-time"),
}
DEBUG_NAMES = {"batch-expired-total", "epoch-bump-total", "io-loop-total", "heap-bytes"}
KAFKAS_TOPIC_NAMES = {*both("record-send", "byte", "record-retry", "record-error")} | {
    "compression-rate"
}
KAFKAS_NODE_NAMES = {
    *both("request", "outgoing-byte", "incoming-byte", "response"),
    *spread("request-size", "request-latency"),
}


class World:
    """A producer's metrics with one window of 10 s, at whose end everybody looks."""

    def __init__(self, **config: Any) -> None:
        self.engine = FakeEngine()
        self.now_ms = 1_000_000
        self.last_full_update_ms: int | None = None
        settings = {"metrics_num_samples": 2, "metrics_sample_window_ms": 10_000, **config}
        self.metrics = ProducerMetrics(
            self.engine,
            ProducerConfig(bootstrap_servers="127.0.0.1:9092", **settings),
            self,
            lambda: self.now_ms * MS,
        )

    def groups(self, after_ms: int = 10_000) -> MetricGroups:
        self.now_ms += after_ms
        return self.metrics.groups()

    def producer(self, after_ms: int = 10_000) -> dict[str, Any]:
        return self.groups(after_ms)["producer-metrics"]


@pytest.fixture
def world() -> World:
    return World()


# Names.


def test_the_producers_group_has_kafkas_names_and_ours(world: World) -> None:
    assert set(world.producer()) == KAFKAS_NAMES | OUR_NAMES


def test_authentications_are_counted_and_repetitions_timed(world: World) -> None:
    """P-K: of each window, and from the start."""
    counters = world.metrics.authentications
    counters.succeeded()
    counters.failed()
    counters.repeated(4)
    counters.repeated(8)
    counters.failed_again()
    group = world.producer()
    assert group["successful-authentication-total"] == 1
    assert group["successful-authentication-no-reauth-total"] == 1
    assert group["failed-authentication-total"] == 1
    assert group["successful-reauthentication-total"] == 2
    assert group["failed-reauthentication-total"] == 1
    assert (group["reauthentication-latency-avg"], group["reauthentication-latency-max"]) == (6, 8)


@pytest.mark.parametrize("level", ["DEBUG", "TRACE"])
def test_more_is_shown_above_info(level: str) -> None:
    """P-K.3, metrics.recording.level."""
    world = World(metrics_recording_level=level)
    world.engine.nodes[1] = FakeNode(requests=1)
    world.engine.add(expired=1, epoch_bumps=2, loops=3, heap_bytes=4)
    groups = world.groups()
    producer = groups["producer-metrics"]
    assert set(producer) == KAFKAS_NAMES | OUR_NAMES | DEBUG_NAMES
    assert producer["batch-expired-total"] == 1
    assert producer["epoch-bump-total"] == 2
    assert producer["io-loop-total"] == 3
    assert producer["heap-bytes"] == 4
    node = groups["producer-node-metrics.node-1"]
    assert set(node) == KAFKAS_NODE_NAMES | percentiles("request-latency")


def test_topics_and_nodes_have_a_group_each_once_there_is_something_to_tell(world: World) -> None:
    """K: the topic's group is made at the first send."""
    world.engine.topics |= {"waiting": FakeTopic(), "a-b.c_d": FakeTopic(records=1)}
    world.engine.topics["failing"] = FakeTopic(errors=1)
    world.engine.nodes |= {-1: FakeNode(requests=1), 0: FakeNode(), 5: FakeNode(requests=1)}
    assert list(world.groups()) == [
        "producer-metrics",
        "producer-topic-metrics.a-b.c_d",
        "producer-topic-metrics.failing",
        "producer-node-metrics.node--1",
        "producer-node-metrics.node-5",
        "app-info",
        "kafka-metrics-count",
    ]


def test_the_count_is_that_of_all_metrics(world: World) -> None:
    world.engine.topics["t"] = FakeTopic(records=1)
    groups = world.groups()
    assert groups["kafka-metrics-count"] == {"count": sum(map(len, groups.values()))}


def test_app_info_names_the_version_and_the_client() -> None:
    found = World(client_id="me").groups()["app-info"]
    assert found["version"] == VERSION
    assert found["client-id"] == "me"
    assert found["commit-id"] == "unknown"
    assert found["start-time-ms"] > 1_600_000_000_000


def test_every_value_but_app_infos_is_a_float(world: World) -> None:
    world.engine.topics["t"] = FakeTopic(records=1)
    world.engine.nodes[1] = FakeNode(requests=1)
    world.last_full_update_ms = 5
    groups = world.groups()
    del groups["app-info"]
    for name, group in groups.items():
        assert {type(value) for value in group.values()} == {float}, name


# Arithmetic.


def test_with_nothing_counted_rates_are_zero_and_averages_and_maxima_nan(world: World) -> None:
    found = world.producer()
    means = {name for name in found if name.endswith(("-avg", "-max", *PERCENTILES))}
    assert {name for name, value in found.items() if math.isnan(value)} == means | {"metadata-age"}
    assert {value for value in found.values() if not math.isnan(value)} == {0.0}


@pytest.mark.parametrize(
    ("stem", "counter"),
    [
        ("batch-split", "batches_split"),
        ("record-send", "records_sent"),
        ("record-ack", "records_acked"),
        ("record-retry", "records_retried"),
        ("record-error", "records_failed"),
        ("buffer-exhausted", "buffer_exhausted"),
        ("connection-creation", "connections_made"),
        ("connection-close", "connections_closed"),
        ("request", "requests_sent"),
        ("select", "polls"),
    ],
)
def test_a_rate_is_of_the_window_and_a_total_of_everything(
    world: World, stem: str, counter: str
) -> None:
    world.engine.add(**{counter: 1_000})
    assert world.producer()[f"{stem}-rate"] == 1_000 / 10
    assert world.producer(5_000)[f"{stem}-rate"] == 1_000 / 15
    assert world.producer(5_000)[f"{stem}-rate"] == 0
    world.engine.add(**{counter: 50})
    found = world.producer(5_000)
    assert (found[f"{stem}-rate"], found[f"{stem}-total"]) == (50 / 15, 1_050)


def test_errors_of_send_itself_are_record_errors(world: World) -> None:
    """K: also send-time errors, one each."""
    world.engine.add(records_failed=7)
    world.metrics.count_error()
    found = world.producer()
    assert (found["record-error-total"], found["record-error-rate"]) == (8, 0.8)


@pytest.mark.parametrize(
    ("name", "total", "count", "expected"),
    [
        ("batch-size-avg", "batch_bytes", "batches_sent", 25.0),
        ("compression-rate-avg", "ratio_millionths", "batches_sent", 0.000025),
        ("record-size-avg", "batch_record_bytes", "batches_sent", 25.0),
        ("records-per-request-avg", "records_sent", "produce_requests", 25.0),
        ("request-size-avg", "request_bytes", "requests_sent", 25.0),
        ("produce-throttle-time-avg", "throttle_ms", "responses", 25.0),
        ("io-wait-time-ns-avg", "io_wait_ns", "polls", 25.0),
        ("io-time-ns-avg", "io_ns", "polls", 25.0),
    ],
)
def test_an_average_is_of_the_window(
    world: World, name: str, total: str, count: str, expected: float
) -> None:
    world.engine.add(**{total: 1_000_000, count: 3})
    for _ in range(3):
        world.groups()
    assert math.isnan(world.producer()[name])
    world.engine.add(**{total: 100, count: 4})
    assert world.producer(0)[name] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("name", "maximum", "count"),
    [
        ("batch-size-max", "largest_batch", "batches_sent"),
        ("record-size-max", "largest_record", "batches_sent"),
        ("produce-throttle-time-max", "longest_throttle_ms", "responses"),
    ],
)
def test_a_maximum_is_of_the_window(world: World, name: str, maximum: str, count: str) -> None:
    world.engine.add(**{maximum: 300, count: 1})
    assert world.producer()[name] == 300
    world.engine.add(**{maximum: 20, count: 1})
    assert world.producer(5_000)[name] == 300
    assert world.producer(5_000)[name] == 20
    assert math.isnan(world.producer()[name])


@pytest.mark.parametrize(
    ("stem", "latency"),
    [
        ("record-queue-time", "queue_time"),
        ("request-latency", "latency"),
        ("record-ack-time", "ack_time"),
    ],
)
def test_a_latency_has_mean_maximum_and_percentiles_in_ms(
    world: World, stem: str, latency: str
) -> None:
    world.engine.latencies[latency].add(*(99 * [2 * MS]), 40 * MS)
    found = world.producer()
    assert found[f"{stem}-avg"] == pytest.approx((99 * 2 + 40) / 100)
    assert found[f"{stem}-max"] == 40.0
    assert found[f"{stem}-p50"] == pytest.approx(2.0, rel=0.25)
    assert found[f"{stem}-p99"] == pytest.approx(2.0, rel=0.25)
    assert found[f"{stem}-p999"] == pytest.approx(40.0, rel=0.25)
    world.groups()
    assert math.isnan(world.producer()[f"{stem}-avg"])


def test_the_io_threads_time_is_told_as_fractions_and_sums(world: World) -> None:
    world.engine.add(io_wait_ns=6_000 * MS, io_ns=1_000 * MS)
    found = world.producer()
    assert (found["io-wait-ratio"], found["io-ratio"]) == (0.6, 0.1)
    assert found["io-wait-time-ns-total"] == 6_000 * MS
    assert found["io-time-ns-total"] == 1_000 * MS


def test_a_wait_longer_than_the_window_is_all_of_it(world: World) -> None:
    """A poll of 60 s is counted when it is over."""
    world.engine.add(io_wait_ns=60_000 * MS)
    assert world.producer()["io-wait-ratio"] == 1.0


def test_the_wait_for_memory_is_that_of_all_callers_together(world: World) -> None:
    world.engine.add(buffer_wait_ns=25_000 * MS)
    found = world.producer()
    assert found["bufferpool-wait-ratio"] == 2.5
    assert found["bufferpool-wait-time-ns-total"] == 25_000 * MS
    assert found["bufferpool-wait-time-total"] == 25_000 * MS


@pytest.mark.parametrize(
    ("name", "counter"),
    [
        ("waiting-threads", "waiting_threads"),
        ("buffer-total-bytes", "buffer_total_bytes"),
        ("buffer-available-bytes", "buffer_available_bytes"),
        ("buffer-callback-bytes", "buffer_callback_bytes"),
        ("connection-count", "connections"),
    ],
)
def test_a_gauge_is_what_it_is_now(world: World, name: str, counter: str) -> None:
    world.engine.add(**{counter: 12})
    assert world.producer()[name] == 12
    world.engine.add(**{counter: -12})
    assert world.producer(0)[name] == 0


def test_the_network_is_the_sum_of_the_nodes(world: World) -> None:
    world.engine.add(requests_sent=8)
    world.engine.nodes[1] = FakeNode(5, 500, 4, 480, 90, in_flight=1, largest_request=200)
    world.engine.nodes[2] = FakeNode(3, 300, 1, 290, 30, in_flight=2, largest_request=250)
    found = world.producer()
    assert (found["response-total"], found["response-rate"]) == (5, 0.5)
    assert (found["outgoing-byte-total"], found["outgoing-byte-rate"]) == (770, 77.0)
    assert (found["incoming-byte-total"], found["incoming-byte-rate"]) == (120, 12.0)
    assert (found["network-io-total"], found["network-io-rate"]) == (8 + 5, 1.3)
    assert found["requests-in-flight"] == 3
    assert found["request-size-max"] == 250


def test_throttle_times_of_all_responses_make_one_average() -> None:
    """P-L.130 testQuotaMetrics: 400 of ApiVersions, then Produce with 100, 200, 300."""
    world = World()
    world.metrics.count_throttle(400)
    for throttle_ms in (100, 200, 300):
        world.engine.add(throttle_ms=throttle_ms, longest_throttle_ms=throttle_ms, responses=1)
    found = world.producer()
    assert found["produce-throttle-time-avg"] == 250
    assert found["produce-throttle-time-max"] == 400


@pytest.mark.parametrize("call", TIMED_CALLS)
def test_the_time_that_callers_spent_grows(world: World, call: str) -> None:
    """P-L.25."""
    for expected_ms in (3, 6):
        with world.metrics.timed(call):
            world.now_ms += 3
        assert world.producer()[f"{call}-time-ns-total"] == expected_ms * MS


def test_metadata_ages_from_its_last_full_update(world: World) -> None:
    world.last_full_update_ms = world.now_ms - 500
    assert world.producer(2_000)["metadata-age"] == 2.5
    world.last_full_update_ms = world.now_ms
    assert world.producer(0)["metadata-age"] == 0.0


def test_a_topic_is_counted_by_itself(world: World) -> None:
    world.engine.topics["t"] = FakeTopic(90, 9_000, 2, 1_500_000, 3, 1)
    world.engine.topics["t"].ack_time.add(5 * MS)
    world.engine.topics["u"] = FakeTopic(1, 1, 1, 1_000_000)
    found = world.groups()["producer-topic-metrics.t"]
    assert set(found) == KAFKAS_TOPIC_NAMES | spread("record-ack-time") | percentiles(
        "record-ack-time"
    )
    assert (found["record-send-rate"], found["record-send-total"]) == (9.0, 90)
    assert (found["byte-rate"], found["byte-total"]) == (900.0, 9_000)
    assert (found["record-retry-rate"], found["record-retry-total"]) == (0.3, 3)
    assert (found["record-error-rate"], found["record-error-total"]) == (0.1, 1)
    assert found["compression-rate"] == 0.75
    assert (found["record-ack-time-avg"], found["record-ack-time-max"]) == (5.0, 5.0)
    world.groups()
    quiet = world.groups()["producer-topic-metrics.t"]
    assert (quiet["record-send-rate"], quiet["record-send-total"]) == (0.0, 90)
    assert math.isnan(quiet["compression-rate"])


def test_a_node_is_counted_by_itself(world: World) -> None:
    world.engine.nodes[3] = FakeNode(10, 1_000, 9, 950, 270, largest_request=400)
    world.engine.nodes[3].latency.add(4 * MS, 8 * MS)
    world.engine.nodes[4] = FakeNode(1, 9_999, largest_request=9_999)
    found = world.groups()["producer-node-metrics.node-3"]
    assert set(found) == KAFKAS_NODE_NAMES
    assert (found["request-rate"], found["request-total"]) == (1.0, 10)
    assert (found["request-size-avg"], found["request-size-max"]) == (100.0, 400)
    assert (found["outgoing-byte-rate"], found["outgoing-byte-total"]) == (95.0, 950)
    assert (found["incoming-byte-rate"], found["incoming-byte-total"]) == (27.0, 270)
    assert (found["response-rate"], found["response-total"]) == (0.9, 9)
    assert (found["request-latency-avg"], found["request-latency-max"]) == (6.0, 8.0)
    world.groups()
    quiet = world.groups()["producer-node-metrics.node-3"]
    assert math.isnan(quiet["request-size-max"])
    assert math.isnan(quiet["request-latency-max"])


# Life.


def test_the_control_thread_is_told_when_to_come_again(world: World) -> None:
    assert world.metrics.roll() == 10_000
    world.now_ms += 4_000
    assert world.metrics.roll() == 6_000


def test_the_figures_are_the_callers_own(world: World) -> None:
    """P-A.6.1: what a caller does to them shows nowhere else."""
    world.groups()["app-info"].clear()
    world.metrics.freeze()
    first = world.groups()
    first["producer-metrics"].clear()
    assert world.groups()["producer-metrics"]
    assert world.groups()["app-info"]


def test_frozen_figures_stay_as_they_were(world: World) -> None:
    """P-A.9.8: after close metrics() is harmless."""
    world.engine.add(records_sent=100)
    world.now_ms += 10_000
    world.metrics.freeze()
    world.engine.add(records_sent=100)
    assert world.producer(60_000)["record-send-total"] == 100
    assert world.producer(60_000)["record-send-rate"] == 10.0


def test_abandoned_figures_are_gone_and_the_engine_is_left_alone(world: World) -> None:
    """In the child of a fork the engine's locks may be held by threads that do not exist."""
    world.metrics.abandon()
    del world.engine.counters
    assert world.groups() == {}


def test_the_figures_can_be_written_as_json(world: World) -> None:
    assert set(json.loads(json.dumps(world.groups()))) == set(world.groups())

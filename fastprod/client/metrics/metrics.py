"""ProducerMetrics: the result of `metrics()`, named as in Kafka (contract P-K).

Groups are producer-metrics, producer-topic-metrics.<topic> from the topic's first record on,
producer-node-metrics.node-<id>, app-info and kafka-metrics-count, as in kafka-python.

Everything here is arithmetic on measurements; recording is native, once per batch or request.  As
in Kafka a rate is per second over the last metrics_num_samples windows of metrics_sample_window_ms,
the one under way among them; until there were so many, the missing ones count as empty.  A total
counts from the start.  An average or a maximum is of those windows, NaN when nothing happened in
them.  Times without a unit in their name are ms.

Ours beside Kafka's names:
  -p50, -p99, -p999   percentiles of the latencies, at most 25 % off and mostly far less.
  record-ack-rate, record-ack-total   records that were acknowledged.
  record-ack-time-*   of records: from the opening of their batch to its acknowledgement, retries
                      included.  The other latencies are of batches and requests.
  buffer-callback-bytes   of buffer_memory: what acknowledged records hold whose callbacks have not
                      all run; not available, as in Java.
metrics_recording_level=DEBUG adds percentiles to the nodes, and batch-expired-total,
epoch-bump-total, io-loop-total and heap-bytes.

Where a figure differs from Java's: record-size-* is the size as encoded, not its upper bound;
network-io-* counts requests and responses, not system calls; io-wait-ratio and io-ratio never
exceed 1; bufferpool-wait-ratio adds up all callers that wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Final, Protocol

from fastprod._core.engine.figures import NodeFigures, TopicFigures
from fastprod._core.engine.histogram import LatencyHistogram
from fastprod.client.metrics.authentication_counters import AuthenticationCounters
from fastprod.client.metrics.call_counters import TIMED_CALLS, CallCounters
from fastprod.client.metrics.measurement import Measurement, Window
from fastprod.client.metrics.metric_samples import MetricSamples
from fastprod.config import ProducerConfig
from fastprod.version import VERSION

MetricGroups = dict[str, dict[str, Any]]
"""Group name to metric name to value: a float, but for the texts of app-info."""

_NAN: Final = float("nan")
_MILLION: Final = 1_000_000

# Kafka's name without "-rate" and "-total", and the counter behind both.
_METERS: Final = (
    ("batch-split", "batches_split"),
    ("record-send", "records_sent"),
    ("record-ack", "records_acked"),
    ("record-retry", "records_retried"),
    ("record-error", "records_in_error"),
    ("buffer-exhausted", "buffer_exhausted"),
    ("connection-creation", "connections_made"),
    ("connection-close", "connections_closed"),
    ("network-io", "network_operations"),
    ("outgoing-byte", "sent_bytes"),
    ("incoming-byte", "received_bytes"),
    ("request", "requests_sent"),
    ("response", "responses_received"),
    ("successful-authentication", "authentications"),
    ("failed-authentication", "failed_authentications"),
    ("successful-reauthentication", "reauthentications"),
    ("failed-reauthentication", "failed_reauthentications"),
    ("select", "polls"),
)
_METER_NAMES: Final = tuple((f"{stem}-rate", f"{stem}-total", of) for stem, of in _METERS)
# Name, the counter to divide, what to divide it by, and the scale of the first.
_AVERAGES: Final = (
    ("batch-size-avg", "batch_bytes", "batches_sent", 1),
    ("compression-rate-avg", "ratio_millionths", "batches_sent", _MILLION),
    ("record-size-avg", "batch_record_bytes", "batches_sent", 1),
    ("records-per-request-avg", "records_sent", "produce_requests", 1),
    ("request-size-avg", "request_bytes", "requests_sent", 1),
    ("produce-throttle-time-avg", "all_throttle_ms", "throttling_responses", 1),
    ("io-wait-time-ns-avg", "io_wait_ns", "polls", 1),
    ("io-time-ns-avg", "io_ns", "polls", 1),
    ("reauthentication-latency-avg", "reauthentication_ms", "reauthentications", 1),
)
# Name, maximum, and the counter that tells whether there was any.
_MAXIMA: Final = (
    ("batch-size-max", "largest_batch", "batches_sent"),
    ("record-size-max", "largest_record", "batches_sent"),
    ("request-size-max", "largest_request", "requests_sent"),
    ("produce-throttle-time-max", "longest_throttle_ms", "throttling_responses"),
    ("reauthentication-latency-max", "longest_reauthentication_ms", "reauthentications"),
)
_LATENCIES: Final = (
    ("record-queue-time", "queue_time"),
    ("request-latency", "latency"),
    ("record-ack-time", "ack_time"),
)
_PERCENTILES: Final = (("-p50", 0.5), ("-p99", 0.99), ("-p999", 0.999))
# Fractions of the time: of the I/O thread's, and of all that callers together spent.
_IO_RATIOS: Final = (("io-wait-ratio", "io_wait_ns"), ("io-ratio", "io_ns"))
_WAIT_RATIO: Final = ("bufferpool-wait-ratio", "buffer_wait_ns")
# Gauges, and totals without a rate.
_VALUES: Final = (
    ("requests-in-flight", "in_flight"),
    ("waiting-threads", "waiting_threads"),
    ("buffer-total-bytes", "buffer_total_bytes"),
    ("buffer-available-bytes", "buffer_available_bytes"),
    ("buffer-callback-bytes", "buffer_callback_bytes"),
    ("bufferpool-wait-time-ns-total", "buffer_wait_ns"),
    ("bufferpool-wait-time-total", "buffer_wait_ns"),
    ("connection-count", "connections"),
    ("successful-authentication-no-reauth-total", "authentications"),
    ("io-wait-time-ns-total", "io_wait_ns"),
    ("io-time-ns-total", "io_ns"),
    *((f"{call}-time-ns-total", call) for call in TIMED_CALLS),
)
# What only metrics.recording.level=DEBUG shows (P-K.3).
_DEBUG_VALUES: Final = (
    ("batch-expired-total", "expired"),
    ("epoch-bump-total", "epoch_bumps"),
    ("io-loop-total", "loops"),
    ("heap-bytes", "heap_bytes"),
)


class Measured(Protocol):
    """The part of the engine that is measured; see engine.pyi."""

    def measure(
        self, reset: bool
    ) -> tuple[
        dict[str, int],
        dict[str, int],
        dict[str, LatencyHistogram],
        list[NodeFigures],
        list[TopicFigures],
    ]:
        """Take every figure."""


class Dated(Protocol):
    """The part of Metadata that is shown."""

    @property
    def last_full_update_ms(self) -> int | None:
        """When everything was last fetched, on the monotonic clock; None: never."""


class ProducerMetrics:
    """The metrics of one producer.

    Attributes:
        authentications: the control thread counts there.

    Args:
        engine: the native side.
        config: metrics_num_samples, metrics_sample_window_ms, metrics_recording_level, client_id.
        metadata: its age is shown.
        clock_ns: monotonic ns.

    Threads: any. Nothing waits longer than 1 ms.
    Source: Java's SenderMetricsRegistry, SelectorMetrics, KafkaProducerMetrics; contract P-K.
    """

    def __init__(
        self,
        engine: Measured,
        config: ProducerConfig,
        metadata: Dated,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._engine = engine
        self._metadata = metadata
        self._clock_ns = clock_ns
        self._is_detailed = config.metrics_recording_level != "INFO"
        self._calls = CallCounters(clock_ns)
        self.authentications = AuthenticationCounters()
        self._samples = MetricSamples(
            self._measure, config.metrics_num_samples, config.metrics_sample_window_ms, clock_ns
        )
        self._last: MetricGroups | None = None
        self._app_info: dict[str, Any] = {
            "version": VERSION,
            "commit-id": "unknown",
            "start-time-ms": time.time_ns() // _MILLION,
            "client-id": config.client_id,
        }

    def timed(self, call: str) -> AbstractContextManager[None]:
        """Count the time of the with block as that of one of `TIMED_CALLS`."""
        return self._calls.timed(call)

    def count_error(self) -> None:
        """Count a record that failed in `send` already."""
        self._calls.count_error()

    def count_throttle(self, throttle_ms: int) -> None:
        """Count the throttle time, also 0, of a response to the control thread (P-G.8)."""
        self._calls.count_throttle(throttle_ms)

    def roll(self) -> int:
        """Start a new sample if it is time for it; returns ms to the next time to call this."""
        return self._samples.roll()

    def freeze(self) -> None:
        """Keep the metrics as they are now: the producer is closed."""
        self._last = self.groups()

    def abandon(self) -> None:
        """In the child of a fork: the metrics are the parent's, and so are the engine's locks."""
        self._last = {}

    def groups(self) -> MetricGroups:
        """Return every figure, as `KafkaProducer.metrics` does; the caller's own copy."""
        if self._last is not None:
            return {name: dict(group) for name, group in self._last.items()}
        window = self._samples.window()
        found: MetricGroups = {"producer-metrics": self._producer_group(window)}
        for topic in window.now.topics.values():
            if topic.records or topic.errors:
                found[f"producer-topic-metrics.{topic.name}"] = _topic_group(topic, window)
        for node in window.now.nodes.values():
            if node.requests:
                group = _node_group(node, window, self._is_detailed)
                found[f"producer-node-metrics.node-{node.node_id}"] = group
        found["app-info"] = dict(self._app_info)
        found["kafka-metrics-count"] = {"count": float(sum(map(len, found.values())) + 1)}
        return found

    def _measure(self, reset: bool) -> Measurement:
        counters, maxima, latencies, nodes, topics = self._engine.measure(reset)
        at_ns = self._clock_ns()
        calls = self._calls.totals()
        for call in TIMED_CALLS:
            counters[call] = calls[call]
        counters["records_in_error"] = counters["records_failed"] + calls["errors"]
        counters["all_throttle_ms"] = counters["throttle_ms"] + calls["throttle_ms"]
        counters["throttling_responses"] = counters["responses"] + calls["responses"]
        counters |= self.authentications.totals()
        counters["responses_received"] = sum(node.responses for node in nodes)
        counters["network_operations"] = counters["requests_sent"] + counters["responses_received"]
        counters["sent_bytes"] = sum(node.sent_bytes for node in nodes)
        counters["received_bytes"] = sum(node.received_bytes for node in nodes)
        counters["in_flight"] = sum(node.in_flight for node in nodes)
        maxima["largest_request"] = max((node.largest_request for node in nodes), default=0)
        maxima["longest_throttle_ms"] = max(
            maxima["longest_throttle_ms"], self._calls.longest_throttle_ms(reset)
        )
        maxima["longest_reauthentication_ms"] = self.authentications.longest_ms(reset)
        return Measurement(
            at_ns,
            counters,
            maxima,
            latencies,
            {node.node_id: node for node in nodes},
            {topic.name: topic for topic in topics},
        )

    def _producer_group(self, window: Window) -> dict[str, Any]:
        totals, delta, rate = window.now.counters, window.delta, window.rate
        found: dict[str, Any] = {}
        for rate_name, total_name, counter in _METER_NAMES:
            found[rate_name] = rate(delta(counter))
            found[total_name] = float(totals[counter])
        for name, counter, count, scale in _AVERAGES:
            found[name] = _mean(delta(counter), delta(count), scale)
        for name, maximum, count in _MAXIMA:
            found[name] = float(window.largest(maximum)) if delta(count) else _NAN
        for name, latency in _LATENCIES:
            _add_latency(found, name, window.latency(latency), True)
        for name, counter in _IO_RATIOS:
            # A wait is counted when it is over, and may have begun in an earlier window.
            found[name] = min(rate(delta(counter)) / 1e9, 1.0)
        name, counter = _WAIT_RATIO
        found[name] = rate(delta(counter)) / 1e9
        for name, counter in _VALUES + (_DEBUG_VALUES if self._is_detailed else ()):
            found[name] = float(totals[counter])
        found["metadata-age"] = self._metadata_age_s(window.now.at_ns)
        return found

    def _metadata_age_s(self, now_ns: int) -> float:
        updated_ms = self._metadata.last_full_update_ms
        return _NAN if updated_ms is None else max(now_ns / _MILLION - updated_ms, 0.0) / 1000


def _mean(total: int, count: int, scale: int) -> float:
    return total / count / scale if count > 0 else _NAN


def _add_latency(
    group: dict[str, Any], name: str, latency: LatencyHistogram, with_percentiles: bool
) -> None:
    group[f"{name}-avg"] = latency.mean_ms
    group[f"{name}-max"] = latency.max_ms
    if with_percentiles:
        for suffix, fraction in _PERCENTILES:
            group[name + suffix] = latency.percentile_ms(fraction)


def _topic_group(now: TopicFigures, window: Window) -> dict[str, Any]:
    recent, rate = window.topic(now), window.rate
    group: dict[str, Any] = {
        "record-send-rate": rate(recent.records),
        "record-send-total": float(now.records),
        "byte-rate": rate(recent.bytes),
        "byte-total": float(now.bytes),
        "compression-rate": _mean(recent.ratio_millionths, recent.batches, _MILLION),
        "record-retry-rate": rate(recent.retries),
        "record-retry-total": float(now.retries),
        "record-error-rate": rate(recent.errors),
        "record-error-total": float(now.errors),
    }
    _add_latency(group, "record-ack-time", recent.ack_time, True)
    return group


def _node_group(now: NodeFigures, window: Window, is_detailed: bool) -> dict[str, Any]:
    recent, rate = window.node(now), window.rate
    group: dict[str, Any] = {
        "request-rate": rate(recent.requests),
        "request-total": float(now.requests),
        "request-size-avg": _mean(recent.request_bytes, recent.requests, 1),
        "request-size-max": float(recent.largest_request) if recent.requests else _NAN,
        "outgoing-byte-rate": rate(recent.sent_bytes),
        "outgoing-byte-total": float(now.sent_bytes),
        "incoming-byte-rate": rate(recent.received_bytes),
        "incoming-byte-total": float(now.received_bytes),
        "response-rate": rate(recent.responses),
        "response-total": float(now.responses),
    }
    _add_latency(group, "request-latency", recent.latency, is_detailed)
    return group

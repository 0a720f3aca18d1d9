"""FakeEngine: what `Engine.measure` returns, set by a test figure by figure."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastprod._core.counters import LatencyHistogram, histogram_for_test

# As `Engine.counters` has them; what no metric is made of is left out.
COUNTERS = [
    "records_sent",
    "records_acked",
    "records_failed",
    "records_retried",
    "batches_sent",
    "batches_split",
    "batch_bytes",
    "ratio_millionths",
    "batch_record_bytes",
    "requests_sent",
    "produce_requests",
    "responses",
    "request_bytes",
    "throttle_ms",
    "connections_made",
    "connections_closed",
    "io_ns",
    "loops",
    "epoch_bumps",
    "expired",
    "buffer_total_bytes",
    "buffer_available_bytes",
    "buffer_callback_bytes",
    "waiting_threads",
    "buffer_wait_ns",
    "buffer_exhausted",
    "heap_bytes",
    "io_wait_ns",
    "polls",
    "connections",
]
MAXIMA = ("largest_batch", "largest_record", "longest_throttle_ms")
LATENCIES = ("queue_time", "latency", "ack_time")


@dataclass
class Times:
    """A histogram: every time so far, and the largest since that was last taken."""

    times_ns: list[int] = field(default_factory=list)
    largest_ns: int = 0

    def add(self, *times_ns: int) -> None:
        self.times_ns += times_ns
        self.largest_ns = max(self.largest_ns, *times_ns)

    def take(self, starts_anew: bool) -> LatencyHistogram:
        found = histogram_for_test(self.times_ns, largest_ns=self.largest_ns)
        if starts_anew:
            self.largest_ns = 0
        return found


@dataclass
class FakeNode:
    requests: int = 0
    request_bytes: int = 0
    responses: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    in_flight: int = 0
    largest_request: int = 0
    latency: Times = field(default_factory=Times)


@dataclass
class FakeTopic:
    records: int = 0
    bytes: int = 0
    batches: int = 0
    ratio_millionths: int = 0
    retries: int = 0
    errors: int = 0
    ack_time: Times = field(default_factory=Times)


class FakeEngine:
    """The figures of an engine; `add` and the attributes change them."""

    def __init__(self) -> None:
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.maxima = dict.fromkeys(MAXIMA, 0)
        self.latencies = {name: Times() for name in LATENCIES}
        self.nodes: dict[int, FakeNode] = {}
        self.topics: dict[str, FakeTopic] = {}

    def add(self, **counts: int) -> None:
        """Raise counters, and maxima to what is larger."""
        for name, count in counts.items():
            if name in self.maxima:
                self.maxima[name] = max(self.maxima[name], count)
            else:
                self.counters[name] += count

    def measure(
        self, starts_anew: bool
    ) -> tuple[
        dict[str, int],
        dict[str, int],
        dict[str, LatencyHistogram],
        list[tuple[int, int, int, int, int, int, int, int, LatencyHistogram]],
        list[tuple[str, int, int, int, int, int, int, LatencyHistogram]],
    ]:
        found = (
            dict(self.counters),
            dict(self.maxima),
            {name: times.take(starts_anew) for name, times in self.latencies.items()},
            [self._node_row(node_id, starts_anew) for node_id in self.nodes],
            [self._topic_row(name, starts_anew) for name in self.topics],
        )
        if starts_anew:
            self.maxima = dict.fromkeys(MAXIMA, 0)
        return found

    def _node_row(
        self, node_id: int, starts_anew: bool
    ) -> tuple[int, int, int, int, int, int, int, int, LatencyHistogram]:
        node = self.nodes[node_id]
        largest = node.largest_request
        if starts_anew:
            node.largest_request = 0
        return (
            node_id,
            node.requests,
            node.request_bytes,
            node.responses,
            node.sent_bytes,
            node.received_bytes,
            node.in_flight,
            largest,
            node.latency.take(starts_anew),
        )

    def _topic_row(
        self, name: str, starts_anew: bool
    ) -> tuple[str, int, int, int, int, int, int, LatencyHistogram]:
        topic = self.topics[name]
        return (
            name,
            topic.records,
            topic.bytes,
            topic.batches,
            topic.ratio_millionths,
            topic.retries,
            topic.errors,
            topic.ack_time.take(starts_anew),
        )

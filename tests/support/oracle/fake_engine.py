"""FakeEngine: what `Engine.measure` returns, set by a test figure by figure."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastprod._core.engine.engine import Engine
from fastprod._core.engine.figures import NodeFigures, TopicFigures
from fastprod._core.engine.histogram import LatencyHistogram
from fastprod._core.testing.engine_doors import histogram_for_test
from fastprod.client.engine_settings import engine_settings
from fastprod.config import ProducerConfig


@dataclass
class Times:
    """A histogram: every time so far, and the largest since that was last taken."""

    times_ns: list[int] = field(default_factory=list)
    largest_ns: int = 0

    def add(self, *times_ns: int) -> None:
        self.times_ns += times_ns
        self.largest_ns = max(self.largest_ns, *times_ns)

    def take(self, reset: bool) -> LatencyHistogram:
        found = histogram_for_test(self.times_ns, largest_ns=self.largest_ns)
        if reset:
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
    """The figures of an engine, all 0 at first; `add` and the attributes change them."""

    def __init__(self) -> None:
        settings = engine_settings(ProducerConfig(bootstrap_servers="localhost:1"))
        counters, maxima, latencies, *_ = Engine(**settings).measure(False)
        self.counters = dict.fromkeys(counters, 0)
        self.maxima = dict.fromkeys(maxima, 0)
        self.latencies = {name: Times() for name in latencies}
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
        self, reset: bool
    ) -> tuple[
        dict[str, int],
        dict[str, int],
        dict[str, LatencyHistogram],
        list[NodeFigures],
        list[TopicFigures],
    ]:
        found = (
            dict(self.counters),
            dict(self.maxima),
            {name: times.take(reset) for name, times in self.latencies.items()},
            [self._node_row(node_id, reset) for node_id in self.nodes],
            [self._topic_row(name, reset) for name in self.topics],
        )
        if reset:
            self.maxima = dict.fromkeys(self.maxima, 0)
        return found

    def _node_row(self, node_id: int, reset: bool) -> NodeFigures:
        node = self.nodes[node_id]
        largest = node.largest_request
        if reset:
            node.largest_request = 0
        return NodeFigures(
            node_id,
            node.requests,
            node.request_bytes,
            node.responses,
            node.sent_bytes,
            node.received_bytes,
            node.in_flight,
            largest,
            node.latency.take(reset),
        )

    def _topic_row(self, name: str, reset: bool) -> TopicFigures:
        topic = self.topics[name]
        return TopicFigures(
            name,
            topic.records,
            topic.bytes,
            topic.batches,
            topic.ratio_millionths,
            topic.retries,
            topic.errors,
            topic.ack_time.take(reset),
        )

"""Measurements: all numbers of a producer at one moment, and what changed between two of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from fastprod._core.engine.figures import NodeFigures, TopicFigures
from fastprod._core.engine.histogram import LatencyHistogram

_NS_PER_S = 1e9


class Measurement(NamedTuple):
    """Every figure at one moment.

    Attributes:
        at_ns: when, on the monotonic clock.
        counters: totals since the start, and gauges.
        maxima: the largest since they last started anew.
        latencies: since the start, but for their maxima.
        nodes: by id.
        topics: by name.
    """

    at_ns: int
    counters: dict[str, int]
    maxima: dict[str, int]
    latencies: dict[str, LatencyHistogram]
    nodes: dict[int, NodeFigures]
    topics: dict[str, TopicFigures]


class Window:
    """What happened between two measurements.

    Args:
        base: where it begins.
        between: later measurements, with which maxima started anew.
        now: where it ends.
        elapsed_ns: its length for rates, which need not be the time between.
    """

    def __init__(
        self, base: Measurement, between: Iterable[Measurement], now: Measurement, elapsed_ns: int
    ) -> None:
        self.now = now
        self._base = base
        self._all = (*between, now)
        self._elapsed_s = elapsed_ns / _NS_PER_S

    def delta(self, counter: str) -> int:
        """By how much a counter grew."""
        return self.now.counters[counter] - self._base.counters[counter]

    def rate(self, delta: int) -> float:
        """Return so many in this window as a number per second."""
        return delta / self._elapsed_s

    def largest(self, maximum: str) -> int:
        """The largest there was; 0: there was none."""
        return max(each.maxima[maximum] for each in self._all)

    def latency(self, name: str) -> LatencyHistogram:
        """The times of this window."""
        return self.now.latencies[name].since(
            self._base.latencies[name], max(each.latencies[name].largest_ns for each in self._all)
        )

    def node(self, now: NodeFigures) -> NodeFigures:
        """What `now`, a node of the last measurement, did in this window; `in_flight` is now's."""
        node_id = now.node_id
        every = [each.nodes[node_id] for each in self._all if node_id in each.nodes]
        base = self._base.nodes.get(node_id)
        longest_ns = max(each.latency.largest_ns for each in every)
        largest = max(each.largest_request for each in every)
        if base is None:
            return now._replace(
                largest_request=largest, latency=now.latency.since(None, longest_ns)
            )
        return NodeFigures(
            node_id,
            now.requests - base.requests,
            now.request_bytes - base.request_bytes,
            now.responses - base.responses,
            now.sent_bytes - base.sent_bytes,
            now.received_bytes - base.received_bytes,
            now.in_flight,
            largest,
            now.latency.since(base.latency, longest_ns),
        )

    def topic(self, now: TopicFigures) -> TopicFigures:
        """What happened to `now`, a topic of the last measurement, in this window."""
        name = now.name
        longest_ns = max(
            each.topics[name].ack_time.largest_ns for each in self._all if name in each.topics
        )
        base = self._base.topics.get(name)
        if base is None:
            return now._replace(ack_time=now.ack_time.since(None, longest_ns))
        return TopicFigures(
            name,
            now.records - base.records,
            now.bytes - base.bytes,
            now.batches - base.batches,
            now.ratio_millionths - base.ratio_millionths,
            now.retries - base.retries,
            now.errors - base.errors,
            now.ack_time.since(base.ack_time, longest_ns),
        )

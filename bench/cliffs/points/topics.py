"""Topics that are sent to for the first time, one after the other."""

from __future__ import annotations

from typing import Any

from bench.cliffs.light_server import LightOptions, light_server
from bench.cliffs.point import CliffPoint
from bench.cliffs.side import Figures, Side, WrongResult, serve
from bench.cliffs.stopwatch import Stopwatch
from fastprod import KafkaProducer


def _names(count: int) -> list[str]:
    return [f"topic-{number}" for number in range(count)]


def _measure(side: Side, topics: int) -> Figures:
    with light_server(LightOptions()) as server:
        given = {"servers": server.bootstrap_servers, "topics": topics}
        figures = side.run(__name__, given)
        server.check({name: 1 for name in _names(topics)})
    return figures


def work(given: dict[str, Any]) -> Figures:
    """A record to each topic, in order, and a flush."""
    names = _names(given["topics"])
    producer = KafkaProducer(bootstrap_servers=given["servers"])
    with Stopwatch() as watch:
        futures = [producer.send(name, b"value") for name in names]
        producer.flush()
    if any(future.result().offset != 0 for future in futures):
        raise WrongResult("a record has another offset than 0")
    return watch.figures()


POINTS = [
    CliffPoint(
        "topics.10000",
        "the first record to each of 10,000 topics, in order; the client",
        _measure,
        10_000,
        rounds=2,
    )
]

if __name__ == "__main__":
    serve(work)

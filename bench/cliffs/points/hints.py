"""Leaders that move, half a topic's at once, told by hints in Produce answers (KIP-951)."""

from __future__ import annotations

from typing import Any

from bench.cliffs.light_server import LightOptions, light_server
from bench.cliffs.point import CliffPoint
from bench.cliffs.side import Figures, Side, serve
from bench.cliffs.stopwatch import Stopwatch, helpers_cpu_s
from fastprod import KafkaProducer

_TOPIC = "moved"
_NEW_TOPIC = "new"
_LINGER_MS = 60_000


def _measure(side: Side, moved: int) -> Figures:
    partitions = 2 * moved
    options = LightOptions(2, {_TOPIC: partitions}, move_after_records=partitions)
    with light_server(options) as server:
        given = {"servers": server.bootstrap_servers, "partitions": partitions}
        figures = side.run(__name__, given)
        server.check({_TOPIC: 2 * partitions, _NEW_TOPIC: 1})
    return figures


def work(given: dict[str, Any]) -> Figures:
    """A record to each partition; leaders move; another; then the first to a new topic."""
    partitions = range(given["partitions"])
    producer = KafkaProducer(bootstrap_servers=given["servers"], linger_ms=_LINGER_MS)
    for index in partitions:
        producer.send(_TOPIC, b"value", partition=index)
    producer.flush()
    helpers_s = helpers_cpu_s()
    with Stopwatch() as all_of_it:
        with Stopwatch() as until_acknowledged:
            futures = [producer.send(_TOPIC, b"value", partition=index) for index in partitions]
            producer.flush()
        # The control thread answers for it when it has done with the hints.
        futures.append(producer.send(_NEW_TOPIC, b"value"))
        for future in futures:
            future.result()
    return {
        "cpu_s": all_of_it.cpu_s,
        "control_cpu_s": helpers_cpu_s() - helpers_s,
        "acknowledged_s": until_acknowledged.wall_s,
        "new_topic_s": all_of_it.wall_s,
    }


POINTS = [
    CliffPoint(
        "hints.2500",
        "2,500 of a topic's 5,000 partitions move, answers say where to; a record to each, then "
        "one to a new topic; the client, and of it the Python threads but the main one",
        _measure,
        2500,
    )
]

if __name__ == "__main__":
    serve(work)

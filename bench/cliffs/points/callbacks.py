"""Callbacks of one batch, attached to the last record first."""

from __future__ import annotations

from typing import Any

from bench.cliffs.light_server import LightOptions, light_server
from bench.cliffs.point import CliffPoint
from bench.cliffs.side import Figures, Side, WrongResult, serve
from bench.cliffs.stopwatch import Stopwatch
from fastprod import KafkaProducer

_TOPIC = "callbacks"
_LINGER_MS = 60_000


def _measure(side: Side, records: int) -> Figures:
    with light_server(LightOptions()) as server:
        given = {"servers": server.bootstrap_servers, "records": records}
        figures = side.run(__name__, given)
        requests = server.check({_TOPIC: records + 1})
        if requests["0"] != 2:
            raise WrongResult(f"{requests['0']} Produce requests: it was not one batch")
    return figures


def work(given: dict[str, Any]) -> Figures:
    """Fill one batch, attach callbacks from the back, and flush."""
    records = given["records"]
    producer = KafkaProducer(
        bootstrap_servers=given["servers"], linger_ms=_LINGER_MS, batch_size=1_000_000
    )
    producer.send(_TOPIC, b"").result()
    called: list[int] = []
    futures = [producer.send(_TOPIC, b"") for _ in range(records)]
    for future in reversed(futures):
        future.add_callback(lambda metadata: called.append(metadata.offset))
    with Stopwatch() as watch:
        producer.flush()
        futures[-1].result()
    if called != list(range(1, records + 1)):
        raise WrongResult("callbacks are missing, or ran in another order than records were sent")
    return watch.figures()


POINTS = [
    CliffPoint(
        "callbacks.50000",
        "a batch of 50,000 records, callbacks attached to the last first; the client, from flush "
        "until all have run",
        _measure,
        50_000,
    )
]

if __name__ == "__main__":
    serve(work)

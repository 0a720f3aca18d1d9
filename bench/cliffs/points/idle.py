"""One busy partition beside many that have nothing to send, or only batches that linger."""

from __future__ import annotations

from typing import Any

from bench.cliffs.light_server import LightOptions, light_server
from bench.cliffs.point import CliffPoint
from bench.cliffs.side import Figures, Side, WrongResult, serve
from bench.cliffs.stopwatch import Stopwatch
from fastprod import KafkaProducer

_TOPIC = "idle"
_FLOOD = 1_000_000
_SINGLES = 2_000
_LINGER_MS = 600_000
_VALUE = bytes(100)
_BUSY = 0


def _idle(side: Side, idle: int) -> Figures:
    with light_server(LightOptions(partitions={_TOPIC: idle + 1})) as server:
        given = {"servers": server.bootstrap_servers, "idle": [1, idle + 1, 1], "lingers": False}
        figures = side.run(__name__, given)
        server.check({_TOPIC: idle + 1 + _FLOOD + _SINGLES})
    return figures


def _lingering(side: Side, idle: int) -> Figures:
    # Those that linger are at another node: they would go along with the busy one's requests.
    with light_server(LightOptions(2, {_TOPIC: 2 * idle})) as server:
        given = {"servers": server.bootstrap_servers, "idle": [1, 2 * idle, 2], "lingers": True}
        figures = side.run(__name__, given)
        server.check({_TOPIC: 2 * idle + 1 + _FLOOD + _SINGLES})
    return figures


def work(given: dict[str, Any]) -> Figures:
    """Touch the idle ones, then flood the busy one, then send it records one at a time."""
    lingers = given["lingers"]
    settings = {"linger_ms": _LINGER_MS, "delivery_timeout_ms": 2 * _LINGER_MS} if lingers else {}
    producer = KafkaProducer(
        bootstrap_servers=given["servers"], buffer_memory=512 << 20, **settings
    )

    def touch() -> None:
        for index in range(*given["idle"]):
            producer.send(_TOPIC, b"value", partition=index)

    touch()
    producer.send(_TOPIC, _VALUE, partition=_BUSY)
    producer.flush()
    if lingers:
        touch()
    with Stopwatch() as flood:
        for _ in range(_FLOOD):
            future = producer.send(_TOPIC, _VALUE, partition=_BUSY)
        last_offset = future.result().offset
    with Stopwatch() as singles:
        for _ in range(_SINGLES):
            producer.send(_TOPIC, _VALUE, partition=_BUSY).result()
    if last_offset != _FLOOD:
        raise WrongResult(f"the last offset is {last_offset}")
    producer.flush()
    return {
        "flood_cpu_us": flood.cpu_s / _FLOOD * 1e6,
        "flood_wall_us": flood.wall_s / _FLOOD * 1e6,
        "single_cpu_us": singles.cpu_s / _SINGLES * 1e6,
        "single_wall_us": singles.wall_s / _SINGLES * 1e6,
    }


POINTS = [
    CliffPoint(
        "idle.0",
        "for comparison: the same busy partition alone; the client",
        _idle,
        0,
    ),
    CliffPoint(
        "idle.20000",
        "20,000 partitions that were sent to once, beside a busy one of their topic: a record of "
        f"the busy one, of {_FLOOD:,} in a row and of {_SINGLES:,} one at a time; the client",
        _idle,
        20_000,
    ),
    CliffPoint(
        "idle.20000.lingering",
        "the same beside 20,000 of another node, each with a batch that lingers; the client",
        _lingering,
        20_000,
    ),
]

if __name__ == "__main__":
    serve(work)

"""Answers whose partitions come in another order than they were asked for, as Kafka's hashes do."""

from __future__ import annotations

from typing import Any

from bench.cliffs.light_server import LightOptions, light_server
from bench.cliffs.point import CliffPoint
from bench.cliffs.side import Figures, Side, WrongResult, serve
from bench.cliffs.stopwatch import Stopwatch, native_cpu_s
from fastprod import KafkaProducer

_TOPIC = "answers"
_ROUNDS = 10
_LINGER_MS = 60_000  # a flush ends it: one request a round


def _measure(side: Side, partitions: int, is_shuffled: bool) -> Figures:
    options = LightOptions(partitions={_TOPIC: partitions}, is_shuffled=is_shuffled)
    with light_server(options) as server:
        given = {"servers": server.bootstrap_servers, "partitions": partitions}
        figures = side.run(__name__, given)
        server.check({_TOPIC: partitions * (_ROUNDS + 1)})
    return figures


def _shuffled(side: Side, partitions: int) -> Figures:
    return _measure(side, partitions, is_shuffled=True)


def _ordered(side: Side, partitions: int) -> Figures:
    return _measure(side, partitions, is_shuffled=False)


def work(given: dict[str, Any]) -> Figures:
    """A record to each partition, a flush, and again."""
    partitions = range(given["partitions"])
    producer = KafkaProducer(bootstrap_servers=given["servers"], linger_ms=_LINGER_MS)

    def send_round(number: int) -> None:
        futures = [producer.send(_TOPIC, b"value", partition=index) for index in partitions]
        producer.flush()
        if any(future.result().offset != number for future in futures):
            raise WrongResult(f"round {number}: a record has another offset")

    send_round(0)
    io_cpu_s = -native_cpu_s()
    with Stopwatch() as watch:
        for number in range(1, _ROUNDS + 1):
            send_round(number)
    return {**watch.figures(), "io_thread_cpu_s": io_cpu_s + native_cpu_s()}


POINTS = [
    CliffPoint(
        "answers.5000",
        f"a record to each of 5,000 partitions and a flush, {_ROUNDS} times; answers in another "
        "order; the client, and of it the I/O thread",
        _shuffled,
        5000,
    ),
    CliffPoint(
        "answers.5000.ordered",
        "the same with answers in the order of the request; the same",
        _ordered,
        5000,
    ),
]

if __name__ == "__main__":
    serve(work)

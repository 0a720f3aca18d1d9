"""kafka-python as a client of the benchmarks. It cannot bootstrap against the mock cluster."""

from __future__ import annotations

from typing import Any

from kafka import KafkaProducer

from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.values import make_values
from bench.workload import Workload

_FLUSH_S = 120.0
_SETTINGS = {
    "linger_ms": "linger_ms",
    "batch_bytes": "batch_size",
    "idempotence": "enable_idempotence",
    "buffer_bytes": "buffer_memory",
}


def work(load: Workload) -> Outcome:
    values = make_values(load.values)
    meter = Meter()
    given = {theirs: getattr(load, ours) for ours, theirs in _SETTINGS.items()}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    producer = KafkaProducer(
        bootstrap_servers=load.bootstrap_servers,
        acks="all",
        compression_type=None if load.codec == "none" else load.codec,
        **settings,
    )
    producer.send(load.topic, values[0], partition=0).get(30)
    send, topic, rounds = producer.send, load.topic, range(load.round_count)
    meter.start()
    futures = [send(topic, value, partition=0) for _ in rounds for value in values]
    producer.flush(_FLUSH_S)
    meter.stop()
    delivered = sum(future.succeeded() for future in futures)
    return meter.outcome(1 + delivered, 1, load.round_count * sum(map(len, values)))


if __name__ == "__main__":
    serve(work)

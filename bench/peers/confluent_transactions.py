"""confluent-kafka's transactions as a client of the benchmarks; its queue as in `confluent_`."""

from __future__ import annotations

import time

from confluent_kafka import Producer

from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.values import make_values
from bench.workload import Workload

_WARM_UP = 20
_PAUSE_S = 0.005
_TIMEOUT_S = 60.0


def work(load: Workload) -> Outcome:
    values = make_values(load.values)
    meter = Meter()
    producer = Producer(
        {
            "bootstrap.servers": load.bootstrap_servers,
            "transactional.id": load.topic,
            "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 1_048_576,
        }
    )
    producer.init_transactions(_TIMEOUT_S)
    for _ in range(_WARM_UP):
        _one(producer, load.topic, values[:1])
    took_us = []
    meter.start()
    if load.way == "commits":
        for _ in range(load.record_count):
            time.sleep(_PAUSE_S)
            took_us.append(_one(producer, load.topic, values[:1]))
    else:
        many = load.repeated(values)
        for _ in range(load.record_count // load.transaction_records):
            _one(producer, load.topic, many)
    meter.stop()
    size = load.round_count * sum(map(len, values))
    # A commit that succeeds has delivered every record.
    return meter.outcome(_WARM_UP + load.record_count, _WARM_UP, size, took_us)


def _one(producer: Producer, topic: str, values: list[bytes]) -> float:
    """One transaction; us that the commit took."""
    produce = producer.produce
    producer.begin_transaction()
    for value in values:
        produce(topic, value, partition=0)
    started_ns = time.perf_counter_ns()
    producer.commit_transaction(_TIMEOUT_S)
    return (time.perf_counter_ns() - started_ns) / 1000


if __name__ == "__main__":
    serve(work)

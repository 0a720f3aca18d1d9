"""fastprod's transactions as a client of the benchmarks."""

from __future__ import annotations

import time

from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.values import make_values
from bench.workload import Workload
from fastprod.producer import KafkaProducer

_WARM_UP = 20
_PAUSE_S = 0.005


def work(load: Workload) -> Outcome:
    values = make_values(load.values)
    meter = Meter()
    producer = KafkaProducer(
        bootstrap_servers=load.bootstrap_servers,
        transactional_id=load.topic,
    )
    producer.init_transactions()
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
    acknowledged = int(producer._engine.counters()["records_acked"])
    size = load.round_count * sum(map(len, values))
    return meter.outcome(acknowledged, _WARM_UP, size, took_us)


def _one(producer: KafkaProducer, topic: str, values: list[bytes]) -> float:
    """One transaction; us that the commit took."""
    send = producer.send
    producer.begin_transaction()
    for value in values:
        send(topic, value, partition=0)
    started_ns = time.perf_counter_ns()
    producer.commit_transaction()
    return (time.perf_counter_ns() - started_ns) / 1000


if __name__ == "__main__":
    serve(work)

"""fastprod as a client of the benchmarks."""

from __future__ import annotations

import threading
import time
from typing import Any

from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.values import make_values
from bench.workload import Workload
from fastprod.producer import KafkaProducer

_WARM_UP = 200
_SETTINGS = {
    "linger_ms": "linger_ms",
    "batch_bytes": "batch_size",
    "idempotence": "enable_idempotence",
    "buffer_bytes": "buffer_memory",
}


def work(load: Workload) -> Outcome:
    values = make_values(load.values)
    meter = Meter()
    producer = _producer(load)
    producer.send(load.topic, values[0], partition=0).result(30)
    if load.way == "latency":
        return _one_at_a_time(load, producer, values, meter)
    if load.spins:
        threading.Thread(target=_spin, daemon=True).start()
    if load.way == "bulk":
        _bulk(load, producer, values, meter)
    elif load.callbacks:
        _send_with_callbacks(load, producer, values, meter)
    else:
        _send(load, producer, values, meter)
    size = load.round_count * sum(map(len, values))
    # A spinning thread's CPU time is not the client's.
    return meter.outcome(_acknowledged(producer), 1, size, has_cpu=not load.spins)


def _producer(load: Workload) -> KafkaProducer:
    given = {theirs: getattr(load, ours) for ours, theirs in _SETTINGS.items()}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if load.ca_file:
        settings |= {"security_protocol": "SSL", "ssl_truststore_location": load.ca_file}
    return KafkaProducer(
        bootstrap_servers=load.bootstrap_servers,
        acks="all",
        compression_type=load.codec,
        **settings,
    )


def _acknowledged(producer: KafkaProducer) -> int:
    return int(producer._engine.counters()["records_acked"])


def _send(load: Workload, producer: KafkaProducer, values: list[bytes], meter: Meter) -> None:
    send, topic = producer.send, load.topic
    meter.start()
    for _ in range(load.round_count):
        for value in values:
            send(topic, value, partition=0)
    producer.flush()
    meter.stop()


def _send_with_callbacks(
    load: Workload, producer: KafkaProducer, values: list[bytes], meter: Meter
) -> None:
    send, topic = producer.send, load.topic
    calls = 0

    def on_delivery(metadata: Any, error: Any) -> None:
        nonlocal calls
        if error is None:
            calls += 1

    meter.start()
    for _ in range(load.round_count):
        for value in values:
            send(topic, value, partition=0, on_delivery=on_delivery)
    producer.flush()
    meter.stop()
    if calls != load.record_count:
        raise SystemExit(f"{calls:,} callbacks of {load.record_count:,}")


def _bulk(load: Workload, producer: KafkaProducer, values: list[bytes], meter: Meter) -> None:
    many = values * (load.bulk_records // len(values))
    meter.start()
    futures = [
        producer.send_many(load.topic, many) for _ in range(load.record_count // load.bulk_records)
    ]
    producer.flush()
    meter.stop()
    delivered = sum(future.result().record_count for future in futures)
    if delivered != load.record_count:
        raise SystemExit(f"the futures tell of {delivered:,} records of {load.record_count:,}")


def _one_at_a_time(
    load: Workload, producer: KafkaProducer, values: list[bytes], meter: Meter
) -> Outcome:
    send, topic, clock = producer.send, load.topic, time.perf_counter_ns
    for value in values[:_WARM_UP]:
        send(topic, value, partition=0).result(30)
    took_us = []
    meter.start()
    for _ in range(load.round_count):
        for value in values:
            started_ns = clock()
            send(topic, value, partition=0).result()
            took_us.append((clock() - started_ns) / 1000)
    meter.stop()
    size = load.round_count * sum(map(len, values))
    return meter.outcome(_acknowledged(producer), 1 + _WARM_UP, size, took_us)


def _spin() -> None:
    while True:
        pass


if __name__ == "__main__":
    serve(work)

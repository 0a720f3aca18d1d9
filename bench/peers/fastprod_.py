"""fastprod as a client of the benchmarks."""

from __future__ import annotations

import threading
from typing import Any

from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.values import make_values
from bench.waiting import wait_for_each
from bench.workload import COLD, DRESS_HEADERS, DRESS_KEY, KEYS, Workload
from fastprod.producer import KafkaProducer

_SETTINGS = {
    "linger_ms": "linger_ms",
    "batch_bytes": "batch_size",
    "idempotence": "enable_idempotence",
    "buffer_bytes": "buffer_memory",
}


def work(load: Workload) -> Outcome:
    values = make_values(load.values)
    meter = Meter()
    if load.way == COLD:
        return _first(load, values[0], meter)
    producer = _producer(load)
    producer.send(load.topic, values[0], partition=0).result(30)
    if load.way == "latency":
        return _one_at_a_time(load, producer, values, meter)
    if load.spins:
        threading.Thread(target=_spin, daemon=True).start()
    if load.way == "bulk":
        _bulk(load, producer, values, meter)
    elif load.extra:
        _send_with_extra(load, producer, values, meter)
    elif load.callbacks:
        _send_with_callbacks(load, producer, values, meter)
    else:
        _send(load, producer, values, meter)
    size = load.round_count * sum(map(len, values))
    # A spinning thread's CPU time is not the client's.
    return meter.outcome(_acknowledged(producer), 1, size, has_cpu=not load.spins)


def _first(load: Workload, value: bytes, meter: Meter) -> Outcome:
    meter.start()
    producer = _producer(load)
    producer.send(load.topic, value, partition=0).result(30)
    meter.stop()
    return meter.outcome(_acknowledged(producer), 0, len(value), [meter.wall_us])


def _producer(load: Workload) -> KafkaProducer:
    given = {theirs: getattr(load, ours) for ours, theirs in _SETTINGS.items()}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if load.ca_file:
        settings |= {"security_protocol": "SSL", "ssl_truststore_location": load.ca_file}
    return KafkaProducer(
        bootstrap_servers=load.bootstrap_servers,
        acks=load.acks,
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


def _send_with_extra(
    load: Workload, producer: KafkaProducer, values: list[bytes], meter: Meter
) -> None:
    send, topic, headers = producer.send, load.topic, list(DRESS_HEADERS)
    pairs = list(zip(values, KEYS, strict=True))
    meter.start()
    for _ in range(load.round_count):
        # The same loop for all: to take pairs apart is Python's work, and none of `send`.
        if load.extra == "keys":
            for value, key in pairs:
                send(topic, value, key)
        elif load.extra == "headers":
            for value, _key in pairs:
                send(topic, value, headers=headers)
        else:
            for value, _key in pairs:
                send(topic, value)
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
    send, flush, topic = producer.send, producer.flush, load.topic
    dress: dict[str, Any] = (
        {"key": DRESS_KEY, "headers": list(DRESS_HEADERS)} if load.dressed else {}
    )

    def one(value: bytes) -> None:
        send(topic, value, partition=0, **dress).result()

    def one_by_flush(value: bytes) -> None:
        send(topic, value, partition=0)
        flush()

    def flood(value: bytes) -> None:
        send(topic, value, partition=0)

    def acknowledged() -> int:
        flush()
        return _acknowledged(producer)

    way = one_by_flush if load.flushes else one
    return wait_for_each(load, values, meter, way, acknowledged, flood)


def _spin() -> None:
    while True:
        pass


if __name__ == "__main__":
    serve(work)

"""confluent-kafka as a client of the benchmarks.

Its queue holds 1,000,000 records instead of its default 100,000: measured, that is where it is
quickest and takes the least CPU. Failed deliveries alone are reported, which costs it nothing
measurable, so that a flush that leaves nothing means that all others arrived.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from confluent_kafka import Producer

from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.values import make_values
from bench.waiting import wait_for_each
from bench.workload import COLD, DRESS_HEADERS, DRESS_KEY, Workload

_QUEUE_RECORDS = 1_000_000
_QUEUE_KBYTES = 1_048_576
_FLUSH_S = 120.0
_ANY_PARTITION = -1
_SETTINGS = {
    "linger_ms": "linger.ms",
    "batch_bytes": "batch.size",
    "idempotence": "enable.idempotence",
}


class Failures:
    """Counts deliveries that failed."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, error: Any, message: Any) -> None:
        if error is not None:
            self.count += 1


def work(load: Workload) -> Outcome:
    values = make_values(load.values)
    meter = Meter()
    failures = Failures()
    if load.way == COLD:
        return _first(load, values[0], meter)
    producer = _producer(load, failures)
    producer.produce(load.topic, values[0], partition=0)
    _flush(producer)
    if load.way == "latency":
        return _one_at_a_time(load, producer, failures, values, meter)
    way = {"send": _send, "bulk": _bulk}[load.way]
    if load.callbacks:
        way = _send_with_callbacks
    way(load, producer, values, meter)
    size = load.round_count * sum(map(len, values))
    return meter.outcome(1 + load.record_count - failures.count, 1, size)


def _first(load: Workload, value: bytes, meter: Meter) -> Outcome:
    errors: list[Any] = []
    meter.start()
    producer = _producer(load, Failures())
    producer.produce(
        load.topic, value, partition=0, on_delivery=lambda error, _: errors.append(error)
    )
    deadline_s = time.monotonic() + _FLUSH_S
    while not errors and time.monotonic() < deadline_s:
        producer.poll(1.0)
    meter.stop()
    if errors != [None]:
        raise SystemExit(f"the record failed: {errors}")
    return meter.outcome(1, 0, len(value), [meter.wall_us])


def _producer(load: Workload, failures: Failures) -> Producer:
    given = {theirs: getattr(load, ours) for ours, theirs in _SETTINGS.items()}
    settings: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if load.way not in ("latency", COLD) and not load.callbacks:
        settings |= {"delivery.report.only.error": True, "on_delivery": failures}
    if load.ca_file:
        settings |= {"security.protocol": "SSL", "ssl.ca.location": load.ca_file}
    return Producer(
        {
            "bootstrap.servers": load.bootstrap_servers,
            "acks": load.acks,
            "compression.type": load.codec,
            "queue.buffering.max.messages": _QUEUE_RECORDS,
            "queue.buffering.max.kbytes": _QUEUE_KBYTES,
            **settings,
        }
    )


def _flush(producer: Producer) -> None:
    left = producer.flush(_FLUSH_S)
    if left:
        raise SystemExit(f"{left:,} records are not delivered after {_FLUSH_S} s")


def _send(load: Workload, producer: Producer, values: list[bytes], meter: Meter) -> None:
    produce, topic = producer.produce, load.topic
    meter.start()
    for _ in range(load.round_count):
        for value in values:
            try:
                produce(topic, value, partition=0)
            except BufferError:
                _insist(producer, topic, value, {})
    _flush(producer)
    meter.stop()


def _insist(producer: Producer, topic: str, value: bytes, more: dict[str, Any]) -> None:
    """The queue is full: serve deliveries until the record goes in."""
    while True:
        producer.poll(0.01)
        try:
            producer.produce(topic, value, partition=0, **more)
        except BufferError:
            continue
        return


def _send_with_callbacks(
    load: Workload, producer: Producer, values: list[bytes], meter: Meter
) -> None:
    produce, topic = producer.produce, load.topic
    calls = 0

    def on_delivery(error: Any, message: Any) -> None:
        nonlocal calls
        if error is None:
            calls += 1

    meter.start()
    for _ in range(load.round_count):
        for value in values:
            try:
                produce(topic, value, partition=0, on_delivery=on_delivery)
            except BufferError:
                _insist(producer, topic, value, {"on_delivery": on_delivery})
        producer.poll(0)
    _flush(producer)
    meter.stop()
    if calls != load.record_count:
        raise SystemExit(f"{calls:,} callbacks of {load.record_count:,}")


def _bulk(load: Workload, producer: Producer, values: list[bytes], meter: Meter) -> None:
    """produce_batch: what did not fit the queue is offered again.

    Its dicts are made once: an application would make them for each record.
    """
    many = [{"value": value} for value in values] * (load.bulk_records // len(values))
    partition = 0
    if load.columns == "lists-keys":
        many = [{**each, "key": b"key-%07d" % number} for number, each in enumerate(many)]
        partition = _ANY_PARTITION
    meter.start()
    for _ in range(load.record_count // load.bulk_records):
        left = many
        while left:
            taken = producer.produce_batch(load.topic, left, partition=partition)
            left = left[taken:]
            if left:
                producer.poll(0.01)
    _flush(producer)
    meter.stop()


class _Waits:
    """Waits for records one by one, in the quickest way for a thread alone and for several.

    A thread alone polls until its own delivery has come. Several would take each other's: then one
    more thread polls for all, and calls who waits.
    """

    def __init__(self, load: Workload, producer: Producer) -> None:
        self._producer, self._topic = producer, load.topic
        self._more: dict[str, Any] = {}
        if load.dressed:
            self._more = {"key": DRESS_KEY, "headers": list(DRESS_HEADERS)}
        self.delivered = 0
        self._lock = threading.Lock()
        if load.waiters > 1:
            threading.Thread(target=self._poll_for_all, daemon=True).start()

    def alone(self, value: bytes) -> None:
        before = self.delivered
        self._producer.produce(
            self._topic, value, partition=0, on_delivery=self._on_delivery, **self._more
        )
        while self.delivered == before:
            self._producer.poll(1.0)

    def by_flush(self, value: bytes) -> None:
        self._producer.produce(self._topic, value, partition=0, on_delivery=self._on_delivery)
        self._producer.flush()

    def among_others(self, value: bytes) -> None:
        arrived = threading.Lock()
        arrived.acquire()

        def on_delivery(error: Any, message: Any) -> None:
            self._on_delivery(error, message)
            arrived.release()

        self._producer.produce(self._topic, value, partition=0, on_delivery=on_delivery)
        arrived.acquire()

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is not None:
            os._exit(1)
        with self._lock:
            self.delivered += 1

    def _poll_for_all(self) -> None:
        while True:
            self._producer.poll(1.0)


def _one_at_a_time(
    load: Workload, producer: Producer, failures: Failures, values: list[bytes], meter: Meter
) -> Outcome:
    waits = _Waits(load, producer)
    flooded = 0

    def flood(value: bytes) -> None:
        nonlocal flooded
        try:
            producer.produce(load.topic, value, partition=0, on_delivery=failures)
        except BufferError:
            _insist(producer, load.topic, value, {"on_delivery": failures})
        flooded += 1

    def acknowledged() -> int:
        _flush(producer)
        return 1 + waits.delivered + flooded - failures.count

    one = waits.alone
    if load.flushes:
        one = waits.by_flush
    elif load.waiters > 1:
        one = waits.among_others
    return wait_for_each(load, values, meter, one, acknowledged, flood)


if __name__ == "__main__":
    serve(work)

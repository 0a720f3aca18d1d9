"""fastprod at a steady number of records a second, none waited for: how long each of them takes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.peers.fastprod_ import _acknowledged, _producer
from bench.values import make_values
from bench.workload import Workload

_SLOT_S = 0.001
_WARM_UP_SLOTS = 200
_KEPT_COUNT = 5_000


class PacedSender:
    """Sends by a producer of its own, and takes the time of each record until its callback runs.

    Callbacks of a partition run in the order of the sends, so both times of a record have the same
    place in their lists.
    """

    def __init__(self, load: Workload) -> None:
        self.producer = _producer(load)
        self._topic = load.topic
        self._sent_ns: list[int] = []
        self._done_ns: list[int] = []
        self._errors: list[BaseException] = []

    def send(self, values: Sequence[bytes]) -> None:
        send, topic, on_delivery = self.producer.send, self._topic, self._on_delivery
        note, clock = self._sent_ns.append, time.perf_counter_ns
        for value in values:
            note(clock())
            send(topic, value, partition=0, on_delivery=on_delivery)

    def took_us(self) -> list[float]:
        """What each record took since the last call; all of them are done."""
        if self._errors:
            raise SystemExit(f"{len(self._errors):,} records failed: {self._errors[0]}")
        pairs = zip(self._sent_ns, self._done_ns, strict=True)
        found = [(done_ns - sent_ns) / 1000 for sent_ns, done_ns in pairs]
        self._sent_ns.clear()
        self._done_ns.clear()
        return found

    def _on_delivery(self, metadata: Any, error: BaseException | None) -> None:
        self._done_ns.append(time.perf_counter_ns())
        if error is not None:
            self._errors.append(error)


def work(load: Workload) -> Outcome:
    values = make_values(load.values)
    meter = Meter()
    senders = [PacedSender(load) for _ in range(load.producers)]
    per_s = load.per_s * load.producers
    each_count = max(1, int(per_s * _SLOT_S))
    _send_in_slots(senders, values, each_count, _WARM_UP_SLOTS, _SLOT_S)
    for sender in senders:
        sender.producer.flush()
        sender.took_us()
    warm_count = _acknowledged_by(senders)
    meter.start()
    _send_in_slots(senders, values, each_count, load.record_count // each_count, each_count / per_s)
    for sender in senders:
        sender.producer.flush()
    meter.stop()
    took_us = [each for sender in senders for each in sender.took_us()]
    size = load.record_count * len(values[0])
    return meter.outcome(_acknowledged_by(senders), warm_count, size, _thinned(took_us))


def _send_in_slots(
    senders: Sequence[PacedSender],
    values: Sequence[bytes],
    each_count: int,
    slot_count: int,
    slot_s: float,
) -> None:
    """So many records at the beginning of each slot; senders take turns. Who is late makes up."""
    turns, more = cycle(senders), cycle(values)
    began_s = time.perf_counter()
    for number in range(slot_count):
        early_s = began_s + number * slot_s - time.perf_counter()
        if early_s > 0:
            time.sleep(early_s)
        next(turns).send(list(islice(more, each_count)))


def _acknowledged_by(senders: Sequence[PacedSender]) -> int:
    return sum(_acknowledged(sender.producer) for sender in senders)


def _thinned(took_us: list[float]) -> list[float]:
    """By size, every so many of them, so that as few are left as tell the quantiles."""
    return sorted(took_us)[:: max(1, len(took_us) // _KEPT_COUNT)]


if __name__ == "__main__":
    serve(work)

"""Workloads sent by several threads: what becomes of each record is noted in a ledger."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from fastprod import KafkaProducer, RecordFuture, RecordMetadata
from support.records.ledger import Ledger

FLUSH_TIMEOUT_S = 180.0
CALLBACK_EVERY = 4
SLICE_S = 0.005
REST = 1 / 4  # of a workload: sent slower as long as what is to happen meanwhile goes on
SLOWER = 20


class Lane:
    """One thread's part of a workload, see `Workload.lane`.

    A quarter of the records are watched through `on_delivery`, the others through their futures,
    which are looked at, never waited for, until the end: to wait for a record hurries its batch.
    """

    def __init__(
        self,
        producer: KafkaProducer,
        topic: str,
        ledger: Ledger,
        number: int,
        may_fail: tuple[type[Exception], ...],
    ) -> None:
        self._may_fail = may_fail
        self._producer = producer
        self._topic = topic
        self._ledger = ledger
        self._number = number
        self._pending: deque[tuple[int, RecordFuture]] = deque()
        self.errors: list[BaseException] = []

    def run(
        self, rate_per_s: float | None, happened: threading.Event, stop: threading.Event
    ) -> None:
        """Send the lane's records in order, at most `rate_per_s` of them a second."""
        try:
            self._run(rate_per_s, happened, stop)
        except BaseException as error:
            self.errors.append(error)
            stop.set()

    def _run(
        self, rate_per_s: float | None, happened: threading.Event, stop: threading.Event
    ) -> None:
        due_s = time.monotonic()
        workload = self._ledger.workload
        rest = int(workload.count * (1 - REST))
        for index in range(self._number, workload.count, workload.lanes):
            if rate_per_s is not None:
                while (ahead_s := due_s - time.monotonic()) > 0:
                    time.sleep(min(ahead_s, SLICE_S))
                is_waited_for = index >= rest and not happened.is_set()
                due_s += SLOWER / rate_per_s if is_waited_for else 1 / rate_per_s
            if stop.is_set() or self.errors:
                return
            self._send(index)
            while self._pending and self._pending[0][1].done():
                self._collect()

    def _send(self, index: int) -> None:
        record = self._ledger.workload.record(index)
        watched = index // self._ledger.workload.lanes % CALLBACK_EVERY == 0
        future = self._producer.send(
            self._topic,
            record.value,
            record.key,
            record.headers,
            timestamp_ms=record.timestamp_ms,
            on_delivery=self._reporter(index) if watched else None,
        )
        if not watched:
            self._pending.append((index, future))

    def _reporter(self, index: int) -> Callable[[RecordMetadata, Exception | None], None]:
        def report(metadata: RecordMetadata, error: Exception | None) -> None:
            try:
                self._note(index, metadata, error)
            except Exception as problem:
                self.errors.append(problem)

        return report

    def _collect(self) -> None:
        index, future = self._pending.popleft()
        error = future.exception(0)
        self._note(index, None if error else future.result(0), error)

    def _note(
        self, index: int, metadata: RecordMetadata | None, error: BaseException | None
    ) -> None:
        if error is None and metadata is not None:
            self._ledger.acknowledged(index, metadata)
        elif isinstance(error, self._may_fail):
            self._ledger.failed(index)
        elif error is not None:
            raise error

    def finish(self) -> None:
        """After a flush: take what is left; raise the first error of all."""
        while self._pending and not self.errors:
            self._collect()
        if self.errors:
            raise self.errors[0]


def send_workload(
    producer: KafkaProducer,
    topic: str,
    ledger: Ledger,
    *,
    rate_per_s: float | None = None,
    happened: threading.Event | None = None,
    may_fail: tuple[type[Exception], ...] = (),
) -> None:
    """Send the ledger's workload, one thread a lane, flush, and note every acknowledgement.

    Args:
        producer: open; stays open.
        topic: name.
        ledger: of the workload, empty.
        rate_per_s: records a second, over all lanes; None: as fast as it goes.
        happened: set once what is to happen meanwhile has happened; until then the last quarter of
            the records is sent twenty times slower, so that there are records on a busy machine.
        may_fail: errors that records may have; the ledger then has these records as failed.

    Raises: the first other error of any record or thread, after all have stopped.
    """
    workload = ledger.workload
    lanes = [Lane(producer, topic, ledger, number, may_fail) for number in range(workload.lanes)]
    lane_rate = None if rate_per_s is None else rate_per_s / workload.lanes
    stop = threading.Event()
    if happened is None:
        happened = threading.Event()
        happened.set()
    threads = [
        threading.Thread(target=lane.run, args=(lane_rate, happened, stop), name=f"lane {number}")
        for number, lane in enumerate(lanes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.flush(FLUSH_TIMEOUT_S)
    for lane in lanes:
        lane.finish()
    found = ledger.acknowledged_count() + ledger.failed_count()
    assert found == workload.count, f"{found:,} of {workload.count:,} records have an outcome"

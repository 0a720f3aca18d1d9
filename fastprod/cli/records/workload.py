"""Workload: sends records as fast as it can, or at a rate, and measures their delivery."""

from __future__ import annotations

import contextlib
import itertools
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fastprod.cli.output.latency import LatencySamples
from fastprod.cli.output.record_progress import RecordProgress
from fastprod.errors import FlushTimeoutError, KafkaError
from fastprod.producer import KafkaProducer

SAMPLE_COUNT: Final = 100_000
_CHUNK_COUNT: Final = 1024
_FLUSH_SLICE_S: Final = 0.2
_LAST_CALL_S: Final = 5.0


@dataclass
class WorkloadResult:
    """The result of a run.

    Attributes:
        sent_count: records that `send` took.
        delivered_count: records that are acknowledged.
        elapsed_s: from the first send to the last acknowledgement, in seconds.
        cpu_s: user and system time of all threads of the process meanwhile, in seconds.
        latencies: of the sampled records.
        interrupted: Ctrl-C ended the run.
        error: why sending had to stop, or what a sampled record failed with.
    """

    sent_count: int
    delivered_count: int
    elapsed_s: float
    cpu_s: float
    latencies: LatencySamples
    interrupted: bool = False
    error: BaseException | None = None

    @property
    def failed_count(self) -> int:
        """Records that were not delivered."""
        return self.sent_count - self.delivered_count

    def throughput_in_words(self, sent_bytes: int) -> str:
        """Records and megabytes (1,000,000 bytes) a second; `sent_bytes`: of the values sent."""
        seconds = max(self.elapsed_s, 1e-9)
        rate = self.delivered_count / seconds
        mean_bytes = sent_bytes / max(self.sent_count, 1)
        return f"{rate:,.0f} records/s, {rate * mean_bytes / 1e6:,.2f} MB/s"

    def cpu_in_words(self) -> str:
        """CPU time per record, and how much of one core was busy."""
        each_us = self.cpu_s / max(self.delivered_count, 1) * 1e6
        share = self.cpu_s / max(self.elapsed_s, 1e-9)
        return f"{each_us:.3f} us/record ({share:.0%} of one core, user and system, all threads)"


class Workload:
    """Sends the records of an iterator to one topic.

    Args:
        producer: connected; the workload does not close it.
        topic: topic name.
        records: (key, value) pairs, endless or long enough.
        sample_every: 1 or more; the latency of every N-th record is measured. The callback for that
            costs several times as much as the rest of a record.
        throughput: records a second at most; 0 or less: no limit.
    """

    def __init__(
        self,
        producer: KafkaProducer,
        topic: str,
        records: Iterator[tuple[bytes | None, bytes]],
        sample_every: int,
        throughput: float = 0.0,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._records = records
        self._sample_every = sample_every
        self._throughput = throughput
        self._latencies = LatencySamples()
        self._sent_count = 0
        self._unsampled_count = 0
        self._acked_before = 0

    def run(self, record_count: int, progress: RecordProgress) -> WorkloadResult:
        """Send `record_count` records and wait for them.

        Ctrl-C, or an error after which the producer takes no more, ends the sending early; what
        was sent is then given 5 s to arrive.
        """
        self._latencies = latencies = LatencySamples()
        self._sent_count = self._unsampled_count = 0
        self._acked_before = self._acked_in_all()
        stopped_by: BaseException | None = None
        cpu_before_s, began_s = time.process_time(), time.perf_counter()
        try:
            self._send_all(record_count, progress)
            self._await_all(progress)
        except (KeyboardInterrupt, KafkaError) as error:
            stopped_by = error
            with contextlib.suppress(KeyboardInterrupt, FlushTimeoutError):
                self._producer.flush(_LAST_CALL_S)
        elapsed_s = time.perf_counter() - began_s
        interrupted = isinstance(stopped_by, KeyboardInterrupt)
        delivered_count = self._delivered()
        return WorkloadResult(
            # Ctrl-C may come between a send() and its count.
            max(self._sent_count, delivered_count),
            delivered_count,
            elapsed_s,
            time.process_time() - cpu_before_s,
            latencies,
            interrupted,
            latencies.first_error if interrupted or stopped_by is None else stopped_by,
        )

    def _acked_in_all(self) -> int:
        return int(self._producer.metrics()["producer-metrics"]["record-ack-total"])

    def _delivered(self) -> int:
        return self._acked_in_all() - self._acked_before

    def _send_all(self, record_count: int, progress: RecordProgress) -> None:
        began_s = time.perf_counter()
        while (left_count := record_count - self._sent_count) > 0:
            allowed_count = min(left_count, _CHUNK_COUNT)
            if self._throughput > 0:
                allowed_count = min(allowed_count, self._wait_for_turn(began_s))
            self._send(allowed_count)
            progress.show(self._delivered)

    def _wait_for_turn(self, began_s: float) -> int:
        """Sleep until a record is due; returns how many are."""
        while True:
            passed_s = time.perf_counter() - began_s
            due_count = int(passed_s * self._throughput) + 1 - self._sent_count
            if due_count > 0:
                return due_count
            time.sleep(max(0.0, self._sent_count / self._throughput - passed_s))

    def _send(self, count: int) -> None:
        """Send `count` records, with a callback for every `sample_every`-th."""
        send, topic, records = self._producer.send, self._topic, self._records
        while count > 0:
            if self._unsampled_count == 0:
                key, value = next(records)
                send(topic, value, key, on_delivery=self._latencies.begin())
                self._sent_count += 1
                self._unsampled_count = self._sample_every - 1
                count -= 1
            plain_count = min(count, self._unsampled_count)
            sent_count = 0
            try:
                for key, value in itertools.islice(records, plain_count):
                    send(topic, value, key)
                    sent_count += 1
            finally:
                self._sent_count += sent_count
            self._unsampled_count -= plain_count
            count -= plain_count

    def _await_all(self, progress: RecordProgress) -> None:
        """Wait for the last acknowledgement.

        Raises:
            FlushTimeoutError: it did not come within delivery_timeout_ms and a little more.
        """
        patience_s = self._producer.config.delivery_timeout_ms / 1000 + _LAST_CALL_S
        deadline_s = time.perf_counter() + patience_s
        while True:
            try:
                self._producer.flush(_FLUSH_SLICE_S)
            except FlushTimeoutError:
                if time.perf_counter() > deadline_s:
                    raise
                progress.show(self._delivered)
            else:
                return


def peak_memory_in_words() -> str:
    """The peak memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak_bytes = peak if sys.platform == "darwin" else peak * 1024
    return f"{peak_bytes / 1e6:,.0f} MB"

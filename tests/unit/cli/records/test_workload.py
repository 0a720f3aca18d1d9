"""fastprod.cli.records.workload: what is counted, sampled and measured."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from fastprod.cli.output.latency import LatencySamples
from fastprod.cli.output.record_progress import RecordProgress
from fastprod.cli.records import workload as workload_module
from fastprod.cli.records.workload import Workload, WorkloadResult, peak_memory_in_words
from fastprod.config import ProducerConfig
from fastprod.errors import FlushTimeoutError, KafkaError
from fastprod.producer import KafkaProducer
from fastprod.protocol.api_keys import PRODUCE
from support.peer.scripted_peer import Peer

COUNT = 2500


def numbers() -> Iterator[tuple[bytes | None, bytes]]:
    return ((None, b"%d" % number) for number in itertools.count())


def silent() -> RecordProgress:
    return RecordProgress("delivered", None)


@pytest.fixture
def producer(peer: Peer) -> Iterator[KafkaProducer]:
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers) as made:
        made.warmup("t")
        yield made


@pytest.mark.parametrize("sample_every", [1, 7, COUNT + 1])
def test_every_record_is_sent_and_counted_and_every_nth_sampled(
    peer: Peer, producer: KafkaProducer, sample_every: int
) -> None:
    result = Workload(producer, "t", numbers(), sample_every).run(COUNT, silent())
    assert (result.sent_count, result.delivered_count, result.failed_count) == (COUNT, COUNT, 0)
    assert len(result.latencies) == -(-COUNT // sample_every)
    assert result.error is None
    assert result.elapsed_s > 0
    assert result.cpu_s > 0
    values = [int(value or b"") for index in range(3) for value in peer.values("t", index)]
    assert sorted(values) == list(range(COUNT))


def test_a_second_run_goes_on_in_the_records_and_counts_from_0(
    peer: Peer, producer: KafkaProducer
) -> None:
    workload = Workload(producer, "t", numbers(), 1)
    workload.run(10, silent())
    result = workload.run(5, silent())
    assert (result.sent_count, result.delivered_count, len(result.latencies)) == (5, 5, 5)
    assert sum(len(peer.values("t", index)) for index in range(3)) == 15


def test_records_that_fail_are_not_delivered_and_the_error_is_told(
    peer: Peer, producer: KafkaProducer
) -> None:
    peer.on(PRODUCE).error(29).always()
    result = Workload(producer, "t", numbers(), 1).run(20, silent())
    assert (result.sent_count, result.delivered_count, result.failed_count) == (20, 0, 20)
    assert "TOPIC_AUTHORIZATION_FAILED" in str(result.error)


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), KafkaError("finished")])
def test_an_interruption_ends_the_run_and_what_was_sent_is_delivered(
    producer: KafkaProducer, raised: BaseException
) -> None:
    def interrupted() -> Iterator[tuple[bytes | None, bytes]]:
        yield from itertools.islice(numbers(), 42)
        raise raised

    result = Workload(producer, "t", interrupted(), 5).run(COUNT, silent())
    assert (result.sent_count, result.delivered_count) == (42, 42)
    assert result.interrupted == isinstance(raised, KeyboardInterrupt)
    assert result.error is (None if result.interrupted else raised)


class Clock:
    """Stands in for the module `time`: only sleeping takes time."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.slept_s: list[float] = []

    def perf_counter(self) -> float:
        return self.now_s

    def process_time(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_s += seconds + 1e-6


class Sink:
    """Stands in for a producer; notes when each record came."""

    config = ProducerConfig(bootstrap_servers="h:1", delivery_timeout_ms=60_000)

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.at_s: list[float] = []

    def send(self, topic: str, value: bytes, key: object = None, **more: Any) -> None:
        self.at_s.append(self._clock.now_s - 50.0)

    def flush(self, timeout: float) -> None:
        """Everything is delivered already."""

    def metrics(self) -> dict[str, dict[str, float]]:
        return {"producer-metrics": {"record-ack-total": len(self.at_s)}}


def test_a_rate_is_kept_record_by_record(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(workload_module, "time", clock)
    sink: Any = Sink(clock)
    result = Workload(sink, "t", numbers(), 1000, throughput=200).run(100, silent())
    assert result.delivered_count == 100
    assert sink.at_s == pytest.approx([number / 200 for number in range(100)], abs=1e-4)


def test_a_run_that_fell_behind_its_rate_catches_up(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(workload_module, "time", clock)

    class SlowStart(Sink):
        def send(self, topic: str, value: bytes, key: object = None, **more: Any) -> None:
            super().send(topic, value, key, **more)
            if len(self.at_s) == 1:
                clock.now_s += 0.1

    sink: Any = SlowStart(clock)
    Workload(sink, "t", numbers(), 1000, throughput=100).run(30, silent())
    assert sink.at_s[1:11] == pytest.approx([0.1] * 10)
    assert sink.at_s[29] == pytest.approx(0.29, abs=1e-4)


def test_a_flush_that_never_ends_is_given_up_after_the_delivery_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    monkeypatch.setattr(workload_module, "time", clock)

    class Stuck(Sink):
        def flush(self, timeout: float) -> None:
            clock.now_s += timeout
            raise FlushTimeoutError(undelivered_count=3, waited_ms=timeout * 1000)

        def metrics(self) -> dict[str, dict[str, float]]:
            return {"producer-metrics": {"record-ack-total": 7 if self.at_s else 0}}

    sink: Any = Stuck(clock)
    result = Workload(sink, "t", numbers(), 1000).run(10, silent())
    assert (result.sent_count, result.delivered_count, result.failed_count) == (10, 7, 3)
    assert isinstance(result.error, FlushTimeoutError)
    assert 60 < result.elapsed_s < 75


def test_words_count_what_was_delivered() -> None:
    result = WorkloadResult(1000, 500, 2.0, 1.0, LatencySamples())
    assert result.throughput_in_words(sent_bytes=4_000_000) == "250 records/s, 1.00 MB/s"
    assert result.cpu_in_words() == (
        "2000.000 us/record (50% of one core, user and system, all threads)"
    )
    nothing = WorkloadResult(0, 0, 0.0, 0.0, LatencySamples())
    assert nothing.throughput_in_words(0) == "0 records/s, 0.00 MB/s"


def test_the_peak_memory_is_that_of_a_python_process() -> None:
    megabytes = int(peak_memory_in_words().removesuffix(" MB").replace(",", ""))
    assert 10 < megabytes < 100_000

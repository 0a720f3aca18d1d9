"""The ends and beginnings of a broker with a data folder."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import kafka_admin
from bench.cliffs.measured_broker import MeasuredBroker
from bench.cliffs.point import CliffPoint
from bench.cliffs.side import Figures, Side, WrongResult
from fastprod import KafkaProducer

_TOPIC = "disk"
_SEGMENT_BYTES = 16 << 20
_BATCH_BYTES = 4096  # a walk over the heads of batches meets nearly every page
_VALUE = bytes(1000)
_MB = 1_000_000
_CLEAN_STARTS = 5


def _send(address: str, partitions: Iterable[int], first_offset: int) -> None:
    """A record to each; those of one partition follow each other. No timestamp comes twice."""
    offsets: dict[int, int] = {}
    hour_ms = int(time.time()) // 3600 * 3_600_000
    with KafkaProducer(bootstrap_servers=address, batch_size=_BATCH_BYTES) as producer:
        futures = [
            producer.send(_TOPIC, _VALUE, partition=index, timestamp_ms=hour_ms + number)
            for number, index in enumerate(partitions, first_offset)
        ]
        producer.flush()
    for future in futures:
        found = future.result()
        if found.offset != offsets.get(found.partition, first_offset):
            raise WrongResult(f"{found}: another offset was to come")
        offsets[found.partition] = found.offset + 1


def _forget_cached(folder: Path) -> None:
    """Have the kernel fetch the files from the disk again."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _measure_stop(side: Side, partitions: int) -> Figures:
    with tempfile.TemporaryDirectory(prefix="fastprod-cliffs-") as name:
        folder = Path(name)
        options = ("--data-dir", str(folder / "data"))
        topic = ("--topic", f"{_TOPIC}:{partitions}")
        with MeasuredBroker(side, folder / "log", *options, *topic) as broker:
            _send(broker.address, range(partitions), 0)
            figures = broker.stop()
        with MeasuredBroker(side, folder / "log", *options) as broker:
            _send(broker.address, range(partitions), 1)
    return figures


def _measure_restarts(side: Side, megabytes: int) -> Figures:
    """Each start reads; what the log has is told by the offset of the next record."""
    figures: Figures = {}
    records = megabytes * _MB // len(_VALUE)
    with tempfile.TemporaryDirectory(prefix="fastprod-cliffs-") as name:
        folder = Path(name)
        options = ("--data-dir", str(folder / "data"))

        def start() -> MeasuredBroker:
            _forget_cached(folder)
            return MeasuredBroker(side, folder / "log", *options)

        with start() as broker:
            config = {"segment.bytes": str(_SEGMENT_BYTES)}
            kafka_admin.create_topic(broker.address, _TOPIC, 1, 1, config)
            _send(broker.address, [0] * records, 0)
            broker.stop()
        for number in range(1, _CLEAN_STARTS + 1):
            with start() as broker:
                figures[f"clean_{number}_mb"] = broker.start_bytes / _MB
                _send(broker.address, [0], records + number - 1)
                broker.stop()
        with start() as broker:
            _send(broker.address, [0] * records, records + _CLEAN_STARTS)
            broker.kill()
        with start() as broker:
            figures["killed_mb"] = broker.start_bytes / _MB
            _send(broker.address, [0], 2 * records + _CLEAN_STARTS)
    return figures


POINTS = [
    CliffPoint(
        "stop.disk",
        "stop of a broker with 1,200 partitions that were written to; the broker, and its fsyncs",
        _measure_stop,
        1200,
    ),
    CliffPoint(
        "restart.disk",
        "60 MB in segments of 16 MiB: MB that each of five starts after clean ends, with a record "
        "more each time, fetches from the disk, and one after 60 MB more and a kill; nothing is "
        "cached, and nothing read ahead",
        _measure_restarts,
        60,
    ),
]

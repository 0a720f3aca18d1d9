"""Produced batches and partition logs for the tests of the broker's log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastprod._core.testing import codec_doors
from fastprod.broker.log.log import Log
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.threads.clock import FakeClock
from support.oracle import record_batch as oracle

TIME = 1_700_000_000_000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def batch(
    count: int = 1,
    *,
    timestamp: int = TIME,
    value: bytes = b"value",
    key: bytes | None = b"key",
    codec: str = "none",
    **fields: Any,
) -> bytearray:
    """One batch as a producer sends it; `fields` as for `oracle.encode_batch`."""
    records = [(timestamp, key, b"%s-%d" % (value, i)) for i in range(count)]
    return encoded(records, codec, **fields)


def encoded(records: list[Any], codec: str = "none", **fields: Any) -> bytearray:
    """One batch of these records, compressed."""

    def compress(part: bytes) -> bytes:
        return codec_doors.compress_for_test(codec, 3, [part])

    number = CODECS.index(codec)
    return bytearray(
        oracle.encode_batch(records, codec=number, compress=compress if number else None, **fields)
    )


def sequenced(producer_id: int, sequence: int, count: int = 1, epoch: int = 0) -> bytearray:
    """One batch of an idempotent producer."""
    return batch(count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


def open_log(
    directory: Path | None, clock: FakeClock | None = None, discard: bool = False, **settings: Any
) -> Log:
    """The log t-0 in `directory`, or in memory."""
    return Log(directory, "t", 0, LogConfig(**settings), clock or FakeClock(TIME), discard)


def contents(log: Log) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record of the log."""
    return [(record.offset, record.value) for found in log.batches() for record in found.records()]

"""One record batch as it arrived in a Produce request, and what became of it."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal, NamedTuple

import crc32c
import lz4.frame  # type: ignore[import-untyped]
import snappy  # type: ignore[import-untyped]
import zstandard

from support.oracle import record_batch as oracle

Check = Literal["records", "crc"]

CORRUPT_MESSAGE: Final = 2
INVALID_RECORD: Final = 87
UNSUPPORTED_COMPRESSION_TYPE: Final = 76

_GZIP, _SNAPPY, _LZ4, _ZSTD = 1, 2, 3, 4
_ZSTD_FROM_VERSION = 7
_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_COVERS_FROM = 21


class BatchHeader(NamedTuple):
    """The 61 bytes before the records (contract P-E.1)."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def codec(self) -> int:
        return self.attributes & oracle.CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & oracle.TRANSACTIONAL)

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record: after 2**31 - 1 comes 0 (contract P-F.5.2)."""
        return (self.base_sequence + self.record_count - 1) % 2**31


class BatchProblem(NamedTuple):
    """What a broker would refuse a batch for."""

    error_code: int
    text: str


@dataclass(eq=False)
class ReceivedBatch:
    """A batch in the order of arrival.

    Attributes:
        arrival: number of its request among all requests of the cluster, from 1.
        node_id: the peer that received it.
        connection: number of the connection at that peer, from 1.
        version: version of the Produce request.
        topic: name; None for a topic id that the peer does not know.
        partition: index.
        raw: the bytes of the records field, exactly.
        problem: why it is no sound batch; None if it is one.
        error_code: what the peer answered for it; None: nothing (yet).
        base_offset: offset answered; -1 without one.
        is_appended: it went into the log.
        is_duplicate: the log had it already; the old offset was answered.
    """

    arrival: int
    node_id: int
    connection: int
    version: int
    topic: str | None
    partition: int
    raw: bytes
    check: Check = "records"
    problem: BatchProblem | None = field(default=None, init=False)
    error_code: int | None = field(default=None, init=False)
    base_offset: int = field(default=-1, init=False)
    is_appended: bool = field(default=False, init=False)
    is_duplicate: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.problem = self._find_problem()

    @cached_property
    def header(self) -> BatchHeader:
        """The header's fields; raises `struct.error` if there is no whole header."""
        return BatchHeader._make(_HEADER.unpack_from(self.raw))

    @cached_property
    def decoded(self) -> oracle.Batch:
        """The batch as the slow oracle reads it, decompressed; raises `oracle.BatchError`."""
        return oracle.decode_batch(self.raw, decompress=self._decompress)

    @property
    def records(self) -> list[oracle.Record]:
        return self.decoded.records

    @property
    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records]

    def _find_problem(self) -> BatchProblem | None:
        if len(self.raw) < oracle.HEADER_SIZE:
            return BatchProblem(INVALID_RECORD, f"a batch of {len(self.raw)} bytes")
        header = self.header
        if header.magic != 2:
            return BatchProblem(INVALID_RECORD, f"magic {header.magic}")
        if header.batch_length != len(self.raw) - oracle.LOG_OVERHEAD:
            return BatchProblem(
                INVALID_RECORD,
                f"batchLength {header.batch_length} in {len(self.raw)} bytes: not one batch",
            )
        if header.crc != crc32c.crc32c(self.raw[_CRC_COVERS_FROM:]):
            return BatchProblem(CORRUPT_MESSAGE, "the CRC does not match")
        return self._find_header_problem() or self._find_record_problem()

    def _find_header_problem(self) -> BatchProblem | None:
        header = self.header
        if header.codec == _ZSTD and self.version < _ZSTD_FROM_VERSION:
            return BatchProblem(
                UNSUPPORTED_COMPRESSION_TYPE, f"zstd in a Produce request of version {self.version}"
            )
        complaints = [
            (header.codec > _ZSTD, f"codec {header.codec}"),
            (header.base_offset != 0, f"base offset {header.base_offset}"),
            (header.record_count <= 0, f"{header.record_count} records"),
            (
                header.last_offset_delta != header.record_count - 1,
                f"lastOffsetDelta {header.last_offset_delta} of {header.record_count} records",
            ),
            (bool(header.attributes & oracle.CONTROL), "the control bit is set"),
            (bool(header.attributes & oracle.LOG_APPEND_TIME), "the log append time bit is set"),
            (
                header.producer_id >= 0 and (header.producer_epoch < 0 or header.base_sequence < 0),
                f"producer id {header.producer_id} with epoch {header.producer_epoch}"
                f" and base sequence {header.base_sequence}",
            ),
        ]
        found = next((text for is_wrong, text in complaints if is_wrong), None)
        return None if found is None else BatchProblem(INVALID_RECORD, found)

    def _find_record_problem(self) -> BatchProblem | None:
        if self.check == "crc":
            return None
        try:
            decoded = self.decoded
        except oracle.BatchError as error:
            return BatchProblem(INVALID_RECORD, str(error))
        except (OSError, EOFError, RuntimeError, ValueError, zstandard.ZstdError) as error:
            return BatchProblem(CORRUPT_MESSAGE, f"codec {self.header.codec}: {error!r}")
        if decoded.offsets != list(range(self.header.record_count)):
            return BatchProblem(INVALID_RECORD, f"offset deltas {decoded.offsets[:10]}")
        latest = max(record.timestamp for record in decoded.records)
        if latest != self.header.max_timestamp:
            return BatchProblem(
                INVALID_RECORD, f"maxTimestamp {self.header.max_timestamp}, the latest is {latest}"
            )
        return None

    def _decompress(self, part: bytes) -> bytes:
        codec = self.header.codec
        if codec == _GZIP:
            return gzip.decompress(part)
        if codec == _SNAPPY:
            return _snappy(part)
        if codec == _LZ4:
            return bytes(lz4.frame.decompress(part))
        # The frame need not tell its content size; a reader does not.
        return zstandard.ZstdDecompressor().decompressobj().decompress(part)


def _snappy(part: bytes) -> bytes:
    """Raw snappy, or xerial's blocks as Java writes them (contract P-E.6)."""
    if not part.startswith(_XERIAL_MAGIC):
        return bytes(snappy.uncompress(part))
    blocks = []
    at = _XERIAL_HEADER_BYTES
    while at < len(part):
        size = int.from_bytes(part[at : at + 4], "big")
        blocks.append(bytes(snappy.uncompress(part[at + 4 : at + 4 + size])))
        at += 4 + size
    return b"".join(blocks)

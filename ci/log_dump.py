"""What DumpLogSegments says of a partition's segments, as data; a bad batch is an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import kafka_jars

_FILE = re.compile(r"^Dumping (.+)$", re.MULTILINE)
_FIELD = re.compile(r"(\w+): (\[.*?\]|\S+)")
# Findings of the tool, on lines of their own and partly on standard error; its exit code stays 0.
_DAMAGE = re.compile(
    r"invalid bytes|Mismatches in|Non-consecutive|timestamp mismatch|out of order|not found in|"
    r"Exception|Could not|corrupt",
    re.IGNORECASE,
)
# The tool expects offset 0 at the start of every file; a later segment begins with the offset in
# its name, and that is all that may be said of it.
_LATER_SEGMENT = re.compile(
    r"^Non-consecutive offsets in (?:.*/)?0*([1-9]\d*)\.log\n"
    r"  -1 is followed by \1\n(?!  -?\d+ is followed by)",
    re.MULTILINE,
)


class DumpFailed(AssertionError):
    """DumpLogSegments found a fault in a segment."""


@dataclass(frozen=True)
class DumpedBatch:
    """One record batch: the tool's fields by its own names, and those of its records.

    `fields` has baseOffset, lastOffset, count, baseSequence, lastSequence, producerId,
    producerEpoch, partitionLeaderEpoch, isTransactional, isControl, position, CreateTime, size,
    magic, compresscodec, crc, isvalid. A record has offset, CreateTime, keySize, valueSize,
    sequence, headerKeys.
    """

    fields: dict[str, str]
    records: tuple[dict[str, str], ...]

    def number(self, field: str) -> int:
        """An integer field of the batch."""
        return int(self.fields[field])


def dump(segments: Sequence[Path], timeout_s: float) -> list[DumpedBatch]:
    """Let Kafka's DumpLogSegments check a partition's segments, record by record.

    Args:
        segments: the .log files, in order.
        timeout_s: bound of the tool's run.

    Raises: DumpFailed when the tool finds a fault, or fails.
    Blocks: about 1 s, more for large files.
    """
    return parse(_said_of(segments, timeout_s))


def dump_partitions(
    partitions: Sequence[Sequence[Path]], timeout_s: float
) -> list[list[DumpedBatch]]:
    """The same for several partitions, each with its own folder, in one run of the tool."""
    said = _said_of([path for segments in partitions for path in segments], timeout_s)
    return parse_partitions(said, [segments[0].parent for segments in partitions])


def _said_of(segments: Sequence[Path], timeout_s: float) -> str:
    done = kafka_jars.run_class(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--deep-iteration", "--files", ",".join(str(path) for path in segments)),
        timeout_s=timeout_s,
    )
    if done.returncode != 0:
        raise DumpFailed(
            f"DumpLogSegments ended with code {done.returncode}:\n"
            f"{done.stderr[-3000:]}\n{done.stdout[-1000:]}"
        )
    return done.stdout + done.stderr


def parse(text: str) -> list[DumpedBatch]:
    """The batches of one dump, in the order of the log.

    Raises: DumpFailed when the tool reported damage, a batch is not of format 2, or an offset is
        missing or twice there (so not for compacted topics).
    """
    found: list[tuple[dict[str, str], list[dict[str, str]]]] = []
    damage: list[str] = []
    for line in _LATER_SEGMENT.sub("", text).splitlines():
        if line.startswith("baseOffset:"):
            found.append((dict(_FIELD.findall(line)), []))
        elif line.startswith("| offset:"):
            found[-1][1].append(dict(_FIELD.findall(line)))
        elif _DAMAGE.search(line):
            damage.append(line)
    if damage:
        raise DumpFailed("DumpLogSegments found faults:\n" + "\n".join(damage[:20]))
    next_offset: int | None = None
    for fields, records in found:
        _check(fields, records, next_offset)
        next_offset = int(fields["lastOffset"]) + 1
    return [DumpedBatch(fields, tuple(records)) for fields, records in found]


def parse_partitions(text: str, folders: Sequence[Path]) -> list[list[DumpedBatch]]:
    """The batches of each folder's files; raises as `parse`."""
    before, *sections = _FILE.split(text)
    texts = dict.fromkeys(folders, before)
    for name, section in zip(sections[::2], sections[1::2], strict=True):
        texts[Path(name).parent] += section
    return [parse(texts[folder]) for folder in folders]


def _check(fields: dict[str, str], records: list[dict[str, str]], next_offset: int | None) -> None:
    if fields["isvalid"] != "true" or fields["magic"] != "2":
        raise DumpFailed(f"not a valid batch of format 2: {fields}")
    first, last = int(fields["baseOffset"]), int(fields["lastOffset"])
    if next_offset is not None and first != next_offset:
        raise DumpFailed(f"offset {next_offset} should come next, here comes {fields}")
    if [int(record["offset"]) for record in records] != list(range(first, last + 1)):
        raise DumpFailed(f"the records' offsets are not {first} to {last}, each once: {fields}")

"""Kafka's own DumpLogSegments reads the files of the broker's log (B-C1.2, B-C2, B-C3, B-C6.7)."""

from __future__ import annotations

import re
from pathlib import Path

import log_dump
from kafka_cluster import KafkaCluster
from support.broker.log_batches import CODECS, TIME, encoded, open_log

DAMAGE = re.compile(r"Mismatch|out of order|not found|Exception|corrupt", re.IGNORECASE)
TOOL = "org.apache.kafka.tools.DumpLogSegments"


def write(directory: Path) -> int:
    """Several segments of every codec, half of them of an idempotent producer; returns the end."""
    log = open_log(directory, segment_bytes=20_000, index_interval_bytes=1000)
    sequence = 0
    for i in range(120):
        records = [
            (TIME + 10 * i + (7 * j) % 5, b"k%d" % j, b"value-%d" % (i * j)) for j in range(15)
        ]
        fields = {}
        if i % 2:
            fields = {"producer_id": 77, "producer_epoch": 3, "base_sequence": sequence}
            sequence += 15
        log.append(encoded(records, CODECS[i % 5], **fields), i // 50)
    # A segment whose timestamps do not rise, and whose last batch has the largest.
    for ms in (900, 100, 950, 5000):
        log.append(encoded([(TIME + ms, None, b"x" * 3000)]), 2)
    log.close()
    return log.log_end_offset


def dumped(kafka: KafkaCluster, *arguments: str) -> str:
    return kafka.run_class(TOOL, *arguments, timeout_s=60)


def test_kafka_reads_every_record_and_finds_no_fault_in_log_and_indexes(
    kafka: KafkaCluster, tmp_path: Path
) -> None:
    end = write(tmp_path)
    folder = tmp_path / "t-0"
    names = sorted(folder.glob("*.log"))
    assert len(names) >= 3
    logs = ",".join(map(str, names))
    text = dumped(kafka, "--deep-iteration", "--files", logs)
    batches = log_dump.parse(text)
    assert batches[-1].number("lastOffset") == end - 1
    assert sum(len(batch.records) for batch in batches) == end
    assert {batch.fields["isvalid"] for batch in batches} == {"true"}
    assert [batch.number("partitionLeaderEpoch") for batch in batches[:120:50]] == [0, 1, 2]
    assert {batch.fields["compresscodec"].lower() for batch in batches} == set(CODECS)


def test_kafka_agrees_with_the_indexes(kafka: KafkaCluster, tmp_path: Path) -> None:
    """B-C3.1, B-C3.3: positions and largest timestamps."""
    write(tmp_path)
    folder = tmp_path / "t-0"
    indexes = sorted([*folder.glob("*.index"), *folder.glob("*.timeindex")])
    text = dumped(kafka, "--files", ",".join(map(str, indexes)))
    assert not DAMAGE.search(text), text
    assert len(re.findall(r"^offset: \d+ position: \d+", text, re.MULTILINE)) > 20
    assert len(re.findall(r"^timestamp: \d+ offset: \d+", text, re.MULTILINE)) > 20


def test_kafka_reads_the_snapshot_of_the_producers(kafka: KafkaCluster, tmp_path: Path) -> None:
    """B-C6.7."""
    write(tmp_path)
    snapshot = sorted((tmp_path / "t-0").glob("*.snapshot"))[-1]
    text = dumped(kafka, "--files", str(snapshot))
    assert re.search(r"producerId: 77 producerEpoch: 3 .*lastSequence: 899", text)

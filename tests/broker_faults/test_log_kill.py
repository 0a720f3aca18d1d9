"""The broker's log survives kill -9 at any moment (contract B-C6.7, B-C8.3)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from checkout import ROOT
from fastprod.broker.log.log import Log
from support.broker.log_appender import SEGMENT_BYTES, Acknowledged, open_log
from support.oracle import record_batch as oracle

SEED = 20_240_611


class Killed:
    """What children wrote to one log before each was killed."""

    def __init__(self, directory: Path, sync: str) -> None:
        self.directory = directory
        self.sync = sync
        self.batches: dict[int, Acknowledged] = {}
        self.start_offset = 0

    def run(self, seed: int) -> int:
        """Let a child append, kill it, and return how many batches it had acknowledged."""
        chosen = random.Random(seed)
        lines: list[bytes] = []
        with subprocess.Popen(
            [
                sys.executable,
                str(ROOT / "tests/support/broker/log_appender.py"),
                str(self.directory),
                str(seed),
                self.sync,
            ],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")])},
        ) as child:
            assert child.stdout is not None
            lines.extend(child.stdout.readline() for _ in range(chosen.randrange(1, 150)))
            child.send_signal(signal.SIGKILL)
            lines += child.stdout.readlines()
        assert child.returncode == -signal.SIGKILL
        # The last line may be torn: that batch was acknowledged to nobody.
        for acknowledged in (Acknowledged.parse(line) for line in lines if line.endswith(b"\n")):
            if acknowledged.record_count:
                self.batches[acknowledged.base_offset] = acknowledged
            else:
                self.start_offset = max(self.start_offset, acknowledged.base_offset)
        return len(lines)

    def check(self, log: Log) -> None:
        """Every acknowledged batch above the start is there, and nothing that is not whole."""
        found = {batch.base_offset: batch for batch in log.batches()}
        assert log.log_start_offset >= self.start_offset
        last: dict[int, Acknowledged] = {}
        end = 0
        for offset in sorted(self.batches):
            acknowledged = self.batches[offset]
            end = offset + acknowledged.record_count
            if acknowledged.producer_id >= 0:
                last[acknowledged.producer_id] = acknowledged
            if end > log.log_start_offset:
                sent = acknowledged.data()
                assert found[offset].raw()[21:] == sent[21:]
        assert log.log_end_offset >= end
        next_offset = None
        for batch in found.values():
            assert next_offset in (None, batch.base_offset)
            next_offset = batch.base_offset + len(batch.records())
        assert next_offset in (None, log.log_end_offset)
        # One segment may have been rolled for a batch that was never written.
        sizes = [path.stat().st_size for path in self.directory.glob("t-0/*.log")]
        assert sum(sizes) == log.size_bytes
        assert max(sizes, default=0) <= SEGMENT_BYTES
        self.check_producers(log, last)

    def check_producers(self, log: Log, last: dict[int, Acknowledged]) -> None:
        """Each producer's last batch is known again, unless a later one reached the log."""
        by_producer = {batch.producer_id: batch.base_sequence for batch in log.batches()}
        end = log.log_end_offset
        for producer_id, acknowledged in last.items():
            if by_producer.get(producer_id, -1) > acknowledged.sequence:
                continue
            info = log.append(acknowledged.data(), 0)
            assert info.duplicate
            assert info.base_offset == acknowledged.base_offset
        assert log.log_end_offset == end


def kill_often(directory: Path, times: int, sync: str, seed: int) -> None:
    killed = Killed(directory, sync)
    acknowledged = 0
    for i in range(times):
        acknowledged += killed.run(seed + i)
        log = open_log(directory)
        killed.check(log)
        # Every other time the next child finds a log that was closed.
        if i % 2:
            log.close()
    assert acknowledged > times
    assert len(killed.batches) > times


@pytest.mark.parametrize("sync", ["never", "batch"])
def test_after_a_kill_every_acknowledged_record_is_there(tmp_path: Path, sync: str) -> None:
    """B-C8.3: ten kills each; the tail is clean, and repeated batches are known."""
    kill_often(tmp_path, 10, sync, SEED)


@pytest.mark.long
@pytest.mark.timeout(600)  # a hundred processes, one after the other: 50 s of CPU
def test_after_a_hundred_kills_every_acknowledged_record_is_there(tmp_path: Path) -> None:
    """B-C8.3."""
    kill_often(tmp_path, 100, "never", SEED + 1000)


def test_the_workload_is_the_same_for_the_same_seed() -> None:
    """What the parent compares with is what the child sent."""
    acknowledged = Acknowledged(7, 20, 2, 40, 99)
    assert Acknowledged.parse(acknowledged.line()) == acknowledged
    assert acknowledged.data() == acknowledged.data()
    assert oracle.HEADER_SIZE < len(acknowledged.data()) < SEGMENT_BYTES

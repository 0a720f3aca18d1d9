"""A process that appends to a log in files and reports each acknowledged batch, until it is killed.

python tests/support/broker/log_appender.py <directory> <seed> <sync>

Each line that it prints is one `Acknowledged`, written after `append` returned.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import NamedTuple

from fastprod.broker.log.log import Log
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.threads.clock import SystemClock
from support.broker.log_batches import CODECS, encoded

PRODUCERS = range(4)
SEGMENT_BYTES = 30_000


class Acknowledged(NamedTuple):
    """A batch that the log has taken; `producer_id` -1: none."""

    base_offset: int
    record_count: int
    producer_id: int
    sequence: int
    seed: int

    def line(self) -> bytes:
        return b" ".join(b"%d" % number for number in self) + b"\n"

    @classmethod
    def parse(cls, line: bytes) -> Acknowledged:
        return cls(*map(int, line.split()))

    def data(self) -> bytearray:
        """The batch, as it was sent."""
        chosen = random.Random(self.seed)
        records = [
            (chosen.randrange(10**12), b"%d" % self.seed, chosen.randbytes(chosen.randrange(300)))
            for _ in range(self.record_count)
        ]
        fields = {}
        if self.producer_id >= 0:
            fields = {
                "producer_id": self.producer_id,
                "producer_epoch": 0,
                "base_sequence": self.sequence,
            }
        return encoded(records, chosen.choice(CODECS[:4]), **fields)


def open_log(directory: Path, sync: str = "never") -> Log:
    config = LogConfig(segment_bytes=SEGMENT_BYTES, index_interval_bytes=500, sync=sync)  # type: ignore[arg-type]
    return Log(directory, "t", 0, config, SystemClock())


def next_sequences(log: Log) -> dict[int, int]:
    """What each producer sends next, as the log remembers it: its batches may be deleted."""
    sequences = dict.fromkeys(PRODUCERS, 0)
    if log._producers is not None:
        for producer_id, state in log._producers.items():
            sequences[producer_id] = state.last_sequence + 1
    return sequences


def main(directory: Path, seed: int, sync: str) -> None:
    chosen = random.Random(seed)
    log = open_log(directory, sync)
    sequences = next_sequences(log)
    while True:
        producer_id = chosen.choice([-1, *PRODUCERS])
        count = chosen.choice([1, 2, 20])
        sequence = sequences.get(producer_id, -1)
        sent = Acknowledged(0, count, producer_id, sequence, chosen.getrandbits(60))
        info = log.append(sent.data(), 0)
        if producer_id >= 0:
            sequences[producer_id] += count
        os.write(1, sent._replace(base_offset=info.base_offset).line())
        if chosen.random() < 0.02:
            log.delete_records(chosen.randrange(log.log_start_offset, log.log_end_offset + 1))
            os.write(1, Acknowledged(log.log_start_offset, 0, -1, -1, 0).line())


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])

"""A compacted log keeps the newest committed value of each key, whatever is done to it (B-C4.6)."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod._core.log.batch_validator import inspect
from fastprod.broker.log.cleaning.cleaner import clean
from support.broker.compacted_log import CompactedLog
from support.broker.log_batches import TIME, encoded
from support.processes.scale import examples

CODECS = ["none", "none", "gzip", "zstd"]


def act(made: CompactedLog, chosen: random.Random) -> None:
    """Do something to a log."""
    records = [
        (b"k%d" % chosen.randrange(10), None if chosen.random() < 0.2 else chosen.randbytes(9))
        for _ in range(chosen.randrange(1, 5))
    ]
    what = chosen.random()
    producer = chosen.randrange(4)
    if what < 0.35:
        made.append(records, codec=chosen.choice(CODECS))
    elif what < 0.5:
        made.append(records, producer=10 + producer, codec=chosen.choice(CODECS))
    elif what < 0.7:
        made.append(records, producer, is_transactional=True)
    elif what < 0.8:
        # Also one that has no records here.
        made.end(producer, chosen.random() < 0.5)
    elif what < 0.88:
        made.clock.advance(chosen.choice([1, 600, 1500]))
    elif what < 0.92:
        made.reopen(is_clean=chosen.random() < 0.5)
    else:
        clean(made.log, made.clock.time_ms())
        made.check()


@pytest.mark.parametrize("keeps_files", [False, True])
@settings(max_examples=examples(12))
@given(seed=st.integers(0, 2**32))
def test_the_newest_committed_value_of_each_key_stays(keeps_files: bool, seed: int) -> None:
    """B-C4.6: among transactions, idempotent producers, restarts and kills."""
    chosen = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        made = CompactedLog(Path(folder) if keeps_files else None)
        for _ in range(120):
            act(made, chosen)
        for producer in list(made.undecided):
            made.end(producer, is_commit=False)
        made.append([(b"last", b"x" * 700)])
        made.append([(b"last", b"y" * 700)])
        for _ in range(3):
            made.clock.advance(1500)
            clean(made.log, made.clock.time_ms())
            made.check()
            made.reopen()
            made.check()
        end = made.log.log_end_offset
        for producer, sequence in made.sequences.items():
            # Who was last heard of before all that goes on; what it repeats is recognized.
            fields: dict[str, Any] = {
                "producer_id": producer,
                "producer_epoch": 0,
                "base_sequence": sequence,
            }
            batch = encoded([(TIME, b"k", b"v")], transactional=producer < 10, **fields)
            again = bytearray(batch)
            first = made.log.append(batch, 0, inspect(batch, 0), True)
            assert first.base_offset == end
            assert made.log.append(again, 0, inspect(again, 0), True).duplicate
            end += 1
        made.log.close()

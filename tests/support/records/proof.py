"""Proof that a topic holds what a ledger says: by other clients, and by Kafka's own tool."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping

from log_dump import DumpedBatch
from support.records.ledger import Ledger
from support.records.readers import READERS, ReadRecord, end_offsets

READ_TIMEOUT_S = 900.0
DUMP_TIMEOUT_S = 600.0

Read = Callable[[Mapping[int, int]], Generator[ReadRecord, None, None]]
"""Reads all records of a topic up to these ends, by partition."""


def by_clients(bootstrap_servers: str, topic: str) -> list[Read]:
    """Every reader of `READERS`, without TLS or SASL."""

    def reader(name: str) -> Read:
        return lambda ends: READERS[name](bootstrap_servers, topic, ends, timeout_s=READ_TIMEOUT_S)

    return [reader(name) for name in READERS]


def prove(
    bootstrap_servers: str,
    topic: str,
    ledger: Ledger,
    partitions: int,
    *,
    reads: list[Read] | None = None,
    dump: Callable[[], list[list[DumpedBatch]]] | None = None,
    codec: str = "none",
) -> None:
    """Compare the topic with the ledger; raise the first difference.

    Args:
        bootstrap_servers: of a listener in plain text.
        topic: name.
        ledger: what was acknowledged.
        partitions: how many the topic has.
        reads: by whom it is read; None: `by_clients`.
        dump: what Kafka's DumpLogSegments finds, by partition; None: it is not asked.
        codec: of every batch.
    """
    ends = end_offsets(bootstrap_servers, topic)
    count = ledger.workload.count
    assert sum(ends.values()) == count, f"the partitions end at {ends}, and {count:,} were sent"
    for read in by_clients(bootstrap_servers, topic) if reads is None else reads:
        with contextlib.closing(read(ends)) as found:
            ledger.check(found, partitions)
    for partition, batches in enumerate([] if dump is None else dump()):
        assert sum(batch.number("count") for batch in batches) == ends[partition]
        assert {batch.fields["compresscodec"] for batch in batches} <= {codec}

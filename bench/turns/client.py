"""A measured client: sends the records of one turn for each line that it reads.

The answer is a line: "ready" at first; then of each turn the CPU and the wall time, in
microseconds a record.
"""

from __future__ import annotations

import os
import sys

from bench.cliffs.stopwatch import Stopwatch
from bench.turns.way import TOPIC, WAYS
from fastprod import KafkaProducer

_FIRST_TIMEOUT_S = 30


def main(argv: list[str]) -> None:
    bootstrap_servers, name = argv
    way = WAYS[name]
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers, acks=1, **way.settings)
    producer.send(TOPIC, b"first", partition=0).result(_FIRST_TIMEOUT_S)
    send = way.sending(producer)
    send()  # the first turn meets cold caches and makes the pool
    producer.flush()
    expected = _acknowledged(producer)
    print("ready", flush=True)
    for _ in sys.stdin:
        with Stopwatch() as watch:
            send()
            producer.flush()
        expected += way.count
        if (found := _acknowledged(producer)) != expected:
            raise SystemExit(f"{name}: {found:,} records are acknowledged, not {expected:,}")
        per_record = 1e6 / way.count
        print(watch.cpu_s * per_record, watch.wall_s * per_record, flush=True)
    # Nothing to close: the client's goodbye is not part of the benchmark.
    os._exit(0)


def _acknowledged(producer: KafkaProducer) -> int:
    return int(producer._engine.counters()["records_acked"])


if __name__ == "__main__":
    main(sys.argv[1:])

"""fastprod with columns: a peer of its own, because to import pyarrow takes memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.peers.fastprod_ import _acknowledged, _producer
from bench.values import make_values
from bench.workload import Workload


def work(load: Workload) -> Outcome:
    values = make_values(load.values)
    meter = Meter()
    producer = _producer(load)
    producer.send(load.topic, values[0], partition=0).result(30)
    many, keys = _columns(load, values * (load.bulk_records // len(values)))
    meter.start()
    futures = [
        producer.send_many(load.topic, many, keys=keys)
        for _ in range(load.record_count // load.bulk_records)
    ]
    producer.flush()
    meter.stop()
    delivered = sum(future.result().record_count for future in futures)
    if delivered != load.record_count:
        raise SystemExit(f"the futures tell of {delivered:,} records of {load.record_count:,}")
    return meter.outcome(_acknowledged(producer), 1, load.round_count * sum(map(len, values)))


def _columns(load: Workload, values: list[bytes]) -> tuple[Any, Any]:
    """Values and keys of one call."""
    if load.columns == "lists":
        return values, None
    keys = [b"key-%07d" % number for number in range(len(values))]
    if load.columns == "numpy-keys":
        return np.array(values), np.array(keys)
    return pa.array(values, pa.binary()), pa.array(keys) if load.columns == "arrow-keys" else None


if __name__ == "__main__":
    serve(work)

"""fastprod with nothing to do, and then one record."""

from __future__ import annotations

import time

from bench.fresh_process import serve
from bench.meter import Meter, Outcome
from bench.peers.fastprod_ import _acknowledged, _producer
from bench.values import make_values
from bench.workload import Workload

_SETTLES_S = 2.0
_IDLE_S = 10.0


def work(load: Workload) -> Outcome:
    value = make_values(load.values)[0]
    meter = Meter()
    producer = _producer(load)
    producer.send(load.topic, value, partition=0).result(30)
    time.sleep(_SETTLES_S)
    meter.start()
    time.sleep(_IDLE_S)
    meter.stop()
    producer.send(load.topic, value, partition=0).result(30)
    return meter.outcome(_acknowledged(producer), 1, len(value))


if __name__ == "__main__":
    serve(work)

"""fastprod's AsyncProducer as a client of the benchmarks, in uvloop."""

from __future__ import annotations

import uvloop

from bench.fresh_process import serve
from bench.meter import Outcome
from bench.peers.fastprod_aio import run
from bench.workload import Workload


def work(load: Workload) -> Outcome:
    outcome: Outcome = uvloop.run(run(load))
    return outcome


if __name__ == "__main__":
    serve(work)

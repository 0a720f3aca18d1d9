"""confluent-kafka and fastprod at the same time: what a server takes from both."""

from __future__ import annotations

import dataclasses
import subprocess
import sys

from bench.fresh_process import RUN_TIMEOUT_S, serve
from bench.meter import Outcome
from bench.workload import Workload

_THEIR_SHARE = 4
"""Of so many records confluent-kafka sends one, so that both are busy to the end."""


def work(load: Workload) -> Outcome:
    theirs = dataclasses.replace(load, record_count=load.record_count // _THEIR_SHARE)
    ours = dataclasses.replace(load, record_count=load.record_count - theirs.record_count)
    running = [
        subprocess.Popen(
            [sys.executable, "-m", f"bench.peers.{peer}", each.to_json()], stdout=subprocess.PIPE
        )
        for peer, each in (("confluent_", theirs), ("fastprod_", ours))
    ]
    found = []
    for process in running:
        answer, _ = process.communicate(timeout=RUN_TIMEOUT_S)
        if process.returncode != 0:
            raise SystemExit(f"a client ended with code {process.returncode}")
        found.append(Outcome.from_json(answer.decode()))
    began_s = min(each.ended_s - each.wall_s for each in found)
    ended_s = max(each.ended_s for each in found)
    return Outcome(
        sum(each.acknowledged_count for each in found),
        sum(each.warm_count for each in found),
        sum(each.value_bytes for each in found),
        ended_s - began_s,
        sum(each.cpu_s for each in found),
        sum(each.baseline_bytes for each in found),
        sum(each.peak_bytes for each in found),
        ended_s=ended_s,
    )


if __name__ == "__main__":
    serve(work)

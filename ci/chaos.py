"""`make chaos`: producers against clusters on which all goes wrong, seed by seed.

A seed is a plan of faults, of the network and of nodes, and of producers, idempotent and
transactional ones (tests/support/chaos/plan.py). Each seed runs in a process of its own with a new
cluster, and has a log, logs/chaos-<cluster>-<seed>-<seconds>s.log. What passed is kept in
logs/chaos.json, with a fingerprint of the sources, and not run again, so that an interrupted run
goes on where it was. Without options: 20 minutes against our own broker, seeds 1 to 20.
Exit code 1: a seed found a violation, or did not end.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import signal
import sys
from collections.abc import Sequence

import accept
import checkout

SEEDS = 20
SECONDS = 60.0
CLUSTERS = ("ours", "apache")
# For a cluster to start, what is in flight to end, the topic to be read, and for a slow machine.
MORE_S = 900.0


def step(cluster: str, seed: int, seconds: float) -> accept.Step:
    """One seed, as a step that is not repeated when it has passed."""
    command = (sys.executable, "ci/chaos.py", "--one", "--cluster", cluster)
    options = ("--seed", str(seed), "--seconds", str(seconds))
    return accept.Step(
        f"{cluster}-{seed}-{seconds:g}s",
        f"chaos for {seconds:g} s, {cluster}, seed {seed}",
        (*command, *options),
        seconds + MORE_S,
    )


def one(cluster: str, seed: int, seconds: float) -> int:
    """Run a seed in this process; the exit code."""
    sys.path.insert(0, str(checkout.ROOT / "tests"))
    from support.chaos import run  # noqa: PLC0415

    report = run.run(cluster, seed, seconds)
    print(report, flush=True)
    return 1 if report.violations else 0


def main(argv: Sequence[str]) -> int:
    """Parse the command line and run; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="ci/chaos.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--cluster", choices=(*CLUSTERS, "both"), default="ours")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of each seed")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="how many, from --first on")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, action="append", help="this one; may be given again")
    parser.add_argument("--random", type=int, default=0, help="so many more, by chance")
    parser.add_argument("--again", action="store_true", help="repeat what has passed, too")
    parser.add_argument("--one", action="store_true", help="the seed, here, without a log")
    given = parser.parse_args(argv)
    seeds = given.seed or list(range(given.first, given.first + given.seeds))
    seeds += [random.randrange(1_000_000, 1_000_000_000) for _ in range(given.random)]
    clusters = CLUSTERS if given.cluster == "both" else (given.cluster,)
    if given.one:
        return one(clusters[0], seeds[0], given.seconds)
    steps = [step(cluster, seed, given.seconds) for seed in seeds for cluster in clusters]
    return accept.run_all(steps, checkout.ROOT, again=given.again, name="chaos")


if __name__ == "__main__":
    accept.heed_signals()
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    sys.exit(main(sys.argv[1:]))

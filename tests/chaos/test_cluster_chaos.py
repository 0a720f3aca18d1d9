"""Chaos on a cluster of our own: three minutes of `make chaos`, as a part of `make test`.

Producers, idempotent and transactional, go through a proxy that is a bad network, to three nodes
that are killed, stopped, paused, and whose leaders move. See ci/chaos.py for the whole.
"""

from __future__ import annotations

from typing import Any

import pytest

from support.chaos.run import run

SECONDS = 30.0


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5, 6])
def test_readers_of_committed_records_see_exactly_those(seed: int, record_property: Any) -> None:
    """P-D.8, P-I.4, B-B2, B-E3: whatever befalls the cluster; each call ends within its bound."""
    report = run("ours", seed, SECONDS)
    record_property("seed", seed)
    print(report)
    # The same again: ci/chaos.py --one --seed <seed> --seconds 30
    assert report.violations == [], f"seed {seed}"
    assert report.counts["committed"] > 0
    assert len(report.faults) > 3

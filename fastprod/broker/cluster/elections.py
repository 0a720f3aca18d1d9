"""Who leads next (the controller's PartitionChangeBuilder)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from fastprod.broker.cluster.decision import NO_NODE


class Election(NamedTuple):
    """A leader, -1 if nobody can lead, and the replicas in sync from then on."""

    leader: int
    isr: list[int]


def elect(
    replicas: Sequence[int], isr: Sequence[int], live: Collection[int], is_unclean: bool
) -> Election:
    """The first replica that is in sync and lives; in an unclean election the first that lives.

    Args:
        replicas: in the order of preference.
        isr: those in sync.
        live: nodes that can lead.
        is_unclean: whether one may lead that is not in sync: what it lacks is lost.
    """
    in_sync = [each for each in isr if each in live]
    for node_id in replicas:
        if node_id in in_sync:
            return Election(node_id, in_sync)
    for node_id in replicas:
        if is_unclean and node_id in live:
            return Election(node_id, [node_id])
    return Election(NO_NODE, list(isr))

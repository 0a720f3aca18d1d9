"""How a partition comes to other nodes (KIP-455), as steps from one decision to the next.

Those that are added fetch until they are in sync. Then, in one step, the replicas are those that
were asked for, one of them leads, and the others go. Until then everybody is a replica.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fastprod.broker.cluster.decision import NO_NODE, Decision
from fastprod.broker.cluster.elections import elect


def begun(now: Decision, target: Sequence[int]) -> Decision:
    """Have `target` be the replicas in the end; takes the place of what is under way.

    Args:
        now: what holds.
        target: nodes, the preferred leader first.
    """
    before = [each for each in now.replicas if each not in now.adding]
    # Who was being added stays so, if only to go: a cancellation drops it.
    adding = tuple(sorted({*target, *now.adding} - {*before}))
    removing = tuple(sorted({*now.replicas} - {*target}))
    return now._replace(replicas=[*target, *removing], adding=adding, removing=removing)


def completed(now: Decision, live: Collection[int]) -> Decision:
    """The end of a reassignment, if all who are added are in sync and one of the target can lead;
    else, and without a reassignment, `now` itself.

    Args:
        now: what holds, or is about to.
        live: nodes that can lead.
    """
    if not now.adding and not now.removing:
        return now
    replicas = [each for each in now.replicas if each not in now.removing]
    isr = [each for each in now.isr if each in replicas]
    waited_for = {*now.adding} - {*now.removing}
    if not isr or not waited_for.issubset(isr):
        return now
    if now.leader in replicas:
        return Decision(now.leader, now.leader_epoch, replicas, isr)
    found = elect(replicas, isr, live, False)
    if found.leader == NO_NODE:
        return now
    return Decision(found.leader, now.leader_epoch + 1, replicas, found.isr)


def reverted(now: Decision, live: Collection[int]) -> Decision | None:
    """Have the replicas be those before the reassignment; None: none of them is in sync.

    Args:
        now: what holds.
        live: nodes that can lead.
    """
    replicas = [each for each in now.replicas if each not in now.adding]
    isr = [each for each in now.isr if each in replicas]
    if not isr:
        return None
    if now.leader in (*replicas, NO_NODE):
        return Decision(now.leader, now.leader_epoch, replicas, isr)
    found = elect(replicas, isr, live, False)
    return Decision(found.leader, now.leader_epoch + 1, replicas, found.isr)

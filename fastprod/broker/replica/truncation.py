"""How far a follower's log agrees with its leader's (KIP-101, KIP-279)."""

from __future__ import annotations

from fastprod.broker.replica.replica_log import ReplicaLog


def truncate_to_leader(log: ReplicaLog, leader: ReplicaLog) -> None:
    """Cut off what the leader does not have, as OffsetForLeaderEpoch tells.

    The follower asks where its newest epoch ends in the leader's log. If the leader does not know
    that epoch it names an older one, and the follower asks again about what it has of that.

    Raises:
        LogError: the files cannot be changed.
    """
    while log.latest_epoch >= 0:
        epoch, end_offset = leader.end_offset_for_epoch(log.latest_epoch)
        if end_offset < 0:
            break
        own_epoch, own_end_offset = log.end_offset_for_epoch(epoch)
        if own_end_offset < 0:
            # It has nothing of that epoch, nor of one before.
            log.truncate_to(end_offset)
            return
        log.truncate_to(min(own_end_offset, end_offset))
        if own_epoch == epoch:
            return
    # Neither knows an epoch of the other: only what is replicated is sure.
    log.truncate_to(log.high_watermark)

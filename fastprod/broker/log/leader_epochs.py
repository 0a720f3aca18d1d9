"""Which leader epoch wrote which offsets (leader-epoch-checkpoint, OffsetForLeaderEpoch)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset written in it."""

    epoch: int
    start_offset: int


class LeaderEpochs:
    """Epochs in order, each with its first offset. The caller has a lock for changes."""

    __slots__ = ("entries",)

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self.entries: tuple[EpochEntry, ...] = tuple(entries)

    @property
    def latest(self) -> int:
        """The newest epoch; -1: none."""
        return self.entries[-1].epoch if self.entries else -1

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` writes from `start_offset` on; returns whether that was new.

        Epochs that begin there or later have written nothing, and are forgotten.
        """
        if epoch <= self.latest:
            return False
        self.truncate_to(start_offset)
        self.entries = (*self.entries, EpochEntry(epoch, start_offset))
        return True

    def end_offset_for(
        self, epoch: int, log_end_offset: int, current_epoch: int = -1
    ) -> tuple[int, int]:
        """Largest known epoch up to `epoch` and the offset after it; (-1, -1): not known.

        Args:
            epoch: which is asked for.
            log_end_offset: of the log.
            current_epoch: the leader's own, which it knows before it writes anything in it.
        """
        entries = self.entries
        if current_epoch > self.latest:
            entries = (*entries, EpochEntry(current_epoch, log_end_offset))
        if not entries or epoch > entries[-1].epoch or epoch < 0:
            return -1, -1
        if epoch == entries[-1].epoch:
            return epoch, log_end_offset
        later = next(entry for entry in entries if entry.epoch > epoch)
        earlier = [entry.epoch for entry in entries if entry.epoch <= epoch]
        return (earlier[-1] if earlier else epoch), later.start_offset

    def truncate_to(self, log_end_offset: int) -> bool:
        """Forget epochs that begin at the end or beyond; returns whether there were any."""
        kept = tuple(entry for entry in self.entries if entry.start_offset < log_end_offset)
        changed = kept != self.entries
        self.entries = kept
        return changed

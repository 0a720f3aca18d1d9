"""What a log in files does beside writing batches: checkpoints, snapshots, fsync (C1.3, C8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fastprod.broker.clock import Clock
from fastprod.broker.log.leader_epochs import LeaderEpochs
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.partition_folder import PartitionFolder
from fastprod.broker.log.producer_snapshot import encode_snapshot
from fastprod.broker.log.producer_states import ProducerStates
from fastprod.broker.log.recovery import LoadedLog, load
from fastprod.broker.log.segment import Segment

_NS_PER_MS: Final = 1_000_000


class LogFiles:
    """The folder of a log, and how much of it would survive a crash. The log's lock guards it.

    Every method raises OSError when the disk fails.

    Args:
        folder: the partition's.
        clock: the broker's.
    """

    __slots__ = ("_clock", "_is_clean", "_recovery_point", "_synced_ns", "folder")

    def __init__(self, folder: PartitionFolder, clock: Clock) -> None:
        self.folder = folder
        self._clock = clock
        self._synced_ns = clock.monotonic_ns()
        self._is_clean = True
        self._recovery_point = 0

    def load(self, config: LogConfig) -> LoadedLog:
        """Read what is there, and recover it if need be."""
        loaded = load(self.folder, config, self._clock.time_ms())
        self._recovery_point = loaded.recovery_point
        self._is_clean = loaded.was_clean or not loaded.segments
        if not self._is_clean:
            self.save_epochs(loaded.epochs, config)
            self.save_offsets(loaded.start_offset, config)
        return loaded

    def soil(self) -> None:
        """Before each change: a crash from here on needs recovery (C8.2)."""
        if self._is_clean:
            self.folder.clear_clean()
            self._is_clean = False

    def save_offsets(
        self, start_offset: int, config: LogConfig, recovery_point: int | None = None
    ) -> None:
        """Checkpoint the log's start and the recovery point; None: it stays where it is."""
        if recovery_point is None:
            recovery_point = self._recovery_point
        self.folder.write_offsets(start_offset, recovery_point, config.sync != "never")
        self._recovery_point = recovery_point

    def save_epochs(self, epochs: LeaderEpochs, config: LogConfig) -> None:
        """Checkpoint the leader epochs."""
        self.folder.write_epochs(epochs.entries, config.sync != "never")

    def save_producers(self, offset: int, producers: ProducerStates, config: LogConfig) -> None:
        """Take a snapshot of the producers as they are at `offset`."""
        snapshot = encode_snapshot(producers)
        self.folder.write_snapshot(offset, snapshot, config.sync != "never")

    def is_sync_due(self, config: LogConfig) -> bool:
        """Whether an append must not return before an fsync (C8.1)."""
        if config.sync != "interval":
            return config.sync == "batch"
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._synced_ns < config.sync_interval_ms * _NS_PER_MS:
            return False
        self._synced_ns = now_ns
        return True

    def roll(
        self,
        segments: Sequence[Segment],
        start_offset: int,
        end_offset: int,
        producers: ProducerStates,
        config: LogConfig,
        jitter_ms: int,
    ) -> Segment:
        """Complete the active segment, keep the producers, and make the next segment (C4.4)."""
        self.soil()
        if segments:
            segments[-1].finish()
            if config.sync != "never":
                self.flush(segments, start_offset, end_offset, config)
            self.save_producers(end_offset, producers, config)
        return self.folder.new_segment(end_offset, self._clock.time_ms(), config, jitter_ms)

    def flush(
        self, segments: Sequence[Segment], start_offset: int, end_offset: int, config: LogConfig
    ) -> None:
        """Have all batches survive a power cut, and move the recovery point."""
        for segment in segments:
            segment.flush()
        self._synced_ns = self._clock.monotonic_ns()
        if self._recovery_point != end_offset:
            self.soil()
            self.save_offsets(start_offset, config, end_offset)

    def truncate(
        self, start_offset: int, end_offset: int, epochs: LeaderEpochs, config: LogConfig
    ) -> None:
        """Forget what the checkpoints and snapshots know of offsets from `end_offset` on."""
        for offset in self.folder.offsets_of(".snapshot"):
            if offset > end_offset:
                self.folder.remove_snapshot(offset)
        self.save_offsets(start_offset, config, min(self._recovery_point, end_offset))
        self.save_epochs(epochs, config)

    def close(
        self,
        segments: Sequence[Segment],
        start_offset: int,
        end_offset: int,
        producers: ProducerStates,
        epochs: LeaderEpochs,
    ) -> None:
        """Write and fsync everything, then the note that all is well (C8.2)."""
        if self._is_clean:
            return
        if segments:
            segments[-1].finish(sync=True)
        self.folder.write_snapshot(end_offset, encode_snapshot(producers), True)
        for segment in segments:
            segment.flush()
        self.folder.write_epochs(epochs.entries, True)
        self.folder.write_offsets(start_offset, end_offset, True)
        self.folder.mark_clean(end_offset)
        self._is_clean = True

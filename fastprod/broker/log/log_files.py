"""LogFiles: what a log writes beside batches: checkpoints, snapshots, fsync (B-C1.3, B-C8)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from fastprod.broker.log.leader_epochs import LeaderEpochs
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.log_directory import CleanEnd, LogDirectory
from fastprod.broker.log.partition_folder import PartitionFolder
from fastprod.broker.log.producer_snapshot import encode_snapshot
from fastprod.broker.log.producer_states import ProducerStates
from fastprod.broker.log.recovery import LoadedLog, load
from fastprod.broker.log.segments.file_handle import FolderHandle
from fastprod.broker.log.segments.file_segment import FileSegment
from fastprod.broker.log.segments.segment import Segment
from fastprod.broker.threads.clock import Clock


class LogFiles:
    """The folder of a log, and how much of it would survive a crash.

    The log's lock guards it, except for `flush`, so that appends do not wait for the disk. The
    recovery point is the start of the first segment that is not synced together with its indexes:
    after a crash whole segments are walked, and always the last one.

    Every method raises OSError when the disk fails.

    Args:
        folder: the partition's.
        clock: the broker's.
        directory: of all logs; its owner saves it. None: this log is the only one.
    """

    __slots__ = (
        "_clock",
        "_directory",
        "_flush_lock",
        "_has_gaps",
        "_has_new_names",
        "_is_clean",
        "_is_closed",
        "_is_directory_shared",
        "_offsets_lock",
        "_recovery_point",
        "_start_offset",
        "folder",
    )

    def __init__(
        self, folder: PartitionFolder, clock: Clock, directory: LogDirectory | None = None
    ) -> None:
        self.folder = folder
        self._clock = clock
        self._is_directory_shared = directory is not None
        self._directory = directory or LogDirectory(folder.path.parent)
        # Taken after the log's lock, if both are. A flush holds it for long.
        self._flush_lock = threading.Lock()
        self._offsets_lock = threading.Lock()
        self._has_new_names = False
        self._has_gaps = False
        self._is_clean = True
        self._is_closed = False
        self._start_offset = 0
        self._recovery_point = 0

    def load(self, config: LogConfig) -> LoadedLog:
        """Read what is there, and recover it if need be."""
        clean_end = self._directory.clean_end(self.folder.key)
        loaded = load(self.folder, config, self._clock.time_ms(), clean_end)
        if clean_end is not None and loaded.end_offset < clean_end.end_offset:
            self._forget_clean_end()
        self._start_offset = loaded.start_offset
        self._recovery_point = loaded.recovery_point
        self._is_clean = loaded.was_clean or not loaded.segments
        if not self._is_clean:
            self._has_new_names = True
            self.save_epochs(loaded.epochs, config)
            self.save_offsets(loaded.start_offset, config)
        return loaded

    def _forget_clean_end(self) -> None:
        """Drop the note of the clean end: the same end may come with other records."""
        if self._directory.forget(self.folder.key):
            self._directory.save()

    def mark_dirty(self) -> None:
        """Note, before each change, that there will be something to sync."""
        self._is_clean = False

    def save_offsets(self, start_offset: int, config: LogConfig) -> None:
        """Checkpoint the log's start."""
        with self._offsets_lock:
            self._write_offsets(start_offset, self._recovery_point, config)

    def _write_offsets(self, start_offset: int, recovery_point: int, config: LogConfig) -> None:
        self.folder.write_offsets(start_offset, recovery_point, config.sync != "never")
        self._start_offset = start_offset
        self._recovery_point = recovery_point

    def save_epochs(self, epochs: LeaderEpochs, config: LogConfig) -> None:
        """Checkpoint the leader epochs."""
        self.folder.write_epochs(epochs.entries, config.sync != "never")

    def save_producers(self, offset: int, producers: ProducerStates, config: LogConfig) -> None:
        """Write a snapshot of the producers at `offset`: no batch is left to rebuild them from."""
        snapshot = encode_snapshot(producers)
        self.folder.write_snapshot(offset, snapshot, config.sync != "never")

    def sync_names(self, with_folder: bool = True) -> None:
        """Sync the names of the files, and of the folder: they survive a power cut."""
        if self._has_new_names:
            # Cleared first: a segment that is made meanwhile is synced the next time.
            self._has_new_names = False
            try:
                self.folder.sync(with_folder)
            except OSError:
                self._has_new_names = True
                raise

    def roll(
        self,
        segments: Sequence[Segment],
        end_offset: int,
        producers: ProducerStates,
        config: LogConfig,
        jitter_ms: int,
    ) -> Segment:
        """Complete the active segment, keep the producers, and make the next segment (B-C4.4).

        Nothing is synced: appends would wait. A lost snapshot is rebuilt from an older one and the
        batches after it.
        """
        self.mark_dirty()
        if segments:
            segments[-1].finish()
            self.folder.write_snapshot(end_offset, encode_snapshot(producers), sync=False)
        made = self.folder.new_segment(end_offset, self._clock.time_ms(), config, jitter_ms)
        self._has_new_names = True
        return made

    def new_cleaned(self, base_offset: int, config: LogConfig) -> FileSegment:
        """Make the files of a segment that is to take the place of others."""
        self.note_gaps(config)
        return self.folder.new_cleaned(base_offset, self._clock.time_ms(), config)

    def note_gaps(self, config: LogConfig) -> None:
        """Before the first gap: a log that has some must be known by it, whatever its policy is."""
        if not self._has_gaps:
            if self.folder.read_cleaned() is None:
                self.folder.write_cleaned(0, config.sync != "never")
            self._has_gaps = True

    def swap(
        self, cleaned: Segment, replaced: Sequence[Segment], opened: FolderHandle
    ) -> FileSegment:
        """Put a segment in the place of others; returns it as it is there.

        No descriptor is opened: half-way without one, nobody would know what the files hold.

        Args:
            cleaned: made by `new_cleaned`, complete and synced.
            replaced: neighbours, oldest first.
            opened: the folder.
        """
        assert isinstance(cleaned, FileSegment)
        with self._flush_lock:
            base_offset = cleaned.base_offset
            self.folder.commit_cleaned(base_offset, opened)
            for each in replaced:
                each.close()
            self.folder.finish_swap(base_offset, [each.base_offset for each in replaced])
            cleaned.take_place(replaced[0].created_ms)
            self._has_new_names = True
            return cleaned

    def save_cleaned(self, offset: int, config: LogConfig) -> None:
        """Checkpoint how far the log was compacted."""
        self.folder.write_cleaned(offset, config.sync != "never")

    def flush(
        self, segments: Callable[[], Sequence[Segment]], config: LogConfig, closed_only: bool
    ) -> None:
        """Sync batches, and move the recovery point. Blocks for the disk.

        Args:
            segments: those of the log at the moment of the call.
            config: of the log.
            closed_only: leave out the active segment.
        """
        with self._flush_lock:
            if self._is_closed:
                return
            found = segments()
            for segment in found[:-1]:
                segment.flush(complete=True)
            if not closed_only:
                for segment in found[-1:]:
                    segment.flush()
            self.sync_names()
            self._pass_by(segments, config)

    def _pass_by(self, segments: Callable[[], Sequence[Segment]], config: LogConfig) -> None:
        """Move the recovery point over the segments that are synced."""
        with self._offsets_lock:
            found = segments()
            if not found:
                return
            dirty = (each.base_offset for each in found[:-1] if not each.is_synced)
            recovery_point = next(dirty, found[-1].base_offset)
            if recovery_point > self._recovery_point:
                self._write_offsets(self._start_offset, recovery_point, config)

    def truncate(
        self, start_offset: int, end_offset: int, epochs: LeaderEpochs, config: LogConfig
    ) -> None:
        """Remove offsets from `end_offset` on from checkpoints and snapshots."""
        for offset in self.folder.offsets_of(".snapshot"):
            if offset > end_offset:
                self.folder.remove_snapshot(offset)
        self._forget_clean_end()
        with self._offsets_lock:
            self._write_offsets(start_offset, min(self._recovery_point, end_offset), config)
        self.save_epochs(epochs, config)

    def close(
        self,
        segments: Sequence[Segment],
        end_offset: int,
        producers: ProducerStates,
        config: LogConfig,
    ) -> None:
        """Write and fsync everything once, and note the clean end (B-C8.2)."""
        with self._flush_lock:
            self._is_closed = True
            if not self._is_clean:
                if segments:
                    segments[-1].finish()
                # Not synced: it has a checksum, and can be rebuilt from batches.
                self.folder.write_snapshot(end_offset, encode_snapshot(producers), not segments)
                for segment in segments:
                    segment.flush(complete=True)
                # Saving the directory syncs the names of all logs' folders at once.
                self.sync_names(with_folder=False)
                self._pass_by(lambda: segments, config)
            if end_offset > 0:
                self._directory.note(self.folder.key, CleanEnd(self._start_offset, end_offset))
        if not self._is_directory_shared:
            self._directory.save()

    def delete(self, removes_folder: bool = True) -> None:
        """Remove the folder, or leave it to the next start."""
        with self._flush_lock:
            self._is_closed = True
            if removes_folder:
                self.folder.delete()
        self._directory.forget(self.folder.key)
        if not self._is_directory_shared:
            self._directory.save()

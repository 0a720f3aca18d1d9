"""The folder of one partition: names, and the small text files beside the segments (B-C1)."""

from __future__ import annotations

import base64
import contextlib
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from fastprod.broker.log.checkpoint_file import read_checkpoint, write_checkpoint
from fastprod.broker.log.leader_epochs import EpochEntry
from fastprod.broker.log.log_config import LogConfig
from fastprod.broker.log.segments.file_handle import FolderHandle, replace_file, sync_folder
from fastprod.broker.log.segments.file_segment import FileSegment, file_name
from fastprod.errors import ConfigError

_CLEANED: Final = "cleaner-offset-checkpoint"
_EPOCHS: Final = "leader-epoch-checkpoint"
_OFFSETS: Final = "offsets-checkpoint"
_START: Final = "log-start-offset"
_RECOVERY: Final = "recovery-point-offset"
_DIGITS: Final = 20
_SEGMENT_SUFFIXES: Final = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")

# Longest file name on most systems.
_MAX_NAME_LENGTH: Final = 255

# Of files that are to take the place of others, while they are made, and once they are complete.
_MADE: Final = ".cleaned"
_SWAPPED: Final = ".swap"

METADATA_FILE: Final = "partition.metadata"
"""The first file of a folder, with the topic's id."""

DELETED_FOLDERS: Final = f"*.{'[0-9a-f]' * 32}-delete"
"""Pattern of the names of folders that are being removed."""


def renamed(folder: Path, suffix: str) -> Path:
    """`folder` with a longer name; a name that would be too long is cut (B-C1.1)."""
    return folder.with_name(folder.name[: _MAX_NAME_LENGTH - len(suffix)] + suffix)


def set_aside(folder: Path) -> Path:
    """Rename the folder of a log that is deleted; returns its new name, for it to be removed."""
    return folder.rename(renamed(folder, f".{uuid.uuid4().hex}-delete"))


def read_topic_id(folder: Path) -> uuid.UUID | None:
    """What partition.metadata in `folder` says; None: there is none.

    Raises:
        OSError: it cannot be read.
        ValueError: it cannot be understood.
    """
    try:
        text = (folder / METADATA_FILE).read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None
    fields = dict(line.partition(": ")[::2] for line in text.splitlines())
    if "topic_id" not in fields:
        # It is not synced: after a power cut it may be empty.
        return None
    return uuid.UUID(bytes=base64.urlsafe_b64decode(fields["topic_id"] + "=="))


class PartitionFolder:
    """Files of one partition.

    Args:
        directory: folder of logs; the partition's is made in it if need be.
        topic: name.
        partition: index.
        topic_id: is written to partition.metadata, or must be what is there.

    Attributes:
        key: the log's name in its `LogDirectory`: another one for another topic of the same name.

    Raises:
        OSError: the folder cannot be used.
        ConfigError: it belongs to an earlier topic of that name, or its file is damaged; `key` is
            data_dir.
    """

    def __init__(
        self, directory: Path, topic: str, partition: int, topic_id: uuid.UUID | None = None
    ) -> None:
        self.path = Path(directory) / f"{topic}-{partition}"
        self.key = f"{self.path.name} {topic_id or '-'}"
        self._is_new = not self.path.exists()
        self.path.mkdir(parents=True, exist_ok=True)
        if topic_id is not None:
            self._check_topic_id(topic_id)

    def _check_topic_id(self, topic_id: uuid.UUID) -> None:
        try:
            found = read_topic_id(self.path)
        except ValueError as error:
            raise ConfigError(
                f"{self.path / METADATA_FILE} cannot be read ({type(error).__name__}: {error}); "
                f"restore it, or remove this file if the folder is the topic's",
                key="data_dir",
            ) from error
        if found is None:
            encoded = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
            text = f"version: 0\ntopic_id: {encoded}"
            replace_file(self.path / METADATA_FILE, text.encode(), sync=False)
        elif found != topic_id:
            raise ConfigError(
                f"{self.path} holds topic id {found}, not {topic_id}: it is left from another "
                f"topic of this name; remove it, or use another data_dir",
                key="data_dir",
            )

    def new_segment(
        self, base_offset: int, now_ms: int, config: LogConfig, jitter_ms: int
    ) -> FileSegment:
        """Make the files of a segment: all of them or, with an exception, none."""
        segment = FileSegment(self.path, base_offset, now_ms, config, jitter_ms)
        try:
            segment.create()
        except OSError:
            segment.delete()
            raise
        return segment

    def offsets_of(self, suffix: str) -> list[int]:
        """Offsets in the names of the files with this suffix, ascending."""
        return sorted(
            int(path.stem)
            for path in self.path.glob(f"*{suffix}")
            if len(path.stem) == _DIGITS and path.stem.isdigit()
        )

    def remove_leftovers(self) -> None:
        """Delete what an interrupted deletion left, and indexes without a log (B-C1.2, B-C8.5)."""
        for pattern in ("*.deleted", f"*{_MADE}", f"*{_SWAPPED}", "*.tmp"):
            for path in self.path.glob(pattern):
                path.unlink(missing_ok=True)
        logs = set(self.offsets_of(".log"))
        for suffix in (".index", ".timeindex", ".txnindex"):
            for offset in self.offsets_of(suffix):
                if offset not in logs:
                    (self.path / file_name(offset, suffix)).unlink(missing_ok=True)

    def remove_segment(self, base_offset: int) -> None:
        """Delete all files of a segment."""
        for suffix in _SEGMENT_SUFFIXES:
            (self.path / file_name(base_offset, suffix)).unlink(missing_ok=True)

    def write_snapshot(self, offset: int, data: bytes, sync: bool) -> None:
        """Keep the producers as they are at `offset`, and the two snapshots before."""
        replace_file(self.path / file_name(offset, ".snapshot"), data, sync)
        for old in self.offsets_of(".snapshot")[:-3]:
            self.remove_snapshot(old)

    def read_snapshot(self, offset: int) -> bytes:
        """Bytes of the snapshot at `offset`."""
        return (self.path / file_name(offset, ".snapshot")).read_bytes()

    def remove_snapshot(self, offset: int) -> None:
        """Delete the snapshot at `offset`."""
        (self.path / file_name(offset, ".snapshot")).unlink(missing_ok=True)

    def write_epochs(self, entries: Sequence[EpochEntry], sync: bool) -> None:
        """Write leader-epoch-checkpoint."""
        lines = (f"{epoch} {offset}" for epoch, offset in entries)
        write_checkpoint(self.path / _EPOCHS, lines, sync)

    def read_epochs(self) -> list[EpochEntry] | None:
        """What leader-epoch-checkpoint says; None: it is missing or damaged."""
        lines = read_checkpoint(self.path / _EPOCHS)
        if lines is None:
            return None
        try:
            return [EpochEntry(*map(int, line.split())) for line in lines]
        except (TypeError, ValueError):
            return None

    def write_offsets(self, start_offset: int, recovery_point: int, sync: bool) -> None:
        """Write where the log starts, and up to which segment its files were fsynced (B-C1.3)."""
        lines = (f"{_START} {start_offset}", f"{_RECOVERY} {recovery_point}")
        write_checkpoint(self.path / _OFFSETS, lines, sync)

    def read_offsets(self) -> tuple[int, int]:
        """(log start offset or -1, recovery point)."""
        try:
            fields = dict(line.split() for line in read_checkpoint(self.path / _OFFSETS) or ())
            return int(fields.get(_START, "-1")), int(fields.get(_RECOVERY, "0"))
        except ValueError:
            return -1, 0

    def write_cleaned(self, offset: int, sync: bool) -> None:
        """Write how far the log was compacted."""
        write_checkpoint(self.path / _CLEANED, (str(offset),), sync)

    def read_cleaned(self) -> int | None:
        """How far the log was compacted; None: it never was, or the file is damaged."""
        lines = read_checkpoint(self.path / _CLEANED)
        try:
            return int(lines[0]) if lines else None
        except ValueError:
            return None

    def new_cleaned(self, base_offset: int, now_ms: int, config: LogConfig) -> FileSegment:
        """Make the files of a segment that is to take the place of others."""
        segment = FileSegment(self.path, base_offset, now_ms, config, suffix=_MADE)
        segment.create()
        return segment

    def commit_cleaned(self, base_offset: int, opened: FolderHandle) -> None:
        """From now on, and after a crash, what was made has the place of the others.

        Args:
            base_offset: of the segment.
            opened: this folder.
        """
        # The log last: with it, the indexes are there, too.
        for suffix in (".timeindex", ".index", ".log"):
            made = self.path / file_name(base_offset, suffix + _MADE)
            made.rename(self.path / file_name(base_offset, suffix + _SWAPPED))
        opened.sync()

    def finish_swap(self, base_offset: int, replaced: Sequence[int]) -> None:
        """Remove the segments that were replaced, and give the new one its name."""
        for offset in replaced:
            if offset != base_offset:
                for suffix in (".log", ".index", ".timeindex", ".txnindex"):
                    (self.path / file_name(offset, suffix)).unlink(missing_ok=True)
        for suffix in (".timeindex", ".index", ".log"):
            swapped = self.path / file_name(base_offset, suffix + _SWAPPED)
            # Each of them may have its name already.
            with contextlib.suppress(FileNotFoundError):
                swapped.replace(self.path / file_name(base_offset, suffix))

    def finish_swaps(self, config: LogConfig) -> None:
        """Finish what a crash has interrupted; what was not committed is a leftover (B-C8.5)."""
        for path in sorted(self.path.glob(f"*.log{_SWAPPED}")):
            base_offset = int(path.name.partition(".")[0])
            swapped = FileSegment(self.path, base_offset, 0, config, suffix=_SWAPPED)
            end = swapped.recover()[0]
            swapped.finish()
            swapped.close()
            replaced = [each for each in self.offsets_of(".log") if base_offset <= each < end]
            self.finish_swap(base_offset, replaced)

    def sync(self, with_own: bool = True) -> None:
        """Sync the names in it, and its own: they survive a power cut."""
        sync_folder(self.path)
        if self._is_new and with_own:
            sync_folder(self.path.parent)
            self._is_new = False

    def delete(self) -> None:
        """Remove the folder under another name first, so that it is gone at once (B-C1.1)."""
        if self.path.exists():
            # Here: it loads compression that a broker in memory does not need.
            import shutil  # noqa: PLC0415

            shutil.rmtree(set_aside(self.path))

"""Manifest: a folder that says what a load job has to do and what is done.

The folder `<state>/<job id>/` has `manifest.json` (the job's settings and its splits), `done/<n>`
for each split n that is wholly in Kafka, and `lock`, held while the job runs.  Each file appears
whole, under its name, or not at all.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fastprod.load.file_splits import FileSplit
from fastprod.load.input_files import InputError, InputFile, folder_columns

_VERSION: Final = 2
_JOB_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def state_folder() -> Path:
    """Default folder of the manifests, below the user's state folder."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "fastprod" / "jobs"


class Manifest:
    """One job's splits and marks; make it by `open`, and close it.

    A split is (number, `FileSplit`); the number stays the same when files are added.

    Threads: one.
    """

    def __init__(self, folder: Path, lock: int) -> None:
        self._folder = folder
        self._lock = lock
        self._settings: dict[str, str] = {}
        self._files: dict[str, InputFile] = {}
        self._splits: list[FileSplit] = []

    @classmethod
    def open(cls, state: Path, job_id: str, settings: Mapping[str, str]) -> Manifest:
        """Open a job's manifest, or begin one.

        Args:
            state: folder of all jobs; made if it is not there.
            job_id: letters, digits and ``._-``.
            settings: those that must be the same in all runs of a job; no secrets.

        Raises:
            InputError: the id is not valid, the job is running, its settings differ, or the folder
                cannot be used.
        """
        if not _JOB_ID.fullmatch(job_id):
            raise InputError(
                f"job id {job_id!r}: has to be 1 to 128 of A-Z a-z 0-9 . _ -, and to begin with a "
                f"letter or digit"
            )
        folder = state / job_id
        try:
            (folder / "done").mkdir(parents=True, exist_ok=True)
            lock = _locked(folder / "lock", job_id)
        except OSError as error:
            raise InputError(f"state folder {folder}: {error.strerror}") from error
        manifest = cls(folder, lock)
        try:
            manifest._load()
            manifest._check_marks()
            manifest._check_settings(job_id, settings)
        except BaseException:
            manifest.close()
            raise
        return manifest

    def close(self) -> None:
        """Release the job, so that another run can open it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    @property
    def folder(self) -> Path:
        """The job's own folder."""
        return self._folder

    def new_files(self, files: Iterable[InputFile], *, by_folders: bool = False) -> list[InputFile]:
        """The files that are new to the job; the others must not have changed.

        Args:
            files: those that were found now.
            by_folders: whether rows have columns of the folders between a file and the path by
                which it was found.

        Raises:
            InputError: a file has changed since the job began, or is gone; or was found by a path
                that gives its rows other columns.
        """
        found = {file.path: file for file in files}
        for path, known in self._files.items():
            now = found.get(path)
            if now is None:
                raise InputError(
                    f"{path} belongs to this job and is not there any more; give another --job-id"
                )
            if (now.size_bytes, now.mtime_ns) != (known.size_bytes, known.mtime_ns):
                raise InputError(
                    f"{path} has changed since this job began ({known.state} then, {now.state} "
                    f"now): which of its rows were sent cannot be told; give another --job-id to "
                    f"send it anew"
                )
            if by_folders and folder_columns(now) != folder_columns(known):
                raise InputError(
                    f"{path} was found by {known.root} when this job began, and by {now.root} now: "
                    f"folders named name=value below it are columns of its rows; give the same "
                    f"paths, or another --job-id"
                )
        return [file for path, file in found.items() if path not in self._files]

    def add(self, files: Iterable[InputFile], splits: Iterable[FileSplit]) -> None:
        """Add files and their splits to the job; on disk when this returns.

        Raises:
            InputError: the folder cannot be written.
        """
        self._files.update({file.path: file for file in files})
        self._splits += splits
        self._write(
            "manifest.json",
            {
                "version": _VERSION,
                "settings": self._settings,
                "files": [dataclasses.asdict(file) for file in self._files.values()],
                "splits": [_as_row(split) for split in self._splits],
            },
        )

    @property
    def splits(self) -> Sequence[tuple[int, FileSplit]]:
        """All splits of the job."""
        return list(enumerate(self._splits))

    def left(self) -> list[tuple[int, FileSplit]]:
        """The splits that have no mark."""
        done = self.done()
        return [(number, split) for number, split in self.splits if number not in done]

    def done(self) -> dict[int, dict[str, Any]]:
        """The reports that were given to `mark`, by the number of the split.

        Raises:
            InputError: a mark cannot be read.
        """
        marks = {}
        for path in (self._folder / "done").iterdir():
            if not path.name.isdigit():
                continue
            try:
                marks[int(path.name)] = json.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise InputError(
                    f"{path} is damaged: {error}; without it, the rows of its split are sent again"
                ) from error
        return marks

    def mark(self, number: int, report: Mapping[str, Any]) -> None:
        """Note that a split is in Kafka, with its report; on disk when this returns.

        Raises:
            InputError: the folder cannot be written.
        """
        self._write(f"done/{number}", report)

    def _load(self) -> None:
        path = self._folder / "manifest.json"
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            if found["version"] != _VERSION:
                raise InputError(f"{path} is of version {found['version']}, this is {_VERSION}")
            self._settings = found["settings"]
            self._files = {each["path"]: InputFile(**each) for each in found["files"]}
            self._splits = [FileSplit(self._files[path], *each) for path, *each in found["splits"]]
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{path} is damaged: {error}; give another --job-id") from error

    def _check_marks(self) -> None:
        """Refuse marks of another manifest: splits that have them are taken for loaded."""
        names = [each.name for each in (self._folder / "done").iterdir()]
        marks = [int(name) for name in names if name.isdigit()]
        if max(marks, default=-1) >= len(self._splits):
            raise InputError(
                f"{self._folder} has {len(marks):,} marks of splits that are done, and no manifest "
                f"of theirs: which rows were sent cannot be told; give another --job-id, or remove "
                f"the whole folder, and all is sent anew"
            )

    def _check_settings(self, job_id: str, settings: Mapping[str, str]) -> None:
        if not self._settings:
            self._settings = dict(settings)
        for name in sorted(self._settings.keys() | settings.keys()):
            then, now = self._settings.get(name, ""), settings.get(name, "")
            if then != now:
                raise InputError(
                    f"job {job_id} was begun with {name} = {then!r}, this is {now!r}; give the "
                    f"same, or another --job-id"
                )

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        path = self._folder / name
        part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            with part.open("w", encoding="utf-8") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            part.rename(path)
            _sync_folder(path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink()
            raise InputError(f"cannot write {path}: {error.strerror}") from error


def _as_row(split: FileSplit) -> list[str | int]:
    """A split for the manifest, with its file's path; size and time of files stand once."""
    return [split.path, split.unit, split.start, split.stop, split.size_bytes]


def _sync_folder(folder: Path) -> None:
    """Sync a folder: only then are renames in it on disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _locked(path: Path, job_id: str) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(f"job {job_id} is running in another process") from None
    except OSError:
        os.close(descriptor)
        raise
    return descriptor

"""fastprod.spark.jobs.stream_files: files that go, change or come while a stream runs."""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fastprod.load.input_files import InputError
from fastprod.load.stream_check import StreamCheck
from fastprod.spark.jobs.stream_files import StreamFiles

CHECK = StreamCheck("text")


class Stream:
    """A stream's folder, its checkpoint as Spark writes it, and what follows both."""

    def __init__(self, folder: Path, *, is_cleaned: bool = False) -> None:
        self.folder, self.checkpoint = folder / "in", folder / "checkpoint"
        self.folder.mkdir()
        for name in ("offsets", "commits", "sources/0"):
            (self.checkpoint / name).mkdir(parents=True)
        self._seen: Any = SimpleNamespace(value=deque())
        self._batch_id = -1
        self._is_cleaned = is_cleaned
        self.files = self.follower()

    def follower(self, scheme: str = "") -> StreamFiles:
        return StreamFiles(
            self._seen,
            str(self.folder),
            f"{scheme}{self.checkpoint}",
            by_folders=True,
            is_cleaned=self._is_cleaned,
        )

    def add(self, name: str, text: str = "x\n") -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    def take(self, paths: Iterable[Path], suffix: str = "") -> None:
        """Spark takes files into its next micro-batch."""
        self._batch_id += 1
        number = self._batch_id
        entries = [
            json.dumps(
                {
                    "path": path.as_uri(),
                    "timestamp": path.stat().st_mtime_ns // 1_000_000,
                    "batchId": number,
                },
                separators=(",", ":"),
            )
            for path in paths
        ]
        (self.checkpoint / f"sources/0/{number}{suffix}").write_text("\n".join(["v1", *entries]))
        offset = json.dumps({"logOffset": number})
        (self.checkpoint / f"offsets/{number}").write_text(f"v1\n{{}}\n{offset}\n")

    def read(self, *paths: Path) -> None:
        """A task has read rows of them."""
        for path in paths:
            found = path.stat()
            seen = (path.as_uri(), found.st_size, found.st_mtime_ns // 1_000_000)
            self._seen.value.append(seen)

    def commit(self) -> None:
        (self.checkpoint / f"commits/{self._batch_id}").touch()

    def look(self) -> None:
        self.files.look(CHECK, self._batch_id, is_last=True)


def test_files_that_were_read_may_go(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    paths = [stream.add(name) for name in ("a b.txt", "b%.txt", "_c.txt")]
    stream.take(paths[:2])
    stream.read(*paths[:2])
    stream.look()
    paths[0].unlink()
    stream.look()


@pytest.mark.parametrize("suffix", ["", ".compact"])
@pytest.mark.parametrize("is_cleaned", [False, True])
def test_a_file_that_was_gone_before_its_micro_batch_is_told(
    tmp_path: Path, suffix: str, *, is_cleaned: bool
) -> None:
    stream = Stream(tmp_path, is_cleaned=is_cleaned)
    paths = [stream.add(name) for name in ("a.txt", "b.txt")]
    stream.take(paths, suffix)
    stream.read(paths[0])
    paths[1].unlink()
    if is_cleaned:
        stream.look()
        return
    with pytest.raises(InputError, match=r"b\.txt was gone before Spark had read it"):
        stream.look()


@pytest.mark.parametrize("scheme", ["file:", "file://", "file://localhost"])
def test_a_checkpoint_may_be_a_url_of_this_machine(tmp_path: Path, scheme: str) -> None:
    (tmp_path / "a%20b").mkdir()
    stream = Stream(tmp_path / "a%20b")
    stream.files = stream.follower(scheme)
    path = stream.add("a.txt")
    stream.take([path])
    path.unlink()
    with pytest.raises(InputError, match=r"a\.txt was gone before Spark had read it"):
        stream.look()


def test_what_earlier_runs_have_read_is_not_looked_at(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    old, new = stream.add("a.txt"), stream.add("b.txt")
    stream.take([old])
    stream.commit()
    stream.take([new])
    old.unlink()
    stream.files = stream.follower()
    stream.read(new)
    stream.look()


def test_files_of_a_micro_batch_that_is_not_committed_yet_are_kept(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    paths = [stream.add(name) for name in ("a.txt", "b.txt")]
    stream.take(paths[:1])
    stream.read(*paths)
    stream.look()
    stream.take(paths[1:])
    for path in paths:
        path.unlink()
    stream.look()


@pytest.mark.parametrize("is_read", [False, True])
def test_a_file_that_changes_after_it_was_read_is_told(tmp_path: Path, *, is_read: bool) -> None:
    stream = Stream(tmp_path)
    path = stream.add("a.txt", "x\n" if is_read else "")
    os.utime(path, (1_700_000_000, 1_700_000_000))
    stream.take([path])
    if is_read:
        stream.read(path)
    stream.look()
    path.write_text("x\ny\n")
    with pytest.raises(InputError, match=r"a\.txt has changed since Spark read it"):
        stream.look()


def test_a_file_without_rows_is_looked_at(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    stream.take([stream.add("a.txt.lz4")])
    with pytest.raises(InputError, match=r"a\.txt\.lz4: Spark's readers may pass over"):
        stream.look()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("more/a.txt", "more/a.txt would not be read"),
        ("caf\udce9.txt", r"caf\\xe9\.txt has a name that is no text"),
        ("_more/a.txt", None),
        ("d=1/a.txt", None),
    ],
)
def test_files_that_spark_never_sees_are_told(tmp_path: Path, name: str, told: str | None) -> None:
    stream = Stream(tmp_path)
    stream.add(name)
    if told is None:
        stream.look()
        return
    with pytest.raises(InputError, match=told):
        stream.look()


def test_a_link_to_a_folder_is_told(tmp_path: Path) -> None:
    stream = Stream(tmp_path)
    (stream.folder / "more").symlink_to(tmp_path)
    with pytest.raises(InputError, match="more is a link to a folder"):
        stream.look()

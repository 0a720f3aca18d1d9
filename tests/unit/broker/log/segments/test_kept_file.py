"""Files that are opened by their use, and closed by that of others."""

from __future__ import annotations

import resource
from collections import deque
from pathlib import Path

import pytest

from fastprod.broker.log.segments import kept_file
from fastprod.broker.log.segments.kept_file import KeptFile, most_kept


def opened(folder: Path, name: str) -> KeptFile:
    (folder / name).write_bytes(name.encode())
    file = KeptFile(folder / name)
    file.open()
    return file


def names(files: list[KeptFile]) -> list[str]:
    """Of those that are open."""
    return [file.path.name for file in files if file._handle is not None]


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many files are kept."""
    monkeypatch.setattr(kept_file, "most_kept", lambda: 3)
    monkeypatch.setattr(kept_file, "_opened", deque())


@pytest.mark.usefixtures("three")
def test_what_is_used_stays_open(tmp_path: Path) -> None:
    files = [opened(tmp_path, name) for name in "abcd"]
    assert names(files) == ["b", "c", "d"]
    for name in "efghij":
        files[1].open()
        files.append(opened(tmp_path, name))
        assert len(names(files)) == 3
        assert {"b", name} <= set(names(files))
    assert files[0].open().read_at(10, 0) == b"a"


@pytest.mark.usefixtures("three")
def test_a_use_under_way_outlives_the_keeping(tmp_path: Path) -> None:
    handle = opened(tmp_path, "a").open()
    others = [opened(tmp_path, name) for name in "bcdef"]
    assert handle.read_at(10, 0) == b"a"
    assert len(names(others)) == 3


@pytest.mark.usefixtures("three")
def test_those_that_are_gone_do_not_count(tmp_path: Path) -> None:
    for name in "abcdef":
        opened(tmp_path, name)
    files = [opened(tmp_path, name) for name in "ghi"]
    files[0].close()
    files.append(opened(tmp_path, "j"))
    assert names(files) == ["h", "i", "j"]


def test_a_quarter_of_the_descriptors_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, most in ((256, 64), (1 << 30, 16_384), (resource.RLIM_INFINITY, 16_384)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, limit=limit: (limit, limit))
        assert most_kept() == most

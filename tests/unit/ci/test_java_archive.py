"""An archive is used where one is, belongs to one Java and one class path, and is whole."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import java_archive
import java_flags


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program, and an environment for its archives."""
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "venv"))
    (tmp_path / "venv").mkdir()
    (tmp_path / "java").write_text("")
    return str(tmp_path / "java")


def test_flags_name_the_archive_once_it_is_there(java: str, tmp_path: Path) -> None:
    without = java_flags.quick(java, tmp_path / "jars")
    path = java_flags.archive(java, tmp_path / "jars")
    java_archive.make(path, lambda part: part.write_text("classes"))
    found = java_flags.quick(java, tmp_path / "jars")
    assert found[: len(without)] == without
    assert f"-XX:SharedArchiveFile={path}" in found
    assert java_flags.quick(java, tmp_path / "other") == without


def test_another_java_has_another_archive(java: str, tmp_path: Path) -> None:
    (tmp_path / "newer").write_text("")
    found = {java_flags.archive(each, tmp_path) for each in (java, str(tmp_path / "newer"))}
    assert len(found) == 2


def test_other_jars_in_the_same_folder_have_another_archive(java: str, tmp_path: Path) -> None:
    jars = tmp_path / "jars"
    jars.mkdir()
    os.utime(jars, (1, 1))
    before = java_flags.archive(java, jars)
    os.utime(jars, (2, 2))
    assert java_flags.archive(java, jars) != before


def test_a_java_that_writes_nothing_is_told(java: str, tmp_path: Path) -> None:
    path = java_flags.archive(java, tmp_path)
    with pytest.raises(RuntimeError, match="wrote no archive"):
        java_archive.make(path, lambda _part: None)


def test_an_archive_that_is_not_whole_is_not_there(java: str, tmp_path: Path) -> None:
    def write(part: Path) -> None:
        part.write_text("half")
        raise RuntimeError("killed")

    path = java_flags.archive(java, tmp_path)
    with pytest.raises(RuntimeError):
        java_archive.make(path, write)
    assert list(path.parent.iterdir()) == []

"""ci/check_paths.py finds what belongs to one machine or one network.

Each planted fault is broken by a ^ here, so that this file has none.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import check_paths

PATH = "a path of one machine"
HOST = "a registry's host"
ADDRESS = "a bare address that is not loopback"


@pytest.mark.parametrize(
    "text",
    [
        "#!/usr/bin/env bash",
        "PATH=/usr/bin:/bin",
        "see https://kafka.apache.org/documentation/#home",
        "fastprod/work/x and ./tmp/y and $HOME/home/z",
        "http://127.0.0.1:9092/",
        "pip install fastprod",
    ],
)
def test_ordinary_text_passes(tmp_path: Path, text: str) -> None:
    (tmp_path / "README.md").write_text(text + "\n")
    assert check_paths.check(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("open('/w^ork/x')", PATH),
        ("cd /ho^me/ann", PATH),
        ("see /t^mp/log.txt", PATH),
        ("url = https://files.python^hosted.org/x", HOST),
        ("https://repo1.^maven.org", HOST),
        ("pip install --index^-url x", HOST),
        ("https://eu-x.p^kg.dev/p", HOST),
        ("http://^10.0.0.7/simple", ADDRESS),
    ],
)
def test_a_planted_fault_is_found(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "notes.md").write_text("fine\n" + text.replace("^", "") + "\n")
    (found,) = check_paths.check(tmp_path)
    assert found.startswith(f"notes.md:2: {what}: ")


def test_in_a_repository_ignored_files_are_left_out_and_new_ones_are_not(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text("ignored.md\n")
    for name in ("ignored.md", "new.md"):
        (tmp_path / name).write_text("/work" + "/x\n")
    assert [fault.split(":")[0] for fault in check_paths.check(tmp_path)] == ["new.md"]

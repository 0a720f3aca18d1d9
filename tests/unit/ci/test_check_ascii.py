"""ci/check_ascii.py finds letters outside ASCII, tabs, and a missing last newline."""

from __future__ import annotations

from pathlib import Path

import check_ascii


def test_plain_files_and_a_makefile_with_tabs_pass(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 'y'\n")
    (tmp_path / "Makefile").write_text("all:\n\ttrue\n")
    (tmp_path / "vector.bin").write_bytes(b"\xff\t")
    assert check_ascii.check(tmp_path) == []


def test_each_fault_is_found_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.pyx").write_text("x\n# caf\u00e9\n", encoding="utf-8")
    (tmp_path / "b.md").write_text("a\tb\n")
    (tmp_path / "c.toml").write_text("a = 1")
    assert check_ascii.check(tmp_path) == [
        "a.pyx:2: not ASCII: '# caf\\xe9'",
        "b.md:1: a tab",
        "c.toml: no newline at the end",
    ]


def test_an_exception_excuses_and_a_needless_one_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("\u00e9\n", encoding="utf-8")
    (tmp_path / "ci").mkdir()
    toml = tmp_path / "ci" / "exceptions.toml"
    toml.write_text('[ascii]\n"names.txt" = "names as they are"\n"gone.txt" = "?"\n')
    assert check_ascii.check(tmp_path) == [
        "ci/exceptions.toml: [ascii] gone.txt: nothing to excuse"
    ]

"""setup.py: the engine's build."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).parents[3]


def refuse(*args: object, **options: object) -> NoReturn:
    raise AssertionError("a process that translates starts a build of its own")


def test_processes_that_translate_read_the_file_without_building(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As multiprocessing does it in a process that it spawns: always so on macOS."""
    monkeypatch.setattr("Cython.Build.cythonize", refuse)
    monkeypatch.setattr("setuptools.setup", refuse)
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"), run_name="__mp_main__")

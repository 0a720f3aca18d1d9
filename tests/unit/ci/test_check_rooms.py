"""ci/check_rooms.py finds a folder that is too full, and a helper that has none."""

from __future__ import annotations

from pathlib import Path

import pytest

import check_rooms


def plant(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


@pytest.mark.parametrize("top", check_rooms.TOPS)
def test_one_module_too_many_is_found(tmp_path: Path, top: str) -> None:
    names = [f"{top}/room/module_{number}.py" for number in range(check_rooms.MODULES)]
    plant(tmp_path, f"{top}/room/__init__.py", *names)
    assert check_rooms.check(tmp_path) == []
    plant(tmp_path, f"{top}/room/another.pyx")
    (found,) = check_rooms.check(tmp_path)
    assert found.startswith(f"{top}/room: {check_rooms.MODULES + 1} modules")


def test_a_module_in_three_files_and_a_folder_below_count_for_themselves(tmp_path: Path) -> None:
    names = [f"fastprod/room/module_{number}.py" for number in range(check_rooms.MODULES - 1)]
    plant(tmp_path, *names, "fastprod/room/deeper/another.py")
    plant(tmp_path, *(f"fastprod/room/engine{suffix}" for suffix in (".pyx", ".pxd", ".pyi")))
    assert check_rooms.check(tmp_path) == []


def test_a_helper_at_the_root_of_tests_is_found(tmp_path: Path) -> None:
    plant(tmp_path, "tests/conftest.py", "tests/support/peer.py", "tests/unit/test_x.py")
    assert check_rooms.check(tmp_path) == []
    plant(tmp_path, "tests/peer.py")
    (found,) = check_rooms.check(tmp_path)
    assert found.startswith("tests/peer.py: ")

"""fastprod.spark.jobs.checked_files: Spark reads the files that were found; more in tests/spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastprod.load.input_files import InputError, InputFile, find_files
from fastprod.spark.jobs.checked_files import check_found


@pytest.fixture
def files(tmp_path: Path) -> list[InputFile]:
    """Two files with names that URLs write differently."""
    for name in ("a b%.txt", "\u00e9#.txt"):
        (tmp_path / name).write_text("x\n")
    return find_files([str(tmp_path)])


def test_spark_may_find_marks_besides(files: list[InputFile], tmp_path: Path) -> None:
    urls = [Path(file.path).as_uri() for file in files]
    check_found(files, [*urls, (tmp_path / "_metadata").as_uri()], {})


def test_a_file_that_spark_does_not_find_is_told(files: list[InputFile]) -> None:
    urls = [Path(files[0].path).as_uri()]
    with pytest.raises(InputError, match=r"\u00e9#\.txt is not found by Spark's reader"):
        check_found(files, urls, {"header": "true"})
    check_found(files, urls, {"pathGlobFilter": "a*"})


def test_a_file_that_has_come_since_is_told(files: list[InputFile], tmp_path: Path) -> None:
    urls = [path.as_uri() for path in (tmp_path / "c.txt", *(Path(file.path) for file in files))]
    with pytest.raises(InputError, match=r"c\.txt has come since the files were found"):
        check_found(files, urls, {"modifiedAfter": "2020-01-01"})

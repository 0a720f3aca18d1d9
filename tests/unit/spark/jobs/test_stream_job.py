"""fastprod.spark.jobs.stream_job: what SOURCE stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastprod.load.input_files import InputError
from fastprod.spark.jobs.stream_job import stream_source


@pytest.mark.parametrize("kind", [None, "csv"])
def test_a_folder_of_tabbed_files_is_read_by_tabs(tmp_path: Path, kind: str | None) -> None:
    (tmp_path / "a.tsv").write_text("key\tvalue\n1\tx\n")
    source = stream_source(str(tmp_path), kind, {}, None, "")
    assert (source.kind, source.options["sep"]) == ("csv", "\t")


def test_an_empty_folder_needs_a_format(tmp_path: Path) -> None:
    assert stream_source(str(tmp_path), "csv", {}, None, "").options.get("sep") is None
    with pytest.raises(InputError, match="a folder that is empty needs --format"):
        stream_source(str(tmp_path), None, {}, None, "")


def test_a_folder_may_be_a_url_of_this_machine(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    folder.mkdir()
    (folder / "a.csv").write_text("value\n1\n")
    found = stream_source(folder.as_uri(), None, {}, None, "")
    assert (found.path, len(found.files)) == (str(folder), 1)


def test_files_that_spark_would_pass_over_are_refused(tmp_path: Path) -> None:
    for folder in ("in/day=1/key=7", "in/day=1/more"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "in/day=1/key=7/a.csv").write_text("value\n1\n")
    assert stream_source(str(tmp_path / "in"), None, {}, None, "").kind == "csv"
    (tmp_path / "in/day=1/more/b.csv").write_text("value\n2\n")
    for kind, options in ((None, {}), ("csv", {"recursiveFileLookup": "false"})):
        with pytest.raises(InputError, match=r"more/b\.csv would not be read: .*named name=value"):
            stream_source(str(tmp_path / "in"), kind, options, None, "")
    options = {"RecursiveFileLookup": "true"}
    assert stream_source(str(tmp_path / "in"), None, options, None, "").options["header"] == "true"


def test_files_beside_folders_with_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "key=7").mkdir()
    for name in ("key=7/a.csv", "b.csv"):
        (tmp_path / name).write_text("value\n1\n")
    with pytest.raises(InputError, match=r"b\.csv \(none\)"):
        stream_source(str(tmp_path), None, {}, None, "")


def test_what_cannot_be_looked_through_is_told_also_where_the_format_is_given(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/link").symlink_to(tmp_path)
    with pytest.raises(InputError, match="is a link to a folder"):
        stream_source(str(tmp_path / "in"), "csv", {}, None, "")


def test_a_path_with_a_character_of_patterns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in[1]").mkdir()
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a{b}.csv").write_text("value\n1\n")
    for name in ("in[1]", "in"):
        with pytest.raises(InputError, match="reads the files that come with it several times"):
            stream_source(str(tmp_path / name), "csv", {}, None, "")
    assert stream_source("s3://x/in[1]", "csv", {}, None, "").path == "s3://x/in[1]"


@pytest.mark.parametrize("name", ["a.txt.lz4", "a.txt.xz"])
def test_what_spark_does_not_unpack_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x\n")
    with pytest.raises(InputError, match=name):
        stream_source(str(tmp_path), "text", {}, None, "")

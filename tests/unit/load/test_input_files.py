"""fastprod.load.input_files: what paths stand for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fastprod.load.input_files import (
    InputError,
    base_path,
    check_folders,
    check_pattern,
    check_spark_reads,
    compression_of,
    find_files,
    folder_columns,
    format_of,
    is_local,
    literal,
    spark_paths,
)


def test_a_folder_stands_for_all_files_below_it_but_marks_and_hidden_ones(tmp_path: Path) -> None:
    marks = ("_SUCCESS", ".hidden.csv", "_temporary/c.csv", "d.csv._COPYING_")
    for name in ("b.csv", "day=1/a.csv", *marks):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("x")
    found = find_files([str(tmp_path)])
    assert [Path(file.path).relative_to(tmp_path).as_posix() for file in found] == [
        "b.csv",
        "day=1/a.csv",
    ]
    assert {(file.root, file.size_bytes) for file in found} == {(str(tmp_path), 1)}
    for pattern, names in (("*", ["b.csv", "a.csv"]), ("**/*.csv", ["b.csv", "a.csv"])):
        found = find_files([str(tmp_path / pattern)])
        assert [Path(file.path).name for file in found] == names
    assert len(find_files([str(tmp_path / "_temporary" / "*")])) == 1


def test_a_folder_with_a_value_is_no_mark(tmp_path: Path) -> None:
    for name in ("_day=1/a.csv", ".day=1/b.csv", "_d=e.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    found = find_files([str(tmp_path)])
    assert [Path(file.path).relative_to(tmp_path).as_posix() for file in found] == [
        "_d=e.csv",
        "_day=1/a.csv",
    ]


def test_a_name_that_is_no_text_is_refused_with_its_bytes(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.csv")).write_text("x")
    with pytest.raises(InputError, match=r"caf\\xe9\.csv has a name that is no text in UTF-8"):
        find_files([str(tmp_path)])


@pytest.mark.parametrize("name", ["a.txt.lz4", "a.csv.SNAPPY", "a.txt._COPYING_", "_a.txt"])
def test_files_that_spark_passes_over_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("x")
    files = find_files([str(tmp_path / name)])
    with pytest.raises(InputError, match=rf"{name}: Spark's readers (may )?pass over"):
        check_spark_reads(files, "text")
    if name.endswith("lz4"):
        check_spark_reads(files, "parquet")


@pytest.mark.parametrize("letter", list("[]{}*?\\"))
def test_a_character_of_patterns_is_none_of_a_streams_files(letter: str) -> None:
    check_pattern("/a/b c%(1).csv")
    with pytest.raises(InputError, match=r"reads the files that come with it several times"):
        check_pattern(f"/a/b{letter}.csv")


def test_a_file_that_several_arguments_name_is_found_once(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "c[1].csv"):
        (tmp_path / name).write_text("x")
    names = [str(tmp_path / "a.csv"), str(tmp_path / "?.csv"), f"file://{tmp_path}/c[1].csv"]
    found = [Path(file.path).name for file in find_files(names)]
    assert found == ["a.csv", "b.csv", "c[1].csv"]


@pytest.mark.parametrize(
    ("name", "told"), [("nosuch.csv", "no such file"), ("*.csv", "no files"), (".", "no files")]
)
def test_a_path_that_has_nothing_is_named(tmp_path: Path, name: str, told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        find_files([str(tmp_path / name)])
    assert str(tmp_path) in str(caught.value)


def test_a_folder_that_cannot_be_listed_is_not_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.csv").write_text("x")
    scandir = os.scandir

    def refuse(path: str) -> object:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InputError, match=r"permission denied for the folder .*closed"):
        find_files([str(tmp_path)])


def test_a_link_to_a_folder_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.csv").write_text("x")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "Link").symlink_to(tmp_path / "real")
    with pytest.raises(InputError, match=r"in/Link is a link to a folder"):
        find_files([str(tmp_path / "in")])
    assert len(find_files([str(tmp_path / "in" / "Link")])) == 1


def test_names_tell_format_and_compression() -> None:
    assert format_of(["a.parquet", "b.PQ"]) == "parquet"
    assert format_of(["a.tsv", "b.csv.gz"]) == "csv"
    assert format_of(["a.ndjson.zst"]) == "json"
    assert [compression_of(name) for name in ("a.gz", "a.BZ2", "a.csv")] == ["gzip", "bz2", None]


def test_names_that_tell_no_format_or_several_are_refused() -> None:
    with pytest.raises(InputError, match=r"a\.dat: .*--format, one of parquet, csv"):
        format_of(["a.dat"])
    with pytest.raises(InputError, match=r"csv \(a\.csv\) and json \(b\.json\)"):
        format_of(["a.csv", "b.json"])


def test_a_scheme_makes_a_path_remote() -> None:
    assert [is_local(each) for each in ("a/b", "file:///a", "s3a://b/c", "hdfs:/a")] == [
        True,
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("names", "given", "paths"),
    [
        (("b.csv", "day=1/a.csv"), (".",), ["."]),
        (("b.csv", "more/a.csv"), (".",), ["b.csv", "more/a.csv"]),
        (("x/b.csv", "x/y/a.csv"), ("**/*.csv",), ["x/b.csv", "x/y/a.csv"]),
        (("b.csv", "a.csv"), ("a.csv", "."), ["a.csv", "b.csv"]),
        (("a[1].csv", "a1.csv"), ("a[1].csv",), [r"a\[1\].csv"]),
    ],
)
def test_spark_is_told_of_just_the_files_that_were_found(
    tmp_path: Path, names: tuple[str, ...], given: tuple[str, ...], paths: list[str]
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("x")
    found = spark_paths(find_files([str(tmp_path / each) for each in given]))
    assert found == [f"{tmp_path}/{path}".removesuffix("/.") for path in paths]


@pytest.mark.parametrize(
    ("names", "given", "base"),
    [
        (("key=7/a.csv", "key=8/a.csv"), ("",), None),
        (("x/key=7/a.csv", "y/key=8/a.csv"), ("",), ""),
        (("x/key=7/a.csv", "y/key=7/a.csv"), ("x", "y"), None),
        (("x/a.csv", "b.csv"), ("",), None),
    ],
)
def test_spark_is_told_where_the_names_of_folders_begin(
    tmp_path: Path, names: tuple[str, ...], given: tuple[str, ...], base: str | None
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("x")
    files = find_files([str(tmp_path / each) for each in given])
    wanted = None if base is None else str(tmp_path / base)
    assert base_path(files, spark_paths(files)) == wanted


def test_folders_with_a_name_and_a_value_are_columns(tmp_path: Path) -> None:
    folder = tmp_path / "above=1" / "in" / "a%2Fb=1" / "plain" / "=3" / "c="
    folder.mkdir(parents=True)
    (folder / "k=v.csv").write_text("x")
    (file,) = find_files([str(tmp_path / "above=1" / "in")])
    assert folder_columns(file) == ["a/b", "c"]


def test_no_character_of_a_path_is_a_pattern_of_sparks() -> None:
    assert literal("/a{b}/c[1]*?\\.csv") == r"/a\{b\}/c\[1\]\*\?\\.csv"


@pytest.mark.parametrize("of_folder", [False, True])
def test_a_pipe_is_no_file(tmp_path: Path, *, of_folder: bool) -> None:
    os.mkfifo(tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"a\.csv is no regular file"):
        find_files([str(tmp_path if of_folder else tmp_path / "a.csv")])


def test_files_that_spark_would_pass_over_beside_folders_with_columns_are_refused(
    tmp_path: Path,
) -> None:
    for name in ("in/key=7/a.json", "in/b.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}\n")
    check_folders(find_files([str(tmp_path / "in/key=7"), str(tmp_path / "in/b.json")]))
    with pytest.raises(InputError, match=r"in/b\.json \(none\) and .*in/key=7/a\.json \(key\)"):
        check_folders(find_files([str(tmp_path / "in")]))


def test_columns_of_folders_without_a_folder_in_common_are_not_left_out(tmp_path: Path) -> None:
    for name in ("a/sub/key=7", "b/sub/key=7"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.json").write_text("{}\n")
    one = find_files([str(tmp_path / "a")])
    assert base_path(one, spark_paths(one)) == str(tmp_path / "a")
    both = find_files([str(tmp_path / "a"), str(tmp_path / "b")])
    with pytest.raises(InputError, match="load them one by one"):
        base_path(both, spark_paths(both))
    deep = find_files([str(tmp_path / "a/sub"), str(tmp_path / "b/sub")])
    assert base_path(deep, spark_paths(deep)) is None

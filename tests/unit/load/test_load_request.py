"""fastprod.load.load_request: the engine that a request gets."""

from __future__ import annotations

import dataclasses
import gzip
import re
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.file_splits import split_file
from fastprod.load.input_files import InputError, NeedsSpark
from fastprod.load.load_request import LoadRequest, load_plan
from fastprod.spark.jobs.manifest import Manifest


@pytest.fixture
def request_(tmp_path: Path) -> LoadRequest:
    (tmp_path / "a.csv").write_text("key,value\n1,x\n")
    return LoadRequest((str(tmp_path / "a.csv"),), "t", {})


def test_files_that_can_be_are_read_without_sparks_readers(request_: LoadRequest) -> None:
    plan = load_plan(request_)
    assert (plan.engine, plan.kind) == ("direct", "csv")
    assert plan.reader is not None
    assert (plan.reader.mapping.key, plan.reader.mapping.value) == ("key", "value")


@pytest.mark.parametrize(
    "change",
    [
        {"select": "1 value"},
        {"where": "true"},
        {"sql": "select 1 value from input"},
        {"schema": "value string"},
        {"engine": "spark"},
        {"reader_options": {"samplingRatio": "1"}},
        {"mapping": ColumnMapping(value_format="json")},
        {"reader_options": {"sep": "||"}},
    ],
)
def test_everything_else_is_sparks(request_: LoadRequest, change: dict[str, object]) -> None:
    changed = dataclasses.replace(request_, **change)  # type: ignore[arg-type]
    assert load_plan(changed).engine == "spark"
    if changed.engine == "auto":
        with pytest.raises(InputError):
            load_plan(dataclasses.replace(changed, engine="direct"))


@pytest.mark.parametrize(
    ("name", "data", "told"),
    [
        ("a.json", b'{"value": "x"}{"value": "y"}\n', "1 lines have 2 objects"),
        ("a.json", b'{"value": "x"} and more\n', "line 1 is not one JSON object"),
        ("a.json", b'{"value": "\\ud83d"}\n', "surrogate"),
        ("a.json", b'{"value": 1e999}\n', "too big"),
        ("a.csv", b"k\xff,value\n1,2\n", "not UTF-8"),
        ("a.parquet", b"PAR1", "cannot be read as parquet"),
        ("a.csv", b"a,b\n1,2\n", r"which column is the value\?"),
    ],
)
def test_a_file_with_a_fault_is_not_left_to_spark_which_passes_over_some(
    tmp_path: Path, name: str, data: bytes, told: str
) -> None:
    (tmp_path / name).write_bytes(data)
    request = LoadRequest((str(tmp_path / name),), "t", {})
    with pytest.raises(InputError, match=told) as caught:
        load_plan(request)
    assert not isinstance(caught.value, NeedsSpark)
    assert load_plan(dataclasses.replace(request, engine="spark")).engine == "spark"


def test_files_beside_folders_with_columns_are_sparks_if_it_looks_in_all_folders(
    tmp_path: Path,
) -> None:
    (tmp_path / "key=7").mkdir()
    for name in ("key=7/a.json", "b.json"):
        (tmp_path / name).write_text('{"value": "x"}\n')
    request = LoadRequest((str(tmp_path),), "t", {})
    with pytest.raises(InputError, match="of which Spark passes over some"):
        load_plan(request)
    recursive = dataclasses.replace(request, reader_options={"recursiveFileLookup": "True"})
    assert load_plan(recursive).engine == "spark"


@pytest.mark.parametrize("lines", ['{"value": 1}\n{"value": "x"}\n', '{"value": 1.5}\n'])
def test_json_of_types_that_spark_alone_reads_is_left_to_it(tmp_path: Path, lines: str) -> None:
    (tmp_path / "a.json").write_text(lines)
    assert load_plan(LoadRequest((str(tmp_path),), "t", {})).engine == "spark"


@pytest.mark.parametrize("name", ["_a.csv", ".a.csv"])
def test_a_file_that_spark_passes_over_is_refused_where_spark_reads(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("key,value\n1,x\n")
    request = LoadRequest((str(tmp_path / name),), "t", {})
    assert load_plan(request).engine == "direct"
    with pytest.raises(InputError, match="Spark's readers pass over files"):
        load_plan(dataclasses.replace(request, where="true"))


def test_urls_are_sparks_and_have_no_manifest() -> None:
    request = LoadRequest(("s3a://b/a.parquet",), "t", {})
    assert load_plan(request).engine == "spark"
    for change in ({"engine": "direct"}, {"job_id": "j"}, {"paths": ("s3a://b/a.csv", "b.csv")}):
        with pytest.raises(InputError):
            load_plan(dataclasses.replace(request, **change))


def test_tasks_are_as_many_as_wanted(request_: LoadRequest) -> None:
    assert load_plan(request_).split_bytes() == 32 * 1024 * 1024
    plan = load_plan(dataclasses.replace(request_, partitions=3))
    assert plan.split_bytes() == 5
    large = [dataclasses.replace(plan.files[0], size_bytes=10**12)]
    assert dataclasses.replace(plan, files=large).split_bytes() == 256 * 1024 * 1024


def test_tabs_are_told_by_names(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("key\tvalue\n1\tx\n")
    plan = load_plan(LoadRequest((str(tmp_path),), "t", {}))
    assert plan.is_tabbed
    assert plan.engine == "direct"


def found(request: LoadRequest) -> list[dict[str, Any]]:
    """All records, as the direct engine reads them."""
    plan = load_plan(dataclasses.replace(request, engine="direct"))
    assert plan.reader is not None
    return [
        row
        for file in plan.files
        for split in split_file(file, plan.kind, by_lines=plan.by_lines)
        for batch in plan.reader.batches(split)
        for row in batch.to_pylist()
    ]


NOTHING = {
    "a.csv": b"",
    "a.csv.gz": gzip.compress(b"k,v\n"),
    "b.csv.gz": gzip.compress(b""),
    "header.csv": b"k,v\n",
    "white.csv": b"\n \n",
    "a.json": b"",
    "a.json.gz": gzip.compress(b""),
    "white.json": b"\n\n",
    "a.txt.gz": gzip.compress(b""),
}


@pytest.mark.parametrize("multiline", ["false", "true"])
def test_inputs_without_rows_have_no_records(tmp_path: Path, multiline: str) -> None:
    for name, data in NOTHING.items():
        # With multiLine a line of white space is the header's.
        (tmp_path / name).write_bytes(
            data.replace(b"\n \n", b"\n") if multiline == "true" else data
        )
        options = {"multiLine": multiline} if "csv" in name else {}
        mapping = ColumnMapping() if "txt" in name else ColumnMapping(value="v")
        request = LoadRequest((str(tmp_path / name),), "t", {}, None, mapping, options)
        assert found(request) == [], name
    csv = LoadRequest((str(tmp_path / "*.csv*"),), "t", {}, None, ColumnMapping("v"))
    assert found(csv) == []
    (tmp_path / "z.csv").write_text("k,v\n1,x\n")
    assert found(csv) == [{"value": b"x"}]


@pytest.mark.parametrize("later", ['{"key": "k", "v": "y"}', '{"\\u006bey": "k", "v": "y"}'])
@pytest.mark.parametrize("name", ["a.json", "b.json"])
@pytest.mark.parametrize("first", ['{"v": "x"}', '{"v": "x", "key": null}'])
def test_a_key_that_comes_late_is_a_key(tmp_path: Path, first: str, name: str, later: str) -> None:
    (tmp_path / "a.json").write_text(f"{first}\n" * 100_000)
    with (tmp_path / name).open("a") as file:
        file.write(f"{later}\n")
    rows = found(LoadRequest((str(tmp_path),), "t", {}, None, ColumnMapping("v")))
    assert rows[0] == {"value": "x", "key": None}
    assert rows[-1] == {"value": "y", "key": "k"}


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_key_that_only_a_later_file_has_is_not_passed_over(tmp_path: Path, kind: str) -> None:
    for name, columns in (("a", {"value": ["x"]}), ("b", {"key": ["k"], "value": ["y"]})):
        path, table = tmp_path / f"{name}.{kind}", pyarrow.table(columns)
        if kind == "csv":
            pyarrow.csv.write_csv(table, path)
        else:
            pyarrow.parquet.write_table(table, path)
    request = LoadRequest((str(tmp_path),), "t", {})
    for engine in ("auto", "direct"):
        with pytest.raises(InputError, match=r"b\.\w+ has a column 'key', which the files before"):
            load_plan(dataclasses.replace(request, engine=engine))
    without = dataclasses.replace(request, mapping=ColumnMapping(key=""))
    assert [row["value"] for row in found(without)] in ([b"x", b"y"], ["x", "y"])


def test_a_column_of_values_that_only_a_later_file_has_is_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("line\nx\n")
    (tmp_path / "b.csv").write_text("line,value\nx,y\n")
    request = LoadRequest((str(tmp_path),), "t", {})
    with pytest.raises(InputError, match="has a column 'value', which the files before"):
        load_plan(request)
    assert len(found(dataclasses.replace(request, mapping=ColumnMapping("line")))) == 2
    # What is wrong with a later file is told when it is its turn.
    (tmp_path / "b.csv").write_bytes(b"\xff\n")
    assert load_plan(request).engine == "direct"


def test_columns_of_folders_are_sparks_if_they_are_used(tmp_path: Path) -> None:
    for number in (7, 8):
        (tmp_path / f"key={number}").mkdir()
        (tmp_path / f"key={number}" / "a.csv").write_text("value\nx\n")
    request = LoadRequest((str(tmp_path),), "t", {})
    assert load_plan(request).engine == "spark"
    with pytest.raises(NeedsSpark, match="'key' is in the names of folders"):
        load_plan(dataclasses.replace(request, engine="direct"))
    without = dataclasses.replace(request, mapping=ColumnMapping(key=""))
    assert load_plan(without).engine == "direct"
    # Spark makes no column of a folder that is given, nor of those above it.
    one = dataclasses.replace(request, paths=(str(tmp_path / "key=7"),))
    assert load_plan(one).engine == "direct"


def test_other_columns_that_come_late_are_not_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": "x"}\n' * 100_000 + '{"a": "y", "b": 1}\n')
    request = LoadRequest((str(path),), "t", {})
    with pytest.raises(InputError, match=r"which column is the value\? There are a, b"):
        found(request)
    header = ColumnMapping("a", header_columns=(("H", "b"),))
    assert found(dataclasses.replace(request, mapping=header))[-1] == {
        "value": "y",
        "header.0": "1",
    }
    path.write_text('{"a": 1}\n' * 100_000 + '{"value": "y"}\n')
    assert [row["value"] for row in found(request)[-2:]] == [None, "y"]


def test_a_column_that_is_always_null_is_null(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"value": null}\n')
    assert found(LoadRequest((str(tmp_path),), "t", {})) == [{"value": None}]


def test_a_later_file_whose_times_only_spark_understands_makes_all_sparks(tmp_path: Path) -> None:
    for name, zone in (("a.parquet", "UTC"), ("b.parquet", None)):
        times = pyarrow.array([5], pyarrow.timestamp("us", zone))
        pyarrow.parquet.write_table(pyarrow.table({"v": ["a"], "t": times}), tmp_path / name)
    request = LoadRequest((str(tmp_path),), "t", {}, mapping=ColumnMapping("v", timestamp="t"))
    assert load_plan(request).engine == "spark"
    with pytest.raises(InputError, match=r"b\.parquet: .*no time zone"):
        load_plan(dataclasses.replace(request, engine="direct"))


@pytest.mark.parametrize("name", ["a.deflate", "a.txt.snappy", "a.xz", "a.ZIP"])
def test_what_is_packed_and_not_unpacked_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"x\n")
    request = LoadRequest((str(tmp_path / name),), "t", {}, "text")
    with pytest.raises(InputError, match=re.escape(name)):
        load_plan(dataclasses.replace(request, engine="direct"))
    if name.endswith("deflate"):
        assert load_plan(request).engine == "spark"
    else:
        with pytest.raises(InputError, match=re.escape(name)):
            load_plan(request)


def test_a_manifest_has_no_value_of_a_header_but_tells_another(tmp_path: Path) -> None:
    def settings(value: bytes) -> dict[str, str]:
        mapping = ColumnMapping(headers=(("token", value), ("other", b"x")))
        return LoadRequest(("a",), "t", {}, mapping=mapping, job_id="j").settings("text", "direct")

    Manifest.open(tmp_path, "j", settings(b"hush")).close()
    manifest = Manifest.open(tmp_path, "j", settings(b"hush"))
    manifest.add([], [])
    manifest.close()
    text = (tmp_path / "j" / "manifest.json").read_text()
    assert "hush" not in text
    assert "token" in text
    with pytest.raises(InputError, match=r"was begun with mapping\.headers") as caught:
        Manifest.open(tmp_path, "j", settings(b"other"))
    assert "hush" not in str(caught.value)


def test_what_may_be_secret_is_not_shown(request_: LoadRequest) -> None:
    request = dataclasses.replace(
        request_,
        kafka={"ssl.key.password": "a-password"},
        mapping=ColumnMapping(headers=(("auth", b"a-token"),)),
    )
    plan = load_plan(request)
    assert plan.reader is not None
    assert plan.reader.mapping.headers == (("auth", b"a-token"),)
    for shown in (repr(plan), str(request), f"{plan.reader}", repr(request.mapping)):
        assert "a-token" not in shown
        assert "a-password" not in shown

"""fastprod.spark.load_request: the engine that a request gets."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fastprod.spark.column_mapping import ColumnMapping
from fastprod.spark.input_files import InputError
from fastprod.spark.load_request import LoadRequest, load_plan


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
        {"mapping": ColumnMapping(value="perhaps_a_partition_column")},
    ],
)
def test_everything_else_is_sparks(request_: LoadRequest, change: dict[str, object]) -> None:
    changed = dataclasses.replace(request_, **change)  # type: ignore[arg-type]
    assert load_plan(changed).engine == "spark"
    if changed.engine == "auto":
        with pytest.raises(InputError):
            load_plan(dataclasses.replace(changed, engine="direct"))


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

"""What the engines of `spark-load` make of files: the records, without Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.sql import SparkSession

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.file_splits import split_file
from fastprod.load.input_files import base_path, reads_by_folders, spark_paths
from fastprod.load.load_request import LoadPlan, LoadRequest, load_plan
from fastprod.spark.formats.record_format import record_format
from fastprod.spark.jobs.file_records import file_records
from fastprod.spark.jobs.frame_engine import record_options


def read_values(
    spark: SparkSession | None, folder: Path, engine: str, mapping: ColumnMapping, **given: Any
) -> list[bytes | None]:
    """The values of the records, in any order; `given` are further attributes of the request."""
    plan = load_plan(LoadRequest((str(folder),), "t", {}, engine=engine, mapping=mapping, **given))
    if plan.reader is not None:
        return _bytes(batch for batch in _direct_batches(plan))
    assert spark is not None
    paths = spark_paths(plan.files)
    by_folders = reads_by_folders(plan.request.reader_options)
    root = base_path(plan.files, paths) if by_folders else None
    records = file_records(spark, plan, plan.files, paths, root)
    if records is None:
        return []
    encoded = record_format(records.schema, record_options(records, mapping))
    return _bytes(map(encoded.encode, records.toArrow().to_batches()))


def read_objects(spark: SparkSession, folder: Path, **given: Any) -> list[Any]:
    """The records of --value-format json, with all numbers as decimals."""
    mapping = ColumnMapping(key="", value_format="json")
    values = read_values(spark, folder, "spark", mapping, **given)
    return [json.loads(each or b"", parse_float=Decimal, parse_int=Decimal) for each in values]


def _direct_batches(plan: LoadPlan) -> Iterable[pyarrow.RecordBatch]:
    assert plan.reader is not None
    for file in plan.files:
        for split in split_file(file, plan.kind, 64, by_lines=plan.by_lines):
            yield from plan.reader.batches(split)


def _bytes(batches: Iterable[pyarrow.RecordBatch]) -> list[bytes | None]:
    return [
        value
        for batch in batches
        for value in batch.column("value").cast(pyarrow.large_binary()).to_pylist()
    ]

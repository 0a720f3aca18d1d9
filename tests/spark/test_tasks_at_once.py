"""A job's limit is shared by the tasks that run at the same time: two in this folder's session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.load_request import LoadPlan, LoadRequest
from fastprod.spark.jobs import stream_job
from fastprod.spark.jobs.load_job import LoadJob
from fastprod.spark.jobs.stream_job import StreamJob, StreamRequest, StreamSource
from fastprod.spark.jobs.tasks_at_once import tasks_at_once

KAFKA = {"bootstrap.servers": "127.0.0.1:9"}
LIMIT = "fastprod.max.bytes.per.second"


@pytest.fixture(autouse=True)
def another_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with spark.default.parallelism=1."""
    monkeypatch.setattr(SparkContext, "defaultParallelism", 1)


def test_the_sessions_two_cores_are_two_tasks(spark: SparkSession) -> None:
    assert tasks_at_once(spark) == 2


@pytest.mark.parametrize(("tasks", "rate"), [(10, "500"), (1, "1000")])
def test_the_tasks_of_a_load_share_its_limit(spark: SparkSession, tasks: int, rate: str) -> None:
    request = LoadRequest(paths=(), topic="t", kafka=KAFKA, max_bytes_per_second=1000)
    assert LoadJob(spark, LoadPlan(request, "text", [], None))._rate(tasks) == rate


def test_the_tasks_of_a_stream_share_its_limit(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Mapping[str, str]] = []

    def write_stream(rows: DataFrame, *, options: Mapping[str, str], **more: Any) -> None:
        given.append(options)

    monkeypatch.setattr(stream_job, "write_stream", write_stream)
    source = StreamSource("rate", {"rowsPerSecond": "1"})
    mapping = ColumnMapping(value="value")
    request = StreamRequest(source, "t", KAFKA, mapping=mapping, max_bytes_per_second=1000)
    StreamJob(spark, request, "no-checkpoint")._started()
    assert [each[LIMIT] for each in given] == ["500"]

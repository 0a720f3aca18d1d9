"""record_frame: numbers that a record cannot have are told, whatever the session makes of them."""

from __future__ import annotations

from datetime import datetime

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fastprod.load.column_mapping import ColumnMapping
from fastprod.spark.jobs.frame_engine import record_frame


@pytest.fixture(params=["true", "false"])
def session(spark: SparkSession, request: pytest.FixtureRequest) -> SparkSession:
    """With Spark's strict casts, and with those that wrap around and make nulls."""
    found = spark.newSession()
    found.conf.set("spark.sql.ansi.enabled", request.param)
    found.conf.set("spark.sql.session.timeZone", "UTC")
    return found


@pytest.mark.parametrize("number", ["4294967299L", "-2147483649L", "'x'", "'4294967299'", "1e12D"])
def test_a_partition_that_is_no_int_is_told(session: SparkSession, number: str) -> None:
    frame = session.sql(f"select 'v' v, {number} p")
    records = record_frame(frame, ColumnMapping("v", partition="p"))
    with pytest.raises(PySparkException, match="column 'p' has a value"):
        records.collect()


def test_a_time_that_is_none_is_told(session: SparkSession) -> None:
    records = record_frame(session.sql("select 'v' v, 'soon' t"), ColumnMapping("v", timestamp="t"))
    with pytest.raises(PySparkException, match="column 't' has a value"):
        records.collect()


def test_what_a_record_can_have_is_as_it_was(session: SparkSession) -> None:
    frame = session.sql(
        "select 'v' v, p, t from values (3L, '2600-01-01 00:00:00'), (null, null) as (p, t)"
    )
    records = record_frame(frame, ColumnMapping("v", partition="p", timestamp="t"))
    assert dict(records.dtypes) == {"value": "string", "partition": "int", "timestamp": "timestamp"}
    (first, second) = records.selectExpr("partition", "cast(timestamp as timestamp_ntz)").collect()
    assert tuple(first) == (3, datetime(2600, 1, 1))
    assert tuple(second) == (None, None)

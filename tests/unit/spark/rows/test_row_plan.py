"""RowPlan; against Spark's own sink: tests/spark/test_contract.py."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from fastprod.spark.rows.row_plan import RowPlan, SchemaError, row_plan

HEADERS = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType(), False)]), False
)


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def test_columns_are_found_by_name() -> None:
    found = row_plan(
        schema(
            other=LongType(),
            timestamp=TimestampType(),
            headers=HEADERS,
            partition=IntegerType(),
            value=StringType(),
            key=BinaryType(),
            topic=StringType(),
        ),
        None,
    )
    assert found == RowPlan(value=4, key=5, headers=2, topic=6, partition=3, timestamp=1)
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_topic_by_option_leaves_the_column_alone() -> None:
    assert row_plan(schema(topic=LongType(), value=BinaryType()), "t") == RowPlan(value=1)


def test_header_columns_are_found() -> None:
    plan = row_plan(schema(value=BinaryType(), Trace=StringType()), "t", (("trace", "Trace"),))
    assert plan.header_columns == (("trace", 1),)


@pytest.mark.parametrize(
    ("columns", "header_columns", "text"),
    [
        ({"value": StringType(), "timestamp": TimestampNTZType()}, (), "must be a(n) timestamp"),
        ({"value": StringType()}, (("h", "x"),), "Required attribute 'x' not found: header.colu"),
        (
            {"value": StringType(), "x": IntegerType()},
            (("h", "x"),),
            "x attribute unsupported type int. x must be a(n) string or binary",
        ),
    ],
)
def test_columns_of_our_own_are_checked_too(
    columns: dict[str, DataType], header_columns: tuple[tuple[str, str], ...], text: str
) -> None:
    with pytest.raises(SchemaError) as raised:
        row_plan(schema(**columns), "t", header_columns)
    assert text in str(raised.value)


def test_two_columns_of_one_name_are_refused_where_the_name_counts() -> None:
    doubled = [StructField("value", BinaryType()), StructField("other", BinaryType())]
    row_plan(StructType([*doubled, StructField("other", LongType())]), "t")
    with pytest.raises(SchemaError, match="2 columns are named 'value'"):
        row_plan(StructType([*doubled, StructField("value", LongType())]), "t")

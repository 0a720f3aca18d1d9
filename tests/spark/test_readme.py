"""What README.md prints for Spark runs as it stands; the address and the topic are the test's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from conftest import TopicFactory
from kafka_cluster import KafkaCluster
from support.records.readers import read_with_confluent

ROWS = 500


def test_the_lines_for_spark_write_what_they_say(
    spark: SparkSession,
    kafka: KafkaCluster,
    topic: TopicFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Twice the same rows: by the data source, and by the function."""
    name = topic(kafka)
    text = (Path(__file__).parents[2] / "README.md").read_text()
    (block,) = re.findall(r"^```python spark\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    code = block.replace("localhost:9092", kafka.bootstrap_servers).replace("orders", name)
    columns = ("cast(id as string) as key", "concat('row ', id) as value")
    df = spark.range(ROWS).selectExpr(*columns)
    exec(compile(code, "README.md", "exec"), {"df": df})
    assert capsys.readouterr().out.splitlines()[-1] == f"{ROWS}"
    found = [
        record
        for part in read_with_confluent(kafka.bootstrap_servers, name).values()
        for record in part
    ]
    wanted = sorted((b"%d" % row, b"row %d" % row) for row in range(ROWS))
    assert sorted((each.key, each.value) for each in found) == sorted(wanted * 2)

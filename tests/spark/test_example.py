"""examples/web_log.py, on Apache Kafka and on our broker; other clients read back what it wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import kafka_admin
import spark_jars
from examples import web_log
from fastprod.broker.broker import Broker
from fastprod.cli.demo.web_log import WebLog
from fastprod.spark import progress
from kafka_cluster import KafkaCluster
from support.records.readers import read_with_confluent

LINES = 4_000
STREAM_S = 400
TOPICS = ("example-requests", "example-per-minute")
PARTITIONS = 3
ROOT = Path(__file__).parents[2]
PROCESS_S = 200.0


@pytest.fixture(params=["kafka", pytest.param("fastprod", marks=pytest.mark.slow)])
def servers(request: pytest.FixtureRequest, kafka: KafkaCluster) -> Iterator[str]:
    """Apache Kafka, then our broker, with the example's topics."""
    if request.param == "fastprod":
        with Broker(topics=dict.fromkeys(TOPICS, PARTITIONS)) as broker:
            yield broker.bootstrap_servers
        return
    for name in TOPICS:
        kafka_admin.create_topic(kafka.bootstrap_servers, name, PARTITIONS, 1, {})
    yield kafka.bootstrap_servers


def by_spark(spark: SparkSession, servers: str, topic: str) -> list[tuple[bytes, bytes, int]]:
    """Key, value and timestamp of each record, by the source of Spark's own connector."""
    read = spark.read.format("kafka").option("kafka.bootstrap.servers", servers)
    rows = read.option("subscribe", topic).load().orderBy("partition", "offset")
    return [
        (bytes(row.key), bytes(row.value), row.ms)
        for row in rows.select("key", "value", F.unix_millis("timestamp").alias("ms")).collect()
    ]


def test_the_example_writes_what_plain_python_computes(
    spark: SparkSession, servers: str, tmp_path: Path
) -> None:
    log = WebLog(LINES)
    log.write(tmp_path / "logs")
    for query in web_log.start(spark, tmp_path, servers, TOPICS):
        try:
            assert query.awaitTermination(STREAM_S), "the stream did not end"
        finally:
            query.stop()
    for topic, differences in zip(
        TOPICS, (log.event_differences, log.figure_differences), strict=True
    ):
        found = by_spark(spark, servers, topic)
        assert differences((key, value) for key, value, _ in found) == ""
        partitions = read_with_confluent(servers, topic)
        foreign = [record for index in sorted(partitions) for record in partitions[index]]
        assert [(each.key, each.value, each.timestamp_ms) for each in foreign] == found
        assert len(partitions) == PARTITIONS
        if topic == TOPICS[0]:
            stamped = sorted((key.decode(), ms) for key, _, ms in found)
            assert stamped == sorted((key, ms) for key, ms, _ in log.events())


@pytest.mark.slow
def test_the_example_runs_as_a_program_and_goes_on_where_it_ended(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The program's streams, started once more, find no new files, and write nothing."""
    log = WebLog(500)
    log.write(tmp_path / "logs")
    with Broker(topics=dict.fromkeys(TOPICS, PARTITIONS)) as broker:
        command = [sys.executable, str(ROOT / "examples" / "web_log.py"), str(tmp_path)]
        command += ["--bootstrap-servers", broker.bootstrap_servers]
        command += ["--requests-topic", TOPICS[0], "--figures-topic", TOPICS[1]]
        done = subprocess.run(
            command,
            env=os.environ | spark_jars.submit_environment() | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=PROCESS_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[0] == f"{TOPICS[0]}: {len(list(log.events()))} records"
        for query in web_log.start(spark, tmp_path, broker.bootstrap_servers, TOPICS):
            assert query.awaitTermination(STREAM_S), "the stream did not end"
            assert progress(query).total.rows == 0
        for topic, differences in zip(
            TOPICS, (log.event_differences, log.figure_differences), strict=True
        ):
            assert differences((each.key, each.value) for each in broker.records(topic)) == ""

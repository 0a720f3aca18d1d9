"""One Spark session and one Apache Kafka for all of this folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_jars
from kafka_cluster import KafkaCluster
from support.spark.sink import SparkSink, spark_session

# A session's first test starts a JVM, Kafka and Spark's Python processes.
FIRST_TEST_S = 600
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder the time that a JVM takes to start."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(FIRST_TEST_S))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Spark, local, with the jars of its own Kafka sink; its workers find this checkout."""
    changed = {
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([str(HERE.parent.parent), str(HERE.parent)]),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        with spark_session(spark_jars.resolve(), tmp_path_factory.mktemp("spark")) as session:
            yield session
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@pytest.fixture(params=[pytest.param("kafka", marks=pytest.mark.slow), "fastprod"])
def sink(request: pytest.FixtureRequest, spark: SparkSession, kafka: KafkaCluster) -> SparkSink:
    """Spark's own sink, then ours: both have to do the same, and Spark's stays as it is."""
    return SparkSink(request.param, spark, kafka.bootstrap_servers)


@pytest.fixture
def ours(spark: SparkSession, kafka: KafkaCluster) -> SparkSink:
    """Our sink alone, for what Spark's does not have."""
    return SparkSink("fastprod", spark, kafka.bootstrap_servers)

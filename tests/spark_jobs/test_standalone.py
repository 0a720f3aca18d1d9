"""The same job on a cluster of Spark's own: executors in other processes than the driver."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

import spark_jars
from conftest import TopicFactory
from kafka_cluster import KafkaCluster
from support.records.readers import stream_with_confluent
from support.spark.load_run import LoadRun, NumberedFiles
from support.spark.standalone import StandaloneCluster

JOB_S = 400.0
CONF = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": spark_jars.java_options(),
}


@pytest.mark.parametrize("engine", ["direct", pytest.param("spark", marks=pytest.mark.long)])
def test_a_load_on_a_standalone_cluster_sends_each_row_once(
    engine: str, kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path
) -> None:
    files = NumberedFiles(tmp_path / "input", 4, 5, 1_000)
    files.write()
    name, summary_path = topic(kafka, partitions=2), tmp_path / "summary"
    conf = [part for name, value in CONF.items() for part in ("--conf", f"{name}={value}")]
    with (
        StandaloneCluster() as cluster,
        LoadRun(
            *(str(files.folder), "--topic", name, "--bootstrap-servers", kafka.bootstrap_servers),
            *("--master", cluster.master, "--engine", engine, "--partitions", "10"),
            *("--progress", "json", "--summary", str(summary_path), *conf),
        ) as run,
    ):
        assert run.end(None, JOB_S) == 0, run.output()
        assert [cluster.executors_of(number) for number in range(2)] == [1, 1]
    summary = json.loads(summary_path.read_text())
    assert (summary["outcome"], summary["rows"]) == ("complete", files.row_count)
    copies = Counter(
        int((record.value or b"")[:9])
        for record in stream_with_confluent(kafka.bootstrap_servers, name)
    )
    assert copies == dict.fromkeys(range(files.row_count), 1)

"""Other people's admin clients change topics of our broker (B-D4)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)
from kafka.admin import KafkaAdminClient
from kafka.structs import TopicPartition

import kafka_jars
from fastprod import KafkaProducer
from fastprod.broker import Broker

TIMEOUT_S = 30.0
TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 2}) as opened:
        with KafkaProducer(bootstrap_servers=opened.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("t", b"%d" % number, partition=0)
        yield opened


def settings(broker: Broker) -> dict[str, str]:
    return broker._topic("t").config.overrides


def first_offset(broker: Broker) -> int:
    return broker._partition("t", 0).log.log_start_offset


def partition_count(broker: Broker) -> int:
    return len(broker._topic("t").partitions)


def test_confluents_admin_goes_on_after_the_first_node_was_away() -> None:
    """B-D4.5, B-D4.6: it goes on to ask the node that was the controller meanwhile."""
    with Broker(brokers=2) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        broker.nodes[0].down()
        admin.create_topics([NewTopic("t", 1)])["t"].result(TIMEOUT_S)
        broker.nodes[0].up()
        admin.create_topics([NewTopic("u", 1)])["u"].result(TIMEOUT_S)
        admin.create_partitions([NewPartitions("t", 5)])["t"].result(TIMEOUT_S)
        admin.delete_topics(["u"])["u"].result(TIMEOUT_S)
        assert broker.topic_names() == ["t"]
        assert partition_count(broker) == 5


def test_confluents_admin_changes_topics(broker: Broker) -> None:
    """B-D4.6, B-D4, B-C4.5: CreatePartitions, DeleteRecords, both ways of AlterConfigs."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    admin.create_partitions([NewPartitions("t", 5)])["t"].result(TIMEOUT_S)
    assert partition_count(broker) == 5
    with pytest.raises(confluent_kafka.KafkaException) as smaller:
        admin.create_partitions([NewPartitions("t", 3)])["t"].result(TIMEOUT_S)
    assert smaller.value.args[0].code() == confluent_kafka.KafkaError.INVALID_PARTITIONS
    place = confluent_kafka.TopicPartition("t", 0, 4)
    found = admin.delete_records([place])[place].result(TIMEOUT_S)
    assert (found.low_watermark, first_offset(broker)) == (4, 4)
    whole = ConfigResource("topic", "t", set_config={"retention.ms": "1000"})
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        replaced = admin.alter_configs([whole])
    replaced[whole].result(TIMEOUT_S)
    assert settings(broker) == {"retention.ms": "1000"}
    one = ConfigResource(
        "topic",
        "t",
        incremental_configs=[
            ConfigEntry("segment.ms", "2000", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    admin.incremental_alter_configs([one])[one].result(TIMEOUT_S)
    assert settings(broker) == {"retention.ms": "1000", "segment.ms": "2000"}
    assert len(admin.describe_cluster().result(TIMEOUT_S).nodes) == 1


def test_kafka_pythons_admin_changes_topics(broker: Broker) -> None:
    """B-D4, B-C4.5"""
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers.split(","))
    try:
        admin.create_partitions({"t": 4})
        assert partition_count(broker) == 4
        admin.delete_records({TopicPartition("t", 0): 6})
        assert first_offset(broker) == 6
    finally:
        admin.close()


def run(class_name: str, *args: str) -> str:
    done = kafka_jars.run_class(class_name, *args, timeout_s=2 * TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)  # several JVMs, one after the other
def test_kafkas_own_tools_change_topics(broker: Broker, tmp_path: Path) -> None:
    """B-D4, B-C4.5: kafka-topics.sh, kafka-configs.sh, kafka-delete-records.sh."""
    kafka_jars.resolve()
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    run(TOPICS, *servers, "--alter", "--topic", "t", "--partitions", "3")
    assert partition_count(broker) == 3
    wanted = tmp_path / "offsets.json"
    partitions = [{"topic": "t", "partition": 0, "offset": 7}]
    wanted.write_text(json.dumps({"partitions": partitions, "version": 1}))
    said = run(DELETE_RECORDS, *servers, "--offset-json-file", str(wanted))
    assert re.search(r"partition: t-0\s+low_watermark: 7", said)
    assert first_offset(broker) == 7
    entity = ("--alter", "--entity-type", "topics", "--entity-name", "t")
    run(CONFIGS, *servers, *entity, "--add-config", "retention.ms=1000,segment.ms=7")
    run(CONFIGS, *servers, *entity, "--delete-config", "segment.ms")
    assert settings(broker) == {"retention.ms": "1000"}


def sizes_in(folder: Path, topic: str) -> dict[str, int]:
    """Bytes of segments by partition."""
    return {
        each.name: sum(file.stat().st_size for file in each.glob("*.log"))
        for each in folder.glob(f"{topic}-*")
    }


def test_kafkas_tool_and_kafka_python_ask_for_folders_of_logs(tmp_path: Path) -> None:
    """B-D4.11: kafka-log-dirs.sh --describe."""
    kafka_jars.resolve()
    with Broker(topics={"t": 2, "u": 1}, data_dir=tmp_path) as broker:
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("t", b"%d" % number, partition=0)
        expected = sizes_in(tmp_path, "t")
        assert expected["t-0"] > 0
        assert expected["t-1"] == 0
        servers = ("--bootstrap-server", broker.bootstrap_servers)
        said = run(LOG_DIRS, *servers, "--describe", "--topic-list", "t")
        told = json.loads(said.strip().splitlines()[-1])
        (node,) = told["brokers"]
        (folder,) = node["logDirs"]
        assert (node["broker"], folder["logDir"], folder["error"]) == (0, str(tmp_path), None)
        assert {each["partition"]: each["size"] for each in folder["partitions"]} == expected
        assert {(each["offsetLag"], each["isFuture"]) for each in folder["partitions"]} == {
            (0, False)
        }
        admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers.split(","))
        try:
            (found,) = admin.describe_log_dirs({"t": [0]})
        finally:
            admin.close()
        (folder,) = found["log_dirs"]
        assert (found["broker"], folder["error_code"], folder["log_dir"]) == (0, 0, str(tmp_path))
        (topic,) = folder["topics"]
        assert topic["name"] == "t"
        assert [each["partition_size"] for each in topic["partitions"]] == [expected["t-0"]]

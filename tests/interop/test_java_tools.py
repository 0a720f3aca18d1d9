"""Kafka's verifiable and console tools on the embedded broker."""

from __future__ import annotations

import json
import subprocess
import time
from collections import defaultdict
from pathlib import Path

import pytest
from confluent_kafka import Producer

import kafka_jars
from fastprod.broker import Broker
from support.clients.client_table import ClientRow
from support.groups.java_member import JavaMember
from support.processes.scale import scaled
from support.records.readers import read_with_confluent

PARTITIONS = 3
COUNT = scaled(10_000, at_least=1_000)
WAIT_S = 30.0
TIMEOUT_S = 60.0
LINES = 60
VERIFIABLE = "org.apache.kafka.tools.VerifiableProducer"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"


def covered(member: JavaMember) -> dict[int, int]:
    """One past the last offset that the member has committed, by partition; there is no gap."""
    ends: dict[int, int] = defaultdict(int)
    for partition, first, last in list(member.committed):
        assert first == ends[partition], "it has read something twice, or left something out"
        ends[partition] = last + 1
    return ends


def send_verifiably(broker: Broker, settings: Path) -> dict[int, dict[int, bytes]]:
    """Have Kafka's tool send while a node goes down; value by offset of what was acknowledged.

    Args:
        broker: has more than one node.
        settings: the tool's file, written here: without it the tool sends nothing again.
    """
    settings.write_text(f"retries={2**31 - 1}\n")
    acknowledged: dict[int, dict[int, bytes]] = defaultdict(dict)
    command = kafka_jars.class_command(
        VERIFIABLE,
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", "t", "--acks", "-1"),
        *("--max-messages", str(COUNT), "--throughput", "1000"),
        *("--command-config", str(settings)),
    )
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as sender:
        try:
            assert sender.stdout is not None
            count = 0
            for said in map(json.loads, sender.stdout):
                if said["name"] == "tool_data":
                    assert (said["sent"], said["acked"]) == (COUNT, COUNT)
                if said["name"] != "producer_send_success":
                    assert said["name"] != "producer_send_error", json.dumps(said)
                    continue
                acknowledged[said["partition"]][said["offset"]] = said["value"].encode()
                count += 1
                if count == COUNT // 4:
                    broker.nodes[1].down()
            assert count == COUNT
        finally:
            sender.kill()
    assert sender.returncode == 0
    return acknowledged


@pytest.mark.slow
def test_kafkas_verifiable_tools_agree_on_each_record(
    client_row: ClientRow, tmp_path: Path
) -> None:
    """B-B2.4, B-D1, B-E2: what was acknowledged is there once, while a leader goes down."""
    kafka_jars.resolve()
    with Broker(brokers=3, topics={"t": PARTITIONS}, default_replication_factor=3) as broker:
        acknowledged = send_verifiably(broker, tmp_path / "producer.properties")
        found = read_with_confluent(broker.bootstrap_servers, "t")
        ends = {index: len(records) for index, records in found.items()}
        assert sum(ends.values()) == COUNT
        for index, records in found.items():
            assert {each.offset: each.value for each in records} == acknowledged[index]
        with JavaMember(broker.bootstrap_servers) as member:
            deadline = time.monotonic() + TIMEOUT_S
            while covered(member) != {index: end for index, end in ends.items() if end}:
                assert time.monotonic() < deadline, (member.committed, ends)
                time.sleep(0.05)
    client_row(
        "kafka-verifiable-producer.sh",
        f"{COUNT:,} records with acks=all to three replicas, one of which went down: each "
        "acknowledged one is there once, at the offset that it was told",
    )
    client_row(
        "kafka-verifiable-consumer.sh",
        f"reads and commits the {COUNT:,} records of kafka-verifiable-producer.sh, each once",
    )


def console(class_name: str, broker: Broker, *args: str, text: str = "") -> list[str]:
    command = kafka_jars.class_command(
        class_name, "--bootstrap-server", broker.bootstrap_servers, "--topic", "t", *args
    )
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def transact(servers: str, value: bytes, is_commit: bool) -> None:
    producer = Producer({"bootstrap.servers": servers, "transactional.id": "x", "log_level": 0})
    producer.init_transactions(WAIT_S)
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce("t", value, b"key", partition=partition)
    producer.flush(WAIT_S)
    (producer.commit_transaction if is_commit else producer.abort_transaction)(WAIT_S)


@pytest.mark.slow
@pytest.mark.timeout(300)  # several JVMs, one after the other
def test_kafkas_console_tools_write_lines_and_read_what_is_committed(client_row: ClientRow) -> None:
    """B-B2.4, B-C7.5: keys and values; aborted records between committed ones."""
    kafka_jars.resolve()
    lines = [f"key {number % 7}\tvalue {number}" for number in range(LINES)]
    with Broker(topics={"t": PARTITIONS}) as broker:
        console(
            CONSOLE_PRODUCER,
            broker,
            *("--reader-property", "parse.key=true", "--compression-codec", "zstd"),
            text="\n".join(lines) + "\n",
        )
        assert sum(broker.end_offset("t", each) for each in range(PARTITIONS)) == LINES
        transact(broker.bootstrap_servers, b"aborted", is_commit=False)
        transact(broker.bootstrap_servers, b"committed", is_commit=True)
        asked = ("--from-beginning", "--formatter-property", "print.key=true", "--max-messages")
        committed = [*lines, *["key\tcommitted"] * PARTITIONS]
        found = console(
            CONSOLE_CONSUMER,
            broker,
            *(*asked, str(len(committed)), "--isolation-level", "read_committed"),
        )
        assert sorted(found) == sorted(committed)
        everything = [*committed, *["key\taborted"] * PARTITIONS]
        found = console(CONSOLE_CONSUMER, broker, *asked, str(len(everything)))
        assert sorted(found) == sorted(everything)
    client_row("kafka-console-producer.sh", f"{LINES} lines with keys, compressed with zstd")
    client_row(
        "kafka-console-consumer.sh",
        "reads all records, or, as --isolation-level says, those that were committed",
    )

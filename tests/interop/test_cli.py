"""The command line against Apache Kafka: what it sends is read back by other people's clients."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

import kafka_admin
from conftest import TopicFactory
from fastprod.cli.command import fastprod
from fastprod.cli.commands import demo as demo_module
from fastprod.cli.output import progress_bar
from fastprod.cli.records import read_back
from fastprod.cli.records.read_back import ForeignReader
from kafka_cluster import KafkaCluster
from support.records.readers import (
    ReadRecord,
    end_offsets,
    read_with_confluent,
    read_with_kafka_python,
)
from support.security.secured_kafka import Secured

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
POLL_S = 0.05
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
COMMAND = "from fastprod.cli.command import main; main()"


def run(*arguments: str, input: bytes | None = None) -> Result:
    result = CliRunner().invoke(fastprod, arguments, input=input)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def everything(kafka: KafkaCluster, topic: str) -> list[ReadRecord]:
    """All records, by both readers, by partition and offset."""
    found = read_with_confluent(kafka.bootstrap_servers, topic)
    assert read_with_kafka_python(kafka.bootstrap_servers, topic) == found
    return [record for index in sorted(found) for record in found[index]]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline_s, "it did not come about in time"
        time.sleep(POLL_S)


class Child:
    """A command in a process group of its own, so that Ctrl-C can be pressed."""

    def __init__(self, code: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,
        )

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def type(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def press_ctrl_c(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> tuple[int, str, str]:
        """Wait; return exit code, output and errors."""
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, out.decode(), err.decode()


@pytest.mark.parametrize("codec", CODECS)
def test_produced_lines_come_back_byte_for_byte(
    kafka: KafkaCluster, topic: TopicFactory, codec: str
) -> None:
    name = topic(kafka)
    values = [bytes([number % 256]) * (number % 90) for number in range(500)]
    values = [value.replace(b"\n", b"") for value in values]
    data = b"".join(b"key %d\t%s\n" % (number, value) for number, value in enumerate(values))
    servers = kafka.bootstrap_servers
    options = ("-K", r"\t", "-H", "from=cli", "-H", "empty=", "--compression", codec)
    result = run("produce", name, "-", "-b", servers, *options, input=data)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"500 records delivered to {name} in ")
    found = everything(kafka, name)
    assert [record.value for record in found] == values
    assert [record.key for record in found] == [b"key %d" % number for number in range(500)]
    assert {record.headers for record in found} == {(("from", b"cli"), ("empty", b""))}
    assert {batch.fields["compresscodec"] for batch in kafka.dump_log(name, 0)} == {codec}


def test_a_protected_cluster_takes_lines_and_is_described(
    secured: Secured, topic: TopicFactory, tmp_path: Path
) -> None:
    name = topic(secured.kafka)
    path = tmp_path / "client.properties"
    path.write_text("\n".join(f"{key}={value}" for key, value in secured.client("SCRAM").items()))
    result = run("produce", name, "--command-config", str(path), input=b"one\ntwo\n")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [record.value for record in everything(secured.kafka, name)] == [b"one", b"two"]
    result = run("doctor", "--command-config", str(path))
    assert (result.exit_code, result.stderr) == (0, "")
    wrong = ("--command-config", str(path), "-X", "sasl.password=wr0ng")
    result = run("produce", name, *wrong, input=b"three\n")
    assert result.exit_code == 3
    assert "refused user 'ada' by SCRAM-SHA-512" in result.stderr
    assert "wr0ng" not in result.output


def test_lines_are_delivered_as_they_come_and_ctrl_c_is_exit_code_130(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka)
    with Child(COMMAND, "produce", name, "-b", kafka.bootstrap_servers) as child:
        child.type(b"one\ntwo\n")
        wait_until(lambda: end_offsets(kafka.bootstrap_servers, name) == {0: 2})
        child.press_ctrl_c()
        assert child.end() == (
            130,
            "",
            "fastprod produce: interrupted: 2 records delivered, 0 failed\n",
        )
    assert [record.value for record in everything(kafka, name)] == [b"one", b"two"]


def test_perf_counts_what_is_in_the_topic(kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(kafka, partitions=3)
    result = run(
        *("perf", "--topic", name, "--num-records", "3000", "--record-size", "64"),
        *("--warmup-records", "500", "--throughput", "-1", "--print-metrics", "--producer-props"),
        *(f"bootstrap.servers={kafka.bootstrap_servers}", "compression.type=zstd", "linger.ms=2"),
    )
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("delivered    3,000 records in ")
    found = everything(kafka, name)
    assert len(found) == 3500
    assert {len(record.value or b"") for record in found} == {64}


def test_perf_stopped_by_ctrl_c_tells_what_was_delivered(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka)
    options = (
        *("--num-records", "1000000000", "--record-size", "10", "--throughput", "2000"),
        *("--reporting-interval", "0"),  # no line of its progress, however long it takes
    )
    servers = kafka.bootstrap_servers
    with Child(COMMAND, "perf", "--topic", name, *options, "-b", servers) as child:
        wait_until(lambda: end_offsets(servers, name)[0] > 300)
        child.press_ctrl_c()
        code, out, err = child.end()
    assert code == 130
    delivered = end_offsets(servers, name)[0]
    assert out.startswith(f"delivered    {delivered:,} records in ")
    assert err == (
        f"fastprod perf: interrupted: {delivered:,} of {delivered:,} records sent were delivered\n"
    )


def test_doctor_describes_the_cluster(kafka: KafkaCluster, topic: TopicFactory) -> None:
    topic(kafka, partitions=3)
    result = run("doctor", "-b", f"127.0.0.1:1,{kafka.bootstrap_servers}")
    assert (result.exit_code, result.stderr) == (0, "")
    told = " ".join(result.stdout.split())
    assert "127.0.0.1:1 refused the connection" in told
    assert f"broker 1, announced as {kafka.bootstrap_servers}" in told
    assert "brokers 1 topics " in told
    assert "least Produce version 13" in told


@pytest.mark.parametrize(
    "reader",
    [
        ForeignReader("confluent-kafka", read_back._read_with_confluent),
        ForeignReader("kafka-python", read_back._read_with_kafka_python),
    ],
    ids=lambda reader: reader.name,
)
def test_the_demo_reads_back_what_it_sent_and_removes_its_topic(
    kafka: KafkaCluster, monkeypatch: pytest.MonkeyPatch, reader: ForeignReader
) -> None:
    monkeypatch.setattr(demo_module, "installed_reader", lambda: reader)
    # No line of its progress comes, however slow it is.
    monkeypatch.setattr(progress_bar, "time", SimpleNamespace(monotonic=lambda: 0.0))
    options = ("--records", "4000", "--record-size", "200", "--compression", "lz4")
    result = run("demo", "-b", kafka.bootstrap_servers, *options)
    assert (result.exit_code, result.stderr) == (0, "")
    told = " ".join(result.stdout.split())
    assert f"read back 4,000 records by {reader.name}" in told
    assert "count, content and order of each key are the same" in told
    topics = kafka_admin.connected(kafka.bootstrap_servers).list_topics(timeout=PATIENCE_S).topics
    assert not [name for name in topics if name.startswith("fastprod-demo-")]


def test_the_demo_has_a_broker_of_its_own_that_ends_with_it() -> None:
    """A foreign reader has compared what came back."""
    with Child(COMMAND, "demo", "--records", "2000") as child:
        code, out, err = child.end()
    assert code == 0, err
    assert re.search(r"read back +2,000 records by confluent-kafka .*are the same", out)
    assert not listens(broker_address(err))


def test_the_demos_own_broker_is_read_with_kafka_python(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = ForeignReader("kafka-python", read_back._read_with_kafka_python)
    monkeypatch.setattr(demo_module, "installed_reader", lambda: reader)
    result = run("demo", "--records", "4000", "--compression", "zstd")
    assert result.exit_code == 0, result.stderr
    told = " ".join(result.stdout.split())
    assert "read back 4,000 records by kafka-python" in told
    assert "count, content and order of each key are the same" in told


def test_the_demo_stopped_by_ctrl_c_ends_its_broker() -> None:
    with Child(COMMAND, "demo", "--records", "20000000") as child:
        assert child.process.stderr is not None
        first = child.process.stderr.readline().decode()
        wait_until(lambda: demo_topics(broker_address(first)) != [])
        child.press_ctrl_c()
        code, _, err = child.end()
    assert code == 130, err
    assert re.search(r"^fastprod( demo)?: interrupted", err, re.MULTILINE)
    assert not listens(broker_address(first))


def test_the_demos_broker_ends_when_the_demo_is_killed() -> None:
    with Child(COMMAND, "demo", "--records", "20000000") as child:
        assert child.process.stderr is not None
        address = broker_address(child.process.stderr.readline().decode())
        assert listens(address)
        child.process.kill()
        child.process.wait(PATIENCE_S)
        wait_until(lambda: not listens(address))


def broker_address(told: str) -> tuple[str, int]:
    found = re.search(r"a broker of our own at ([\d.]+):(\d+)", told)
    assert found is not None, told
    return found[1], int(found[2])


def listens(address: tuple[str, int]) -> bool:
    try:
        with socket.create_connection(address, PATIENCE_S):
            return True
    except ConnectionRefusedError:
        return False


def demo_topics(address: tuple[str, int]) -> list[str]:
    admin = kafka_admin.connected("{}:{}".format(*address))
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    return [name for name in topics if name.startswith("fastprod-demo-")]

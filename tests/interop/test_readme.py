"""Everything printed in README.md runs as it stands, against Apache Kafka.

The only changes: the address is the test cluster's, and the topic is the test's own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import TopicFactory
from fastprod import KafkaProducer
from kafka_cluster import KafkaCluster
from support.records.readers import end_offsets, read_with_confluent

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
COMMAND_TIMEOUT_S = 90.0


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def adapted(text: str, kafka: KafkaCluster, name: str) -> str:
    return text.replace("localhost:9092", kafka.bootstrap_servers).replace("orders", name)


COMMANDS = [line for block in blocks("sh") for line in block.splitlines()]


def test_the_python_printed_sends_what_it_says(
    kafka: KafkaCluster, topic: TopicFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    """In order, in one namespace, as somebody who reads from top to bottom runs it."""
    name = topic(kafka, partitions=3)
    names: dict[str, Any] = {}
    outputs = []
    for number, block in enumerate(blocks("python")):
        code = compile(adapted(block, kafka, name), f"README.md, block {number}", "exec")
        exec(code, names)
        outputs.append(capsys.readouterr().out)
    first, callbacks, bulk, awaited, settings, broker = outputs
    assert re.fullmatch(r"[0-2] 0\n", first)
    assert callbacks == ""
    assert bulk.startswith("100000 OffsetRange(")
    assert awaited == "True\n"
    assert "bootstrap_servers" in settings
    assert broker == "2 0 b'one espresso'\n"
    assert sum(end_offsets(kafka.bootstrap_servers, name).values()) == 101_011


def test_the_loop_printed_copies_each_record_once(kafka: KafkaCluster, topic: TopicFactory) -> None:
    source, target = topic(kafka), topic(kafka)
    inputs = [b"dish %d" % number for number in range(1_200)]
    with KafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send_many(source, inputs).result(COMMAND_TIMEOUT_S)
    (loop,) = blocks("python transactions")
    text = adapted(loop, kafka, source).replace("dishes", target).replace("kitchen", source)

    def copied() -> list[bytes | None]:
        (records,) = read_with_confluent(kafka.bootstrap_servers, target, committed=True).values()
        return [record.value for record in records]

    names = {"running": lambda: len(copied()) < len(inputs)}
    exec(compile(text, "README.md, transactions", "exec"), names)
    assert copied() == [value.upper() for value in inputs]


def test_make_demo_compares_what_it_sent() -> None:
    """What the target does once .venv is there, with fewer records."""
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    assert recipe[1].splitlines()[-1] == "\t$(BIN)/python -m fastprod demo"
    done = subprocess.run(
        [sys.executable, "-m", "fastprod", "demo", "--records", "2000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2,000" in done.stdout


def test_there_are_commands_to_run() -> None:
    assert {line.split("fastprod ")[1].split()[0] for line in COMMANDS} == {
        "doctor",
        "produce",
        "perf",
        "demo",
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_printed_runs(command: str, kafka: KafkaCluster, topic: TopicFactory) -> None:
    name = topic(kafka)
    done = subprocess.run(
        [
            *("bash", "-euo", "pipefail", "-c"),
            f'fastprod() {{ "{sys.executable}" -m fastprod "$@"; }}\n'
            + adapted(command, kafka, name),
        ],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if " produce " in command:
        (record,) = read_with_confluent(kafka.bootstrap_servers, name)[0]
        assert (record.key, record.value) == (b"table 7", b"one espresso")
    if " perf " in command:
        assert sum(end_offsets(kafka.bootstrap_servers, name).values()) == 100_000

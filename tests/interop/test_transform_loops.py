"""Each client's loop that reads, works and writes, on the embedded broker, killed many times."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import pytest

import kafka_jars
from fastprod import KafkaProducer
from support.broker import transform_loop
from support.broker.own_broker import OwnBroker
from support.clients.client_table import ClientRow
from support.processes.scale import scaled, time_limit
from support.records.readers import stream_with_confluent

COUNT = scaled(10_000)
QUICK = ("confluent-kafka", "fastprod")
# A transaction takes about as long: each kill is at another place in it.
SPREAD_S = 0.02
WAIT_S = 30.0
END_S = 300.0
# The smallest there is: the loop is at most so far ahead of what was read here.
PIPE_BYTES = 4096
JAVA = "Java (TransactionalMessageCopier)"
LOOP = Path(transform_loop.__file__)
# Kafka's tool waits for the session of the one before to end, for 10 s.
KILLS = {
    **dict.fromkeys(transform_loop.CLIENTS, scaled(10, at_least=2)),
    JAVA: scaled(10, at_least=1),
}


def command_of(client: str, servers: str) -> list[str]:
    if client != JAVA:
        return [sys.executable, str(LOOP), client, servers, str(COUNT)]
    return kafka_jars.class_command(
        "org.apache.kafka.tools.TransactionalMessageCopier",
        *("--broker-list", servers, "--input-topic", "source", "--input-partition", "0"),
        *("--output-topic", "target", "--transactional-id", transform_loop.TRANSACTIONAL_ID),
        *("--consumer-group", transform_loop.GROUP, "--use-group-metadata"),
        *("--transaction-size", str(transform_loop.AT_ONCE), "--enable-random-aborts"),
        # Else it would read the group's offsets before it ends the transaction that holds them.
        "--group-mode",
    )


def start(client: str, servers: str, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """A loop that says how far it is, which is read byte by byte; its complaints are in a log."""
    return subprocess.Popen(
        command_of(client, servers),
        stdout=subprocess.PIPE,
        stderr=log,
        bufsize=0,
        pipesize=PIPE_BYTES,
        env={"PYTHONPATH": str(LOOP.parents[2]), "PATH": ""},
    )


def await_transactions(worker: subprocess.Popen[bytes], count: int) -> None:
    """Until the loop has said that it has done so many."""
    assert worker.stdout is not None
    done: set[int] = set()
    while len(done) < count:
        line = worker.stdout.readline()
        assert line, "it has ended"
        copied = json.loads(line)
        # Java's says more, and says it while it waits, too.
        done.add(copied if isinstance(copied, int) else copied["totalProcessed"])
        done.discard(0)


@pytest.mark.parametrize(
    "client",
    [
        *(
            pytest.param(each, marks=[] if each in QUICK else pytest.mark.slow)
            for each in transform_loop.CLIENTS
        ),
        pytest.param(JAVA, marks=pytest.mark.long),
    ],
)
@time_limit(900)
def test_a_loop_that_is_killed_copies_each_record_once(
    client: str, tmp_path: Path, client_row: ClientRow
) -> None:
    """B-E4, KIP-447: kill -9 of the loop, and of the broker, between any two steps."""
    if client == JAVA:
        kafka_jars.resolve()
    values = [b"%d" % number for number in range(COUNT)]
    kills, chance = KILLS[client], random.Random(client)
    with (
        (tmp_path / "loops.log").open("wb") as log,
        OwnBroker(tmp_path, options=("--topic", "source:1", "--topic", "target:1")) as broker,
    ):
        servers = broker.bootstrap_servers
        with KafkaProducer(bootstrap_servers=servers) as producer:
            for value in values:
                producer.send("source", value)
        for kill in range(kills):
            with start(client, servers, log) as worker:
                try:
                    await_transactions(worker, chance.randint(2, 3))
                    time.sleep(chance.uniform(0, SPREAD_S))
                    assert worker.poll() is None
                    if kill % 2:
                        broker.kill()
                        broker.restart()
                finally:
                    worker.kill()
        with start(client, servers, log) as worker:
            try:
                worker.communicate(timeout=END_S)
            finally:
                worker.kill()
        assert worker.returncode == 0, (tmp_path / "loops.log").read_text()[-2_000:]
        found = stream_with_confluent(servers, "target", committed=True, timeout_s=WAIT_S)
        assert [each.value for each in found] == values
    if client != "fastprod":
        client_row(
            client,
            f"a consume-transform-produce loop of {COUNT:,} records, killed and restarted {kills} "
            f"times, the broker {kills // 2} times with it: each record exactly once",
        )

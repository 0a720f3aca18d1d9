"""Compacted topics of the embedded broker, as other people's programs see them (B-C4.6)."""

from __future__ import annotations

import re
import time
from pathlib import Path

import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

import kafka_jars
from fastprod.broker import Broker

KEYS = 50
ROUNDS = 60
TIMEOUT_S = 60.0
TOOL = "org.apache.kafka.tools.DumpLogSegments"
DAMAGE = re.compile(r"Mismatch|out of order|not found|Exception|corrupt", re.IGNORECASE)


def produce(servers: str, rounds: int) -> None:
    """Each key once a round; some of a transaction that is aborted."""
    settings = {"bootstrap.servers": servers, "compression.type": "lz4", "log_level": 0}
    plain = confluent_kafka.Producer({**settings, "enable.idempotence": True})
    aborting = confluent_kafka.Producer({**settings, "transactional.id": "x"})
    aborting.init_transactions(TIMEOUT_S)
    for number in range(rounds):
        for key in range(KEYS):
            plain.produce("t", b"%d " % number + b"x" * 800, b"%d" % key, partition=0)
        plain.flush(TIMEOUT_S)
        if number % 10 == 5:
            aborting.begin_transaction()
            aborting.produce("t", b"aborted", b"0", partition=0)
            aborting.abort_transaction(TIMEOUT_S)


def read_all(servers: str, end: int) -> dict[bytes, list[tuple[int, bytes]]]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "g", "log_level": 0, "check.crcs": True}
    )
    found: dict[bytes, list[tuple[int, bytes]]] = {}
    place = confluent_kafka.TopicPartition("t", 0, 0)
    try:
        consumer.assign([place])
        deadline = time.monotonic() + TIMEOUT_S
        while consumer.position([place])[0].offset < end:
            assert time.monotonic() < deadline
            for each in consumer.consume(500, 0.2):
                assert each.error() is None
                key, value, offset = each.key(), each.value(), each.offset()
                assert isinstance(key, bytes)
                assert isinstance(value, bytes)
                assert offset is not None
                found.setdefault(key, []).append((offset, value))
    finally:
        consumer.close()
    return found


def test_readers_have_the_newest_value_of_each_key(tmp_path: Path) -> None:
    """B-C4.6: confluent-kafka; kafka-dump-log finds no fault in the segments; so after a start."""
    kafka_jars.resolve()
    with Broker(data_dir=tmp_path, log_cleaner_backoff_ms=50, log_segment_bytes=1048576) as broker:
        servers = broker.bootstrap_servers
        admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
        config["delete.retention.ms"] = "0"
        admin.create_topics([NewTopic("t", 1, config=config)])["t"].result(TIMEOUT_S)
        produce(servers, ROUNDS)
        end = broker.end_offset("t", 0)
        log = broker._running().topics.partition("t", 0).log  # type: ignore[union-attr]
        deadline = time.monotonic() + TIMEOUT_S
        while log.cleaned_offset < log.segments()[-1].base_offset:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        active = log.segments()[-1].base_offset
        found = read_all(servers, end)
    for key in range(KEYS):
        records = found[b"%d" % key]
        assert records[-1][1].startswith(b"%d " % (ROUNDS - 1))
        # One of what was compacted, and what lies in the active segment.
        assert sum(offset < active for offset, _ in records) <= 1
        assert not any(value == b"aborted" for _, value in records)
    logs = ",".join(str(path) for path in sorted((tmp_path / "t-0").glob("*.log")))
    for more in (("--deep-iteration",), ("--index-sanity-check",)):
        done = kafka_jars.run_class(TOOL, *more, "--files", logs, timeout_s=TIMEOUT_S)
        assert done.returncode == 0, done.stderr
        assert not DAMAGE.search(done.stdout), done.stdout[:2000]
    with Broker(data_dir=tmp_path) as broker:
        assert read_all(broker.bootstrap_servers, end) == found

"""Groups of Java consumers on the embedded broker, which come and go while records come (B-E2)."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict

import pytest

import kafka_jars
from fastprod import KafkaProducer
from fastprod.broker import Broker
from support.clients.client_table import ClientRow
from support.groups.java_member import JavaMember

PARTITIONS = 6
RECORDS = 10_000
WAVES = 4
TIMEOUT_S = 60.0


def await_shares(members: list[JavaMember], count: int) -> None:
    """Wait until so many of them share the partitions."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        shares = [set(each.partitions) for each in members]
        having = [each for each in shares if each]
        if len(having) == count and sum(map(len, having)) == PARTITIONS:
            assert set().union(*having) == set(range(PARTITIONS))
            return
        assert time.monotonic() < deadline, shares
        time.sleep(0.02)


def send_wave(servers: str, wave: int) -> None:
    with KafkaProducer(bootstrap_servers=servers, linger_ms=5) as producer:
        for number in range(wave * RECORDS // WAVES, (wave + 1) * RECORDS // WAVES):
            producer.send("t", b"%d" % number, partition=number % PARTITIONS)


def assert_committed_once(members: list[JavaMember], ends: dict[int, int]) -> None:
    ranges: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for each in members:
        for partition, first, last in each.committed:
            ranges[partition].append((first, last))
    for partition, end in ends.items():
        position, missing = 0, 0
        for first, last in sorted(ranges[partition]):
            assert first >= position, (partition, first, position)
            missing += first - position
            position = last + 1
        # What the killed one committed without a chance to say so.
        assert missing <= 500, (partition, missing)
        assert position == end


@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_members_share_what_comes_each_record_once(
    protocol: str, client_row: ClientRow
) -> None:
    """B-E2, B-E3, B-B2.4: three; one leaves amid a wave, one is killed, one comes."""
    kafka_jars.resolve()
    with (
        contextlib.ExitStack() as all_of_them,
        Broker(
            topics={"t": PARTITIONS},
            group_consumer_session_timeout_ms=6000,
            group_consumer_heartbeat_interval_ms=1000,
        ) as broker,
    ):
        servers = broker.bootstrap_servers
        members = [all_of_them.enter_context(JavaMember(servers, "t", protocol)) for _ in range(3)]
        await_shares(members, 3)
        send_wave(servers, 0)
        deadline = time.monotonic() + TIMEOUT_S
        # Each has its share of the first wave before one of them goes.
        while not all(each.count for each in members):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        senders = threading.Thread(target=send_wave, args=(servers, 1))
        senders.start()
        members[0].stop()
        senders.join(TIMEOUT_S)
        await_shares(members[1:], 2)
        members.append(all_of_them.enter_context(JavaMember(servers, "t", protocol)))
        await_shares(members[1:], 3)
        send_wave(servers, 2)
        members[1].stop(kills=True)
        members[1].partitions = set()
        send_wave(servers, 3)
        deadline = time.monotonic() + TIMEOUT_S
        ends = {each: broker.end_offset("t", each) for each in range(PARTITIONS)}
        while True:
            code, found = broker._running().group_coordinator.offsets.fetch("g", None, 0)
            positions = {place[1]: each.offset for place, each in found.items()}
            if code == 0 and positions == ends:
                break
            assert time.monotonic() < deadline, (positions, ends)
            time.sleep(0.02)
        await_shares(members[2:], 2)
        for each in members[2:]:
            each.stop()
    assert_committed_once(members, ends)
    assert all(each.count > 0 for each in members)
    client_row(
        "kafka-verifiable-consumer.sh",
        f"a group by the {protocol} protocol reads {RECORDS:,} records while they come, one "
        "leaves, one is killed and one comes: each committed once",
    )

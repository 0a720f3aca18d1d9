"""Other people's consumers in groups that the embedded broker assigns (B-E3, KIP-848)."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

import kafka_jars
from fastprod import KafkaProducer
from fastprod.broker import Broker
from fastprod.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from support.broker.own_broker import OwnBroker
from support.broker.world import wait_for
from support.clients.client_table import ClientRow
from support.groups.group_members import AssignedConfluentMember, Ledger, Member, churn, work

PARTITIONS = 6
RECORDS = 10_000
TIMEOUT_S = 60.0
GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": PARTITIONS}, group_consumer_heartbeat_interval_ms=100) as started:
        yield started


def fill(servers: str, count: int = RECORDS) -> Ledger:
    """Records with their numbers, in turn; returns a ledger that expects them."""
    with KafkaProducer(bootstrap_servers=servers, linger_ms=5) as producer:
        for number in range(count):
            producer.send("t", b"%d" % number, partition=number % PARTITIONS)
    return Ledger({each: len(range(each, count, PARTITIONS)) for each in range(PARTITIONS)})


def assert_each_once(ledger: Ledger, count: int = RECORDS) -> None:
    assert ledger.faults == []
    assert sorted(map(int, ledger.values)) == list(range(count))


def member_of(broker: Broker | OwnBroker, **settings: Any) -> Member:
    return AssignedConfluentMember(broker.bootstrap_servers, "t", "g", **settings)


def the_group(broker: Broker) -> ConsumerGroup:
    (group,) = broker._running().group_coordinator.manager.all_items()
    assert isinstance(group, ConsumerGroup)
    return group


def test_a_group_reads_each_record_while_members_come_and_go(
    broker: Broker, client_row: ClientRow
) -> None:
    """B-E3, B-B2.1: what was committed is not read again, and is what the broker has."""
    ledger = fill(broker.bootstrap_servers)
    counts = churn(lambda number: member_of(broker), ledger)
    assert_each_once(ledger)
    assert len(counts) > 6
    code, found = broker._running().group_coordinator.offsets.fetch("g", None, 0)
    assert code == 0
    assert {place[1]: each.offset for place, each in found.items()} == ledger.positions
    wait_for(lambda: the_group(broker).state_name == "Empty")
    client_row(
        "confluent-kafka",
        f"a group that the broker assigns (KIP-848), whose members come and go, reads {RECORDS:,} "
        "records, each committed once",
    )


def test_an_instance_that_restarts_has_what_it_had(broker: Broker) -> None:
    """B-E3: static members; the group's epoch stays, nothing moves."""
    ledger = fill(broker.bootstrap_servers, 60)
    stopped = threading.Event()
    members = [member_of(broker, **{"group.instance.id": f"instance {each}"}) for each in (0, 1)]
    deadline = time.monotonic() + TIMEOUT_S
    group = None
    while group is None or len(group.members) < 2 or group.state_name != "Stable":
        assert time.monotonic() < deadline
        for each in members:
            each.poll()
        found = broker._running().group_coordinator.manager.all_items()
        group = found[0] if found and isinstance(found[0], ConsumerGroup) else None
    epoch, before = group.epoch, {each.instance_id: each for each in group.members.values()}
    members[0].close()
    wait_for(lambda: {each.member_epoch for each in group.members.values()} == {-2, epoch})
    again = member_of(broker, **{"group.instance.id": "instance 0"})
    while group.state_name != "Stable":
        assert time.monotonic() < deadline
        again.poll()
        members[1].poll()
    after = {each.instance_id: each for each in group.members.values()}
    assert group.epoch == epoch
    assert {id: each.assigned for id, each in after.items()} == {
        id: each.assigned for id, each in before.items()
    }
    members[1].close()
    work(again, ledger, 0, stopped)


def test_a_group_goes_on_when_its_coordinator_goes_down() -> None:
    """B-E1, B-E3: another node takes over, with members, assignments and offsets."""
    with Broker(brokers=3, topics={"t": PARTITIONS}) as broker:
        ledger = fill(broker.bootstrap_servers, 6000)
        manager = broker._running().group_coordinator.manager
        ledger.plan(1500, lambda: broker.nodes[manager.leader_of("g")].down())
        churn(lambda number: member_of(broker), ledger, turn=2000)
        assert [node.is_up for node in broker.nodes].count(False) == 1
        assert_each_once(ledger, 6000)


def test_a_killed_broker_has_members_and_what_they_committed(tmp_path: Path) -> None:
    """B-E3: kill -9; the same member goes on with the next process, in its epoch."""
    with OwnBroker(tmp_path, options=("--topic", f"t:{PARTITIONS}")) as broker:
        ledger = fill(broker.bootstrap_servers, 3000)
        member = member_of(broker)
        stopped, killed = threading.Event(), threading.Event()

        def kill() -> None:
            broker.kill()
            killed.set()

        ledger.plan(500, kill)
        worker = threading.Thread(target=work, args=(member, ledger, 3000, stopped))
        worker.start()
        try:
            assert killed.wait(TIMEOUT_S)
            broker.restart()
            worker.join(TIMEOUT_S)
            assert not worker.is_alive()
        finally:
            stopped.set()
            worker.join(TIMEOUT_S)
        assert_each_once(ledger, 3000)


def run(class_name: str, *args: str) -> str:
    done = kafka_jars.run_class(class_name, *args, timeout_s=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(300)  # several JVMs, one after the other
def test_tools_and_admin_clients_see_the_group(tmp_path: Path) -> None:
    """B-E3: kafka-consumer-groups.sh, confluent-kafka's admin client, kafka-dump-log."""
    kafka_jars.resolve()
    with Broker(data_dir=tmp_path, topics={"t": PARTITIONS}) as broker:
        ledger = fill(broker.bootstrap_servers, 60)
        member = member_of(broker)
        stopped = threading.Event()
        worker = threading.Thread(target=work, args=(member, ledger, 61, stopped))
        worker.start()
        try:
            worker.join(TIMEOUT_S)
            member = member_of(broker)
            while not the_group(broker).members:
                member.poll()
            admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
            described = admin.describe_consumer_groups(["g"])["g"].result(TIMEOUT_S)
            assert described.type.name == "CONSUMER"
            (found,) = described.members
            assert len(found.assignment.topic_partitions) == PARTITIONS
            servers = ("--bootstrap-server", broker.bootstrap_servers)
            listed = run(GROUP_COMMAND, *servers, "--list", "--type", "--state")
            assert re.findall(r"^g +(\w+) +(\w+)", listed, re.MULTILINE) == [("Consumer", "Stable")]
            text = run(GROUP_COMMAND, *servers, "--group", "g", "--describe")
            assert re.findall(r"^g +t +(\d) +10 +10 +0 ", text, re.MULTILINE) == [*"012345"]
            told = run(GROUP_COMMAND, *servers, "--group", "g", "--describe", "--members")
            assert len(re.findall(r"^g .* /127.0.0.1 .* 6 *$", told, re.MULTILINE)) == 1, told
        finally:
            stopped.set()
            worker.join(TIMEOUT_S)
            member.close()
    segments = [path for path in tmp_path.glob("__consumer_offsets-*/*.log") if path.stat().st_size]
    assert len(segments) == 1
    dumped = run(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--offsets-decoder", "--files", str(segments[0])),
    )
    keys = [json.loads(each) for each in re.findall(r"key: (\{.*?\}\}) payload", dumped)]
    assert {each["type"] for each in keys} == {*"135678"}, dumped

"""Other people's consumer groups on the embedded broker (B-E1, B-E2)."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import kafka
import pytest
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient

import kafka_jars
from fastprod import KafkaProducer
from fastprod.broker import Broker
from fastprod.broker.coordinator.group.group_metadata import GroupMetadata
from support.broker.own_broker import OwnBroker
from support.clients.client_table import ClientRow
from support.groups.group_members import MEMBERS, ConfluentMember, Ledger, Member, churn, work

PARTITIONS = 6
RECORDS = 10_000
TIMEOUT_S = 60.0
GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"

# kafka-python leaves a socket to the garbage collector that it was connecting as it was closed.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": PARTITIONS}) as started:
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


@pytest.mark.parametrize("client", MEMBERS)
def test_a_group_reads_each_record_while_members_come_and_go(
    client: str, broker: Broker, client_row: ClientRow
) -> None:
    """B-E2, B-B2.1, B-B2.2, B-B2.3: what was committed is not read again."""
    ledger = fill(broker.bootstrap_servers)
    counts = churn(lambda number: MEMBERS[client](broker.bootstrap_servers, "t", "g"), ledger)
    assert_each_once(ledger)
    assert len(counts) > 6
    assert broker.topic_names() == ["t"]
    client_row(
        client, f"a group whose members come and go reads {RECORDS:,} records, each committed once"
    )


def test_clients_of_all_kinds_are_one_group(broker: Broker) -> None:
    """B-E2: they have a protocol in common, and take each other's assignments."""
    ledger = fill(broker.bootstrap_servers)
    kinds = list(MEMBERS.values())
    churn(lambda number: kinds[number](broker.bootstrap_servers, "t", "g"), ledger)
    assert_each_once(ledger)


def test_static_members_restart_without_a_rebalance(broker: Broker) -> None:
    """B-E2, KIP-345: librdkafka's instances, one after the other."""
    ledger = fill(broker.bootstrap_servers, 2000)

    def make(number: int) -> Member:
        # Long enough that none of them is taken for dead between two turns.
        settings = {"group.instance.id": f"instance {number}", "session.timeout.ms": 60_000}
        return ConfluentMember(broker.bootstrap_servers, "t", "g", **settings)

    churn(make, ledger, turn=200)
    assert_each_once(ledger, 2000)
    coordinator = broker._running().group_coordinator
    # Two rebalances for each that came; none when they came again.
    (group,) = coordinator.manager.all_items()
    assert isinstance(group, GroupMetadata)
    assert group.generation_id <= 6


def test_a_group_goes_on_when_its_coordinator_goes_down() -> None:
    """B-E1: another node takes over, with members and offsets."""
    with Broker(brokers=3, topics={"t": PARTITIONS}) as broker:
        ledger = fill(broker.bootstrap_servers, 6000)
        manager = broker._running().group_coordinator.manager

        def make(number: int) -> Member:
            return ConfluentMember(broker.bootstrap_servers, "t", "g")

        ledger.plan(1500, lambda: broker.nodes[manager.leader_of("g")].down())
        churn(make, ledger, turn=2000)
        assert [node.is_up for node in broker.nodes].count(False) == 1
        assert_each_once(ledger, 6000)


def test_a_killed_broker_has_what_was_committed(tmp_path: Path) -> None:
    """B-E2: kill -9; the same member goes on with the next process."""
    with OwnBroker(tmp_path, options=("--topic", f"t:{PARTITIONS}")) as broker:
        ledger = fill(broker.bootstrap_servers, 3000)
        member = ConfluentMember(broker.bootstrap_servers, "t", "g")
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
def test_javas_console_consumer_goes_on_where_it_has_committed(
    broker: Broker, client_row: ClientRow
) -> None:
    """B-E2, B-B2.4"""
    kafka_jars.resolve()
    fill(broker.bootstrap_servers, 300)
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    asked = (*servers, "--topic", "t", "--group", "g", "--from-beginning", "--max-messages")
    first = run(CONSOLE, *asked, "100").split()
    second = run(CONSOLE, *asked, "200").split()
    assert (len(first), len(second)) == (100, 200)
    assert sorted(map(int, first + second)) == list(range(300))
    committed = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    (found,) = committed.list_consumer_group_offsets(
        [confluent_kafka.ConsumerGroupTopicPartitions("g")]
    ).values()
    offsets = {each.partition: each.offset for each in found.result(TIMEOUT_S).topic_partitions}
    assert offsets == dict.fromkeys(range(PARTITIONS), 50)
    client_row("kafka-console-consumer.sh", "goes on where its group has committed")


@pytest.mark.slow
@pytest.mark.timeout(300)  # several JVMs, one after the other
def test_javas_group_command_lists_describes_resets_and_deletes(
    broker: Broker, client_row: ClientRow
) -> None:
    """B-E2: kafka-consumer-groups.sh."""
    kafka_jars.resolve()
    ledger = fill(broker.bootstrap_servers, 600)
    member = ConfluentMember(broker.bootstrap_servers, "t", "g")
    work(member, ledger, 600, threading.Event())
    servers = ("--bootstrap-server", broker.bootstrap_servers)
    asked = (GROUP_COMMAND, *servers, "--group", "g")
    assert run(GROUP_COMMAND, *servers, "--list").split() == ["g"]
    described = run(*asked, "--describe")
    assert re.findall(r"^g +t +(\d) +100 +100 +0 ", described, re.MULTILINE) == [*"012345"]
    state = run(*asked, "--describe", "--state")
    assert "Empty" in state
    reset = run(*asked, "--reset-offsets", "--topic", "t", "--to-earliest", "--execute")
    assert len(re.findall(r"^g +t +\d +0 *$", reset, re.MULTILINE)) == PARTITIONS
    described = run(*asked, "--describe")
    assert len(re.findall(r"^g +t +\d +0 +100 +100 ", described, re.MULTILINE)) == PARTITIONS
    run(*asked, "--delete-offsets", "--topic", "t:0")
    run(*asked, "--delete")
    assert run(GROUP_COMMAND, *servers, "--list").split() == []
    client_row("kafka-consumer-groups.sh", "lists, describes, resets and deletes a group")


def test_admin_clients_see_groups(broker: Broker) -> None:
    """B-E2: confluent-kafka's and kafka-python's."""
    fill(broker.bootstrap_servers, 60)
    member = ConfluentMember(broker.bootstrap_servers, "t", "g")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    other = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers.split(","))
    try:
        while not member.poll():
            pass
        listed = admin.list_consumer_groups().result(TIMEOUT_S)
        assert [(each.group_id, each.state.name) for each in listed.valid] == [("g", "STABLE")]
        described = admin.describe_consumer_groups(["g"])["g"].result(TIMEOUT_S)
        assert described.partition_assignor == "roundrobin"
        (found,) = described.members
        assert len(found.assignment.topic_partitions) == PARTITIONS
        assert found.host == "/127.0.0.1"
        groups = other.list_groups()
        assert [each["group_id"] for each in groups] == ["g"]
    finally:
        member.close()
        other.close()
    admin.delete_consumer_groups(["g"])["g"].result(TIMEOUT_S)
    assert admin.list_consumer_groups().result(TIMEOUT_S).valid == []


def test_kafkas_tool_reads_what_is_kept_of_groups(tmp_path: Path) -> None:
    """B-E2: kafka-dump-log --offsets-decoder."""
    kafka_jars.resolve()
    with Broker(data_dir=tmp_path, topics={"t": PARTITIONS}) as broker:
        ledger = fill(broker.bootstrap_servers, 60)
        member = ConfluentMember(broker.bootstrap_servers, "t", "g")
        work(member, ledger, 60, threading.Event())
    segments = [path for path in tmp_path.glob("__consumer_offsets-*/*.log") if path.stat().st_size]
    assert len(segments) == 1
    dumped = run(
        "org.apache.kafka.tools.DumpLogSegments",
        *("--offsets-decoder", "--files", str(segments[0])),
    )
    keys = [json.loads(each) for each in re.findall(r"key: (\{.*?\}\}) payload", dumped)]
    kinds = {each["type"] for each in keys}
    assert kinds == {"1", "2"}, dumped
    places = {each["data"]["partition"] for each in keys if each["type"] == "1"}
    assert places == set(range(PARTITIONS))
    assert '"protocolType":"consumer"' in dumped


def test_a_simple_consumer_keeps_offsets_without_members(broker: Broker) -> None:
    """B-E2: assign and commit."""
    fill(broker.bootstrap_servers, 60)
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers.split(","), group_id="simple"
    )
    place = kafka.TopicPartition("t", 1)
    try:
        consumer.assign([place])
        consumer.seek(place, 7)
        consumer.commit({place: kafka.structs.OffsetAndMetadata(7, "note", -1)})
        assert consumer.committed(place) == 7
    finally:
        consumer.close()

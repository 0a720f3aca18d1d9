"""Broker: the public face."""

from __future__ import annotations

import enum
import errno
import os
import re
import socket
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fastprod import KafkaProducer
from fastprod.broker import Broker
from fastprod.broker.broker import BrokerTopicError
from fastprod.broker.log.log import Log
from fastprod.broker.server.node_services import NodeServices
from fastprod.broker.stored_record import StoredRecord
from fastprod.broker.threads.clock import FakeClock
from fastprod.errors import ConfigError, IllegalStateError
from support.broker.world import batch_of
from support.processes import child_python, forking

TIMEOUT_S = 20.0


def send(broker: Broker, *values: bytes, topic: str = "t", **words: Any) -> None:
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send(topic, value, **words).result(TIMEOUT_S)


def test_a_record_that_was_sent_is_stored() -> None:
    with Broker(topics={"t": 2}) as broker:
        send(broker, b"v", key=b"k", partition=1, timestamp_ms=5, headers=[("h", b"x")])
        stored = StoredRecord(1, 0, 5, b"k", b"v", (("h", b"x"),))
        assert broker.records("t") == broker.records("t", 1) == [stored]
        assert broker.records("t", 0) == []
        assert (broker.end_offset("t", 0), broker.end_offset("t", 1)) == (0, 1)
        assert [each.version for each in broker.requests("Produce")] == [13]


def test_records_and_requests_can_be_looked_at_after_the_end() -> None:
    with Broker(topics={"t": 1}) as broker:
        send(broker, b"v")
    assert [each.value for each in broker.records("t")] == [b"v"]
    assert broker.requests("Produce")


def test_topics_are_given_by_name_or_with_a_number_of_partitions() -> None:
    with Broker(topics=["a", "b"], num_partitions=3) as broker:
        assert broker.topic_names() == ["a", "b"]
        assert broker.end_offset("a", 2) == 0
    with Broker(topics={"a": 2}) as broker, pytest.raises(BrokerTopicError, match="0 to 1, not 2"):
        broker.end_offset("a", 2)


def test_topics_are_made_and_deleted() -> None:
    with Broker() as broker:
        broker.create_topic("t", 2, config={"retention.ms": "5"})
        with pytest.raises(BrokerTopicError, match="already exists") as again:
            broker.create_topic("t")
        assert (again.value.code, again.value.topic) == (36, "t")
        broker.delete_topic("t")
        with pytest.raises(BrokerTopicError, match="no topic 't'"):
            broker.delete_topic("t")
        with pytest.raises(BrokerTopicError, match="there are none"):
            broker.records("t")


def test_several_nodes_share_topics_and_lead_them_in_turn() -> None:
    with Broker(brokers=3, topics={"t": 3}) as broker:
        assert len(broker.bootstrap_servers.split(",")) == 3
        assert [broker.leader("t", each) for each in range(3)] == [0, 1, 2]
        assert broker.controller_id == 0
        for partition in range(3):
            send(broker, b"%d" % partition, partition=partition)
        asked = {each.node_id for each in broker.requests("Produce")}
        assert asked == {0, 1, 2}
        assert [each.value for each in broker.records("t")] == [b"0", b"1", b"2"]


def test_a_producer_follows_a_leader_that_moves() -> None:
    with (
        Broker(brokers=2, topics={"t": 1}) as broker,
        KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        producer.send("t", b"before").result(TIMEOUT_S)
        assert broker.move_leader("t", 0, 1) == 1
        producer.send("t", b"after").result(TIMEOUT_S)
        assert [each.value for each in broker.records("t")] == [b"before", b"after"]
        assert broker.requests("Produce")[-1].node_id == 1
        with pytest.raises(ValueError, match="there are 0 to 1"):
            broker.move_leader("t", 0, 2)


def test_a_folder_keeps_records_over_restarts(tmp_path: Path) -> None:
    with Broker(topics={"t": 1}, data_dir=tmp_path) as broker:
        send(broker, b"first")
        cluster_id = broker.cluster_id
    with Broker(topics={"t": 5}, data_dir=tmp_path) as broker:
        assert broker.cluster_id == cluster_id
        send(broker, b"second")
        assert [each.value for each in broker.records("t")] == [b"first", b"second"]
        with pytest.raises(BrokerTopicError, match="partitions 0 to 0"):
            broker.leader("t", 1)


def test_topics_whose_names_are_more_than_text_are_there_after_a_restart(tmp_path: Path) -> None:
    class Topics(str, enum.Enum):  # noqa: UP042
        FIRST = "t"
        LATER = "later"

    with Broker(topics={Topics.FIRST: 1}, data_dir=tmp_path) as broker:
        broker.create_topic(Topics.LATER)
        send(broker, b"first")
        assert len(broker.records(Topics.FIRST)) == 1
    with Broker(data_dir=tmp_path) as broker:
        assert broker.topic_names() == ["later", "t"]
        assert [each.value for each in broker.records("t")] == [b"first"]


def test_two_brokers_do_not_share_a_folder(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path), pytest.raises(ConfigError, match="another broker"):
        Broker(data_dir=tmp_path).start()


def test_a_broker_that_discards_answers_and_keeps_nothing() -> None:
    with Broker(topics={"t": 1}, discard=True) as broker:
        send(broker, b"a", b"b")
        assert (broker.end_offset("t", 0), broker.records("t")) == (2, [])


def test_old_records_go_when_the_test_wants_it() -> None:
    """B-C4.5"""
    clock = FakeClock()
    broker = Broker(
        topics={"t": 2},
        clock=clock,
        log_retention_ms=60_000,
        log_message_timestamp_type="LogAppendTime",
    )
    with broker:
        for partition in (0, 1):
            send(broker, b"a", partition=partition)
        clock.advance(60_000)
        assert broker.run_retention_now() == 0
        clock.advance(1)
        assert broker.run_retention_now() == 2
        send(broker, b"b", partition=1)
        assert [(each.offset, each.value) for each in broker.records("t")] == [(1, b"b")]
    with pytest.raises(IllegalStateError, match="stopped"):
        broker.run_retention_now()


def test_records_are_stamped_by_the_clock_it_was_given() -> None:
    with Broker(
        topics={"t": 1}, clock=FakeClock(1234), log_message_timestamp_type="LogAppendTime"
    ) as broker:
        send(broker, b"a")
        assert broker.records("t")[0].timestamp == 1234


def test_a_fixed_port_can_be_had_and_had_again_at_once() -> None:
    with Broker() as first:
        port = first.nodes[0].port
        with pytest.raises(OSError, match=str(port)):
            Broker(port=port).start()
    with Broker(port=port) as second:
        assert second.nodes[0].port == port


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"brokers": 0}, "brokers"),
        ({"brokers": 101}, "brokers"),
        ({"brokers": "1"}, "brokers"),
        ({"port": 65_536}, "port"),
        ({"port": 65_535, "brokers": 2}, "port"),
        ({"topics": "t"}, "topics"),
        ({"discard": True, "data_dir": "anywhere"}, "discard"),
        ({"validation": "half"}, "validation"),
        ({"max_versions": "0.9"}, "max_versions"),
        ({"versions": {"Produce": 99}}, "versions"),
        ({"num_partition": 3}, "num_partition"),
        ({"topics": {"t": "3"}}, "topics"),
        ({"topics": [("t", 3)]}, "topics"),
        ({"port": "9092"}, "port"),
        ({"host": None}, "host"),
        ({"data_dir": ""}, "data_dir"),
        ({"versions": {"Produce": "3"}}, "versions"),
        ({"versions": {"Produce": (3,)}}, "versions"),
    ],
)
def test_an_argument_that_cannot_be_is_named(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Broker(**arguments)
    assert refused.value.key == named


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_connections_per_ip_overrides", "127.0.0.1"),
        ("max_connections_per_ip_overrides", "no.such.host.invalid:1"),
        ("max_connections_per_ip", 0),
    ],
)
def test_a_limit_of_connections_that_cannot_be_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name) as refused:
        Broker(**{name: value}).start()
    assert refused.value.key == name


@pytest.mark.parametrize("topics", [{"not legal": 1}, {"t": 0}, ["__consumer_offsets"]])
def test_a_first_topic_that_cannot_be_stops_the_start(topics: Any) -> None:
    broker = Broker(topics=topics)
    with pytest.raises(ConfigError) as refused:
        broker.start()
    assert refused.value.key == "topics"


def test_a_broker_is_started_once_and_stopped_as_often_as_you_like() -> None:
    broker = Broker()
    with pytest.raises(IllegalStateError, match="not started"):
        _ = broker.bootstrap_servers
    with broker.start() as entered:
        assert entered is broker
        address = (broker.nodes[0].host, broker.nodes[0].port)
    broker.stop()
    with pytest.raises(IllegalStateError, match="started before"):
        broker.start()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, TIMEOUT_S)


@pytest.mark.parametrize("stuck", ["purgatory", "overflow_worker", "log_upkeep", "node"])
def test_a_stop_that_takes_too_long_closes_everything_else(
    stuck: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-A2.9"""

    def takes_too_long() -> None:
        raise TimeoutError(f"{stuck} has not ended")

    broker = Broker(brokers=2, topics=["t"], data_dir=tmp_path).start()
    ports = [node.port for node in broker.nodes]
    state = broker._state
    assert state is not None
    part = broker._servers[1] if stuck == "node" else getattr(state, stuck)
    close = part.close
    monkeypatch.setattr(part, "close", takes_too_long)
    with pytest.raises(TimeoutError, match=f"{stuck} has not ended"):
        broker.stop()
    close()
    for port in ports:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5.0)
    with Broker(brokers=2, data_dir=tmp_path) as again:
        assert again.topic_names() == ["t"]


def test_a_broker_that_is_stopped_does_not_start() -> None:
    broker = Broker()
    broker.stop()
    with pytest.raises(IllegalStateError, match="stopped"):
        broker.start()


def test_a_broker_that_is_stopped_is_no_block() -> None:
    with Broker() as broker:
        pass
    with pytest.raises(IllegalStateError, match="stopped"), broker:
        pass


def test_every_stop_returns_when_the_broker_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker().start()
    closes, may_go_on = threading.Event(), threading.Event()
    close = NodeServices.close

    def wait_and_close(state: NodeServices) -> None:
        closes.set()
        assert may_go_on.wait(TIMEOUT_S)
        close(state)

    monkeypatch.setattr(NodeServices, "close", wait_and_close)
    threads = [threading.Thread(target=broker.stop) for _ in range(2)]
    threads[0].start()
    assert closes.wait(TIMEOUT_S)
    threads[1].start()
    threads[1].join(0.2)
    waited = threads[1].is_alive()
    may_go_on.set()
    for thread in threads:
        thread.join(TIMEOUT_S)
    assert waited


def test_a_stop_within_a_stop_returns() -> None:
    """A signal's handler may stop it while the main thread does."""
    broker = Broker().start()
    stops: list[str] = []

    def stop_again(_state: NodeServices) -> None:
        broker.stop()
        stops.append("again")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(NodeServices, "begin_close", stop_again)
        broker.stop()
    assert stops[0] == "again"


def has_ipv6() -> bool:
    """Whether this machine itself lets a server listen on ::1."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


def test_an_ipv6_address_stands_in_brackets() -> None:
    """Clients take the colons for the port's otherwise."""
    broker = Broker(host="::1", topics=["t"])
    if not has_ipv6():
        with pytest.raises(OSError, match="::1"):
            broker.start()
        return
    with broker.start():
        assert broker.bootstrap_servers == f"[::1]:{broker.nodes[0].port}"
        assert repr(broker.nodes[0]) == f"Node(0, [::1]:{broker.nodes[0].port}, up)"
        send(broker, b"v")
        assert len(broker.records("t")) == 1


def test_its_text_says_where_it_is_and_what_it_has() -> None:
    broker = Broker(brokers=2, topics=["a", "b"], sasl_users={"u": "secret"})
    assert repr(broker) == "<Broker not started, 2 nodes>"
    with broker:
        where = broker.bootstrap_servers
        assert repr(broker) == f"<Broker {where} running, 2 nodes, 2 topics>"
        broker.nodes[1].down()
        assert repr(broker) == f"<Broker {where} running, 2 nodes (1 down), 2 topics>"
    assert repr(broker) == f"<Broker {where} stopped, 2 nodes, 2 topics>"


def test_the_text_of_a_parents_broker_names_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    with Broker() as broker, monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        told = repr(broker)
    assert told == f"<Broker of process {os.getpid()}>"


def test_records_can_be_looked_at_while_old_ones_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """B-C4.5"""
    values = [letter * 600_000 for letter in (b"a", b"b", b"c")]
    with Broker(topics=["t"], log_retention_bytes=700_000, log_segment_bytes=1 << 20) as broker:
        send(broker, *values)
        read = Log.read

        def drop_and_read(log: Log, *arguments: Any) -> Any:
            assert broker.run_retention_now() == 1
            monkeypatch.undo()
            return read(log, *arguments)

        monkeypatch.setattr(Log, "read", drop_and_read)
        assert [each.value for each in broker.records("t")] == values[1:]


def test_records_that_are_cut_off_are_not_taken_for_the_end(tmp_path: Path) -> None:
    """B-C8.2: what was synced is not walked again, and a file may be damaged later."""
    settings: dict[str, Any] = {"data_dir": tmp_path, "log_segment_bytes": 1 << 20}
    with Broker(topics=["t"], **settings) as broker:
        send(broker, *[bytes(600_000)] * 3)
    first, *_ = sorted((tmp_path / "t-0").glob("*.log"))
    os.truncate(first, 500_000)
    with Broker(**settings) as broker:
        with pytest.raises(BrokerTopicError, match="cut off") as refused:
            broker.records("t")
        assert (refused.value.code, refused.value.topic) == (56, "t")


@pytest.mark.parametrize("content", [b"\xff\xfe", b"version: 0\ntopic_id: abc", None])
def test_a_damaged_file_of_a_partition_is_named(tmp_path: Path, content: bytes | None) -> None:
    """B-C1.3"""
    with Broker(topics=["t"], data_dir=tmp_path):
        pass
    if content is None:
        with Broker(topics=["t"], data_dir=tmp_path / "other"):
            pass
        content = (tmp_path / "other" / "t-0" / "partition.metadata").read_bytes()
    (tmp_path / "t-0" / "partition.metadata").write_bytes(content)
    for _ in range(2):
        with pytest.raises(ConfigError, match=re.escape(str(tmp_path / "t-0"))) as refused:
            Broker(data_dir=tmp_path).start()
        assert refused.value.key == "data_dir"


def test_a_broker_that_was_never_started_can_be_stopped() -> None:
    Broker().stop()


def test_the_name_is_exported_lazily_and_no_other() -> None:
    import fastprod.broker  # noqa: PLC0415

    assert fastprod.broker.Broker is Broker
    with pytest.raises(AttributeError, match="no attribute 'Borker'"):
        _ = fastprod.broker.Borker


FORK = """
import socket
from support.processes import forking
from fastprod import KafkaProducer
from fastprod.broker import Broker
from fastprod.errors import IllegalStateError

def ask(call):
    try:
        call()
    except IllegalStateError as error:
        return str(error)

def in_child():
    held = forking.sockets()
    with Broker(topics={{"u": 1}}) as own:
        with KafkaProducer(bootstrap_servers=own.bootstrap_servers) as producer:
            producer.send("u", b"child").result(20)
        values = [each.value.decode() for each in own.records("u")]
    calls = (broker.stop, broker.start, lambda: broker.bootstrap_servers)
    return [held, values, *map(ask, calls)]

with Broker(topics={{"t": 1}}, data_dir={folder!r}) as broker:
    address = (broker.nodes[0].host, broker.nodes[0].port)
    with socket.create_connection(address):
        child = forking.Child(in_child)
        told = child.result()
    # The parent's goes on.
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("t", b"parent").result(20)
    values = [each.value.decode() for each in broker.records("t")]
print(json.dumps({{"child": told, "parent": values}}))
"""


def test_a_forked_child_holds_nothing_of_its_parents_broker_and_is_told_so(tmp_path: Path) -> None:
    """B-G4.16"""
    finished = child_python.run_python("import json\n" + FORK.format(folder=str(tmp_path)))
    assert finished.code == 0, finished.errors
    held, values, *errors = finished.told["child"]
    # The client's own socket, which the test left open.
    assert len(held) == 1
    assert values == ["child"]
    assert all("make a Broker of its own" in each for each in errors)
    assert finished.told["parent"] == ["parent"]


HELD_PORT = """
import os, signal, socket, time
from fastprod.broker import Broker
from fastprod.broker.server.node_services import NodeServices

children = []

def forked(call):
    def both(*args):
        child = os.fork()
        if child == 0:
            time.sleep({bound_s})
            os._exit(0)
        children.append(child)
        return call(*args)
    return both

{where} = forked({where})
try:
    with Broker(topics={{"t": 1}}) as broker:
        port = broker.nodes[0].port
    with socket.socket() as client:
        refused = client.connect_ex(("127.0.0.1", port))
    with Broker(port=port) as again:
        told = dict(is_had=again.nodes[0].port == port, refused=refused, is_forked=bool(children))
finally:
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
print(json.dumps(told))
"""


@pytest.mark.parametrize("where", ["Broker._make_first_topic", "NodeServices.begin_close"])
def test_a_child_forked_in_a_start_or_a_stop_does_not_hold_the_port(where: str) -> None:
    """B-G4.16"""
    script = HELD_PORT.format(where=where, bound_s=forking.BOUND_S)
    finished = child_python.run_python("import json\n" + script)
    assert finished.code == 0, finished.errors
    assert finished.told == {"is_had": True, "refused": errno.ECONNREFUSED, "is_forked": True}


LEFT_RUNNING = """
from fastprod import KafkaProducer
from fastprod.broker import Broker
broker = Broker(topics={{"t": 1}}, data_dir={folder!r}).start()
with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
    producer.send("t", b"kept").result(20)
"""


def test_a_broker_that_nobody_stops_is_stopped_at_the_end(tmp_path: Path) -> None:
    finished = child_python.run_python(LEFT_RUNNING.format(folder=str(tmp_path)))
    assert (finished.code, finished.errors) == (0, "")
    with Broker(data_dir=tmp_path) as broker:
        assert [each.value for each in broker.records("t")] == [b"kept"]


LIGHT = """
import json, sys
from fastprod.broker import Broker
with Broker(topics={"t": 3}):
    heavy = sorted({"numpy", "asyncio", "kio", "pyarrow", "ssl"} & set(sys.modules))
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({"heavy": heavy, "kib": int(lines["VmRSS"].split()[0])}))
"""


def test_a_bare_process_with_a_broker_is_light() -> None:
    """B-G3: nothing heavy is imported, and it takes less than 30 MB."""
    finished = child_python.run_python(LIGHT)
    assert finished.code == 0, finished.errors
    assert finished.told["heavy"] == []
    assert finished.told["kib"] < 30_000


def test_a_batch_with_a_wrong_checksum_can_be_let_in() -> None:
    """B-D1.3"""
    batch = bytearray(batch_of(b"a"))
    batch[-1] ^= 1
    for validation, code in (("full", 2), ("crc", 2), ("none", 0)):
        with Broker(topics={"t": 1}, validation=validation) as broker:
            partition = broker._partition("t", 0)
            found = broker._running().replica_manager.append(
                0, "t", 0, memoryview(bytearray(batch)), 1, 9
            )
            assert found.error == code
            assert partition.log.log_end_offset == (1 if code == 0 else 0)


def test_whole_numbers_of_another_kind_are_taken_or_refused_by_name() -> None:
    """A fraction as a node or a number of partitions would be told to clients."""
    one: Any = np.int64(1)
    fraction: Any = 1.0
    with Broker(brokers=2, topics={"t": 2}) as broker:
        broker.create_topic("u", one, config={"max.message.bytes": 100_000})  # type: ignore[dict-item]
        broker.move_leader("t", one, one)
        assert type(broker.leader("t", one)) is int
        assert broker.end_offset("u", 0) == 0
        for call in (
            lambda: broker.create_topic("v", fraction),
            lambda: broker.create_topic("v", replication_factor=fraction),
            lambda: broker.move_leader("t", 0, fraction),
            lambda: broker.move_leader("t", fraction, 0),
            lambda: broker.leader("t", fraction),
            lambda: broker.end_offset("t", fraction),
            lambda: broker.records("t", fraction),
        ):
            with pytest.raises(TypeError, match="must be a whole number, not float"):
                call()
        assert broker.topic_names() == ["t", "u"]

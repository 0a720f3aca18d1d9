"""NetworkClient: the control thread's turns, on a recorded engine and the test's own clock."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import pytest

from fastprod import protocol
from fastprod.api_versions import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE
from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.connections import ClusterConnectionStates, ConnectionState
from fastprod.client.events import CloseReason, Event, EventKind
from fastprod.client.metadata import Metadata
from fastprod.client.network_client import NetworkClient, _Pending
from fastprod.config import ProducerConfig
from fastprod.errors import KafkaError
from fastprod.net.addresses import Address
from fastprod.records import Node

AF_INET = 2
UNSUPPORTED_VERSION = 35
BOOTSTRAP_SLOT = 0
TOPIC_ID = bytes(15) + b"\x07"
VERSIONS = {PRODUCE: (0, 12), METADATA: (0, 12), API_VERSIONS: (0, 4), INIT_PRODUCER_ID: (0, 5)}


class RecordedEngine:
    """Takes every command down."""

    def __init__(self) -> None:
        self.commands: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **words: self.commands.append((name, *args, *words.values()))

    def flights(self, slot: int) -> int:
        return 0

    def take(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of every command of that name since it was last asked for."""
        found = [command[1:] for command in self.commands if command[0] == name]
        self.commands = [command for command in self.commands if command[0] != name]
        return found


class Listener:
    def __init__(self) -> None:
        self.changed: list[str] = []
        self.fatal: list[KafkaError] = []

    def topics_changed(self, known: frozenset[str], removed: frozenset[str]) -> None:
        self.changed.extend(known)

    def connections_changed(self) -> None:
        self.changed.append("connections")

    def failed_for_good(self, error: KafkaError) -> None:
        self.fatal.append(error)


class World:
    """One client, taken turn by turn."""

    def __init__(self, **config: Any) -> None:
        self.now_ms = 1_000_000
        self.engine = RecordedEngine()
        self.listener = Listener()
        self.unresolvable: set[str] = set()
        backoff = ExponentialBackoff(50, 1000, jitter=0.0)
        self.metadata = Metadata(
            refresh_backoff=ExponentialBackoff(100, 1000, jitter=0.0),
            max_age_ms=300_000,
            max_idle_ms=300_000,
            clock_ms=lambda: self.now_ms,
            wake=lambda: None,
        )
        self.metadata.bootstrap([Node(-1, "b0", 9092)])
        self.states = ClusterConnectionStates(
            backoff, ExponentialBackoff(10_000, 30_000, jitter=0.0), resolver=self.resolve
        )
        self.client = NetworkClient(
            self.engine,
            ProducerConfig(bootstrap_servers="b0:9092", **config),
            self.metadata,
            self.states,
            self.listener,
            lambda: self.now_ms,
        )

    def resolve(self, host: str, port: int) -> list[Address]:
        if host in self.unresolvable:
            raise OSError("name not known")
        return [Address(AF_INET, "127.0.0.1", port)]

    def turn(self) -> int:
        return self.client._do_what_is_due()

    def tell(self, kind: EventKind, slot: int = 0, **fields: Any) -> None:
        blank = {"a": 0, "b": 0, "c": 0, "d": 0, "topic": None, "data": None}
        self.client._on_event(Event(kind, slot, **{**blank, **fields}))

    def sent(self) -> list[tuple[int, int, protocol.RequestHeader]]:
        """(slot, token, header) of every frame since it was last asked for."""
        return [
            (slot, token, protocol.request_header(frame[4:]))
            for slot, token, frame in self.engine.take("send_frame")
        ]

    def answer(self, api_key: int, **fields: Any) -> None:
        """Answer the one request of `api_key` that was sent."""
        ((slot, token, header),) = [each for each in self.sent() if each[2].api_key == api_key]
        frame = protocol.encode_response(api_key, header.version, 0, fields)
        self.tell(EventKind.RESPONSE, slot, a=token, data=frame[4:])

    def answer_api_versions(self) -> None:
        self.answer(
            API_VERSIONS,
            error_code=0,
            api_keys=[
                {"api_key": key, "min_version": low, "max_version": high}
                for key, (low, high) in VERSIONS.items()
            ],
            throttle_time=0,
            zk_migration_ready=False,
        )

    def connect(self, slot: int = BOOTSTRAP_SLOT) -> None:
        self.tell(EventKind.CONNECTED, slot)
        self.answer_api_versions()

    def answer_metadata(
        self,
        leaders: dict[str, list[int]],
        nodes: int = 2,
        topic_id: bytes = TOPIC_ID,
        epoch: int = 3,
    ) -> None:
        self.answer(
            METADATA,
            throttle_time=0,
            brokers=[
                {"node_id": i, "host": f"b{i}", "port": 9092, "rack": None}
                for i in range(1, nodes + 1)
            ],
            cluster_id="c",
            controller_id=1,
            topics=[
                {
                    "error_code": 0,
                    "name": topic,
                    "topic_id": topic_id,
                    "is_internal": False,
                    "topic_authorized_operations": 0,
                    "partitions": [
                        {
                            "error_code": 0,
                            "partition_index": i,
                            "leader_id": leader,
                            "leader_epoch": epoch,
                            "replica_nodes": [leader],
                            "isr_nodes": [leader],
                            "offline_replicas": [],
                        }
                        for i, leader in enumerate(partitions)
                    ],
                }
                for topic, partitions in leaders.items()
            ],
        )

    def ready(self) -> None:
        """Connected to the bootstrap server; nothing is known yet."""
        self.turn()
        self.engine.take("connect")
        self.connect()
        self.engine.take("connection_ready")


def test_the_first_turn_connects_to_a_bootstrap_server() -> None:
    """H.5.1"""
    world = World()
    world.turn()
    assert world.engine.take("connect") == [
        (BOOTSTRAP_SLOT, -1, Address(AF_INET, "127.0.0.1", 9092).packed(), "b0:9092")
    ]


def test_api_versions_is_the_first_request_and_ready_comes_after_its_answer() -> None:
    """G.5.1, G.5.7"""
    world = World()
    world.turn()
    world.tell(EventKind.CONNECTED)
    assert world.states.state(-1) is ConnectionState.CHECKING_API_VERSIONS
    assert world.engine.take("connection_ready") == []
    world.answer_api_versions()
    assert world.states.state(-1) is ConnectionState.READY
    assert world.engine.take("connection_ready") == [(BOOTSTRAP_SLOT, 12)]
    assert world.listener.changed == ["connections"]


def test_refused_api_versions_are_asked_for_again_in_version_0() -> None:
    """G.5.3; L 164 testUnsupportedApiVersionsRequestWithoutVersionProvidedByTheBroker."""
    world = World()
    world.turn()
    world.tell(EventKind.CONNECTED)
    ((slot, token, header),) = world.sent()
    assert header.version == 4
    world.tell(EventKind.RESPONSE, slot, a=token, data=b"\0\0\0\0\0\x23")
    ((_, _, again),) = world.sent()
    assert (again.api_key, again.version) == (API_VERSIONS, 0)
    assert world.engine.take("close_connection") == []


def test_metadata_and_the_producer_id_are_asked_for_when_a_node_is_ready() -> None:
    """A.1.5, F.5.1, H.2.8"""
    world = World()
    world.ready()
    world.turn()
    assert sorted(header.api_key for _, _, header in world.sent()) == [METADATA, INIT_PRODUCER_ID]
    world.turn()
    assert world.sent() == [], "one of each at a time (H.2.7)"


def test_no_producer_id_without_idempotence() -> None:
    """F.5.13"""
    world = World(enable_idempotence=False)
    world.ready()
    world.turn()
    assert [header.api_key for _, _, header in world.sent()] == [METADATA]


def test_leaders_reach_the_engine_before_the_callers_are_woken() -> None:
    """A.4.6: a caller that wakes finds the topic."""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [2, 1, 2]})
    ((topic, topic_id, leaders),) = world.engine.take("set_topic")
    assert (topic, topic_id) == ("t", TOPIC_ID)
    slot_of = {node: slot for slot, _, node in leaders}
    assert [(epoch, node) for _, epoch, node in leaders] == [(3, 2), (3, 1), (3, 2)]
    assert len({BOOTSTRAP_SLOT, slot_of[1], slot_of[2]}) == 3
    assert "t" in world.listener.changed
    assert world.engine.take("metadata_seen") == [()]


def test_a_topic_with_records_is_followed_again_and_one_that_is_forgotten_has_no_leaders() -> None:
    """H.3, D.5.1: what the I/O thread still has of it then asks for it by name."""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1]})
    assert world.engine.take("forget_leaders") == []
    world.now_ms += 300_000
    world.turn()
    ((slot, *_),) = [command for command in world.engine.take("connect") if command[0]]
    world.connect(slot)
    world.turn()
    world.answer_metadata({"t": [1]})
    assert world.engine.take("forget_leaders") == [("t",)]
    assert world.metadata.topics == frozenset()
    world.tell(EventKind.METADATA_WANTED, topic="t")
    assert world.metadata.topics == {"t"}
    world.turn()
    world.answer_metadata({"t": [2]})
    assert world.metadata.cluster.topics == {"t"}


def test_a_node_with_data_is_connected_to_once_its_backoff_is_over() -> None:
    """F.2, G.4.2"""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1]})
    ((_, _, leaders),) = world.engine.take("set_topic")
    slot = leaders[0][0]
    world.tell(EventKind.CONNECT_WANTED, slot)
    world.turn()
    assert [command[:2] for command in world.engine.take("connect")] == [(slot, 1)]
    world.tell(EventKind.DISCONNECTED, slot, a=CloseReason.NOT_CONNECTED, b=111)
    world.tell(EventKind.CONNECT_WANTED, slot)
    assert world.turn() <= 50
    assert [c for c in world.engine.take("connect") if c[0] == slot] == []
    world.now_ms += 60
    world.turn()
    assert [command[:2] for command in world.engine.take("connect")] == [(slot, 1)]


def test_a_connection_that_takes_too_long_is_closed_as_timed_out() -> None:
    """G.4.4; L 166 testConnectionSetupTimeout."""
    world = World()
    world.turn()
    world.now_ms += 10_001
    world.turn()
    assert world.engine.take("close_connection") == [(BOOTSTRAP_SLOT, True)]
    ((text, _),) = world.engine.take("set_trouble")
    assert "b0:9092" in text
    assert "10,000 ms (socket_connection_setup_timeout_ms)" in text
    world.tell(EventKind.DISCONNECTED, a=CloseReason.LOCAL, d=1)
    assert world.engine.take("set_trouble") == [], "it was no request that timed out"


def test_a_broker_that_cannot_take_produce_requests_is_ready_and_says_why() -> None:
    """G.2.7, G.5.4: what is sent to it fails with this."""
    world = World()
    world.turn()
    world.tell(EventKind.CONNECTED)
    world.answer(
        API_VERSIONS,
        error_code=0,
        api_keys=[{"api_key": METADATA, "min_version": 0, "max_version": 12}],
        throttle_time=0,
        zk_migration_ready=False,
    )
    assert world.engine.take("connection_ready") == [(BOOTSTRAP_SLOT, -1)]
    ((text, _),) = world.engine.take("set_trouble")
    assert "b0:9092" in text
    assert "Produce" in text
    world.tell(EventKind.FATAL, a=UNSUPPORTED_VERSION)
    ((error),) = world.listener.fatal
    assert str(error) == text


def test_a_turn_that_fails_does_not_keep_events_waiting(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F.1.1: the end is one of them."""
    world = World()
    monkeypatch.setattr(world.client, "_do_what_is_due", lambda: 1 // 0)
    found = [(EventKind.STOPPED, 0, 0, 0, 0, 0, None, None)]
    world.engine.next_event = lambda timeout_s: found.pop()  # type: ignore[attr-defined]
    world.client._run()
    assert "ZeroDivisionError" in caplog.text


def test_why_brokers_cannot_be_reached_is_kept_for_the_errors_of_callers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Design 6: time-outs name their cause and the broker."""
    world = World()
    world.turn()
    with caplog.at_level(logging.WARNING):
        world.tell(EventKind.DISCONNECTED, a=CloseReason.NOT_CONNECTED, b=111)
    ((text, slot),) = world.engine.take("set_trouble")
    assert slot == BOOTSTRAP_SLOT
    assert "b0:9092" in text
    assert "refused" in text
    assert text in caplog.text
    world.now_ms += 60
    world.turn()
    world.connect()
    assert world.engine.take("set_trouble") == [("", BOOTSTRAP_SLOT)]


def test_a_host_that_dns_does_not_know_is_tried_again_after_the_backoff() -> None:
    """G.4.5"""
    world = World()
    world.unresolvable.add("b0")
    world.turn()
    assert world.engine.take("connect") == []
    ((text, _),) = world.engine.take("set_trouble")
    assert text.startswith("DNS does not know the host of broker b0:9092")
    world.unresolvable.clear()
    world.now_ms += 200
    world.turn()
    assert len(world.engine.take("connect")) == 1


def test_an_answer_that_does_not_parse_closes_the_connection() -> None:
    """J.1.5"""
    world = World(enable_idempotence=False)
    world.ready()
    world.turn()
    ((slot, token, _),) = world.sent()
    world.tell(EventKind.RESPONSE, slot, a=token, data=b"\0\0\0\0\0")
    assert world.engine.take("close_connection") == [(slot,)]


def test_retriable_errors_of_the_producer_id_back_off() -> None:
    """F.5.1; L 126 testSenderShouldRetryWithBackoffOnRetriableError."""
    world = World(retry_backoff_ms=100, retry_backoff_max_ms=100)
    world.ready()
    world.turn()
    frames = world.engine.take("send_frame")
    world.engine.commands.extend(
        ("send_frame", *frame)
        for frame in frames
        if protocol.request_header(frame[2][4:]).api_key == INIT_PRODUCER_ID
    )
    world.answer(
        INIT_PRODUCER_ID, throttle_time=0, error_code=14, producer_id=-1, producer_epoch=-1
    )
    world.turn()
    assert world.sent() == []
    world.now_ms += 101
    world.turn()
    assert [header.api_key for _, _, header in world.sent()] == [INIT_PRODUCER_ID]


@pytest.mark.parametrize(("code", "command"), [(31, "abort_pending"), (42, "fail")])
def test_what_a_refused_producer_id_means(code: int, command: str) -> None:
    """F.5.1: not authorized fails what waits; anything else is the end."""
    world = World()
    world.ready()
    world.turn()
    frames = world.engine.take("send_frame")
    world.engine.commands.extend(
        ("send_frame", *frame)
        for frame in frames
        if protocol.request_header(frame[2][4:]).api_key == INIT_PRODUCER_ID
    )
    world.answer(
        INIT_PRODUCER_ID, throttle_time=0, error_code=code, producer_id=-1, producer_epoch=-1
    )
    assert world.engine.take(command) == [(code,)]
    assert len(world.listener.fatal) == (command == "fail")
    world.turn()
    assert world.sent() == []


@pytest.mark.parametrize(
    ("node_id", "where"), [(-1, "b0:9092"), (1, "b1:9092 (node 1)"), (9, "node 9")]
)
def test_a_broker_that_gave_no_producer_id_is_named_with_its_id(node_id: int, where: str) -> None:
    """Users' need 12: a bootstrap server has none yet."""
    world = World(enable_idempotence=False)
    world.ready()
    world.turn()
    world.answer_metadata({})
    world.client._pending[77] = _Pending(INIT_PRODUCER_ID, 4, node_id)
    world.tell(EventKind.RESPONSE, a=77)
    ((text,),) = world.engine.take("set_producer_id_trouble")
    assert text == f"the connection to broker {where} ended before it answered InitProducerId"
    assert world.client.producer_id_trouble() == text


def test_an_idle_connection_that_was_closed_asks_for_nothing() -> None:
    """G.3.1"""
    world = World(enable_idempotence=False)
    world.ready()
    world.turn()
    world.answer_metadata({})
    world.turn()
    world.engine.commands.clear()
    world.tell(EventKind.DISCONNECTED, a=CloseReason.EXPIRED)
    world.turn()
    assert world.engine.take("connect") == []
    assert world.sent() == []


def test_what_is_due_does_not_wait_for_a_flood_of_events() -> None:
    """G.1, F.2: a leader that has records is connected to in the midst of it."""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1]})
    ((_, _, leaders),) = world.engine.take("set_topic")
    blank = (0, 0, 0, 0)
    events: list[tuple[Any, ...]] = [(EventKind.CONNECT_WANTED, leaders[0][0], *blank, None, None)]
    events += [(EventKind.METADATA_WANTED, -1, *blank, "t", None)] * 5_000
    events += [(EventKind.STOPPED, -1, *blank, None, None)]
    handled = iter(events)
    left_at_connect: list[int] = []
    world.engine.next_event = lambda timeout_s: next(handled)  # type: ignore[attr-defined]
    world.engine.connect = (  # type: ignore[attr-defined]
        lambda *args: left_at_connect.append(sum(1 for _ in handled))
    )
    with contextlib.suppress(StopIteration):
        world.client._take_events(0)
        while not left_at_connect and not world.client._is_stopped:
            world.turn()
            world.client._take_events(0)
    assert left_at_connect
    assert left_at_connect[0] >= 4_000


def test_leader_hints_are_taken_together_and_only_what_they_change_is_handed_over() -> None:
    """H.6 (KIP-951): the newest one of a partition stays."""
    world = World(enable_idempotence=False)
    for topic in ("t", "u"):
        world.metadata.add(topic, world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1] * 100, "u": [1]})
    slot_of = {node: slot for _, _, all in world.engine.take("set_topic") for slot, _, node in all}
    for topic, partition, leader, epoch in (
        ("t", 7, 2, 4),
        ("t", 9, 3, 4),
        ("u", 0, 2, 3),
        ("t", 7, 1, 5),
    ):
        world.tell(
            EventKind.LEADER_HINT, 9092, topic=topic, a=partition, b=leader, c=epoch, data=b"b9"
        )
    assert world.engine.take("set_leaders") == []
    world.turn()
    ((topic, leaders),) = world.engine.take("set_leaders")
    slot_of[3] = world.client._slot(3)
    assert topic == "t"
    assert {partition: told for partition, *told in leaders} == {
        7: [slot_of[1], 5, 1],
        9: [slot_of[3], 4, 3],
    }
    assert world.engine.take("set_topic") == []
    world.turn()
    assert world.engine.take("set_leaders") == []


def test_a_hint_that_came_before_an_answer_is_taken_before_it() -> None:
    """H.4.2: a topic that was made anew starts with lower epochs than the hint's."""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1]})
    world.metadata.request_update()
    world.turn()
    world.now_ms += 100
    world.turn()
    ((slot, *_),) = [command for command in world.engine.take("connect") if command[0]]
    world.connect(slot)
    world.turn()
    world.tell(EventKind.LEADER_HINT, -1, topic="t", a=0, b=2, c=9)
    world.engine.take("set_topic")
    world.answer_metadata({"t": [1]}, topic_id=bytes(15) + b"\x08", epoch=0)
    names = [name for name, *_ in world.engine.commands if name in ("set_leaders", "set_topic")]
    assert names == ["set_leaders", "set_topic"]
    known = world.metadata.cluster.partition("t", 0)
    assert known is not None
    assert (known.leader_id, known.leader_epoch) == (1, 0)


def test_a_metadata_request_that_was_lost_long_ago_says_nothing_about_the_next_one() -> None:
    """H.2.6: the news that it was lost may come after that of its connection."""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1]})
    for node_id in (1, 2):
        world.tell(EventKind.WARM, a=node_id)
        world.turn()
        world.connect(world.client._slot(node_id))
    world.now_ms += 1000
    world.metadata.request_update()
    world.turn()
    ((slot, token, _),) = world.sent()
    world.tell(EventKind.DISCONNECTED, slot, a=CloseReason.REMOTE)
    world.now_ms += 1000
    world.turn()
    world.tell(EventKind.RESPONSE, slot, a=token)
    world.turn()
    world.answer_metadata({"t": [2]})
    assert world.metadata.cluster.leader_for("t", 0) == Node(2, "b2", 9092)


def test_it_ends_with_the_io_thread() -> None:
    world = World()
    world.tell(EventKind.STOPPED)
    assert world.client._is_stopped

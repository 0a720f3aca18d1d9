"""NetworkClient on a recorded engine and the test's own clock, taken turn by turn."""

from __future__ import annotations

from typing import Any

from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.connections.addresses import Address
from fastprod.client.connections.connection_states import ClusterConnectionStates
from fastprod.client.metadata.metadata import Metadata
from fastprod.client.network_client import NetworkClient
from fastprod.config import ProducerConfig
from fastprod.errors import KafkaError
from fastprod.protocol.api_keys import API_VERSIONS, INIT_PRODUCER_ID, METADATA, PRODUCE
from fastprod.records import Node
from support.oracle import kio_codec
from support.oracle.frames import RequestHeader

AF_INET = 2

BOOTSTRAP_SLOT = 0
TOPIC_ID = bytes(15) + b"\x07"
VERSIONS = {PRODUCE: (0, 12), METADATA: (0, 12), API_VERSIONS: (0, 4), INIT_PRODUCER_ID: (0, 5)}


class RecordedEngine:
    """Takes every command down."""

    abandoned = False

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

    def sending_changed(self, is_open: bool) -> None:
        self.changed.append("open" if is_open else "closed")

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

    def slot(self, node_id: int) -> int:
        return self.client._connections.slot(node_id)

    def turn(self) -> int:
        return self.client._do_what_is_due()

    def tell(self, kind: EventKind, slot: int = 0, **fields: Any) -> None:
        self.client._on_event(ControlEvent(kind, slot, **fields))

    def sent(self) -> list[tuple[int, int, RequestHeader]]:
        """(slot, token, header) of every frame since it was last asked for."""
        return [
            (slot, token, kio_codec.request_header(frame[4:]))
            for slot, token, frame, *_ in self.engine.take("send_frame")
        ]

    def answer(self, api_key: int, **fields: Any) -> None:
        """Answer the one request of `api_key` that was sent."""
        ((slot, token, header),) = [each for each in self.sent() if each[2].api_key == api_key]
        frame = kio_codec.encode_response(api_key, header.version, 0, fields)
        self.tell(EventKind.ON_RESPONSE, slot, token=token, data=frame[4:])

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
        self.tell(EventKind.ON_CONNECTED, slot)
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

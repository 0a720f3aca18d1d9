"""The servers: the mock cluster and Apache Kafka, and what they say has arrived."""

from __future__ import annotations

import contextlib
import itertools
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.admin import OffsetSpec
from confluent_kafka.cimpl import NewTopic

import java_flags
import kafka_admin
from kafka_cluster import KafkaCluster
from kept_process import KeptProcess
from mock_cluster import MockCluster
from support.security.authority import CertificateAuthority

_TIMEOUT_S = 20.0
_QUIET_S = 0.5
_MOST_AT_ONCE = 10_000


class Server(contextlib.AbstractContextManager["Server"], Protocol):
    """A server that runs while its `with` lasts."""

    @property
    def name(self) -> str: ...

    @property
    def gets_faster(self) -> bool:
        """It has a compiler at work, and the first run finds it slow."""

    @property
    def keeps_records(self) -> bool:
        """It stores them, so that its memory or the system's page cache grows."""

    @property
    def bootstrap_servers(self) -> str:
        """Without TLS: for what the bench itself asks."""

    @property
    def client_servers(self) -> str:
        """For the clients that are measured."""

    @property
    def ca_file(self) -> str:
        """What they trust; empty: they connect without TLS."""

    @property
    def pids(self) -> list[int]: ...

    def new_topic(self) -> str:
        """A fresh topic."""

    def drop_topic(self, topic: str) -> None:
        """It is no longer needed."""


class MockServer(MockCluster):
    """confluent-kafka's mock cluster in a process of its own, one broker."""

    ca_file = ""
    name = "confluent-kafka's mock cluster, 1 broker, own process"
    gets_faster = False
    keeps_records = False

    def __init__(self) -> None:
        super().__init__()
        self._numbers = itertools.count(1)

    @property
    def client_servers(self) -> str:
        return self.bootstrap_servers

    @property
    def pids(self) -> list[int]:
        return [self.pid]

    def new_topic(self) -> str:
        # It comes into being when it is asked for; a partition keeps its last 5 MB only.
        topic = f"bench-{next(self._numbers)}"
        kafka_admin.connected(self.bootstrap_servers).list_topics(topic, timeout=_TIMEOUT_S)
        return topic

    def drop_topic(self, topic: str) -> None:
        pass


class KafkaServer(KafkaCluster):
    """Apache Kafka, one node, each run in a topic of one partition.

    Args:
        has_tls: clients come by a listener with TLS.
    """

    gets_faster = True
    keeps_records = True

    def __init__(self, has_tls: bool = False) -> None:
        self.name = f"Apache Kafka, 1 node, -Xmx1g, topics of 1 partition{', TLS' * has_tls}"
        self.ca_file = ""
        self._certificates = tempfile.TemporaryDirectory(prefix="fastprod-bench-")
        settings: dict[str, str] = {}
        if has_tls:
            authority = CertificateAuthority(Path(self._certificates.name))
            self.ca_file = str(authority.certificate)
            identity = authority.issue("broker")
            settings = {
                "listener.name.tls.ssl.keystore.type": "PEM",
                "listener.name.tls.ssl.keystore.location": str(identity.both),
            }
        super().__init__(
            1,
            settings,
            listeners={"TLS": "SSL"} if has_tls else {},
            java=java_flags.FULL_SPEED,
            heap="1g",
        )
        self._numbers = itertools.count(1)

    def close(self) -> None:
        super().close()
        self._certificates.cleanup()

    @property
    def client_servers(self) -> str:
        return self.bootstrap("TLS" if self.ca_file else "PLAINTEXT")

    @property
    def pids(self) -> list[int]:
        return [self.pid(node) for node in self.node_ids]

    def new_topic(self) -> str:
        topic = f"bench-{next(self._numbers)}"
        self.create_topic(topic, config={"file.delete.delay.ms": "0"})
        return topic

    def drop_topic(self, topic: str) -> None:
        # A dozen runs leave gigabytes otherwise.
        delete_topics(self.bootstrap_servers, [topic])


class BrokerServer:
    """Our own broker in a process of its own.

    Args:
        kind: "discard", "memory" or "disk": what becomes of the records.
        has_tls: clients come by a listener with TLS.
        nodes: how many it has, one of them without `later_ms`.
        later_ms: a node for each number, whose answers take so many ms more; they are discarding,
            without TLS.
    """

    gets_faster = False

    def __init__(
        self, kind: str, has_tls: bool = False, nodes: int = 1, later_ms: Sequence[int] = ()
    ) -> None:
        self._kind = kind
        self._has_tls = has_tls
        self._nodes = nodes
        self._later_ms = later_ms
        self.ca_file = ""
        self._numbers = itertools.count(1)
        self._stack = contextlib.ExitStack()
        self.name = f"fastprod broker, {kind}, full validation, own process, topics of 1 partition"
        self.name += ", TLS" * has_tls
        if nodes > 1:
            self.name += f", {nodes} nodes"
        if later_ms:
            self.name += f", answers of each node {', '.join(map(str, later_ms))} ms later"

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="fastprod-bench-"))
            )
            options = {
                "discard": ("--discard",),
                "memory": (),
                "disk": ("--data-dir", str(folder / "data")),
            }
            command = [sys.executable, "-m", "fastprod", "broker", *options[self._kind]]
            if self._later_ms:
                command = [
                    sys.executable,
                    "-m",
                    "bench.servers.distant_broker",
                    *map(str, self._later_ms),
                ]
            elif self._has_tls:
                authority = CertificateAuthority(folder / "certificates")
                self.ca_file = str(authority.certificate)
                command += ["--tls-certificate", str(authority.issue("broker").both)]
                command += ["--listener", "CLEAR=PLAINTEXT:0", "--listener", "TLS=SSL:0"]
                command += ["--client-settings", str(folder)]
            else:
                command += ["--port", "0", "--nodes", str(self._nodes)]
            self._process = KeptProcess("fastprod broker", command, folder / "log", folder=folder)
            stack.callback(self._process.stop)
            found = self._process.wait_for_output(r"listening on ([^;\s]+);", _TIMEOUT_S)
            self._servers = self._client_servers = found[1]
            if self._has_tls:
                text = (folder / "TLS-client.properties").read_text()
                self._client_servers = text.partition("bootstrap.servers=")[2].splitlines()[0]
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def keeps_records(self) -> bool:
        return self._kind != "discard"

    @property
    def bootstrap_servers(self) -> str:
        return self._servers

    @property
    def client_servers(self) -> str:
        return self._client_servers

    @property
    def pids(self) -> list[int]:
        return [self._process.pid]

    def new_topic(self) -> str:
        topic = f"bench-{next(self._numbers)}"
        kafka_admin.create_topic(self.bootstrap_servers, topic, 1, 1, {"file.delete.delay.ms": "0"})
        return topic

    def drop_topic(self, topic: str) -> None:
        delete_topics(self.bootstrap_servers, [topic])


def create_topics(
    bootstrap_servers: str, topics: list[str], partitions: int, nodes: int = 0
) -> None:
    """Make them all by one request; with `nodes`, a partition on each of the first so many."""
    admin = kafka_admin.connected(bootstrap_servers)  # must live until it has its answer
    places: dict[str, Any] = {"num_partitions": partitions, "replication_factor": 1}
    if nodes:
        known = sorted(admin.list_topics(timeout=_TIMEOUT_S).brokers)
        places = {"num_partitions": nodes, "replica_assignment": [[id_] for id_ in known[:nodes]]}
    wanted = [NewTopic(topic, **places) for topic in topics]
    for made in admin.create_topics(wanted).values():
        made.result(_TIMEOUT_S)


def delete_topics(bootstrap_servers: str, topics: list[str]) -> None:
    """Delete them all by one request."""
    admin = kafka_admin.connected(bootstrap_servers)
    for gone in admin.delete_topics(topics).values():
        gone.result(_TIMEOUT_S)


def end_offset(bootstrap_servers: str, topics: list[str]) -> int:
    """Records in all partitions of the topics, as their brokers say."""
    admin = kafka_admin.connected(bootstrap_servers)
    known = admin.list_topics(timeout=_TIMEOUT_S).topics
    # Its authors gave it no types.
    at_end: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    asked = {
        TopicPartition(topic, index): at_end
        for topic in topics
        for index in known[topic].partitions
    }
    ends = admin.list_offsets(asked, request_timeout=_TIMEOUT_S)
    return sum(end.result(_TIMEOUT_S).offset for end in ends.values())


def committed_count(bootstrap_servers: str, topic: str) -> int:
    """Records that a reader of committed records finds in the one partition of the topic.

    Offsets would count the ends of transactions, too, and records of those that were aborted.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "bench",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    count = 0
    with contextlib.closing(consumer):
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        is_at_end, deadline_s = False, time.monotonic() + _TIMEOUT_S
        # At the end of what is committed so far there may be a transaction that is being ended.
        while (found := consumer.consume(_MOST_AT_ONCE, _QUIET_S)) or not is_at_end:
            if found:
                count += sum(each.error() is None for each in found)
                is_at_end = found[-1].error() is not None
                deadline_s = time.monotonic() + _TIMEOUT_S
            elif time.monotonic() > deadline_s:
                break
    return count

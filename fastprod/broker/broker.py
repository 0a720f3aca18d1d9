"""Broker: an embedded Kafka broker, started and stopped in milliseconds."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from fastprod.broker.api_table import ApiTable, Pin
from fastprod.broker.arguments import (
    check_addresses,
    check_kinds,
    first_topics,
    folder_of,
    topic_settings,
    whole_number,
)
from fastprod.broker.broker_security import (
    BrokerSecurity,
    certificate_sources,
    make_mechanisms,
)
from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.topics import Topic, TopicError
from fastprod.broker.config import BrokerConfig
from fastprod.broker.faults.fault_verbs import FaultVerbs
from fastprod.broker.faults.planned_faults import PlannedFaults
from fastprod.broker.listeners import BrokerListener
from fastprod.broker.log.log_error import LogError
from fastprod.broker.network.sasl.bearer_token import TokenValidator
from fastprod.broker.node import Node, NodeServer
from fastprod.broker.server.node_services import NodeServices
from fastprod.broker.server.request_log import LoggedRequest
from fastprod.broker.stored_record import StoredRecord
from fastprod.broker.threads.clock import Clock, SystemClock
from fastprod.errors import ConfigError, IllegalStateError, KafkaError
from fastprod.security.secret import plain_text


class BrokerTopicError(KafkaError):
    """A topic cannot be made, deleted or found.

    Attributes:
        code: Kafka's error code.
        topic: its name.
    """


class Broker(BrokerSecurity):
    """A Kafka broker in this process: real sockets, real protocol, no JVM.

    >>> with Broker(topics={"orders": 3}) as broker:
    ...     producer = KafkaProducer(bootstrap_servers=broker.bootstrap_servers)

    What it serves has the versions that Kafka 4.3 lists, topic ids (KIP-516) and leaders in answers
    (KIP-951) among them; `max_versions` pins those of an older one. After start clients can change
    topics, the limits of connections (IncrementalAlterConfigs) and how fast an address may connect
    (AlterClientQuotas). Consumer groups follow the classic protocol or that of KIP-848, with
    static members; their offsets are in the topic __consumer_offsets, which is hidden.

    Of several nodes one leads a partition and answers, the others say NOT_LEADER_OR_FOLLOWER. With
    one replica, the default, all nodes share its log; with more each has its own, and followers
    fetch from the leader. With the defaults nothing is written to disk, and nothing is left when it
    stops.

    Every method may be called by any thread, and blocks only where its text says so. Not in a child
    of the process that made it: after `os.fork` the child's copy is closed and raises
    IllegalStateError, and the parent's goes on.

    Args:
        brokers: number of nodes, 1 to 100; default 1. Node ids count from 0; the first node that is
            up is the controller.
        topics: topics to make at the start: names to partition counts, or names alone, which get
            `num_partitions`; those that `data_dir` holds already stay as they are.
        host: address to listen on; default 127.0.0.1.
        port: of the first node, the others have the next ones; default 0: the system chooses each.
        advertised_host: address that clients are told; default: `host`.
        listeners: several ways in, by name: a protocol (PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL)
            or a `BrokerListener`; a client is told the addresses of the listener that it came by.
            Default: one, with all that the arguments below ask for.
        data_dir: folder for logs and topics, made if it does not exist, found again by the next
            Broker; default None: in memory.
        discard: validate and answer, but keep no records, for measurements; default False.
        validation: "full" looks at every record, "crc" at the checksum alone, "none" at neither
            (contract B-D1.3); default "full", as Kafka.
        sync: "never" leaves fsync to the system, as Kafka; "batch" calls it before each answer,
            "interval" each `sync_interval_ms` (contract B-C8.1); default "never".
        auto_create_topics: make a topic when a client asks for its metadata; default True.
        num_partitions: of a topic that is made without a number; default 1.
        versions: API name or key to what it is pinned to: the highest version, (lowest, highest),
            or None to hide it.
        max_versions: list only versions of this Kafka release: "2.1", "2.8", "3.0", "3.7", "3.9",
            "4.0", "4.1" or "4.3".
        ssl_certfile: PEM file with the certificate of all nodes; clients then speak TLS (SSL).
        ssl_keyfile: PEM file with its key; default: it is in `ssl_certfile`.
        ssl_key_password: of an encrypted key.
        ssl_cafile: PEM file with issuers of clients' certificates; goes with `ssl_client_auth`.
        ssl_client_auth: "none"; "requested": a certificate that a client shows must be good;
            "required": each shows one. Where there is no SASL the client is then called by it,
            "User:CN=ada,O=Example". Default "none".
        tls: the broker makes a certificate for itself, by the program `openssl`; clients find it in
            `certificate_pem`. Default False.
        sasl_users: names and passwords; clients then say who they are by SASL (SASL_PLAINTEXT,
            with a certificate SASL_SSL). `connections_max_reauth_ms` bounds a session. Empty:
            `add_user` brings them later.
        sasl_mechanisms: by which, of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER; default:
            the first three with `sasl_users`, the last with `oauth_validator`.
        oauth_validator: called with each token of OAUTHBEARER; returns whose it is, as a name or a
            `BearerToken`, or None. It must not block. Default: tokens without a signature hold
            until they expire, so that anybody can make one.
        clock: what records are stamped by, and members of groups are waited for; default: the
            system's. Fetches wait by the system's clock always.
        config: any other setting of `BrokerConfig`, in Kafka's names with underscores.

    Raises:
        ConfigError: an argument is out of its range, unknown, or in conflict with another, or the
            folder is in use or damaged.
        OSError: a folder cannot be made.

    Source: contract B-A to B-E; the protocol is Apache Kafka's.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        topics: Mapping[str, int] | Iterable[str] = (),
        host: str = "127.0.0.1",
        port: int = 0,
        advertised_host: str | None = None,
        listeners: Mapping[str, str | BrokerListener] | None = None,
        data_dir: str | os.PathLike[str] | None = None,
        discard: bool = False,
        validation: str = "full",
        sync: str = "never",
        auto_create_topics: bool = True,
        num_partitions: int = 1,
        versions: Mapping[str | int, Pin] | None = None,
        max_versions: str | None = None,
        ssl_certfile: str | os.PathLike[str] | None = None,
        ssl_keyfile: str | os.PathLike[str] | None = None,
        ssl_key_password: str | None = None,
        ssl_cafile: str | os.PathLike[str] | None = None,
        ssl_client_auth: str = "none",
        tls: bool = False,
        sasl_users: Mapping[str, str] | None = None,
        sasl_mechanisms: Iterable[str] | None = None,
        oauth_validator: TokenValidator | None = None,
        clock: Clock | None = None,
        **config: Any,
    ) -> None:
        check_addresses(brokers, host, port)
        check_kinds(advertised_host, versions, tls, sasl_users, oauth_validator)
        self._data_dir = folder_of(data_dir, discard)
        self._config = BrokerConfig.make(
            {
                "auto_create_topics_enable": auto_create_topics,
                "num_partitions": num_partitions,
                "discard": discard,
                "validation": validation,
                "sync": sync,
                **config,
            }
        )
        self._topics = first_topics(topics)
        self._node_count = brokers
        self._clock = clock or SystemClock()
        sasl = make_mechanisms(sasl_users, sasl_mechanisms, oauth_validator, self._clock)
        own_for = (host, advertised_host or "") if tls else None
        files = (ssl_certfile, ssl_keyfile, ssl_key_password, ssl_cafile)
        self._set_security(sasl, certificate_sources(*files, ssl_client_auth, own_for))
        self._set_listeners(listeners, brokers, host, port, advertised_host)
        self._table = ApiTable(max_versions, versions)
        self._servers: list[NodeServer] = []
        self._planned = PlannedFaults()
        self._faults = FaultVerbs(self._planned, self._servers)
        self._pid = os.getpid()
        self._state: NodeServices | None = None
        self._nodes: tuple[Node, ...] = ()
        self._is_started = self._is_stopped = False
        # Around the whole of a stop. A signal's handler may stop it once more, within the first.
        self._stop_lock = threading.RLock()

    def start(self) -> Broker:
        """Open the ports and serve; returns itself. Clients can connect when this returns.

        Blocks for milliseconds; with a `data_dir` for as long as its recovery takes.

        Raises:
            IllegalStateError: it was started or stopped before, or is stopped meanwhile; make a new
                one.
            ConfigError: the folder is in use or damaged, or a topic cannot be made.
            OSError: a port cannot be had, or the folder cannot be used.
        """
        self._check_process()
        if self._is_started:
            raise IllegalStateError("this broker was started before; make a new one")
        self._refuse_if_stopped()
        self._is_started = True
        node_ids = range(self._node_count)
        # Before its first port is open: the child of a fork in between lets go of it, too.
        _started.add(self)
        try:
            self._state = NodeServices(
                self._config,
                self._clock,
                node_ids,
                self._data_dir,
                self._table,
                self._planned,
                tuple(self._listeners),
                self._users,
                self._authorizer,
            )
            for node_id in node_ids:
                self._servers.append(
                    NodeServer(node_id, self._state, self._clock, self._listeners, self._security)
                )
            self._nodes = tuple(Node(server) for server in self._servers)
            self._planned.use_timer(self._state.purgatory)
            for name, partition_count in self._topics.items():
                self._make_first_topic(name, partition_count)
            # All before the first serves: a client that was told of fewer forgets the others.
            for server in self._servers:
                server.join()
            for server in self._servers:
                server.up()
            self._refuse_if_stopped()
        except BaseException:
            self._is_stopped = True
            self._close()
            raise
        return self

    def stop(self) -> None:
        """Answer what waits, close every connection, port and log. May be repeated.

        Blocks for milliseconds, or for a request that is being handled, or for files to be synced;
        while another thread stops it, until that is done.

        Raises:
            TimeoutError: a thread has not ended within 10 s; everything else is closed.
            IllegalStateError: an interceptor calls it, on a thread that would have to end.
        """
        self._check_process()
        if self._planned.is_called_by_interceptor:
            raise IllegalStateError("an interceptor cannot wait for the end of its own broker")
        with self._stop_lock:
            if not self._is_stopped:
                self._is_stopped = True
                self._close()

    def _close(self) -> None:
        # From the last to the first, and each whatever the ones before it raise.
        with contextlib.ExitStack() as steps:
            steps.callback(_started.discard, self)
            if self._state is not None:
                steps.callback(self._state.close)
            for server in self._servers:
                steps.callback(server.close)
            for server in self._servers:
                steps.callback(server.begin_shutdown)
            if self._state is not None:
                steps.callback(self._state.begin_close)

    def __enter__(self) -> Broker:
        self._refuse_if_stopped()
        return self if self._is_started else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        if os.getpid() != self._pid:
            return f"<Broker of process {self._pid}>"
        count = f"{self._node_count} node{'s' if self._node_count > 1 else ''}"
        if self._state is None or not self._nodes:
            return f"<Broker {'stopped' if self._is_stopped else 'not started'}, {count}>"
        down = sum(not node.is_up for node in self._nodes)
        state = "stopped" if self._is_stopped else "running"
        return (
            f"<Broker {','.join(node.address for node in self._nodes)} {state}, {count}"
            f"{f' ({down} down)' if down and not self._is_stopped else ''}, "
            f"{len(self.topic_names())} topics>"
        )

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all nodes, "host:port,[ipv6]:port", as clients take them.

        With several listeners those of the first one.

        Raises:
            IllegalStateError: it was not started.
        """
        return ",".join(node.address for node in self.nodes)

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes, by id; `nodes[1].down()` takes one away.

        Raises:
            IllegalStateError: it was not started.
        """
        self._running()
        return self._nodes

    @property
    def faults(self) -> FaultVerbs:
        """What makes it misbehave, for tests: `broker.faults.lose_reply("Produce")` (B-G2).

        Faults can be planned before the start, and are all undone by `broker.faults.reset()`.
        """
        return self._faults

    @property
    def cluster_id(self) -> str:
        """The cluster's id, the same in a later Broker with the same `data_dir`.

        Raises:
            IllegalStateError: it was not started.
        """
        return self._running().cluster.cluster_id

    @property
    def controller_id(self) -> int:
        """Id of the node that makes and deletes topics; -1: no node is up.

        Raises:
            IllegalStateError: it was not started.
        """
        return self._running().cluster.controller_id

    def topic_names(self) -> list[str]:
        """Return the names of the topics, sorted, without the broker's own.

        Raises:
            IllegalStateError: it was not started.
        """
        topics = self._running().topics.all()
        return [topic.name for topic in topics if not topic.is_internal]

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        *,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Make a topic; it can be used when this returns.

        Args:
            name: 1 to 249 characters of a-z, A-Z, 0-9, `.`, `_` and `-`.
            partitions: 1 to 100,000; default -1: `num_partitions`.
            replication_factor: default -1: `default_replication_factor`.
            config: Kafka's topic settings, as {"max.message.bytes": "100000"}.

        Raises:
            BrokerTopicError: it exists, or a value is not allowed; `code` is Kafka's.
            TypeError: an argument is of another kind.
            IllegalStateError: it was not started.
        """
        topics = self._running().topics
        if not isinstance(name, str):
            raise TypeError(f"name must be a str, not {type(name).__name__}")
        settings = topic_settings(config)
        count = whole_number("partitions", partitions)
        factor = whole_number("replication_factor", replication_factor)
        try:
            topics.create(plain_text(name), count, factor, settings)
        except TopicError as error:
            raise BrokerTopicError(error.message, code=error.code, topic=name) from None

    def delete_topic(self, name: str) -> None:
        """Delete a topic and its records; fetches that wait for it end (B-D4.3).

        Args:
            name: of the topic.

        Raises:
            BrokerTopicError: there is no such topic.
            IllegalStateError: it was not started.
        """
        state = self._running()
        try:
            deleted = state.topics.delete(name)
        except TopicError as error:
            raise BrokerTopicError(error.message, code=error.code, topic=name) from None
        state.topic_deleted(deleted)

    def move_leader(self, topic: str, partition: int, node_id: int) -> int:
        """Let another node lead a partition; returns the new leader epoch.

        The node that leads a partition of __consumer_offsets coordinates the groups in it.

        Args:
            topic: its name.
            partition: 0-based.
            node_id: from 0; it may be down, then nobody answers for the partition. With several
                replicas it must be one of them, and up: one that is in sync fetches everything
                first, with another one what that lacks is lost.

        Raises:
            BrokerTopicError: there is no such topic or partition.
            ValueError: there is no such node, or it cannot lead.
            IllegalStateError: it was not started.
        """
        state = self._running()
        found = self._partition(topic, partition)
        node_id = whole_number("node_id", node_id)
        if node_id not in state.cluster.node_ids:
            raise ValueError(f"no node {node_id}; there are 0 to {self._node_count - 1}")
        epoch = state.cluster.move_leader(found, node_id)
        state.purgatory.check_and_complete(found)
        state.leaders_moved()
        return epoch

    def leader(self, topic: str, partition: int) -> int:
        """Return the id of the node that leads a partition; -1: none does.

        Args:
            topic: its name.
            partition: 0-based.

        Raises:
            BrokerTopicError: there is no such topic or partition.
            IllegalStateError: it was not started.
        """
        return self._partition(topic, partition).leader

    def end_offset(self, topic: str, partition: int) -> int:
        """Return the offset that the next record of a partition will get.

        Args:
            topic: its name.
            partition: 0-based.

        Raises:
            BrokerTopicError: there is no such topic or partition.
            IllegalStateError: it was not started.
        """
        return self._partition(topic, partition).log.log_end_offset

    def records(self, topic: str, partition: int | None = None) -> list[StoredRecord]:
        """Return the records that are stored, decompressed, without a consumer.

        Blocks for as long as reading them takes; meant for tests, not for millions.

        Args:
            topic: its name.
            partition: 0-based; None: all, one partition after the other.

        Raises:
            BrokerTopicError: there is no such topic or partition, or its files cannot be read.
            KafkaError: stored bytes are damaged (with `validation` below "full").
            IllegalStateError: it was not started.
        """
        found = self._topic(topic)
        chosen = found.partitions if partition is None else [self._partition(topic, partition)]
        try:
            return [
                StoredRecord.of(each.index, record)
                for each in chosen
                for batch in each.log.batches()
                if not batch.is_control
                for record in batch.records()
            ]
        except LogError as error:
            raise BrokerTopicError(error.message, code=error.error_code, topic=topic) from None

    def run_retention_now(self) -> int:
        """Drop the segments that are too old or too many; returns how many went (B-C4.5).

        The broker does it by itself `log_retention_check_interval_ms` after records came, and
        when the next segment is too old.

        Raises:
            BrokerTopicError: files of a partition cannot be removed.
            IllegalStateError: it was not started, or is stopped.
        """
        topics = self._running().topics
        if self._is_stopped:
            raise IllegalStateError("this broker is stopped; its logs are closed")
        count = 0
        for partition in [each for topic in topics.all() for each in topic.partitions]:
            try:
                count += partition.log.run_retention_now()
            except LogError as error:
                if not partition.is_deleted:
                    raise BrokerTopicError(
                        error.message, code=error.error_code, topic=partition.topic
                    ) from None
        return count

    def requests(self, api: str | int | None = None) -> list[LoggedRequest]:
        """Return what clients asked, oldest first: the last `request_log_size` requests.

        Args:
            api: Kafka's name or key of an API, as "Produce" or 0; None: every one.

        Raises:
            IllegalStateError: it was not started.
        """
        return self._running().request_log.entries(api)

    def _make_first_topic(self, name: str, partition_count: int) -> None:
        topics = self._running().topics
        if topics.get(name) is not None:
            return
        try:
            topics.create(name, partition_count)
        except TopicError as error:
            raise ConfigError(f"topic {name!r}: {error.message}", key="topics") from None

    def _topic(self, name: str) -> Topic:
        topic = self._running().topics.get(name)
        if topic is None:
            raise BrokerTopicError(
                f"no topic {name!r}; there are {', '.join(self.topic_names()) or 'none'}",
                code=3,
                topic=name,
            )
        return topic

    def _partition(self, name: str, index: int) -> Partition:
        topic = self._topic(name)
        index = whole_number("partition", index)
        partition = topic.partition(index)
        if partition is None:
            raise BrokerTopicError(
                f"topic {name!r} has partitions 0 to {len(topic.partitions) - 1}, not {index}",
                code=3,
                topic=name,
                partition=index,
            )
        return partition

    def _running(self) -> NodeServices:
        self._check_process()
        if self._state is None:
            raise IllegalStateError("this broker was not started; call start(), or use `with`")
        return self._state

    def _refuse_if_stopped(self) -> None:
        if self._is_stopped:
            raise IllegalStateError("this broker is stopped; make a new one")

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise IllegalStateError(
                f"this broker runs in process {self._pid}, this is process {os.getpid()}, its "
                f"child; make a Broker of its own here"
            )

    def _abandon(self) -> None:
        """In the child of a fork: no thread came along, and the sockets are the parent's."""
        for server in self._servers:
            server.abandon()
        if self._state is not None:
            self._state.abandon()


# Brokers that have something open here, or in the process that this one is a child of.
_started: set[Broker] = set()


def _abandon_in_child() -> None:
    """Close the inherited sockets: else the parent's port would outlive the parent."""
    for broker in list(_started):
        broker._abandon()
    _started.clear()


def _stop_at_exit() -> None:
    with contextlib.ExitStack() as steps:
        for broker in list(_started):
            steps.callback(broker.stop)


os.register_at_fork(after_in_child=_abandon_in_child)
atexit.register(_stop_at_exit)

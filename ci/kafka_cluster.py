"""KafkaCluster: Apache Kafka itself, one or three nodes on loopback, for tests and benchmarks."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import kafka_admin
import kafka_jars
import log_dump
from kafka_node import Endpoint, KafkaNode, free_ports
from kept_process import ProcessFailed

START_TIMEOUT_S = 90.0
TOPIC_TIMEOUT_S = 30.0


def default_settings(node_count: int) -> dict[str, str]:
    """Settings for quick tests; a time-based retention is off: tests write any timestamp."""
    replication = str(min(node_count, 3))
    in_sync = "2" if node_count >= 3 else "1"
    return {
        "offsets.topic.replication.factor": replication,
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": in_sync,
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "1",
        "default.replication.factor": replication,
        "min.insync.replicas": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        # As in our broker.
        "group.consumer.assignment.interval.ms": "0",
        "group.consumer.migration.policy": "disabled",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        # Else the controller writes something every 500 ms: a third of what an idle node takes.
        "metadata.max.idle.interval.ms": "10000",
        "log.retention.ms": "-1",
        "log.cleaner.dedupe.buffer.size": "4194304",
        "num.network.threads": "2",
        "num.io.threads": "4",
    }


class KafkaCluster:
    """A running Kafka: `with KafkaCluster(nodes=3) as kafka: kafka.bootstrap_servers`.

    Args:
        nodes: number of combined broker and controller nodes, 1 or more; ids from 1.
        config: broker settings that are added to or override `default_settings`.
        listeners: further listeners by name with their security protocol, such as
            {"SASL": "SASL_PLAINTEXT"}; each gets a port, see `bootstrap`. Their settings
            (`listener.name.sasl....`) come through `config`.
        advertised: ports that clients of a listener are told, by its name, one for each node: those
            of a proxy. None: those that the nodes listen on.
        heap: -Xmx of each node.
        java: flags of the JVMs; None: those that start fast. See java_flags.
        start_timeout_s: bound of each wait for a node.

    Blocks: start about 2 s with one node, 5 s with three. Each wait has a bound and its error
        carries the tail of the node's log.
    Threads: any, but two threads must not start or stop the same node at once.

    The nodes die with this process, however it dies, and their folder goes with them.
    """

    def __init__(
        self,
        nodes: int = 1,
        config: Mapping[str, str] | None = None,
        *,
        listeners: Mapping[str, str] | None = None,
        advertised: Mapping[str, Sequence[int]] | None = None,
        heap: str = "512m",
        java: Sequence[str] | None = None,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self.node_ids = range(1, nodes + 1)
        self._settings = {**default_settings(nodes), **(config or {})}
        self._listeners = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **(listeners or {})}
        self._advertised = advertised or {}
        self._heap = heap
        self._java = java
        self._start_timeout_s = start_timeout_s
        self._nodes: dict[int, KafkaNode] = {}
        self._folder: Path | None = None
        self._owner_pid = os.getpid()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Make the folder, start all nodes, wait until each serves."""
        kafka_jars.jars()
        folder = self._folder = Path(tempfile.mkdtemp(prefix="fastprod-kafka-"))
        atexit.register(self.close)
        ports = iter(free_ports(len(self.node_ids) * len(self._listeners)))
        for node_id in self.node_ids:
            ends = [
                Endpoint(name, kind, next(ports), self._told_port(name, node_id))
                for name, kind in self._listeners.items()
            ]
            self._nodes[node_id] = KafkaNode(node_id, folder / f"node-{node_id}", ends)
        voters = [f"{n.node_id}@{n.endpoints['CONTROLLER'].address}" for n in self._all()]
        cluster_id = kafka_jars.new_kafka_id()
        try:
            for node in self._all():
                node.prepare(cluster_id, ",".join(voters), self._settings)
                node.launch(self._heap, self._flags())
            for node in self._all():
                node.wait_ready(self._start_timeout_s)
        except BaseException:
            self.close()
            raise

    def _told_port(self, listener: str, node_id: int) -> int | None:
        told = self._advertised.get(listener)
        return None if told is None else told[node_id - self.node_ids.start]

    def _flags(self) -> Sequence[str]:
        return kafka_jars.quick_flags() if self._java is None else self._java

    def close(self) -> None:
        """Kill all nodes and remove their data; harmless when done already.

        SIGKILL at once: the data is thrown away, so there is nothing to shut down cleanly.
        """
        atexit.unregister(self.close)
        if os.getpid() != self._owner_pid:
            return
        for node in self._all():
            if node.is_running:
                node.process.send_signal(signal.SIGKILL)
        for node in self._all():
            if node.was_launched:
                node.process.reap(10.0)
        self._nodes.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder)
            self._folder = None

    @property
    def bootstrap_servers(self) -> str:
        """host:port of each node, comma-separated, of the plaintext listener."""
        return self.bootstrap("PLAINTEXT")

    def bootstrap(self, listener: str) -> str:
        """host:port of each node, comma-separated, of one listener."""
        return ",".join(node.endpoints[listener].address for node in self._all())

    def ports(self, listener: str) -> list[int]:
        """The port that each node listens on, of one listener."""
        return [node.endpoints[listener].port for node in self._all()]

    def pid(self, node_id: int) -> int:
        """Process id of a node's JVM."""
        return self._node(node_id).process.pid

    def log_dir(self, node_id: int) -> Path:
        """The node's data folder; a partition is the folder `topic-index` in it."""
        return self._node(node_id).data

    def server_log(self, node_id: int) -> str:
        """What the node has logged since it was last started."""
        return self._node(node_id).process.output()

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic and wait until each partition has its leader and all its replicas in sync.

        Args:
            name: of the topic; it must not exist.
            partitions: number of partitions.
            replication: number of replicas; None: 3, or 1 on a cluster of one or two nodes.
            config: settings of the topic, such as {"min.insync.replicas": "2"}.
        """
        replicas = replication or int(self._settings["default.replication.factor"])
        kafka_admin.create_topic(self.bootstrap_servers, name, partitions, replicas, config or {})
        kafka_admin.wait_for_partitions(
            self.bootstrap_servers,
            name,
            lambda seen: (
                len(seen) == partitions
                and all(len(p.isr) == replicas and p.leader in p.isr for p in seen.values())
            ),
            f"{partitions} partitions with {replicas} replicas in sync",
            TOPIC_TIMEOUT_S,
        )

    def leader(self, topic: str, partition: int) -> int:
        """Node id of the leader as the cluster says now: a dead node until its session ends."""
        return self._partition(topic, partition).leader

    def isr(self, topic: str, partition: int) -> tuple[int, ...]:
        """Node ids of the replicas in sync, as the cluster says now."""
        return self._partition(topic, partition).isr

    def wait_for_leader(
        self, topic: str, partition: int, *, other_than: int, timeout_s: float = TOPIC_TIMEOUT_S
    ) -> int:
        """Block until the partition has a leader that is not `other_than`; return its id."""
        state = kafka_admin.wait_for_partitions(
            self.bootstrap_servers,
            topic,
            lambda seen: partition in seen and seen[partition].leader not in (-1, other_than),
            f"a leader of partition {partition} other than node {other_than}",
            timeout_s,
        )
        return state[partition].leader

    def wait_for_isr(
        self, topic: str, partition: int, *, count: int, timeout_s: float = TOPIC_TIMEOUT_S
    ) -> tuple[int, ...]:
        """Block until exactly `count` replicas are in sync; return their node ids."""
        state = kafka_admin.wait_for_partitions(
            self.bootstrap_servers,
            topic,
            lambda seen: partition in seen and len(seen[partition].isr) == count,
            f"{count} replicas of partition {partition} in sync",
            timeout_s,
        )
        return state[partition].isr

    def kill(self, node_id: int) -> None:
        """SIGKILL a node and wait until its process is gone; the others notice within 3 s."""
        self._node(node_id).process.kill()

    def stop_node(self, node_id: int, timeout_s: float = 20.0) -> bool:
        """SIGTERM: controlled shutdown; after `timeout_s` SIGKILL. True when it ended by itself."""
        return self._node(node_id).process.stop(timeout_s)

    def restart_all(self, ports: Mapping[str, Sequence[int]] | None = None) -> None:
        """Start nodes that were killed or stopped, all at once; wait until each serves.

        Args:
            ports: other ones for the nodes of some listeners, by name.
        """
        for number, node in enumerate(self._all()):
            node.move({name: each[number] for name, each in (ports or {}).items()})
            node.launch(self._heap, self._flags())
        for node in self._all():
            node.wait_ready(self._start_timeout_s)

    def restart(self, node_id: int) -> None:
        """Start a node again on its ports and data; wait until it serves. Kills it if it runs.

        Blocks: 1.5 s after `stop_node`, up to 5 s soon after `kill`: the controller refuses a
        second registration until the session of the first has ended.
        """
        node = self._node(node_id)
        if node.is_running:
            node.process.kill()
        node.launch(self._heap, self._flags())
        node.wait_ready(self._start_timeout_s)

    def pause(self, node_id: int) -> None:
        """SIGSTOP: the node keeps its connections and answers nothing."""
        self._node(node_id).process.send_signal(signal.SIGSTOP)

    def resume(self, node_id: int) -> None:
        """SIGCONT after `pause`."""
        self._node(node_id).process.send_signal(signal.SIGCONT)

    def run_class(self, class_name: str, *args: str, timeout_s: float = 60.0) -> str:
        """Run one of Kafka's classes in a JVM of its own; return what it printed, errors last.

        Raises: ProcessFailed when its exit code is not 0.
        """
        done = kafka_jars.run_class(class_name, *args, timeout_s=timeout_s)
        if done.returncode != 0:
            raise ProcessFailed(
                f"{class_name} ended with code {done.returncode}:\n"
                f"{done.stderr[-3000:]}\n{done.stdout[-1000:]}"
            )
        return done.stdout + done.stderr

    def set_feature(self, name: str, level: int, verb: str = "downgrade") -> None:
        """Let the cluster agree on another level of a feature. Blocks: for some seconds."""
        self.run_class(
            "org.apache.kafka.tools.FeatureCommand",
            *("--bootstrap-server", self.bootstrap_servers, verb),
            *("--feature", f"{name}={level}"),
        )

    def dump_log(
        self, topic: str, partition: int, *, node_id: int | None = None, timeout_s: float = 60.0
    ) -> list[log_dump.DumpedBatch]:
        """Let Kafka's DumpLogSegments check all segments of a partition, record by record.

        Args:
            topic: name.
            partition: index.
            node_id: whose replica; None: the leader's.
            timeout_s: bound of the tool's run.

        Returns: the batches in the order of the log.
        Raises: log_dump.DumpFailed when the tool finds a fault in any batch or index.
        Blocks: about 1 s.
        """
        return log_dump.dump(self._segments(topic, partition, node_id), timeout_s)

    def dump_logs(
        self, topic: str, partition_count: int, *, timeout_s: float = 60.0
    ) -> list[list[log_dump.DumpedBatch]]:
        """The same for all partitions of a topic, on their leaders, in one run of the tool."""
        return log_dump.dump_partitions(
            [self._segments(topic, partition) for partition in range(partition_count)], timeout_s
        )

    def _segments(self, topic: str, partition: int, node_id: int | None = None) -> list[Path]:
        owner = self.leader(topic, partition) if node_id is None else node_id
        folder = self.log_dir(owner) / f"{topic}-{partition}"
        segments = sorted(folder.glob("*.log"))
        if not segments:
            raise log_dump.DumpFailed(f"node {owner} has no segment of {topic}-{partition}")
        return segments

    def _all(self) -> list[KafkaNode]:
        return list(self._nodes.values())

    def _node(self, node_id: int) -> KafkaNode:
        if node_id not in self._nodes:
            raise ValueError(f"no running node {node_id}; there are {sorted(self._nodes)}")
        return self._nodes[node_id]

    def _partition(self, topic: str, partition: int) -> kafka_admin.PartitionState:
        return kafka_admin.wait_for_partitions(
            self.bootstrap_servers,
            topic,
            lambda seen: partition in seen,
            f"partition {partition} exists",
            TOPIC_TIMEOUT_S,
        )[partition]

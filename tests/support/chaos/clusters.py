"""Three nodes behind a ChaosProxy: our own, or Apache Kafka's, with the same handles."""

from __future__ import annotations

import contextlib
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

import kafka_admin
from fastprod.broker import Broker
from fastprod.broker.broker import BrokerTopicError
from fastprod.broker.listeners import BrokerListener
from kafka_cluster import KafkaCluster
from support.chaos.proxy import ChaosProxy

NODES = 3
IN_SYNC = 2
HEAP = "256m"
WAIT_S = 60.0
SESSION_MS = 3_000
_OTHERS, _CLIENTS = "PLAINTEXT", "CHAOS"
_LEFT_OUT = re.compile(
    r"Couldn't find leader endpoint for partitions \w*Set\(([^()\n]*)\) while trying to send "
    r"transaction markers for (.*?), these partitions are likely deleted"
)


class LeftOut(NamedTuple):
    """Where a transaction has ended, and its log does not say so."""

    transactional_id: str
    topic: str
    partition: int


class ChaosCluster(ABC):
    """What faults befall, and who judges is to ask. Nodes have numbers from 0, as in the proxy.

    Args:
        proxy: all clients that are under test come through it.

    Threads: one at a time.
    """

    name = ""

    def __init__(self, proxy: ChaosProxy) -> None:
        self.proxy = proxy

    @property
    def bootstrap_servers(self) -> str:
        """For clients under test: by the proxy, and so are all addresses that they are told."""
        return self.proxy.bootstrap_servers

    @property
    @abstractmethod
    def direct_servers(self) -> str:
        """For who judges: without the proxy."""

    @property
    def left_open(self) -> Counter[LeftOut]:
        """How many ends of transactions the nodes say that they have not written, and where."""
        return Counter()

    @abstractmethod
    def create_topic(self, name: str, partitions: int) -> None:
        """Make a topic, all replicas in sync when this returns."""

    @abstractmethod
    def kill(self, node: int) -> None:
        """As kill -9 does."""

    @abstractmethod
    def stop(self, node: int) -> None:
        """A shutdown that hands over first."""

    @abstractmethod
    def restart(self, node: int) -> None:
        """Start one again that was killed or stopped; wait until it serves."""

    @abstractmethod
    def pause(self, node: int) -> None:
        """It does nothing, its connections stay; the others go on without it after a while."""

    @abstractmethod
    def resume(self, node: int) -> None:
        """Undo `pause`: it goes on as if nothing had happened."""

    @abstractmethod
    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Have another node lead a partition, as far as it can."""

    def wait_until_in_sync(self, topic: str) -> None:
        """Block until all replicas of a topic are in sync, a minute at most."""
        kafka_admin.wait_for_partitions(
            self.direct_servers,
            topic,
            lambda seen: bool(seen) and all(len(each.isr) == NODES for each in seen.values()),
            "all replicas in sync",
            WAIT_S,
        )


class OurCluster(ChaosCluster):
    """A `Broker` with three nodes in this process."""

    name = "ours"

    def __init__(self, proxy: ChaosProxy, broker: Broker) -> None:
        super().__init__(proxy)
        self.broker = broker
        self._paused: dict[int, bool] = {}

    @property
    def direct_servers(self) -> str:
        return ",".join(str(node.endpoints[_OTHERS]) for node in self.broker.nodes)

    def create_topic(self, name: str, partitions: int) -> None:
        self.broker.create_topic(name, partitions)
        self.wait_until_in_sync(name)

    def kill(self, node: int) -> None:
        self.broker.nodes[node].kill()

    def stop(self, node: int) -> None:
        self.broker.nodes[node].down()

    def restart(self, node: int) -> None:
        self.broker.nodes[node].up()

    def pause(self, node: int) -> None:
        self.broker.faults.cut_off(node)
        self.broker.faults.stop_reading(node)

    def resume(self, node: int) -> None:
        # It reads what came meanwhile, and takes itself for the leader, before it hears the news.
        self.broker.faults.resume_reading(node)
        self.broker.faults.reconnect(node)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        # A node that is down, or not in sync, cannot lead.
        with contextlib.suppress(BrokerTopicError, ValueError):
            if node in self.broker._partition(topic, partition).isr:
                self.broker.move_leader(topic, partition, node)


class ApacheCluster(ChaosCluster):
    """Apache Kafka, three processes."""

    name = "apache"

    def __init__(self, proxy: ChaosProxy, kafka: KafkaCluster) -> None:
        super().__init__(proxy)
        self.kafka = kafka

    @property
    def direct_servers(self) -> str:
        return self.kafka.bootstrap_servers

    @property
    def left_open(self) -> Counter[LeftOut]:
        """Kafka 4.3 takes a partition that has no leader for a deleted one: a coordinator that is
        to write the end of a transaction there leaves it out, and the transaction counts as ended
        (KAFKA-20734, `KRaftMetadataCache.getPartitionLeaderEndpoint`)."""
        logs = [
            self.kafka.log_dir(node).with_name("server.log").read_text(errors="replace")
            for node in self.kafka.node_ids
        ]
        return ends_left_out("".join(logs))

    def create_topic(self, name: str, partitions: int) -> None:
        self.kafka.create_topic(name, partitions)

    def kill(self, node: int) -> None:
        self.kafka.kill(node + 1)

    def stop(self, node: int) -> None:
        self.kafka.stop_node(node + 1)

    def restart(self, node: int) -> None:
        self.kafka.restart(node + 1)

    def pause(self, node: int) -> None:
        self.kafka.pause(node + 1)

    def resume(self, node: int) -> None:
        self.kafka.resume(node + 1)

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Kafka's own way: back to the preferred one, whoever that is."""
        admin = AdminClient({"bootstrap.servers": self.direct_servers, "log_level": 0})
        with contextlib.suppress(KafkaException):  # no election is needed, or it is down
            admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(topic, partition)]).result(
                WAIT_S
            )


def ends_left_out(log: str) -> Counter[LeftOut]:
    """How often a log of Kafka's says that the end of a transaction is left out."""
    found: Counter[LeftOut] = Counter()
    for partitions, transactional_id in _LEFT_OUT.findall(log):
        for partition in partitions.split(", "):
            topic, _, index = partition.rpartition("-")
            found[LeftOut(transactional_id, topic, int(index))] += 1
    return found


@contextlib.contextmanager
def our_cluster(seed: int, **settings: Any) -> Iterator[OurCluster]:
    """Open a cluster of our own behind a proxy, for the time of a `with`."""
    with ChaosProxy(NODES, seed) as proxy:
        broker = Broker(
            brokers=NODES,
            listeners={
                _OTHERS: "PLAINTEXT",
                _CLIENTS: BrokerListener("PLAINTEXT", advertised_port=proxy.ports[0]),
            },
            default_replication_factor=NODES,
            min_insync_replicas=IN_SYNC,
            auto_create_topics=False,
            request_log_size=0,
            transaction_state_log_num_partitions=4,
            **settings,
        )
        with broker:
            targets = _bound_ports(broker)
            proxy.lead_to(targets)
            yield OurCluster(proxy, broker)


def _bound_ports(broker: Broker) -> Sequence[int]:
    return [server._listeners[_CLIENTS].port for server in broker._servers]


@contextlib.contextmanager
def apache_cluster(
    seed: int, *, is_first_protocol: bool = False, **settings: str
) -> Iterator[ApacheCluster]:
    """Open Apache Kafka behind a proxy, for the time of a `with`.

    Args:
        seed: of the proxy.
        is_first_protocol: transactions as before KIP-890.
        settings: of the nodes.
    """
    known = {
        "auto.create.topics.enable": "false",
        "broker.session.timeout.ms": str(SESSION_MS),
        "replica.lag.time.max.ms": "3000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "leader.imbalance.check.interval.seconds": "5",
        "leader.imbalance.per.broker.percentage": "0",
    }
    with ChaosProxy(NODES, seed) as proxy:
        kafka = KafkaCluster(
            NODES,
            {**known, **settings},
            listeners={_CLIENTS: "PLAINTEXT"},
            advertised={_CLIENTS: proxy.ports},
            heap=HEAP,
        )
        with kafka:
            if is_first_protocol:
                kafka.set_feature("transaction.version", 1)
            proxy.lead_to(kafka.ports(_CLIENTS))
            yield ApacheCluster(proxy, kafka)

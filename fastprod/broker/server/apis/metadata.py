"""Metadata and DescribeCluster: nodes, topics and leaders (B-D4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fastprod.broker.cluster.cluster import Cluster
from fastprod.broker.cluster.partition import NO_NODE, Partition
from fastprod.broker.cluster.topics import (
    INTERNAL_TOPICS,
    ZERO_ID,
    NewTopic,
    Topic,
    invalid_name_reason,
)
from fastprod.broker.config import BrokerConfig
from fastprod.broker.server.acl import CLUSTER_NAME, Operation, ResourceType
from fastprod.broker.server.apis.call import Call, change_topics
from fastprod.broker.server.item_errors import item_error
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.error_codes import (
    INVALID_TOPIC_EXCEPTION,
    LEADER_NOT_AVAILABLE,
    MISMATCHED_ENDPOINT_TYPE,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from fastprod.protocol.messages.metadata import (
    UNKNOWN_OPERATIONS,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

_NS_PER_MS = 1_000_000
_BROKERS_ENDPOINT = 1

# What there is to do with each kind of resource.
_TOPIC_OPERATIONS = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_CLUSTER_OPERATIONS = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)


class MetadataApi:
    """Handles Metadata. Any thread.

    Args:
        cluster: nodes and topics.
        config: whether topics that are asked for are created, and `metadata_lag_ms`.
        now_ns: the broker's clock.
        worker: where many topics are made.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: BrokerConfig,
        now_ns: Callable[[], int],
        worker: OverflowWorker,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._now_ns = now_ns
        self._worker = worker

    def handle(self, call: Call[MetadataRequest]) -> None:
        """Answer with the nodes and the topics asked for (B-D4.1)."""
        message = call.message
        if message.topics is None or (call.version == 0 and not message.topics):
            # Of the others the client does not learn that they are there.
            told = [
                self._describe(topic)
                for topic in self._cluster.topics.all()
                if (self._config.show_internal_topics or not topic.is_internal)
                and call.allows_topic(Operation.DESCRIBE, topic.name)
            ]
            self._answer(call, told)
            return
        # Each once, as in Kafka: otherwise a small request could have a huge answer.
        asked = list(
            {
                each.topic_id if each.name is None else each.name: each for each in message.topics
            }.values()
        )
        # Whether these exist is not told.
        hidden = {each.name for each in asked if not self._may_describe(call, each)}
        new = self._new_topics(call, [each for each in asked if each.name not in hidden])
        if new and not call.allows_cluster(Operation.CREATE):
            denied = {name for name in new if not call.allows_topic(Operation.CREATE, name)}
            hidden |= denied
            new = [name for name in new if name not in denied]
        plans = [NewTopic(name) for name in new if name not in call.request.withheld]

        def answer() -> None:
            made = zip(plans, self._cluster.topics.create_many(plans), strict=True)
            failed = {plan.name: each for plan, each in made if isinstance(each, Exception)}
            told = [
                _nothing(each.name, TOPIC_AUTHORIZATION_FAILED)
                if each.name is not None and each.name in hidden
                else self._find(call, each, failed)
                for each in asked
            ]
            self._answer(call, told)

        if plans:
            count = len(plans) * self._config.num_partitions
            change_topics(self._cluster.topics, self._worker, call, count, answer)
        else:
            answer()

    def _may_describe(self, call: Call[MetadataRequest], asked: MetadataRequestTopic) -> bool:
        return asked.name is None or call.allows_topic(Operation.DESCRIBE, asked.name)

    def _new_topics(
        self, call: Call[MetadataRequest], asked: Sequence[MetadataRequestTopic]
    ) -> list[str]:
        """Names of topics that the request would create, each once."""
        config = self._config
        if not (call.message.allow_auto_topic_creation and config.auto_create_topics_enable):
            return []
        return list(dict.fromkeys(each.name or "" for each in asked if self._is_new(each)))

    def _is_new(self, asked: MetadataRequestTopic) -> bool:
        return asked.name is not None and self._cluster.topics.get(asked.name) is None

    def _answer(self, call: Call[MetadataRequest], topics: list[MetadataResponseTopic]) -> None:
        message = call.message
        if message.include_topic_authorized_operations:
            for topic in topics:
                if topic.error_code == NONE:
                    topic.topic_authorized_operations = call.operations(
                        _TOPIC_OPERATIONS, ResourceType.TOPIC, topic.name or ""
                    )
        response = self._head(call, topics)
        if message.include_cluster_authorized_operations:
            response.cluster_authorized_operations = _cluster_operations(call)
        call.answer(response)

    def refuse(self, call: Call[MetadataRequest], code: int, text: str | None) -> None:
        """Answer with the nodes, and with `code` for every topic asked for."""
        topics = [
            MetadataResponseTopic(error_code=code, name=each.name, topic_id=each.topic_id)
            for each in call.message.topics or ()
        ]
        response = self._head(call, topics)
        response.error_code = code
        call.answer(response)

    def _head(
        self, call: Call[MetadataRequest], topics: list[MetadataResponseTopic]
    ) -> MetadataResponse:
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=each.id, host=each.host, port=each.port)
                for each in self._cluster.addresses(call.listener_name)
            ],
            cluster_id=self._cluster.cluster_id,
            controller_id=self._cluster.controller_id,
            topics=topics,
        )

    def _find(
        self,
        call: Call[MetadataRequest],
        asked: MetadataRequestTopic,
        failed: Mapping[str, Exception],
    ) -> MetadataResponseTopic:
        topics = self._cluster.topics
        if asked.name is None:
            topic = topics.by_id(asked.topic_id)
            if topic is None or not call.allows_topic(Operation.DESCRIBE, topic.name):
                return MetadataResponseTopic(
                    error_code=UNKNOWN_TOPIC_ID, name=None, topic_id=asked.topic_id
                )
            return self._describe(topic)
        topic = topics.get(asked.name)
        if topic is None and asked.name in failed:
            return _nothing(asked.name, item_error(failed[asked.name]).code)
        if topic is None:
            unusable = invalid_name_reason(asked.name) or asked.name in INTERNAL_TOPICS
            return _nothing(
                asked.name,
                INVALID_TOPIC_EXCEPTION if unusable else UNKNOWN_TOPIC_OR_PARTITION,
            )
        return self._describe(topic)

    def _describe(self, topic: Topic) -> MetadataResponseTopic:
        lag_ms = self._config.metadata_lag_ms
        if lag_ms and self._now_ns() < topic.created_ns + lag_ms * _NS_PER_MS:
            return _nothing(topic.name, LEADER_NOT_AVAILABLE)
        return MetadataResponseTopic(
            error_code=NONE,
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.is_internal,
            partitions=[self._partition(each) for each in topic.partitions],
        )

    def _partition(self, partition: Partition) -> MetadataResponsePartition:
        is_up = self._cluster.is_up
        leader = partition.leader if is_up(partition.leader) else NO_NODE
        return MetadataResponsePartition(
            error_code=NONE if leader != NO_NODE else LEADER_NOT_AVAILABLE,
            partition_index=partition.index,
            leader_id=leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=partition.replicas,
            isr_nodes=partition.isr,
            offline_replicas=[each for each in partition.replicas if not is_up(each)],
        )


def _nothing(name: str, code: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(error_code=code, name=name, topic_id=ZERO_ID)


def _cluster_operations(call: Call[Any]) -> int:
    """What the client may do with the cluster, if it may know of it."""
    if not call.allows_cluster(Operation.DESCRIBE):
        return 0
    return call.operations(_CLUSTER_OPERATIONS, ResourceType.CLUSTER, CLUSTER_NAME)


class DescribeClusterApi:
    """Handles DescribeCluster. Any thread.

    Args:
        cluster: its nodes.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handle(self, call: Call[DescribeClusterRequest]) -> None:
        """Answer with the nodes; there are no separate controllers."""
        if call.message.endpoint_type != _BROKERS_ENDPOINT:
            self.refuse(
                call,
                MISMATCHED_ENDPOINT_TYPE,
                f"endpoint type {call.message.endpoint_type}; this is a broker "
                f"({_BROKERS_ENDPOINT})",
            )
            return
        asked = call.message.include_cluster_authorized_operations
        call.answer(
            DescribeClusterResponse(
                error_code=NONE,
                cluster_id=self._cluster.cluster_id,
                controller_id=self._cluster.controller_id,
                brokers=[
                    DescribeClusterBroker(broker_id=each.id, host=each.host, port=each.port)
                    for each in self._cluster.addresses(call.listener_name)
                ],
                cluster_authorized_operations=_cluster_operations(call)
                if asked
                else UNKNOWN_OPERATIONS,
            )
        )

    def refuse(self, call: Call[DescribeClusterRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(DescribeClusterResponse(error_code=code, error_message=text, cluster_id=""))

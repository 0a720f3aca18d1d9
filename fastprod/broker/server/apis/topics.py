"""CreateTopics and DeleteTopics (B-D4.3, B-D4.5, B-D4.7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from fastprod.broker.cluster.cluster import Cluster
from fastprod.broker.cluster.topic_config import TopicConfig
from fastprod.broker.cluster.topics import ZERO_ID, NewTopic, Topic, TopicError
from fastprod.broker.config import BrokerConfig
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import UNAUTHORIZED, Call, change_topics
from fastprod.broker.server.item_errors import item_error
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.error_codes import (
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST,
    NONE,
    NOT_CONTROLLER,
    POLICY_VIOLATION,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from fastprod.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from fastprod.protocol.schema import SharedList

_FIRST_DELETE_BY_ID_VERSION = 6
_MOST_TOPICS = 10_000

_NamedBy = tuple[str | None, bytes]
"""A topic's name, or its id: the other one is None, or zero."""


def out_of_reach(cluster: Cluster, node_id: int) -> TopicError | None:
    """Why a node cannot have topics changed; None: it can.

    As in Kafka every node hands such a request on to the controller (KIP-590): clients that know
    an earlier controller are served, too.
    """
    if cluster.is_up(node_id):
        return None
    return TopicError(
        NOT_CONTROLLER,
        f"node {node_id} cannot reach the controller, node {cluster.controller_id}",
    )


class CreateTopicsApi:
    """Handles CreateTopics. Any thread.

    Args:
        cluster: whose topics.
        config: default number of partitions.
        worker: where many of them are made.
    """

    def __init__(self, cluster: Cluster, config: BrokerConfig, worker: OverflowWorker) -> None:
        self._cluster = cluster
        self._config = config
        self._worker = worker

    def handle(self, call: Call[CreateTopicsRequest]) -> None:
        """Make every topic that can be made; they can be used when the answer goes out."""
        counts = [self._partition_count(topic) for topic in call.message.topics]
        topics = self._cluster.topics
        change_topics(topics, self._worker, call, sum(counts), lambda: self._create_all(call))

    def _partition_count(self, asked: CreatableTopic) -> int:
        if asked.num_partitions == -1:
            return len(asked.assignments) or self._config.num_partitions
        return max(asked.num_partitions, 0)

    def _create_all(self, call: Call[CreateTopicsRequest]) -> None:
        by_name: dict[str, list[CreatableTopic]] = {}
        for topic in call.message.topics:
            by_name.setdefault(topic.name, []).append(topic)
        refused = out_of_reach(self._cluster, call.node_id)
        if len(by_name) > _MOST_TOPICS:
            # The answer has all settings of each topic.
            refused = TopicError(
                POLICY_VIOLATION,
                f"{len(by_name):,} topics in one request, over {_MOST_TOPICS:,}",
            )
        may_create = call.allows_cluster(Operation.CREATE)
        plans: dict[str, NewTopic] = {}
        failed: dict[str, Exception] = {}
        for name, asked in by_name.items():
            try:
                if refused is not None:
                    raise refused
                if not (may_create or call.allows_topic(Operation.CREATE, name)):
                    raise TopicError(TOPIC_AUTHORIZATION_FAILED, UNAUTHORIZED)
                plans[name] = _planned(asked)
            except TopicError as error:
                failed[name] = error
        make = self._check if call.message.validate_only else self._make
        made = make(list(plans.values()), failed)
        for name, result in made.items():
            if not call.allows_topic(Operation.DESCRIBE_CONFIGS, name):
                _hide_settings(result)
        call.answer(
            CreateTopicsResponse(
                topics=[
                    _not_created(name, *item_error(failed[name])) if name in failed else made[name]
                    for name in by_name
                ]
            )
        )

    def refuse(self, call: Call[CreateTopicsRequest], code: int, text: str | None) -> None:
        """Answer every topic with `code`."""
        names = dict.fromkeys(topic.name for topic in call.message.topics)
        call.answer(CreateTopicsResponse(topics=[_not_created(name, code, text) for name in names]))

    def _make(
        self, plans: Sequence[NewTopic], failed: dict[str, Exception]
    ) -> dict[str, CreatableTopicResult]:
        """Make the planned topics; errors are added to `failed`."""
        told: dict[TopicConfig, SharedList] = {}
        results = {}
        for plan, made in zip(plans, self._cluster.topics.create_many(plans), strict=True):
            if isinstance(made, Exception):
                failed[plan.name] = made
                continue
            count, factor = len(made.partitions), len(made.partitions[0].replicas)
            configs = _told(made.config, told)
            results[made.name] = _created(made.name, made.id, configs, count, factor)
        return results

    def _check(
        self, plans: Sequence[NewTopic], failed: dict[str, Exception]
    ) -> dict[str, CreatableTopicResult]:
        """Answer what would be made; errors are added to `failed`."""
        told: dict[TopicConfig, SharedList] = {}
        results = {}
        for plan in plans:
            try:
                config, replicas = self._cluster.topics.check_new(*plan)
            except Exception as error:
                failed[plan.name] = error
                continue
            count, factor = len(replicas), len(replicas[0])
            configs = _told(config, told)
            results[plan.name] = _created(plan.name, ZERO_ID, configs, count, factor)
        return results


def _planned(asked: Sequence[CreatableTopic]) -> NewTopic:
    """The topic that is asked for.

    Raises:
        TopicError: the request names it, or a partition of it, more than once.
    """
    first = asked[0]
    if len(asked) > 1:
        raise TopicError(
            INVALID_REQUEST,
            f"topic {first.name!r} stands {len(asked)} times in the request",
        )
    assignment = {each.partition_index: each.broker_ids for each in first.assignments}
    if len(assignment) != len(first.assignments):
        raise TopicError(INVALID_REPLICA_ASSIGNMENT, "a partition is assigned more than once")
    return NewTopic(
        first.name,
        first.num_partitions,
        first.replication_factor,
        {each.name: each.value for each in first.configs},
        assignment,
    )


def _told(config: TopicConfig, told: dict[TopicConfig, SharedList]) -> SharedList:
    """The settings for an answer; `told` caches those that several topics share."""
    found = told.get(config)
    if found is None:
        found = told[config] = SharedList(
            CreatableTopicConfigs(
                name=entry.setting.name,
                value=entry.value,
                read_only=False,
                config_source=entry.source,
                is_sensitive=False,
            )
            for entry in config.entries()
        )
    return found


def _created(
    name: str, topic_id: bytes, configs: SharedList, partition_count: int, replicas: int
) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=name,
        topic_id=topic_id,
        error_code=NONE,
        error_message=None,
        num_partitions=partition_count,
        replication_factor=replicas,
        configs=configs,
    )


def _hide_settings(result: CreatableTopicResult) -> None:
    """Tell of a new topic only that it is there."""
    result.topic_config_error_code = TOPIC_AUTHORIZATION_FAILED
    result.num_partitions = result.replication_factor = -1
    result.configs = []


def _not_created(name: str, code: int, text: str | None) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=code, error_message=text, configs=None)


class DeleteTopicsApi:
    """Handles DeleteTopics. Any thread.

    Args:
        cluster: whose topics.
        deleted: called with each topic that is gone.
        worker: where many of them are deleted.
    """

    def __init__(
        self, cluster: Cluster, deleted: Callable[[Topic], None], worker: OverflowWorker
    ) -> None:
        self._cluster = cluster
        self._deleted = deleted
        self._worker = worker

    def handle(self, call: Call[DeleteTopicsRequest]) -> None:
        """Delete every topic that there is."""
        found = [self._find(asked) for asked in _asked(call)]
        count = sum(len(topic.partitions) for topic in found if topic is not None)
        topics = self._cluster.topics
        change_topics(topics, self._worker, call, count, lambda: self._delete_all(call))

    def _find(self, asked: DeleteTopicState) -> Topic | None:
        topics = self._cluster.topics
        return topics.by_id(asked.topic_id) if asked.name is None else topics.get(asked.name)

    def _delete_all(self, call: Call[DeleteTopicsRequest]) -> None:
        refused = out_of_reach(self._cluster, call.node_id)
        may_delete_all = call.allows_cluster(Operation.DELETE)
        counts = Counter(map(_named_by, _asked(call)))
        results = []
        for (name, topic_id), count in counts.items():
            asked = DeleteTopicState(name=name, topic_id=topic_id)
            try:
                if refused is not None:
                    raise refused
                if count > 1:
                    raise TopicError(INVALID_REQUEST, f"it stands {count} times in the request")
                results.append(self._delete(call, asked, may_delete_all, counts))
            except Exception as error:
                results.append(_result(asked, *item_error(error)))
        call.answer(DeleteTopicsResponse(responses=results))

    def refuse(self, call: Call[DeleteTopicsRequest], code: int, text: str | None) -> None:
        """Answer every topic with `code`."""
        results = [_result(asked, code, text) for asked in _asked(call)]
        call.answer(DeleteTopicsResponse(responses=results))

    def _delete(
        self,
        call: Call[DeleteTopicsRequest],
        asked: DeleteTopicState,
        may_delete_all: bool,
        all_asked: Collection[_NamedBy],
    ) -> DeletableTopicResult:
        name, topic = asked.name, self._find(asked)
        if name is None:
            if asked.topic_id == ZERO_ID:
                raise TopicError(INVALID_REQUEST, "a topic is named by its name or by its id")
            if topic is None:
                raise TopicError(UNKNOWN_TOPIC_ID, "This server has no topic with that id.")
            name = topic.name
        elif asked.topic_id != ZERO_ID:
            raise TopicError(INVALID_REQUEST, "a topic is named by its name or by its id, not both")
        may_know = may_delete_all or call.allows_topic(Operation.DESCRIBE, name)
        if may_know and topic is None:
            raise TopicError(UNKNOWN_TOPIC_OR_PARTITION, f"This server has no topic '{name}'.")
        if not (may_know and (may_delete_all or call.allows_topic(Operation.DELETE, name))):
            # Of a topic that it may not know of, a client gets no other name than it gave.
            result = _result(asked, TOPIC_AUTHORIZATION_FAILED, UNAUTHORIZED)
            result.name = name if may_know else asked.name
            return result
        assert topic is not None
        if (name, ZERO_ID) in all_asked and (None, topic.id) in all_asked:
            raise TopicError(INVALID_REQUEST, "it stands in the request by its name and by its id")
        deleted = self._cluster.topics.delete(name, topic.id if asked.name is None else None)
        self._deleted(deleted)
        return DeletableTopicResult(name=name, topic_id=deleted.id, error_code=NONE)


def _asked(call: Call[DeleteTopicsRequest]) -> list[DeleteTopicState]:
    if call.version >= _FIRST_DELETE_BY_ID_VERSION:
        return call.message.topics
    return [DeleteTopicState(name=name) for name in call.message.topic_names]


def _named_by(asked: DeleteTopicState) -> _NamedBy:
    return asked.name, bytes(asked.topic_id)


def _result(asked: DeleteTopicState, code: int, text: str | None) -> DeletableTopicResult:
    return DeletableTopicResult(
        name=asked.name, topic_id=asked.topic_id, error_code=code, error_message=text
    )

"""CreatePartitions (B-D4)."""

from __future__ import annotations

from collections import Counter

from fastprod.broker.cluster.cluster import Cluster
from fastprod.broker.cluster.topics import TopicError
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import UNAUTHORIZED, Call, change_topics
from fastprod.broker.server.apis.topics import out_of_reach
from fastprod.broker.server.item_errors import item_error
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.error_codes import INVALID_REQUEST, NONE, TOPIC_AUTHORIZATION_FAILED
from fastprod.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)


class CreatePartitionsApi:
    """Handles CreatePartitions. Any thread.

    Args:
        cluster: whose topics.
        worker: where many of them are made.
    """

    def __init__(self, cluster: Cluster, worker: OverflowWorker) -> None:
        self._cluster = cluster
        self._worker = worker

    def handle(self, call: Call[CreatePartitionsRequest]) -> None:
        """Give each topic that can have them more partitions; they can be used then."""
        topics = self._cluster.topics
        count = sum(max(each.count, 0) for each in call.message.topics)
        change_topics(topics, self._worker, call, count, lambda: self._grow_all(call))

    def _grow_all(self, call: Call[CreatePartitionsRequest]) -> None:
        refused = out_of_reach(self._cluster, call.node_id)
        counts = Counter(each.name for each in call.message.topics)
        results: dict[str, CreatePartitionsTopicResult] = {}
        for each in call.message.topics:
            code, text = NONE, None
            try:
                if refused is not None:
                    raise refused
                if counts[each.name] > 1:
                    raise TopicError(INVALID_REQUEST, "Duplicate topic name.")
                self._grow(call, each)
            except Exception as error:
                code, text = item_error(error)
            results[each.name] = _result(each.name, code, text)
        call.answer(CreatePartitionsResponse(results=list(results.values())))

    def _grow(self, call: Call[CreatePartitionsRequest], asked: CreatePartitionsTopic) -> None:
        if not call.allows_topic(Operation.ALTER, asked.name):
            raise TopicError(TOPIC_AUTHORIZATION_FAILED, UNAUTHORIZED)
        assignment = asked.assignments
        self._cluster.topics.add_partitions(
            asked.name,
            asked.count,
            None if assignment is None else [each.broker_ids for each in assignment],
            call.message.validate_only,
        )

    def refuse(self, call: Call[CreatePartitionsRequest], code: int, text: str | None) -> None:
        """Answer every topic with `code`."""
        names = dict.fromkeys(each.name for each in call.message.topics)
        results = [_result(name, code, text) for name in names]
        call.answer(CreatePartitionsResponse(results=results))


def _result(name: str, code: int, text: str | None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=code, error_message=text)

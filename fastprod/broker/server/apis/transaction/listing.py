"""ListTransactions, DescribeTransactions and DescribeProducers (KIP-664)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastprod.broker.coordinator.group.consumer.regular_expression import (
    InvalidExpression,
    RegularExpression,
)
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from fastprod.broker.coordinator.transaction.transaction_metadata import (
    TransactionState as State,
)
from fastprod.broker.coordinator.transaction.transaction_metadata import TxnTransitMetadata
from fastprod.broker.coordinator.transaction.transaction_records import by_topic
from fastprod.broker.server.acl import Operation, ResourceType
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.replica_manager import ReplicaManager
from fastprod.error_codes import (
    INVALID_REGULAR_EXPRESSION,
    INVALID_REQUEST,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_NOT_FOUND,
)
from fastprod.protocol.messages.transaction.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from fastprod.protocol.messages.transaction.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from fastprod.protocol.messages.transaction.describe_transactions import (
    TransactionState as DescribedTransaction,
)
from fastprod.protocol.messages.transaction.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from fastprod.protocol.messages.transaction.list_transactions import (
    TransactionState as ListedTransaction,
)


def _may_describe(call: Call[Any], transactional_id: str) -> bool:
    return call.allows(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)


class ListTransactionsApi:
    """Handles ListTransactions. Any thread.

    Args:
        coordinator: of all transactions.
        now_ms: the broker's clock.
    """

    def __init__(self, coordinator: TransactionCoordinator, now_ms: Callable[[], int]) -> None:
        self._coordinator = coordinator
        self._now_ms = now_ms

    def handle(self, call: Call[ListTransactionsRequest]) -> None:
        """Answer with those that the node coordinates and the client may know of."""
        message = call.message
        known = {each.value for each in State}
        unknown = [each for each in message.state_filters if each not in known]
        try:
            found = self._coordinator.manager.items(call.node_id)
        except CoordinatorError as error:
            self.refuse(call, error.code, None)
            return
        try:
            pattern = message.transactional_id_pattern
            expression = RegularExpression(pattern) if pattern else None
        except InvalidExpression:
            self.refuse(call, INVALID_REGULAR_EXPRESSION, None)
            return
        is_wanted = _wanted(message, self._now_ms())
        call.answer(
            ListTransactionsResponse(
                error_code=NONE,
                unknown_state_filters=unknown,
                transaction_states=[
                    ListedTransaction(
                        transactional_id=each.transactional_id,
                        producer_id=each.now.producer_id,
                        transaction_state=each.now.state.value,
                    )
                    for each in found
                    if is_wanted(each.now)
                    and (expression is None or expression.matches(each.transactional_id))
                    and _may_describe(call, each.transactional_id)
                ],
            )
        )

    def refuse(self, call: Call[ListTransactionsRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(ListTransactionsResponse(error_code=code))


def _wanted(message: ListTransactionsRequest, now_ms: int) -> Callable[[TxnTransitMetadata], bool]:
    states, producers = set(message.state_filters), set(message.producer_id_filters)
    duration_ms = message.duration_filter

    def is_wanted(now: TxnTransitMetadata) -> bool:
        if now.producer_epoch < 0:
            return False
        if states and now.state.value not in states:
            return False
        if producers and now.producer_id not in producers:
            return False
        return duration_ms < 0 or (now.start_ms >= 0 and now_ms - now.start_ms > duration_ms)

    return is_wanted


class DescribeTransactionsApi:
    """Handles DescribeTransactions. Any thread.

    Args:
        coordinator: of all transactions.
    """

    def __init__(self, coordinator: TransactionCoordinator) -> None:
        self._coordinator = coordinator

    def handle(self, call: Call[DescribeTransactionsRequest]) -> None:
        """Answer for each transactional id, once: a small request has no huge answer."""
        ids = dict.fromkeys(call.message.transactional_ids)
        call.answer(
            DescribeTransactionsResponse(
                transaction_states=[self._describe(call, each) for each in ids]
            )
        )

    def _describe(
        self, call: Call[DescribeTransactionsRequest], transactional_id: str
    ) -> DescribedTransaction:
        if not _may_describe(call, transactional_id):
            return _undescribed(transactional_id, TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if not transactional_id:
            return _undescribed(transactional_id, INVALID_REQUEST)
        try:
            metadata = self._coordinator.existing(transactional_id, call.node_id)
        except CoordinatorError as error:
            return _undescribed(transactional_id, error.code)
        if metadata is None or metadata.is_dead:
            return _undescribed(transactional_id, TRANSACTIONAL_ID_NOT_FOUND)
        now = metadata.now
        return DescribedTransaction(
            error_code=NONE,
            transactional_id=transactional_id,
            transaction_state=now.state.value,
            transaction_timeout_ms=now.timeout_ms,
            transaction_start_time_ms=now.start_ms,
            producer_id=now.producer_id,
            producer_epoch=now.producer_epoch,
            topics=[
                TopicData(topic=topic, partitions=indexes)
                for topic, indexes in by_topic(now.partitions).items()
                if call.allows_topic(Operation.DESCRIBE, topic)
            ],
        )

    def refuse(self, call: Call[DescribeTransactionsRequest], code: int, text: str | None) -> None:
        """Answer every transactional id with `code`."""
        ids = call.message.transactional_ids
        call.answer(
            DescribeTransactionsResponse(
                transaction_states=[_undescribed(each, code) for each in ids]
            )
        )


def _undescribed(transactional_id: str, code: int) -> DescribedTransaction:
    return DescribedTransaction(error_code=code, transactional_id=transactional_id)


class DescribeProducersApi:
    """Handles DescribeProducers. Any thread.

    Args:
        replica_manager: finds partitions.
    """

    def __init__(self, replica_manager: ReplicaManager) -> None:
        self._replicas = replica_manager

    def handle(self, call: Call[DescribeProducersRequest]) -> None:
        """Answer for each partition."""
        denied = {
            each.name
            for each in call.message.topics
            if not call.allows_topic(Operation.READ, each.name)
        }

        def describe(topic: str, index: int) -> PartitionResponse:
            if topic in denied:
                return _undescribed_partition(index, TOPIC_AUTHORIZATION_FAILED)
            return self._describe(call.node_id, topic, index)

        _answer_producers(call, describe)

    def _describe(self, node_id: int, topic: str, index: int) -> PartitionResponse:
        code, partition = self._replicas.find(node_id, topic, index)
        if code != NONE or partition is None:
            return _undescribed_partition(index, code)
        return PartitionResponse(
            partition_index=index,
            error_code=NONE,
            active_producers=[
                ProducerState(
                    producer_id=producer_id,
                    producer_epoch=state.epoch,
                    last_sequence=state.last_sequence,
                    last_timestamp=state.timestamp,
                    coordinator_epoch=state.coordinator_epoch,
                    current_txn_start_offset=state.first_offset,
                )
                for producer_id, state in partition.log.producers()
            ],
        )

    def refuse(self, call: Call[DescribeProducersRequest], code: int, text: str | None) -> None:
        """Answer every partition with `code`."""
        _answer_producers(call, lambda topic, index: _undescribed_partition(index, code))


def _undescribed_partition(index: int, code: int) -> PartitionResponse:
    return PartitionResponse(partition_index=index, error_code=code)


def _answer_producers(
    call: Call[DescribeProducersRequest], describe: Callable[[str, int], PartitionResponse]
) -> None:
    # Each once: a small request has no huge answer.
    asked: dict[str, dict[int, None]] = {}
    for topic in call.message.topics:
        asked.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    call.answer(
        DescribeProducersResponse(
            topics=[
                TopicResponse(name=name, partitions=[describe(name, index) for index in indexes])
                for name, indexes in asked.items()
            ]
        )
    )

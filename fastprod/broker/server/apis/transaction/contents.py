"""AddPartitionsToTxn, AddOffsetsToTxn and TxnOffsetCommit: what a transaction holds (B-E4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fastprod.broker.cluster.topics import INTERNAL_TOPICS, OFFSETS_TOPIC, Topics
from fastprod.broker.coordinator.group.group import Committing
from fastprod.broker.coordinator.group.group_coordinator import GroupCoordinator
from fastprod.broker.coordinator.group.group_metadata_manager import GroupMetadataManager
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from fastprod.broker.coordinator.transaction.transaction_metadata import TV_0, TV_2, TopicPartition
from fastprod.broker.log.record_batch import Producer
from fastprod.broker.server.acl import Operation, ResourceType
from fastprod.broker.server.apis.call import Call, change_topics
from fastprod.broker.server.apis.group.membership import may_read_group
from fastprod.broker.server.apis.group.offsets import checked_offsets
from fastprod.broker.server.item_errors import item_error
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    INVALID_GROUP_ID,
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    NONE,
    OPERATION_NOT_ATTEMPTED,
    PRODUCER_FENCED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTION_ABORTABLE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.transaction.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from fastprod.protocol.messages.transaction.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from fastprod.protocol.messages.transaction.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_FIRST_FENCED_VERSION: Final = 2
_FIRST_BATCHED_VERSION: Final = 4
_FIRST_ABORTABLE_COMMIT_VERSION: Final = 4
_FIRST_ADDING_COMMIT_VERSION: Final = 5
_FIRST_LOADING_COMMIT_VERSION: Final = 2


def may_write(call: Call[Any], transactional_id: str) -> bool:
    """Whether the client may use a transactional id."""
    return call.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)


def fenced_code(code: int, version: int, first_version: int = _FIRST_FENCED_VERSION) -> int:
    """The code that a version has for a fenced producer (KIP-588)."""
    is_old = code == PRODUCER_FENCED and version < first_version
    return INVALID_PRODUCER_EPOCH if is_old else code


class AddPartitionsToTxnApi:
    """Handles AddPartitionsToTxn, of producers and, from version 4 on, of brokers. Any thread.

    Args:
        coordinator: of all transactions.
        topics: partitions are those that exist.
    """

    def __init__(self, coordinator: TransactionCoordinator, topics: Topics) -> None:
        self._coordinator = coordinator
        self._topics = topics

    def handle(self, call: Call[AddPartitionsToTxnRequest]) -> None:
        """Add partitions, all of a transaction or none."""
        message = call.message
        if call.version < _FIRST_BATCHED_VERSION:
            only = AddPartitionsToTxnTransaction(
                transactional_id=message.v3_and_below_transactional_id,
                producer_id=message.v3_and_below_producer_id,
                producer_epoch=message.v3_and_below_producer_epoch,
                verify_only=False,
                topics=message.v3_and_below_topics,
            )
            codes = self._add(call, only, TV_0)
            call.answer(
                AddPartitionsToTxnResponse(
                    results_by_topic_v3_and_below=_results(only.topics, codes)
                )
            )
            return
        if not call.allows_cluster(Operation.CLUSTER_ACTION):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, None)
            return
        call.answer(
            AddPartitionsToTxnResponse(
                error_code=NONE,
                results_by_transaction=[
                    AddPartitionsToTxnResult(
                        transactional_id=each.transactional_id,
                        topic_results=_results(each.topics, self._add(call, each, TV_2)),
                    )
                    for each in message.transactions
                ],
            )
        )

    def _add(
        self,
        call: Call[AddPartitionsToTxnRequest],
        transaction: AddPartitionsToTxnTransaction,
        client_version: int,
    ) -> dict[TopicPartition, int]:
        transactional_id = transaction.transactional_id
        is_client = client_version == TV_0
        places = [(each.name, index) for each in transaction.topics for index in each.partitions]
        # A broker has asked for its client already.
        if is_client and not may_write(call, transactional_id):
            return dict.fromkeys(places, TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        wrong = {}
        for topic, index in places:
            if is_client and (
                topic in INTERNAL_TOPICS or not call.allows_topic(Operation.WRITE, topic)
            ):
                wrong[topic, index] = TOPIC_AUTHORIZATION_FAILED
            elif self._topics.partition(topic, index) is None:
                wrong[topic, index] = UNKNOWN_TOPIC_OR_PARTITION
        if wrong:
            return dict.fromkeys(places, OPERATION_NOT_ATTEMPTED) | wrong
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        if transaction.verify_only:
            return self._coordinator.verify_partitions(
                transactional_id, producer, places, call.node_id
            )
        code = self._coordinator.add_partitions(
            transactional_id, producer, places, call.node_id, client_version
        )
        return dict.fromkeys(places, fenced_code(code, call.version))

    def refuse(self, call: Call[AddPartitionsToTxnRequest], code: int, text: str | None) -> None:
        """Answer every partition with `code`, from version 4 on the whole."""
        if call.version >= _FIRST_BATCHED_VERSION:
            call.answer(AddPartitionsToTxnResponse(error_code=code))
            return
        topics = call.message.v3_and_below_topics
        codes = {(each.name, index): code for each in topics for index in each.partitions}
        call.answer(
            AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, codes))
        )


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, int]
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


class AddOffsetsToTxnApi:
    """Handles AddOffsetsToTxn. Any thread.

    Args:
        coordinator: of all transactions.
        groups: knows where a group is kept.
        topics: where the topic of the groups is made.
        worker: does that if it takes long.
        keeps_files: whether that takes a while for each partition.
    """

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        groups: GroupMetadataManager,
        topics: Topics,
        worker: OverflowWorker,
        keeps_files: bool,
    ) -> None:
        self._coordinator = coordinator
        self._groups = groups
        self._topics = topics
        self._worker = worker
        self._partition_cost = groups.partition_count if keeps_files else 0

    def handle(self, call: Call[AddOffsetsToTxnRequest]) -> None:
        """Have the offsets of a group belong to a transaction."""
        message = call.message
        if not may_write(call, message.transactional_id):
            self.refuse(call, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
        elif not may_read_group(call, message.group_id):
            self.refuse(call, GROUP_AUTHORIZATION_FAILED, None)
        elif self._groups.has_topic:
            self._add(call)
        else:
            change_topics(
                self._topics, self._worker, call, self._partition_cost, lambda: self._make(call)
            )

    def _make(self, call: Call[AddOffsetsToTxnRequest]) -> None:
        try:
            self._groups.make_topic()
        except Exception as error:
            self.refuse(call, COORDINATOR_NOT_AVAILABLE, item_error(error).text)
            return
        self._add(call)

    def _add(self, call: Call[AddOffsetsToTxnRequest]) -> None:
        message = call.message
        partition = self._groups.partition_of(message.group_id)
        assert partition is not None
        code = self._coordinator.add_partitions(
            message.transactional_id,
            Producer(message.producer_id, message.producer_epoch),
            [(OFFSETS_TOPIC, partition.index)],
            call.node_id,
        )
        self.refuse(call, fenced_code(code, call.version), None)

    def refuse(self, call: Call[AddOffsetsToTxnRequest], code: int, text: str | None) -> None:
        """Answer with `code`, which may be NONE."""
        call.answer(AddOffsetsToTxnResponse(error_code=code))


class TxnOffsetCommitApi:
    """Handles TxnOffsetCommit. Any thread.

    Args:
        coordinator: of all transactions.
        groups: all of them.
        topics: offsets are for those that exist.
        now_ms: the broker's clock.
    """

    def __init__(
        self,
        coordinator: TransactionCoordinator,
        groups: GroupCoordinator,
        topics: Topics,
        now_ms: Callable[[], int],
    ) -> None:
        self._coordinator = coordinator
        self._groups = groups.manager
        self._offsets = groups.offsets
        self._topics = topics
        self._now_ms = now_ms

    def handle(self, call: Call[TxnOffsetCommitRequest]) -> None:
        """Write offsets down that count once the transaction is committed."""
        message = call.message
        if not may_write(call, message.transactional_id):
            self.refuse(call, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
            return
        if not may_read_group(call, message.group_id):
            self.refuse(call, GROUP_AUTHORIZATION_FAILED, None)
            return
        if not message.group_id:
            self.refuse(call, INVALID_GROUP_ID, None)
            return
        codes, offsets, partitions = checked_offsets(
            call, message.topics, self._topics, self._now_ms(), -1
        )
        if offsets:
            committing = Committing(
                message.group_id,
                message.generation_id,
                message.member_id,
                message.group_instance_id,
                offsets,
                producer=Producer(message.producer_id, message.producer_epoch),
                partitions=partitions,
            )
            codes |= self._commit(call, committing)
        self._answer(call, lambda name, index: codes[name, index])

    def _commit(
        self, call: Call[TxnOffsetCommitRequest], committing: Committing
    ) -> dict[TopicPartition, int]:
        partition = self._groups.partition_of(committing.group_id)
        if partition is None:
            return dict.fromkeys(committing.offsets, COORDINATOR_NOT_AVAILABLE)

        def commit() -> dict[TopicPartition, int]:
            return self._offsets.commit(committing, call.node_id)

        version = call.version
        try:
            # Before anything is added: another node may coordinate the group.
            self._groups.item(committing.group_id, call.node_id)
            codes = self._coordinator.in_transaction(
                call.message.transactional_id,
                committing.producer,
                (OFFSETS_TOPIC, partition.index),
                version >= _FIRST_ADDING_COMMIT_VERSION,
                commit,
            )
        except CoordinatorError as error:
            codes = dict.fromkeys(committing.offsets, error.code)
        return {place: _told(code, version) for place, code in codes.items()}

    def refuse(self, call: Call[TxnOffsetCommitRequest], code: int, text: str | None) -> None:
        """Answer every partition with `code`."""
        self._answer(call, lambda name, index: code)

    def _answer(
        self, call: Call[TxnOffsetCommitRequest], code_of: Callable[[str, int], int]
    ) -> None:
        call.answer(
            TxnOffsetCommitResponse(
                topics=[
                    TxnOffsetCommitResponseTopic(
                        name=topic.name,
                        partitions=[
                            TxnOffsetCommitResponsePartition(
                                partition_index=each.partition_index,
                                error_code=code_of(topic.name, each.partition_index),
                            )
                            for each in topic.partitions
                        ],
                    )
                    for topic in call.message.topics
                ]
            )
        )


def _told(code: int, version: int) -> int:
    """What a version is told in place of a code."""
    if code == PRODUCER_FENCED:
        return INVALID_PRODUCER_EPOCH
    if code == TRANSACTION_ABORTABLE and version < _FIRST_ABORTABLE_COMMIT_VERSION:
        return INVALID_TXN_STATE
    if code == COORDINATOR_LOAD_IN_PROGRESS and version < _FIRST_LOADING_COMMIT_VERSION:
        return COORDINATOR_NOT_AVAILABLE
    return code

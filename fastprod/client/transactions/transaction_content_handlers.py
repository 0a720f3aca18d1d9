"""AddPartitionsToTxn, AddOffsetsToTxn and TxnOffsetCommit: what belongs to a transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Final

from fastprod.client.transactions.request_handler import (
    ANY_VERSION,
    CoordinatorType,
    ManagerView,
    Priority,
    TxnRequestHandler,
    group_refusal,
)
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.error_codes import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_AUTHORIZATION_FAILED,
    ILLEGAL_GENERATION,
    INVALID_PRODUCER_EPOCH,
    KAFKA_ERRORS,
    NOT_COORDINATOR,
    OPERATION_NOT_ATTEMPTED,
    PRODUCER_FENCED,
    REQUEST_TIMED_OUT,
    STALE_MEMBER_EPOCH,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTION_ABORTABLE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_MEMBER_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
)
from fastprod.errors import KafkaError, UnsupportedVersionError, error_for_code
from fastprod.protocol.messages.transaction import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    txn_offset_commit,
)
from fastprod.protocol.messages.transaction.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from fastprod.protocol.messages.transaction.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from fastprod.protocol.messages.transaction.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from fastprod.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

_FIRST_BACKOFF_MS: Final = 1
_LONGEST_FIRST_BACKOFF_MS: Final = 20
_LAST_OF_CLIENTS: Final = 3
_LAST_OF_FIRST_PROTOCOL: Final = 4
_GROUP_METADATA_FROM: Final = 3
_MEMBER_GONE: Final = frozenset({UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, STALE_MEMBER_EPOCH})


class AddPartitionsToTxnHandler(TxnRequestHandler):
    """Partitions that belong to the transaction from now on (before KIP-890).

    Args:
        manager: whose producer it is for.
        partitions: all that have come since the last such request.
    """

    api = add_partitions_to_txn.API
    priority = Priority.ADD_PARTITIONS_OR_OFFSETS
    highest_version = _LAST_OF_CLIENTS

    def __init__(self, manager: ManagerView, partitions: Collection[TopicPartition]) -> None:
        super().__init__(manager, TransactionalRequestResult("AddPartitionsToTxn"))
        self.partitions = tuple(partitions)
        self._backoff_ms = _FIRST_BACKOFF_MS

    @property
    def is_needed_to_abort(self) -> bool:
        """Only then may the coordinator have begun the transaction."""
        return self.is_uncertain

    def message(self, version: int) -> AddPartitionsToTxnRequest:
        """P-I.4"""
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, partition in self.partitions:
            by_topic[topic].append(partition)
        producer_id, epoch = self.manager.producer_id_and_epoch
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.manager.transactional_id,
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=sorted(partitions))
                for topic, partitions in sorted(by_topic.items())
            ],
        )

    def answered(self, answer: AddPartitionsToTxnResponse, version: int) -> None:
        """P-I.6, P-I.3.5"""
        codes = {
            TopicPartition(topic.name, each.partition_index): each.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        }
        failed: dict[TopicPartition, int] = {}
        for partition in self.partitions:
            code = codes.get(partition, OPERATION_NOT_ATTEMPTED)
            if code == 0:
                continue
            if code == CONCURRENT_TRANSACTIONS:
                # The transaction before is being completed, which is a matter of milliseconds.
                self.refused(error_for_code(code))
                self.retry(None if self.manager.has_added_partitions else self._next_backoff_ms())
                return
            if code == TOPIC_AUTHORIZATION_FAILED or not self.common_error(code):
                failed[partition] = code
                continue
            if code == UNKNOWN_TOPIC_OR_PARTITION:
                self.is_uncertain = False  # a topic that was deleted may not come again
            return
        if failed:
            self.abortable_error(_refusal(failed))
        else:
            self.manager.partitions_added(self.partitions)
            self.result.done()

    def _next_backoff_ms(self) -> int:
        backoff_ms = self._backoff_ms
        self._backoff_ms = min(2 * backoff_ms, _LONGEST_FIRST_BACKOFF_MS)
        return min(backoff_ms, self.manager.retry_backoff_ms)


def _refusal(failed: Mapping[TopicPartition, int]) -> KafkaError:
    topics = sorted(
        {each.topic for each, code in failed.items() if code == TOPIC_AUTHORIZATION_FAILED}
    )
    if topics:
        return error_for_code(
            TOPIC_AUTHORIZATION_FAILED,
            topic=topics[0],
            message=f"the broker's ACLs refuse transactions that write to {', '.join(topics)}",
            topics=tuple(topics),
        )
    said = ", ".join(
        f"{partition}: {KAFKA_ERRORS[code].name if code in KAFKA_ERRORS else code}"
        for partition, code in sorted(failed.items())
    )
    return KafkaError(f"partitions were not added to the transaction: {said}")


def _reading_refusal(topic: str) -> KafkaError:
    """Who commits offsets has to be allowed to read, which nothing else here needs."""
    return error_for_code(
        TOPIC_AUTHORIZATION_FAILED,
        topic=topic,
        message="the broker's ACLs do not let this producer's user read the topic, as is needed "
        "to commit offsets of it",
    )


class AddOffsetsToTxnHandler(TxnRequestHandler):
    """The offsets of a group belong to the transaction from now on (before KIP-890).

    Args:
        manager: whose producer it is for.
        result: of the call; done when the offsets themselves are taken.
        offsets: what is to be committed.
        group: whose.
    """

    api = add_offsets_to_txn.API
    priority = Priority.ADD_PARTITIONS_OR_OFFSETS

    def __init__(
        self,
        manager: ManagerView,
        result: TransactionalRequestResult,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
    ) -> None:
        super().__init__(manager, result)
        self.offsets = offsets
        self.group = group
        self.offsets_of = group.group_id

    @property
    def is_needed_to_abort(self) -> bool:
        """Only then may the coordinator have begun the transaction."""
        return self.is_uncertain

    def message(self, version: int) -> AddOffsetsToTxnRequest:
        """P-I.4"""
        producer_id, epoch = self.manager.producer_id_and_epoch
        return AddOffsetsToTxnRequest(
            transactional_id=self.manager.transactional_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            group_id=self.group.group_id,
        )

    def answered(self, answer: AddOffsetsToTxnResponse, version: int) -> None:
        """P-I.6"""
        code = answer.error_code
        if code == 0:
            self.manager.offsets_added(self.result, self.offsets, self.group)
        elif code == GROUP_AUTHORIZATION_FAILED:
            self.abortable_error(group_refusal(self.group.group_id))
        elif not self.common_error(code):
            self.unexpected(code)


class TxnOffsetCommitHandler(TxnRequestHandler):
    """The offsets themselves, to the group's coordinator; they count with the commit.

    Args:
        manager: whose producer it is for.
        result: of the call.
        offsets: what is to be committed.
        group: whose; its members are checked (KIP-447).
        is_v2: the transaction is of the protocol in which this adds the group (KIP-890).
    """

    api = txn_offset_commit.API
    priority = Priority.ADD_PARTITIONS_OR_OFFSETS
    coordinator_type = CoordinatorType.GROUP

    def __init__(
        self,
        manager: ManagerView,
        result: TransactionalRequestResult,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
        *,
        is_v2: bool,
    ) -> None:
        super().__init__(manager, result)
        self.pending = dict(offsets)
        self.group = group
        self.group_id = self.offsets_of = group.group_id
        self.highest_version = ANY_VERSION if is_v2 else _LAST_OF_FIRST_PROTOCOL

    @property
    def is_needed_to_abort(self) -> bool:
        """Offsets do not count before a commit."""
        return False

    def message(self, version: int) -> TxnOffsetCommitRequest:
        """P-I.5"""
        group = self.group
        if version < _GROUP_METADATA_FROM and group != ConsumerGroupMetadata(group.group_id):
            raise UnsupportedVersionError(
                f"TxnOffsetCommit v{version} knows no members of a group: use brokers of Kafka 2.5 "
                f"or later, or give the group's id alone"
            )
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = defaultdict(list)
        for (topic, partition), offset in sorted(self.pending.items()):
            by_topic[topic].append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=offset.offset,
                    committed_leader_epoch=offset.leader_epoch,
                    committed_metadata=offset.metadata,
                )
            )
        producer_id, epoch = self.manager.producer_id_and_epoch
        return TxnOffsetCommitRequest(
            transactional_id=self.manager.transactional_id,
            group_id=group.group_id,
            producer_id=producer_id,
            producer_epoch=epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(name=topic, partitions=partitions)
                for topic, partitions in by_topic.items()
            ],
        )

    def answered(self, answer: TxnOffsetCommitResponse, version: int) -> None:
        """P-I.6: what was not taken for now is sent again, until all is (P-I.5)."""
        moved = False
        for topic in answer.topics:
            for each in topic.partitions:
                code = each.error_code
                if code == 0:
                    self.pending.pop(TopicPartition(topic.name, each.partition_index), None)
                elif code in (COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, REQUEST_TIMED_OUT):
                    moved = True
                elif not error_for_code(code).retriable:
                    self._fail(code, topic.name)
                    return
                if code:
                    self.refused(error_for_code(code))
        if not self.pending:
            self.result.done()
        elif moved:
            self.look_up_and_retry()
        else:
            self.retry()

    def _fail(self, code: int, topic: str) -> None:
        if code == GROUP_AUTHORIZATION_FAILED:
            self.abortable_error(group_refusal(self.group_id))
        elif code == TOPIC_AUTHORIZATION_FAILED:
            self.fatal_error(_reading_refusal(topic))
        elif code in (FENCED_INSTANCE_ID, TRANSACTION_ABORTABLE):
            self.abortable_error(error_for_code(code))
        elif code in _MEMBER_GONE:
            why = KAFKA_ERRORS[code].name
            self.abortable_error(
                error_for_code(
                    code,
                    message=f"group {self.group_id!r} has gone on without this member ({why}): "
                    f"abort, and read from its committed offsets again",
                )
            )
        elif code in (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED):
            self.fatal_error(error_for_code(PRODUCER_FENCED))
        elif code in (TRANSACTIONAL_ID_AUTHORIZATION_FAILED, UNSUPPORTED_FOR_MESSAGE_FORMAT):
            self.fatal_error(error_for_code(code))
        else:
            self.unexpected(code)

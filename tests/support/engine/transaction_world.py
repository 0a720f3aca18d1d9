"""A TransactionManager with a recorded engine, whose requests are answered by the test."""

from __future__ import annotations

from typing import Any, Final

from fastprod.client.connections.api_versions import CLIENT_VERSIONS, ApiVersions
from fastprod.client.transactions.request_handler import TxnRequestHandler
from fastprod.client.transactions.transaction_manager import TransactionManager
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.errors import KafkaError
from fastprod.protocol.messages.init_producer_id import InitProducerIdResponse
from fastprod.protocol.messages.transaction.add_offsets_to_txn import AddOffsetsToTxnResponse
from fastprod.protocol.messages.transaction.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from fastprod.protocol.messages.transaction.end_txn import EndTxnResponse
from fastprod.protocol.messages.transaction.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from fastprod.records import TopicPartition
from support.engine.network_world import RecordedEngine

TRANSACTIONAL_ID: Final = "ledger"
PRODUCER_ID: Final = 4000
RETRY_BACKOFF_MS: Final = 100
GROUP: Final = "readers"
LONG_MS: Final = 100
"""After which the end of a transaction has been written everywhere."""


def features(level: int, epoch: int = 1) -> ApiVersions:
    """What a broker says whose cluster has agreed on this `transaction.version`."""
    return ApiVersions({}, features={"transaction.version": level}, features_epoch=epoch)


def added(code: int, *partitions: TopicPartition) -> AddPartitionsToTxnResponse:
    """The same code for each."""
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=partition, partition_error_code=code
                    )
                ],
            )
            for topic, partition in partitions
        ]
    )


def committed(**codes: int) -> TxnOffsetCommitResponse:
    """A code for partition 0 of each topic."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic,
                partitions=[TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)],
            )
            for topic, code in codes.items()
        ]
    )


class World:
    """One manager, taken request by request.

    Args:
        level: of the feature `transaction.version`.
    """

    def __init__(self, level: int = 2) -> None:
        self.now_ms = 1_000
        self.engine = RecordedEngine()
        self.gate: list[bool] = []
        self.fatal: list[KafkaError] = []
        self.manager = TransactionManager(
            TRANSACTIONAL_ID,
            60_000,
            RETRY_BACKOFF_MS,
            self.engine,
            wake=lambda: None,
            open_gate=self.gate.append,
            on_fatal=self.fatal.append,
            clock_ms=lambda: self.now_ms,
            is_refused=lambda: True,
        )
        self.is_v2 = level >= 2
        self.manager.learn_features(features(level))

    def take(self, api_name: str) -> TxnRequestHandler:
        """The request that goes next, which must be of this API; it is on its way now."""
        handler = self.manager.next_request()
        assert handler is not None, f"no request, where {api_name} was expected"
        assert handler.api.name == api_name
        self.now_ms = max(self.now_ms, handler.due_ms)
        self.manager.sent(handler)
        return handler

    def message(self, handler: TxnRequestHandler) -> Any:
        return handler.message(self.version(handler))

    def version(self, handler: TxnRequestHandler) -> int:
        return min(handler.highest_version, CLIENT_VERSIONS[handler.api.key][1])

    def answer(self, handler: TxnRequestHandler, answer: Any) -> None:
        self.manager.answered(handler, answer, self.version(handler))

    def init_answer(self, code: int = 0, epoch: int = 0) -> None:
        """Answer InitProducerId."""
        self.answer(
            self.take("InitProducerId"),
            InitProducerIdResponse(
                error_code=code,
                producer_id=-1 if code else PRODUCER_ID,
                producer_epoch=-1 if code else epoch,
            ),
        )

    def ready(self) -> None:
        """init_transactions() has succeeded."""
        result = self.manager.initialize_transactions()
        self.init_answer()
        result.acknowledge()
        self.engine.commands.clear()

    def begin(self) -> None:
        """In a transaction, long after the one before."""
        self.now_ms += LONG_MS
        if self.manager.producer_id_and_epoch[0] < 0:
            self.ready()
        self.manager.begin_transaction()

    def join(self, topic: str = "t", partition: int = 0) -> None:
        """The partition has records of the transaction, and is part of it."""
        each = TopicPartition(topic, partition)
        if not self.is_v2:  # else it joins by its records, and nobody is told
            self.manager.partition_joined(each)
            self.answer(self.take("AddPartitionsToTxn"), added(0, each))

    def drained(self, partitions: int = 1, code: int = 0) -> None:
        """Every record has its outcome."""
        self.manager.drained(self.manager.end_token, partitions, code)

    def end_answer(self, code: int = 0) -> None:
        """Answer EndTxn; with the new protocol the epoch goes up by it."""
        producer_id, epoch = self.manager.producer_id_and_epoch
        has_id = self.is_v2 and code == 0
        self.answer(
            self.take("EndTxn"),
            EndTxnResponse(
                error_code=code,
                producer_id=producer_id if has_id else -1,
                producer_epoch=epoch + 1 if has_id else -1,
            ),
        )

    def offsets_answer(self, code: int = 0) -> None:
        """Answer AddOffsetsToTxn, which there is with the old protocol."""
        self.answer(self.take("AddOffsetsToTxn"), AddOffsetsToTxnResponse(error_code=code))


def error_of(result: TransactionalRequestResult) -> KafkaError:
    """Why the call failed; it must have."""
    assert result.error is not None
    return result.error

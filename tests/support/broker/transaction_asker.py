"""A transactional producer by single requests, for the own broker and for Kafka."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastprod.error_codes import NONE
from fastprod.protocol.messages.fetch import FetchRequest
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
from fastprod.protocol.messages.init_producer_id import InitProducerIdRequest
from fastprod.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fastprod.protocol.messages.transaction.add_offsets_to_txn import AddOffsetsToTxnRequest
from fastprod.protocol.messages.transaction.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from fastprod.protocol.messages.transaction.describe_producers import (
    DescribeProducersRequest,
    TopicRequest,
)
from fastprod.protocol.messages.transaction.describe_transactions import (
    DescribeTransactionsRequest,
)
from fastprod.protocol.messages.transaction.end_txn import EndTxnRequest
from fastprod.protocol.messages.transaction.list_transactions import ListTransactionsRequest
from fastprod.protocol.messages.transaction.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from support.broker.world import batch_of, fetch_request, produce_request

Ask = Callable[[str, int, Any], Any]
TIMEOUT_MS = 60_000
READ_COMMITTED = 1


class TransactionAsker:
    """Asks one broker, as a producer that has asked nothing before.

    Args:
        ask: sends a request of an API's name and version, and returns the answer.
        transactional_id: which nobody else uses.
        topic: with two partitions.

    Attributes:
        producer: id and epoch.
        sequence: of the next record.
    """

    def __init__(self, ask: Ask, transactional_id: str, topic: str) -> None:
        self.ask = ask
        self.transactional_id = transactional_id
        self.topic = topic
        self.producer = (-1, -1)
        self.sequence = 0

    def twin(self) -> TransactionAsker:
        """Another one that believes to be the same producer."""
        other = TransactionAsker(self.ask, self.transactional_id, self.topic)
        other.producer, other.sequence = self.producer, self.sequence
        return other

    def find(self, key_type: int = 1, key: str | None = None) -> int:
        asked = FindCoordinatorRequest(
            key_type=key_type, coordinator_keys=[self.transactional_id if key is None else key]
        )
        code: int = self.ask("FindCoordinator", 4, asked).coordinators[0].error_code
        return code

    def init(self, version: int = 4, timeout_ms: int = TIMEOUT_MS, **more: Any) -> int:
        """Get an id; it is kept if there is one."""
        found = self.ask(
            "InitProducerId",
            version,
            InitProducerIdRequest(
                transactional_id=self.transactional_id, transaction_timeout_ms=timeout_ms, **more
            ),
        )
        if found.error_code == NONE:
            self.producer = found.producer_id, found.producer_epoch
            self.sequence = 0
        code: int = found.error_code
        return code

    def add(self, *partitions: int, version: int = 3, topic: str | None = None) -> list[int]:
        found = self.ask(
            "AddPartitionsToTxn",
            version,
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self.transactional_id,
                v3_and_below_producer_id=self.producer[0],
                v3_and_below_producer_epoch=self.producer[1],
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=topic or self.topic, partitions=list(partitions))
                ],
            ),
        )
        # Kafka has them in any order.
        codes = {
            each.partition_index: each.partition_error_code
            for result in found.results_by_topic_v3_and_below
            for each in result.results_by_partition
        }
        return [codes[each] for each in partitions]

    def batch(self, *values: bytes, transactional: bool = True) -> bytes:
        return batch_of(
            *(values or (b"v",)),
            transactional=transactional,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=self.sequence,
        )

    def send(
        self,
        *values: bytes,
        version: int = 9,
        partition: int = 0,
        transactional: bool = True,
        named: bool = True,
    ) -> int:
        """Produce one batch; the next one follows it if it was taken."""
        batch = self.batch(*values, transactional=transactional)
        message = produce_request(
            [(self.topic, partition, batch)],
            transactional_id=self.transactional_id if named else None,
        )
        found = self.ask("Produce", version, message).responses[0].partition_responses[0]
        if found.error_code == NONE:
            self.sequence += max(len(values), 1)
        code: int = found.error_code
        return code

    def add_offsets(self, group: str, version: int = 3) -> int:
        asked = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            group_id=group,
        )
        code: int = self.ask("AddOffsetsToTxn", version, asked).error_code
        return code

    def commit_offset(
        self, group: str, offset: int, version: int = 3, partition: int = 0, **more: Any
    ) -> int:
        place = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=None
        )
        asked = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=self.topic, partitions=[place])],
            **more,
        )
        found = self.ask("TxnOffsetCommit", version, asked)
        code: int = found.topics[0].partitions[0].error_code
        return code

    def end(self, committed: bool = True, version: int = 3) -> int:
        """End the transaction; from version 5 on the next producer id and epoch are kept."""
        found = self.ask(
            "EndTxn",
            version,
            EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=self.producer[0],
                producer_epoch=self.producer[1],
                committed=committed,
            ),
        )
        if found.error_code == NONE and version >= 5:
            self.producer = found.producer_id, found.producer_epoch
            self.sequence = 0
        code: int = found.error_code
        return code

    def describe(self) -> Any:
        asked = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        (found,) = self.ask("DescribeTransactions", 0, asked).transaction_states
        return found

    def listed(self, **filters: Any) -> Any:
        return self.ask("ListTransactions", 1, ListTransactionsRequest(**filters))

    def producers(self, partition: int = 0) -> Any:
        topics = [TopicRequest(name=self.topic, partition_indexes=[partition])]
        found = self.ask("DescribeProducers", 0, DescribeProducersRequest(topics=topics))
        return found.topics[0].partitions[0]

    def fetch(self, offset: int = 0, isolation_level: int = READ_COMMITTED) -> Any:
        """What a reader of the first partition gets."""
        asked: FetchRequest = fetch_request(
            [(self.topic, 0, offset)], isolation_level=isolation_level
        )
        return self.ask("Fetch", 12, asked).responses[0].partitions[0]

    def offset(self, timestamp: int, isolation_level: int = READ_COMMITTED) -> int:
        places = [ListOffsetsPartition(partition_index=0, timestamp=timestamp)]
        asked = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=self.topic, partitions=places)],
        )
        found: int = self.ask("ListOffsets", 7, asked).topics[0].partitions[0].offset
        return found

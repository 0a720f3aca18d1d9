"""Appends, reads and offset look-ups over the partitions of one cluster (ReplicaManager).

Errors are returned as codes, one for each partition; nothing that a client sends makes a method
raise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from fastprod._core.log.batch_validator import BatchInfo, InvalidBatch
from fastprod.broker.cluster.partition import (
    NotEnoughReplicas,
    NotLeader,
    Partition,
    PartitionDeleted,
)
from fastprod.broker.cluster.topics import INTERNAL_TOPICS, Topics, invalid_name_reason
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.broker.coordinator.transaction.transaction_coordinator import TransactionCoordinator
from fastprod.broker.log.log import AppendInfo, LogError, OffsetOutOfRange
from fastprod.broker.log.record_batch import Producer
from fastprod.broker.log.transaction_index import AbortedTxn
from fastprod.broker.log.validation import HeavyBatch
from fastprod.broker.server.item_errors import item_error
from fastprod.error_codes import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    FENCED_LEADER_EPOCH,
    INVALID_PRODUCER_EPOCH,
    INVALID_RECORD,
    INVALID_TOPIC_EXCEPTION,
    INVALID_TXN_STATE,
    LEADER_NOT_AVAILABLE,
    NONE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_NOT_AVAILABLE,
    OFFSET_OUT_OF_RANGE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_VERSION,
)

if TYPE_CHECKING:
    from collections.abc import Sized

    from typing_extensions import Buffer

READ_COMMITTED = 1

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
"""Special timestamps of ListOffsets (B-D3)."""

ALL_REPLICAS = -1

_ZSTD = 4
_CODEC_MASK = 0x07
_ATTRIBUTES_LOW_BYTE = 22
_TRANSACTIONAL = 0x10
_FIRST_ZSTD_PRODUCE_VERSION = 7
# KIP-890: clients know TRANSACTION_ABORTABLE, and that partitions are added by Produce.
_FIRST_ABORTABLE_PRODUCE_VERSION = 11
_FIRST_ADDING_PRODUCE_VERSION = 12
_MOMENTARY = (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    NOT_COORDINATOR,
)
_FIRST_MAX_TIMESTAMP_VERSION = 7
_FIRST_OFFSET_NOT_AVAILABLE_VERSION = 5
_FIRST_LOCAL_VERSION, _FIRST_TIERED_VERSION, _FIRST_PENDING_VERSION = 8, 9, 11


class AppendResult(NamedTuple):
    """What became of one partition's batch.

    Attributes:
        error: Kafka's code.
        base_offset: of the first record; -1 on an error.
        log_append_time_ms: the broker's stamp with LogAppendTime, else -1.
        log_start_offset: -1 on an error.
        message: why it was refused, or None.
        record_errors: (index in the batch, why).
        partition: where it was appended, or None; fetches that wait for it are to be completed.
        end_offset: what replicas in sync must have before acks=all is answered; -1 on an error.
        leader_epoch: of the leader that appended it.
    """

    error: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    message: str | None = None
    record_errors: Sequence[tuple[int, str]] = ()
    partition: Partition | None = None
    end_offset: int = -1
    leader_epoch: int = -1


class FetchWant(NamedTuple):
    """One partition of a Fetch request; `topic_id` as of `ReplicaManager.find`."""

    topic: str
    partition: int
    offset: int
    max_bytes: int
    current_leader_epoch: int = -1
    topic_id: bytes = b""


class ReadResult(NamedTuple):
    """What was read of one partition; the numbers are -1 on an error (B-D2.2).

    Attributes:
        error: Kafka's code.
        high_watermark: end of what consumers may read.
        last_stable_offset: end of what read_committed may read.
        log_start_offset: first offset there is.
        records: whole batches, slices of the log.
        size_bytes: of `records`.
        partition: where it was read, or None.
        aborted: transactions that a read_committed reader of the records skips.
    """

    error: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    records: list[Buffer] = []  # noqa: RUF012
    size_bytes: int = 0
    partition: Partition | None = None
    aborted: Sequence[AbortedTxn] = ()


class OffsetResult(NamedTuple):
    """What ListOffsets found in one partition."""

    error: int
    offset: int = -1
    timestamp: int = -1
    leader_epoch: int = -1


class ReplicaManager:
    """Appends, reads and looks up records for the nodes. Any thread.

    Args:
        topics: where the partitions are.
        transactions: knows which partitions belong to a transaction.
    """

    def __init__(self, topics: Topics, transactions: TransactionCoordinator) -> None:
        self._topics = topics
        self._transactions = transactions

    def find(
        self, node_id: int, topic: str, index: int, topic_id: bytes = b""
    ) -> tuple[int, Partition | None]:
        """Return (0, partition) if this node leads it, else (code, partition or None).

        Args:
            node_id: node that was asked.
            topic: its name.
            index: its partition.
            topic_id: of the topic that had the name when the request came: another one may have it
                by now. b"": whichever has it.
        """
        if topic_id and self._topics.name_of(topic_id) != topic:
            return UNKNOWN_TOPIC_ID, None
        partition = self._topics.partition(topic, index)
        if partition is None or partition.is_deleted:
            return UNKNOWN_TOPIC_OR_PARTITION, None
        if not partition.leads(node_id):
            return NOT_LEADER_OR_FOLLOWER, partition
        return NONE, partition

    def append(
        self,
        node_id: int,
        topic: str,
        index: int,
        records: memoryview | None,
        acks: int,
        version: int,
        most_bytes: int | None = None,
        transactional_id: str | None = None,
        topic_id: bytes = b"",
    ) -> AppendResult:
        """Append one partition's batch, with the checks of B-D1 in their order.

        Args:
            node_id: node that was asked.
            topic: its name.
            index: its partition.
            records: one batch v2, writable; copied or written before this returns.
            acks: -1: as many replicas as `min.insync.replicas` says must be in sync.
            version: of the Produce request.
            most_bytes: decompress no more than this; None: than the log allows.
            transactional_id: whose transaction a batch belongs to that belongs to one.
            topic_id: as of `find`.

        Raises:
            HeavyBatch: the batch needs more than `most_bytes`; nothing was appended.
        """
        error, partition = self.find(node_id, topic, index, topic_id)
        if partition is None:
            reason = invalid_name_reason(topic)
            if reason is not None:
                return AppendResult(INVALID_TOPIC_EXCEPTION, message=reason)
            if topic not in INTERNAL_TOPICS:
                return AppendResult(error, message=f"This server has no partition {topic}-{index}.")
        refused = _refuse_shape(records, version)
        if refused is not None:
            return refused
        if topic in INTERNAL_TOPICS:
            return AppendResult(
                INVALID_TOPIC_EXCEPTION,
                message=f"Cannot append to internal topic {topic}",
            )
        assert partition is not None
        assert records is not None
        if error != NONE:
            return AppendResult(
                error,
                message=f"node {node_id} does not lead {topic}-{index}; node "
                f"{partition.leader} does",
                partition=partition,
            )
        return self._append(
            partition, node_id, records, acks == ALL_REPLICAS, version, most_bytes, transactional_id
        )

    def _append(
        self,
        partition: Partition,
        node_id: int,
        records: memoryview,
        needs_isr: bool,
        version: int,
        most_bytes: int | None,
        transactional_id: str | None,
    ) -> AppendResult:
        try:
            if needs_isr:
                partition.check_isr(node_id)
            # Not under the partition's lock: others may append meanwhile.
            info = partition.log_at(node_id).validate(records, most_bytes)
            if info.attributes & _TRANSACTIONAL:
                done, epoch = self._append_transactional(
                    partition, node_id, records, info, needs_isr, version, transactional_id
                )
            else:
                done, epoch = partition.append_at(node_id, records, info, needs_isr)
        except HeavyBatch:
            raise
        except Exception as error:
            return _refused(partition, version, error)
        # By position, which takes half the time.
        return AppendResult(
            NONE,
            done.base_offset,
            done.log_append_time_ms,
            done.log_start_offset,
            None,
            (),
            partition,
            done.last_offset + 1,
            epoch,
        )

    def _append_transactional(
        self,
        partition: Partition,
        node_id: int,
        records: memoryview,
        info: BatchInfo,
        needs_isr: bool,
        version: int,
        transactional_id: str | None,
    ) -> tuple[AppendInfo, int]:
        producer = Producer(info.producer_id, info.producer_epoch)
        log = partition.log_at(node_id)
        if log.is_in_transaction(*producer):
            return partition.append_at(node_id, records, info, needs_isr)
        adds = version >= _FIRST_ADDING_PRODUCE_VERSION

        def append() -> tuple[AppendInfo, int]:
            if adds and info.base_sequence > 0 and not log.knows_producer(producer.id):
                raise LogError(
                    OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"producer {producer.id}, epoch {producer.epoch}, comes with sequence "
                    f"{info.base_sequence}: its first batch here begins with 0",
                )
            return partition.append_at(node_id, records, info, needs_isr, True)

        # Its coordinator is asked about the first batch.
        place = partition.topic, partition.index
        return self._transactions.in_transaction(
            transactional_id or "", producer, place, adds, append
        )

    def read(
        self, node_id: int, wanted: Sequence[FetchWant], max_bytes: int, isolation_level: int
    ) -> list[ReadResult]:
        """Read whole batches of each partition, in order, up to `max_bytes` together (B-C5, B-D2).

        The first batch of the first partition that has one is read even if it is larger (B-C5.4).
        """
        results = []
        left = max_bytes
        at_least_one = True
        for want in wanted:
            result = self._read(node_id, want, left, at_least_one, isolation_level)
            results.append(result)
            if result.size_bytes:
                at_least_one = False
                left = max(0, left - result.size_bytes)
        return results

    def look(self, node_id: int, want: FetchWant) -> tuple[int, Partition | None]:
        """Return (0, partition) if `want` may be read here, as far as its offset allows."""
        error, partition = self.find(node_id, want.topic, want.partition, want.topic_id)
        if error != NONE or partition is None:
            return error, partition
        return _check_epoch(partition.epoch_at(node_id), want.current_leader_epoch), partition

    def _read(
        self, node_id: int, want: FetchWant, left: int, at_least_one: bool, isolation_level: int
    ) -> ReadResult:
        error, partition = self.look(node_id, want)
        if error != NONE or partition is None:
            return ReadResult(error, partition=partition)
        log = partition.log_at(node_id)
        max_bytes = max(0, min(left, want.max_bytes))
        records: list[Buffer] = []
        aborted: Sequence[AbortedTxn] = ()
        stable = log.last_stable_offset
        high_watermark = log.high_watermark
        try:
            if max_bytes == 0 and not at_least_one:
                _check_offset(log.log_start_offset, want.offset, log.log_end_offset)
            elif isolation_level == READ_COMMITTED:
                records, aborted, stable = log.read_committed(want.offset, max_bytes, at_least_one)
                high_watermark = log.high_watermark
            else:
                records = log.read(want.offset, max_bytes, at_least_one, high_watermark)
        except OffsetOutOfRange:
            # The log of a topic that was just deleted is empty; the deletion is the real reason.
            if partition.is_deleted:
                return ReadResult(UNKNOWN_TOPIC_OR_PARTITION)
            return ReadResult(OFFSET_OUT_OF_RANGE, partition=partition)
        except Exception as error:
            return ReadResult(item_error(error).code, partition=partition)
        return ReadResult(
            NONE,
            high_watermark,
            stable,
            log.log_start_offset,
            records,
            sum(map(len, cast("list[Sized]", records))),
            partition,
            aborted,
        )

    def list_offset(
        self,
        node_id: int,
        want: FetchWant,
        timestamp: int,
        isolation_level: int,
        version: int,
    ) -> OffsetResult:
        """Return the offset for `timestamp` (B-D3).

        Args:
            node_id: node that was asked.
            want: the partition, and the leader epoch that the client knows.
            timestamp: from 0 on: the first record not older; -1: the end; -2: the start; -3: the
                record with the largest timestamp.
            isolation_level: 1: the end is the last stable offset.
            version: of the request.
        """
        error, partition = self.look(node_id, want)
        if error != NONE or partition is None:
            return OffsetResult(error)
        try:
            return _offset_of(partition, node_id, timestamp, isolation_level, version)
        except Exception as error:
            return OffsetResult(item_error(error).code)


def _offset_of(
    partition: Partition, node_id: int, timestamp: int, isolation_level: int, version: int
) -> OffsetResult:
    log = partition.log_at(node_id)
    epoch = partition.epoch_at(node_id)
    committed = isolation_level == READ_COMMITTED
    end = log.last_stable_offset if committed else log.high_watermark
    if timestamp != EARLIEST and not partition.is_settled_at(node_id):
        # It could be less than what was told before (KIP-207).
        is_new = version >= _FIRST_OFFSET_NOT_AVAILABLE_VERSION
        return OffsetResult(OFFSET_NOT_AVAILABLE if is_new else LEADER_NOT_AVAILABLE)
    if timestamp == LATEST:
        return OffsetResult(NONE, end, -1, epoch)
    if timestamp == EARLIEST or (timestamp == EARLIEST_LOCAL and version >= _FIRST_LOCAL_VERSION):
        # All that there is lies here: no tier is remote.
        return OffsetResult(NONE, log.log_start_offset, -1, epoch)
    if timestamp == LATEST_TIERED and version >= _FIRST_TIERED_VERSION:
        return OffsetResult(NONE)
    if timestamp == EARLIEST_PENDING_UPLOAD and version >= _FIRST_PENDING_VERSION:
        return OffsetResult(NONE)
    if timestamp == MAX_TIMESTAMP and version >= _FIRST_MAX_TIMESTAMP_VERSION:
        found = log.offset_of_max_timestamp()
    elif timestamp >= 0:
        found = log.offset_for_timestamp(timestamp)
    else:
        return OffsetResult(UNSUPPORTED_VERSION)
    if found is None or found[0] >= end:
        return OffsetResult(NONE, -1, -1, epoch)
    return OffsetResult(NONE, found[0], found[1], epoch)


def _check_offset(start: int, offset: int, end: int) -> None:
    if not start <= offset <= end:
        raise OffsetOutOfRange(offset, start, end)


def _check_epoch(leader_epoch: int, current_leader_epoch: int) -> int:
    """Compare the leader epoch that a client knows with the current one (B-D2.1, KIP-320)."""
    if current_leader_epoch < 0 or current_leader_epoch == leader_epoch:
        return NONE
    if current_leader_epoch < leader_epoch:
        return FENCED_LEADER_EPOCH
    return UNKNOWN_LEADER_EPOCH


def _refuse_shape(records: memoryview | None, version: int) -> AppendResult | None:
    """The checks that do not need the partition; the log's validation does the rest."""
    if records is None or len(records) == 0:
        return AppendResult(
            INVALID_RECORD,
            message=f"Produce requests with version {version} must have exactly one record batch "
            f"per partition, not none",
        )
    if version < _FIRST_ZSTD_PRODUCE_VERSION and len(records) > _ATTRIBUTES_LOW_BYTE:
        codec = records[_ATTRIBUTES_LOW_BYTE] & _CODEC_MASK
        if codec == _ZSTD:
            return AppendResult(
                UNSUPPORTED_COMPRESSION_TYPE,
                message=f"Produce requests with version {version} are not allowed to use zstd; "
                f"{_FIRST_ZSTD_PRODUCE_VERSION} is the first that is",
            )
    return None


def _refused(partition: Partition, version: int, error: Exception) -> AppendResult:
    """What a version of Produce is told about a batch that was not appended."""
    if isinstance(error, (InvalidBatch, LogError)):
        return AppendResult(
            error.error_code, message=error.message, record_errors=error.record_errors
        )
    if isinstance(error, NotEnoughReplicas):
        return AppendResult(
            NOT_ENOUGH_REPLICAS,
            message=f"{error.count} replica(s) of {partition.topic}-{partition.index} in sync, "
            f"min.insync.replicas is {error.needed_count}",
        )
    if isinstance(error, NotLeader):
        return AppendResult(NOT_LEADER_OR_FOLLOWER, message=str(error), partition=partition)
    if isinstance(error, PartitionDeleted):
        return AppendResult(UNKNOWN_TOPIC_OR_PARTITION, message=f"{partition} is gone")
    if isinstance(error, CoordinatorError):
        return AppendResult(
            _unverified_code(error.code, version),
            message=f"{partition.topic}-{partition.index} is not known to be in the transaction: "
            f"the coordinator says {error.code}",
        )
    code, text = item_error(error)
    return AppendResult(code, message=f"the batch is not appended: {text}")


def _unverified_code(code: int, version: int) -> int:
    """What a version of Produce is told in place of what the coordinator says."""
    if code == PRODUCER_FENCED:
        return INVALID_PRODUCER_EPOCH
    if code == TRANSACTION_ABORTABLE and version < _FIRST_ABORTABLE_PRODUCE_VERSION:
        return INVALID_TXN_STATE
    if code == CONCURRENT_TRANSACTIONS and version >= _FIRST_ADDING_PRODUCE_VERSION:
        return code
    # The client tries again.
    return NOT_ENOUGH_REPLICAS if code in _MOMENTARY else code

"""Produce: batches go into logs (B-D1, B-A6.3)."""

from __future__ import annotations

import time
from functools import partial

from fastprod.broker.cluster.cluster import Cluster
from fastprod.broker.cluster.partition import Partition
from fastprod.broker.log.validation import HeavyBatch
from fastprod.broker.server.acl import Operation, ResourceType
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.apis.delayed_produce import Unreplicated, answer_when_replicated
from fastprod.broker.server.replica_manager import AppendResult, ReplicaManager
from fastprod.broker.server.topic_names import FIRST_ID_VERSION
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.broker.threads.purgatory import DelayedOperationPurgatory
from fastprod.error_codes import (
    INVALID_REQUIRED_ACKS,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
)
from fastprod.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

_ALL = -1
_ACKS = (_ALL, 0, 1)
_FIRST_LEADER_HINT_VERSION = 10
# Bytes that the network's thread may decompress at once: some ten milliseconds of gzip.
_QUICK_BYTES = 4 * 1024 * 1024
_ATTRIBUTES_LOW_BYTE = 22
_TRANSACTIONAL = 0x10
# How long it may work on one request; checked after each batch.
_QUICK_NS = 20_000_000


_UNAUTHORIZED = AppendResult(TOPIC_AUTHORIZATION_FAILED)
_UNKNOWN_ID = AppendResult(UNKNOWN_TOPIC_ID)


class _Work:
    """The state of a Produce request: the answers so far, and what is left to append.

    Attributes:
        left: partitions to append to, the next one last.
        topics: the answers.
        grown: partitions with new records, whose waiting fetches are to be completed.
        leaders: current leaders of the partitions that another node leads.
        has_error: whether any partition has.
        unreplicated: batches that replicas in sync are waited for.
    """

    __slots__ = ("_waits", "grown", "has_error", "leaders", "left", "topics", "unreplicated")

    def __init__(self, message: ProduceRequest, call: Call[ProduceRequest]) -> None:
        self.left: list[tuple[TopicProduceResponse, PartitionProduceData]] = []
        self.topics: list[TopicProduceResponse] = []
        self.grown: list[Partition] = []
        self.leaders: dict[int, None] = {}
        self.has_error = False
        self._waits = message.acks == _ALL
        self.unreplicated: list[Unreplicated] = []
        for topic in message.topic_data:
            answer = TopicProduceResponse(
                name=topic.name, topic_id=topic.topic_id, partition_responses=[]
            )
            self.topics.append(answer)
            if not topic.name and call.version >= FIRST_ID_VERSION:
                for data in topic.partition_data:
                    self.add(answer, data.index, _UNKNOWN_ID)
                continue
            if call.allows_topic(Operation.WRITE, topic.name):
                self.left += [(answer, data) for data in topic.partition_data]
                continue
            for data in topic.partition_data:
                self.add(answer, data.index, _UNAUTHORIZED)
        self.left.reverse()

    def add(self, topic: TopicProduceResponse, index: int, result: AppendResult) -> None:
        """Note the result of a partition."""
        response = _partition_response(index, result)
        topic.partition_responses.append(response)
        if result.error == NONE:
            assert result.partition is not None
            self.grown.append(result.partition)
            if self._waits and result.partition.is_replicated:
                place = (result.partition, result.leader_epoch, result.end_offset)
                self.unreplicated.append(Unreplicated(*place, partial(_fail, response)))
            return
        self.has_error = True
        if result.partition is not None:
            leader = result.partition.leader
            response.current_leader = LeaderIdAndEpoch(
                leader_id=leader, leader_epoch=result.partition.leader_epoch
            )
            self.leaders[leader] = None


class ProduceApi:
    """Handles Produce. Any thread.

    What takes long goes to the overflow worker, and other requests are served meanwhile: a small
    batch may have gigabytes of records, and a request thousands of such batches.

    With acks=all the answer for a partition with several replicas waits in the purgatory for those
    in sync. On one log, acks=1 and acks=all differ only in `min.insync.replicas` (B-D1.5).

    Args:
        replica_manager: appends.
        purgatory: told which partitions have grown; where acks=all waits.
        cluster: where leaders are found.
        overflow_worker: where requests go on that take long.
    """

    def __init__(
        self,
        replica_manager: ReplicaManager,
        purgatory: DelayedOperationPurgatory,
        cluster: Cluster,
        overflow_worker: OverflowWorker,
    ) -> None:
        self._overflow_worker = overflow_worker
        self._replicas = replica_manager
        self._purgatory = purgatory
        self._cluster = cluster

    def handle(self, call: Call[ProduceRequest]) -> None:
        """Append, answer, and then complete the fetches that wait for the records (B-A5.6)."""
        message = call.message
        if message.acks not in _ACKS:
            self.refuse(
                call,
                INVALID_REQUIRED_ACKS,
                f"acks is {message.acks}; it can be -1 (all), 0 and 1",
            )
            return
        transactional_id = message.transactional_id
        if _is_transactional(message) and (
            transactional_id is None
            or not call.allows(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        ):
            self.refuse(call, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, None)
            return
        work = _Work(message, call)
        try:
            if self._append(call, work, _QUICK_BYTES):
                self._answer_or_wait(call, work)
            elif not self._overflow_worker.put(lambda: self._go_on(call, work)):
                call.close()
        finally:
            self._wake(work)

    def _go_on(self, call: Call[ProduceRequest], work: _Work) -> None:
        """Append what is left; on the overflow worker."""
        try:
            if self._append(call, work, None):
                self._answer_or_wait(call, work)
            else:
                call.close()
        except Exception as error:
            call.failed(error)
        finally:
            self._wake(work)

    def _wake(self, work: _Work) -> None:
        grown, work.grown = work.grown, []
        for partition in grown:
            self._purgatory.check_and_complete(partition)

    def refuse(self, call: Call[ProduceRequest], code: int, text: str | None) -> None:
        """Answer every partition with `code`; with acks=0 close the connection (B-A6.3)."""
        result = AppendResult(code, message=text)
        topics = [
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    _partition_response(each.index, result) for each in topic.partition_data
                ],
            )
            for topic in call.message.topic_data
        ]
        if call.message.acks == 0:
            call.close()
        else:
            call.answer(ProduceResponse(responses=topics))

    def _append(self, call: Call[ProduceRequest], work: _Work, most_bytes: int | None) -> bool:
        """Append what is left; False: the rest would take too long, here or now."""
        append, acks, version = self._replicas.append, call.message.acks, call.version
        transactional_id = call.message.transactional_id
        is_timed = most_bytes is not None and len(work.left) > 1
        # CPU time: a thread that was not running has not been busy.
        due_ns = time.thread_time_ns() + _QUICK_NS if is_timed else 0
        while work.left:
            answer, data = work.left[-1]
            if is_timed and time.thread_time_ns() > due_ns:
                return False
            if most_bytes is None and self._overflow_worker.is_closed:
                return False
            try:
                result = append(
                    call.node_id,
                    answer.name,
                    data.index,
                    data.records,
                    acks,
                    version,
                    most_bytes,
                    transactional_id,
                    answer.topic_id if version >= FIRST_ID_VERSION else b"",
                )
            except HeavyBatch:
                return False
            work.left.pop()
            work.add(answer, data.index, result)
        return True

    def _answer_or_wait(self, call: Call[ProduceRequest], work: _Work) -> None:
        if not work.unreplicated:
            self._answer(call, work)
            return
        answer_when_replicated(
            self._purgatory,
            call,
            work.unreplicated,
            call.message.timeout_ms,
            lambda: self._answer(call, work),
        )

    def _answer(self, call: Call[ProduceRequest], work: _Work) -> None:
        if call.message.acks != 0:
            answer = ProduceResponse(responses=work.topics)
            if work.leaders and call.version >= _FIRST_LEADER_HINT_VERSION:
                answer.node_endpoints = self._endpoints(work.leaders, call.listener_name)
            call.answer(answer)
        elif work.has_error:
            call.close()
        else:
            call.answer_nothing()

    def _endpoints(self, leaders: dict[int, None], listener_name: str) -> list[NodeEndpoint]:
        found = [self._cluster.address(node_id, listener_name) for node_id in leaders]
        return [
            NodeEndpoint(node_id=each.id, host=each.host, port=each.port)
            for each in found
            if each is not None
        ]


def _partition_response(index: int, result: AppendResult) -> PartitionProduceResponse:
    if result.error == NONE:
        return PartitionProduceResponse(
            index=index,
            error_code=NONE,
            base_offset=result.base_offset,
            log_append_time_ms=result.log_append_time_ms,
            log_start_offset=result.log_start_offset,
        )
    return PartitionProduceResponse(
        index=index,
        error_code=result.error,
        base_offset=-1,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=at, batch_index_error_message=why)
            for at, why in result.record_errors
        ],
        error_message=result.message,
    )


def _fail(response: PartitionProduceResponse, code: int, text: str | None) -> None:
    response.error_code = code
    response.error_message = text
    response.base_offset = response.log_append_time_ms = response.log_start_offset = -1


def _is_transactional(message: ProduceRequest) -> bool:
    """Whether any batch is part of a transaction: the client must be allowed to use its id then."""
    for topic in message.topic_data:
        for data in topic.partition_data:
            records = data.records
            if (
                records is not None
                and len(records) > _ATTRIBUTES_LOW_BYTE
                and records[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL
            ):
                return True
    return False

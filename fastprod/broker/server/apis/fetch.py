"""Fetch: records come out of logs, at once or when there are enough (B-C5, B-D2)."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable
from functools import partial

from fastprod.broker.cluster.cluster import Cluster
from fastprod.broker.cluster.partition import Partition
from fastprod.broker.config import BrokerConfig
from fastprod.broker.server.acl import Operation
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.replica_manager import (
    READ_COMMITTED,
    FetchWant,
    ReadResult,
    ReplicaManager,
)
from fastprod.broker.server.topic_names import FIRST_ID_VERSION
from fastprod.broker.threads.purgatory import DelayedOperation, DelayedOperationPurgatory
from fastprod.error_codes import (
    FENCED_LEADER_EPOCH,
    FETCH_SESSION_ID_NOT_FOUND,
    NONE,
    NOT_LEADER_OR_FOLLOWER,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
)
from fastprod.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)

_FIRST_LEADER_HINT_VERSION = 16
_FIRST_STATE_VERSION = 15
# The client gets to know who leads (KIP-951).
_MOVED = (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH)
_UNAUTHORIZED = ReadResult(TOPIC_AUTHORIZATION_FAILED)
_UNKNOWN_ID = ReadResult(UNKNOWN_TOPIC_ID)
# How many partitions of a waiting request may be named twice.
_MOST_REPEATS = 100
# Bytes of all answers that are being sent, besides one batch each: clients may read slowly.
_MOST_COPIED_BYTES = 256 * 1024 * 1024
# Bytes of all waiting requests. Beyond it a request is answered at once, with what there is.
_MOST_PARKED_BYTES = 64 * 1024 * 1024


class DelayedFetch(DelayedOperation):
    """A Fetch that waits for `min_bytes` (B-D2.3).

    It is ready when there are enough bytes, and when any partition would answer with an error: its
    topic was deleted, or another node leads it.

    Args:
        api: answers it.
        call: the request.
        wanted: its partitions, in order.
        partitions: the same, found; all without an error when it was parked.
        max_wait_ms: it is answered after this with what there is.

    Attributes:
        size_bytes: of its request.
    """

    __slots__ = (
        "_api",
        "_appended_bytes",
        "_at",
        "_call",
        "_counted_bytes",
        "_counting",
        "_enough_at_bytes",
        "_is_committed",
        "_wanted",
        "size_bytes",
    )

    def __init__(
        self,
        api: FetchApi,
        call: Call[FetchRequest],
        wanted: list[FetchWant],
        partitions: list[Partition],
        max_wait_ms: int,
    ) -> None:
        super().__init__(max_wait_ms)
        self._api = api
        self._call: Call[FetchRequest] | None = call
        self.size_bytes = len(call.request.frame)
        self._wanted = wanted
        self._at: dict[Partition, list[FetchWant]] = {}
        for partition, want in zip(partitions, wanted, strict=True):
            self._at.setdefault(partition, []).append(want)
        self._is_committed = call.message.isolation_level == READ_COMMITTED
        # Bytes appended to all logs, as of the last look at each: an append to one of thousands
        # looks at that one only. What is undecided does not count for who must not see it.
        self._counting = threading.Lock()
        self._counted_bytes: dict[Partition, int] = {}
        self._appended_bytes = 0
        # Below this there cannot be enough.
        self._enough_at_bytes = 0

    @property
    def partitions(self) -> list[Partition]:
        """The keys it is parked by."""
        return list(self._at)

    def try_complete(self, key: Hashable | None = None) -> bool:
        """Answer if it is ready.

        With min_bytes 1, the usual value, only the partition that changed is looked at. With
        more nothing is read again before enough has been appended.
        """
        call, wanted = self._call, self._wanted
        if call is None or self.is_completed:
            return False
        if isinstance(key, Partition) and call.message.min_bytes <= 1:
            ready = self._is_ready(call, key)
        elif (
            isinstance(key, Partition)
            # Else bytes were appended before, and can only be read now.
            and not key.is_replicated
            and self._count((key,)) < self._enough_at_bytes
        ):
            ready = not all(self._api.is_readable(call, want) for want in self._at.get(key, ()))
        else:
            appended_bytes = self._count(self._at)
            missing_bytes = self._api.missing_bytes(call, wanted)
            self._enough_at_bytes = appended_bytes + missing_bytes
            ready = missing_bytes == 0
        return ready and self.force_complete()

    def _count(self, grown: Iterable[Partition]) -> int:
        """Bytes appended to all logs; those in `grown` are looked at now."""
        at, counted, call = self._at, self._counted_bytes, self._call
        node_id = -1 if call is None else call.node_id
        with self._counting:
            for partition in grown:
                log = partition.log_at(node_id)
                now_bytes = log.stable_bytes if self._is_committed else log.appended_bytes
                more_bytes = now_bytes - counted.get(partition, 0)
                counted[partition] = now_bytes
                # A partition that is named twice is counted twice.
                self._appended_bytes += more_bytes * len(at.get(partition, ()))
            return self._appended_bytes

    def on_complete(self) -> None:
        """Read and answer with whatever there is."""
        call, wanted = self._call, self._wanted
        assert call is not None
        try:
            self._api.answer(call, wanted)
        except Exception as error:
            # The completing thread serves another client: this one must get the error all the same.
            call.failed(error)
        finally:
            self.on_withdrawn()

    def on_withdrawn(self) -> None:
        """Drop all references: the timer keeps this object until its deadline."""
        self._api.has_left(self.size_bytes)
        self._call, self._wanted, self._at, self._counted_bytes = None, [], {}, {}

    def _is_ready(self, call: Call[FetchRequest], partition: Partition) -> bool:
        log = partition.log_at(call.node_id)
        end = log.last_stable_offset if self._is_committed else log.high_watermark
        return any(
            end > want.offset or not self._api.is_readable(call, want)
            for want in self._at.get(partition, ())
        )


class FetchApi:
    """Handles Fetch, without sessions: session id 0 for everybody (B-D2.5). Any thread.

    Args:
        replica_manager: reads.
        purgatory: where fetches wait.
        cluster: where leaders are found.
        config: `fetch_max_bytes` and `fetch_wait_cap_ms`.
        copies: whether records read take memory until they are sent, as those from files do.
    """

    def __init__(
        self,
        replica_manager: ReplicaManager,
        purgatory: DelayedOperationPurgatory,
        cluster: Cluster,
        config: BrokerConfig,
        copies: bool = False,
    ) -> None:
        self._cluster = cluster
        self._copies = copies
        self._replicas = replica_manager
        self._purgatory = purgatory
        self._max_bytes = config.fetch_max_bytes
        self._wait_cap_ms = config.fetch_wait_cap_ms
        self._lock = threading.Lock()
        self._parked_bytes = 0
        self._copied_bytes = 0

    def handle(self, call: Call[FetchRequest]) -> None:
        """Answer now if there is enough, an error, or nothing to wait for; else park it."""
        message = call.message
        call.request.metrics_alias = "FetchConsumer" if _replica_id(call) < 0 else "FetchFollower"
        if message.session_id != 0 and message.session_epoch > 0:
            # No client was given that session. The client then starts again with a full fetch.
            call.answer(FetchResponse(error_code=FETCH_SESSION_ID_NOT_FOUND))
            return
        has_ids = call.version >= FIRST_ID_VERSION
        wanted = [
            FetchWant(
                topic.topic,
                each.partition,
                each.fetch_offset,
                each.partition_max_bytes,
                each.current_leader_epoch,
                topic.topic_id if has_ids else b"",
            )
            for topic in message.topics
            for each in topic.partitions
        ]
        results = self._read(call, wanted)
        max_wait_ms = message.max_wait_ms
        if self._wait_cap_ms is not None:
            max_wait_ms = min(max_wait_ms, self._wait_cap_ms)
        if max_wait_ms <= 0 or not wanted or not _missing_bytes(results, message.min_bytes):
            self._answer(call, results)
            return
        partitions = [each.partition for each in results if each.partition is not None]
        if len(wanted) - len(set(partitions)) > _MOST_REPEATS:
            # A small log could make each append look at it thousands of times.
            self._answer(call, results)
            return
        self._park(call, DelayedFetch(self, call, wanted, partitions, max_wait_ms))

    def _park(self, call: Call[FetchRequest], operation: DelayedFetch) -> None:
        connection = call.request.connection
        with self._lock:
            self._parked_bytes += operation.size_bytes
            is_full = self._parked_bytes > _MOST_PARKED_BYTES
        if is_full:
            operation.force_complete()
            return
        self._purgatory.complete_or_watch(operation, (*operation.partitions, connection))
        if not connection.is_open:
            # The connection was closed while the request was being parked.
            self._purgatory.withdraw(operation)

    def has_left(self, size_bytes: int) -> None:
        """Note that a request of that size has stopped waiting."""
        with self._lock:
            self._parked_bytes -= size_bytes

    def refuse(self, call: Call[FetchRequest], code: int, text: str | None) -> None:
        """Answer every partition with `code`."""
        count = sum(len(topic.partitions) for topic in call.message.topics)
        call.answer(self._response(call, [ReadResult(code)] * count))

    def is_readable(self, call: Call[FetchRequest], want: FetchWant) -> bool:
        """Whether this node still leads the partition, and nothing is wrong with it."""
        error, _ = self._replicas.look(call.node_id, want)
        return error == NONE

    def missing_bytes(self, call: Call[FetchRequest], wanted: list[FetchWant]) -> int:
        """How many bytes are missing; 0: enough, or an error."""
        return _missing_bytes(self._read(call, wanted), call.message.min_bytes)

    def answer(self, call: Call[FetchRequest], wanted: list[FetchWant]) -> None:
        """Answer with what there is now."""
        self._answer(call, self._read(call, wanted))

    def _answer(self, call: Call[FetchRequest], results: list[ReadResult]) -> None:
        if self._copies:
            size_bytes = sum(result.size_bytes for result in results)
            with self._lock:
                self._copied_bytes += size_bytes
            call.request.on_sent = partial(self._sent, size_bytes)
        call.answer(self._response(call, results))

    def _sent(self, size_bytes: int) -> None:
        with self._lock:
            self._copied_bytes -= size_bytes

    def _read(self, call: Call[FetchRequest], wanted: list[FetchWant]) -> list[ReadResult]:
        max_bytes = min(call.message.max_bytes, self._max_bytes)
        if self._copies:
            max_bytes = min(max_bytes, max(0, _MOST_COPIED_BYTES - self._copied_bytes))
        allowed = _allowed_topics(call, wanted)
        has_ids = call.version >= FIRST_ID_VERSION
        if allowed is None and not (has_ids and any(not want.topic for want in wanted)):
            return self._replicas.read(
                call.node_id, wanted, max_bytes, call.message.isolation_level
            )
        refused: dict[str, ReadResult] = {}
        for want in wanted:
            if has_ids and not want.topic:
                refused[want.topic] = _UNKNOWN_ID
            elif allowed is not None and want.topic not in allowed:
                refused[want.topic] = _UNAUTHORIZED
        readable = [want for want in wanted if want.topic not in refused]
        found = iter(
            self._replicas.read(call.node_id, readable, max_bytes, call.message.isolation_level)
        )
        return [refused.get(want.topic) or next(found) for want in wanted]

    def _response(self, call: Call[FetchRequest], results: list[ReadResult]) -> FetchResponse:
        """The answer, in the order of the request."""
        committed = call.message.isolation_level == READ_COMMITTED
        in_order = iter(results)
        response = FetchResponse(
            responses=[
                FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        _partition_data(call.version, each.partition, next(in_order), committed)
                        for each in topic.partitions
                    ],
                )
                for topic in call.message.topics
            ]
        )
        if call.version >= _FIRST_LEADER_HINT_VERSION:
            moved = [each.partition for each in results if each.error in _MOVED]
            leaders = {each.leader for each in moved if each is not None}
            response.node_endpoints = [
                NodeEndpoint(node_id=each.id, host=each.host, port=each.port)
                for leader in sorted(leaders)
                if (each := self._cluster.address(leader, call.listener_name)) is not None
            ]
        return response


def _replica_id(call: Call[FetchRequest]) -> int:
    message = call.message
    has_state = call.version >= _FIRST_STATE_VERSION
    return message.replica_state.replica_id if has_state else message.replica_id


def _allowed_topics(call: Call[FetchRequest], wanted: list[FetchWant]) -> set[str] | None:
    """The topics that the client may read; None: all that it asks for."""
    names = {want.topic for want in wanted}
    if _replica_id(call) >= 0:
        return None if call.allows_cluster(Operation.CLUSTER_ACTION) else set()
    allowed = {name for name in names if call.allows_topic(Operation.READ, name)}
    return None if len(allowed) == len(names) else allowed


def _missing_bytes(results: list[ReadResult], min_bytes: int) -> int:
    for result in results:
        if result.error != NONE:
            return 0
        min_bytes -= result.size_bytes
    return max(min_bytes, 0)


def _aborted(result: ReadResult) -> list[AbortedTransaction]:
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in result.aborted
    ]


def _partition_data(version: int, index: int, result: ReadResult, committed: bool) -> PartitionData:
    data = PartitionData(
        partition_index=index,
        error_code=result.error,
        high_watermark=result.high_watermark,
        last_stable_offset=result.last_stable_offset,
        log_start_offset=result.log_start_offset,
        aborted_transactions=_aborted(result) if committed and result.error == NONE else None,
        records=result.records or b"",
    )
    if result.error in _MOVED and result.partition and version >= _FIRST_LEADER_HINT_VERSION:
        data.current_leader = LeaderIdAndEpoch(
            leader_id=result.partition.leader, leader_epoch=result.partition.leader_epoch
        )
    return data

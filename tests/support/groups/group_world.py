"""A group coordinator without requests, whose time is moved by hand and whose answers are kept."""

from __future__ import annotations

import heapq
import itertools
import struct
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.topic_config import TopicConfig
from fastprod.broker.cluster.topics import OFFSETS_TOPIC, Topics
from fastprod.broker.config import BrokerConfig
from fastprod.broker.coordinator.group.consumer.consumer_group import ConsumerGroup
from fastprod.broker.coordinator.group.consumer.member_heartbeat import (
    HeartbeatResult,
    MemberHeartbeat,
)
from fastprod.broker.coordinator.group.group import Committing
from fastprod.broker.coordinator.group.group_coordinator import GroupCoordinator
from fastprod.broker.coordinator.group.group_metadata import GroupMetadata
from fastprod.broker.coordinator.group.group_records import OffsetAndMetadata, TopicPartition
from fastprod.broker.coordinator.group.member_metadata import (
    JoinGroupResult,
    Joining,
    Leaving,
    SyncGroupResult,
    Syncing,
)
from fastprod.broker.log.log import Log
from fastprod.broker.log.record_batch import NO_PRODUCER, Producer
from fastprod.broker.threads.clock import FakeClock
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.broker.threads.purgatory import DelayedOperation, DelayedOperationPurgatory
from fastprod.error_codes import MEMBER_ID_REQUIRED, NONE

_NS_PER_MS = 1_000_000

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def subscribed(*topics: str) -> bytes:
    """What a consumer says that reads these topics: version 0 of Kafka's ConsumerProtocol."""
    names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return struct.pack(">hi", 0, len(topics)) + names + struct.pack(">i", -1)


def raise_it(error: BaseException) -> None:
    """What a purgatory calls with errors."""
    raise error


class ManualPurgatory(DelayedOperationPurgatory):
    """A purgatory whose time goes on when somebody says so, on that thread."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__("manual", clock, raise_it)
        self._fake = clock
        self._heap: list[tuple[int, int, DelayedOperation]] = []
        self._order = itertools.count()
        self.is_shut = False

    def complete_or_watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> bool:
        assert operation.delay_ms is not None
        due_ns = self._fake.monotonic_ns() + round(operation.delay_ms * _NS_PER_MS)
        heapq.heappush(self._heap, (due_ns, next(self._order), operation))
        return False

    def withdraw(self, operation: DelayedOperation) -> bool:
        return operation.claim()

    @property
    def pending(self) -> list[DelayedOperation]:
        """What is parked and not completed."""
        return [each for _, _, each in self._heap if not each.is_completed]

    def advance(self, ms: int) -> None:
        """Let so much time pass; what is due on the way expires, in order."""
        end_ns = self._fake.monotonic_ns() + ms * _NS_PER_MS
        while self._heap and self._heap[0][0] <= end_ns:
            due_ns, _, operation = heapq.heappop(self._heap)
            self._fake.advance(max(0, due_ns - self._fake.monotonic_ns()) / _NS_PER_MS)
            operation.expire()
        self._fake.advance((end_ns - self._fake.monotonic_ns()) / _NS_PER_MS)


class ManualWorker(OverflowWorker):
    """A worker that works when somebody says so, on that thread."""

    def __init__(self) -> None:
        super().__init__("manual")
        self.waiting_actions: list[Callable[[], None]] = []

    def put(self, action: Callable[[], None]) -> bool:
        self.waiting_actions.append(action)
        return True

    def run(self) -> None:
        """Do what waits, and what that brings."""
        while self.waiting_actions:
            self.waiting_actions.pop(0)()


class Answer:
    """The answers to one request: none or one."""

    def __init__(self) -> None:
        self.results: list[Any] = []

    @property
    def is_given(self) -> bool:
        return bool(self.results)

    def join(self) -> JoinGroupResult:
        (result,) = self.results
        assert isinstance(result, JoinGroupResult)
        return result

    def sync(self) -> SyncGroupResult:
        (result,) = self.results
        assert isinstance(result, SyncGroupResult)
        return result


class GroupWorld:
    """A coordinator of two nodes; all groups are led by the node that leads their partition.

    Args:
        logs: those of __consumer_offsets, to begin with what another world has left.
        topics: of that world; None: new ones.
        config: settings of the broker.
    """

    def __init__(
        self, logs: dict[int, Log] | None = None, topics: Topics | None = None, **config: Any
    ) -> None:
        self.clock = FakeClock()
        self.logs = logs if logs is not None else {}
        self._settings = config
        settings = {"offsets_topic_num_partitions": 3} | config
        self.config = BrokerConfig.make(settings)
        is_new = topics is None
        self.topics = topics or Topics(self.config, [0, 1], self._open, self.clock.monotonic_ns)
        self.purgatory = ManualPurgatory(self.clock)
        self.worker = ManualWorker()
        self.grown: list[Partition] = []
        self.coordinator = GroupCoordinator(
            self.config,
            self.topics,
            self.clock,
            self.purgatory,
            self.worker,
            self.grown.append,
        )
        self.manager = self.coordinator.manager
        self.offsets = self.coordinator.offsets
        self.manager.make_topic()
        for name in ("t", "u") if is_new else ():
            self.topics.create(name, 4)

    def _open(self, topic: str, partition: int, topic_id: bytes, config: TopicConfig) -> Log:
        if topic != OFFSETS_TOPIC:
            return Log(None, topic, partition, config.log_config(), self.clock)
        if partition not in self.logs:
            self.logs[partition] = Log(None, topic, partition, config.log_config(), self.clock)
        return self.logs[partition]

    def node(self, group_id: str = "g") -> int:
        """The node that coordinates the group."""
        return self.manager.leader_of(group_id)

    def partition(self, group_id: str = "g") -> Partition:
        """Where the group is kept."""
        found = self.manager.partition_of(group_id)
        assert found is not None
        return found

    def group(self, group_id: str = "g") -> GroupMetadata:
        found = self.manager.item(group_id, self.node(group_id))
        assert isinstance(found, GroupMetadata)
        return found

    def joining(self, member_id: str = "", **changed: Any) -> Joining:
        """A consumer of topic t, which an old client would be."""
        plain = Joining(
            "g",
            member_id,
            None,
            "client",
            "/127.0.0.1",
            SESSION_MS,
            REBALANCE_MS,
            "consumer",
            [("range", subscribed("t"))],
        )
        return plain._replace(**changed)

    def join(self, member_id: str = "", *, node: int | None = None, **changed: Any) -> Answer:
        """Have somebody join; see `joining`."""
        joining = self.joining(member_id, **changed)
        answer = Answer()
        asked = self.node(joining.group_id) if node is None else node
        self.coordinator.join_group(joining, asked, answer.results.append)
        return answer

    def join_twice(self, **changed: Any) -> tuple[str, Answer]:
        """Join as new clients do, which come back with the id that they are given (KIP-394)."""
        first = self.join(requires_known_id=True, **changed).join()
        assert first.error == MEMBER_ID_REQUIRED
        return first.member_id, self.join(first.member_id, requires_known_id=True, **changed)

    def sync(
        self,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance: str | None = None,
        kind: str | None = None,
        name: str | None = None,
        group_id: str = "g",
    ) -> Answer:
        """Ask for an assignment."""
        answer = Answer()
        syncing = Syncing(
            group_id, generation_id, member_id, instance, kind, name, assignments or {}
        )
        self.coordinator.sync_group(syncing, self.node(group_id), answer.results.append)
        return answer

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: Mapping[str, Sequence[int]] | None = None,
        *,
        topics: Sequence[str] | None = None,
        group_id: str = "g",
        version: int = 1,
        node: int | None = None,
        **said: Any,
    ) -> HeartbeatResult:
        """A heartbeat of a member of a group that the broker assigns; owned: by topic."""
        named = None
        if owned is not None:
            named = [(self.topic_id(name), list(each)) for name, each in owned.items()]
        said = {"allows_topic": lambda name: True, "client_host": "/127.0.0.1", **said}
        beat = MemberHeartbeat(
            version, group_id, member_id, epoch, "client", topic_names=topics, owned=named, **said
        )
        asked = self.node(group_id) if node is None else node
        return self.coordinator.consumer_group_heartbeat(beat, asked)

    def come(self, member_id: str, *topics: str, **said: Any) -> HeartbeatResult:
        """Such a member joins; without topics, it reads t."""
        said = {"rebalance_timeout_ms": REBALANCE_MS, "topics": topics or ("t",), **said}
        return self.beat(member_id, 0, {}, **said)

    def topic_id(self, name: str) -> bytes:
        topic = self.topics.get(name)
        assert topic is not None
        return topic.id

    def given(self, result: HeartbeatResult) -> dict[str, list[int]] | None:
        """What a member is told that it may read, by topic."""
        if result.assignment is None:
            return None
        found = {self.topics.name_of(id): sorted(each) for id, each in result.assignment.items()}
        return dict(sorted(found.items()))

    def consumer_group(self, group_id: str = "g") -> ConsumerGroup:
        return self.coordinator.consumer_group(group_id, self.node(group_id))

    def heartbeat(self, member_id: str, generation_id: int, instance: str | None = None) -> int:
        return self.coordinator.heartbeat("g", generation_id, member_id, instance, self.node())

    def leave(self, *leaving: Leaving) -> tuple[int, list[int]]:
        return self.coordinator.leave_group("g", leaving, self.node())

    def commit(
        self,
        offsets: dict[TopicPartition, int],
        member_id: str = "",
        generation_id: int = -1,
        *,
        group_id: str = "g",
        instance: str | None = None,
        metadata: str = "",
        expires_ms: int = -1,
        knows_epochs: bool = False,
    ) -> dict[TopicPartition, int]:
        now_ms = self.clock.time_ms()
        kept = {
            place: OffsetAndMetadata(offset, -1, metadata, now_ms, expires_ms)
            for place, offset in offsets.items()
        }
        committing = Committing(group_id, generation_id, member_id, instance, kept, knows_epochs)
        return self.offsets.commit(committing, self.node(group_id))

    def committing(
        self,
        offsets: dict[TopicPartition, int],
        member_id: str,
        epoch: int,
        *,
        is_transactional: bool,
    ) -> Committing:
        kept = {place: OffsetAndMetadata(each, -1, "", 0) for place, each in offsets.items()}
        producer = Producer(5, 0) if is_transactional else NO_PRODUCER
        return Committing("g", epoch, member_id, None, kept, True, producer)

    def fetched(self, group_id: str = "g") -> dict[TopicPartition, int]:
        code, found = self.offsets.fetch(group_id, None, self.node(group_id))
        assert code == NONE
        return {place: each.offset for place, each in found.items()}

    def stable(self, count: int = 1, **changed: Any) -> list[str]:
        """A stable group of so many members, the leader first; its generation is the last one."""
        members: list[str] = []
        for _ in range(count):
            self.join(**changed)
            # The one who came last stands last; the others have to come back.
            newest = next(reversed(self.group().members))
            for each in members:
                self.join(each, **changed)
            members.append(newest)
        self.sync_all(members)
        return members

    def sync_all(self, members: Sequence[str]) -> list[Answer]:
        """Have the leader assign its own id to each member, and all ask."""
        group = self.group()
        leader = group.leader_id
        assert leader is not None
        rest = [each for each in members if each != leader]
        answers = [self.sync(each, group.generation_id) for each in rest]
        given = {each: each.encode() for each in members}
        return [self.sync(leader, group.generation_id, given), *answers]

    def successor(self) -> GroupWorld:
        """The same cluster after a restart, at the same time."""
        self.coordinator.close()
        world = GroupWorld(self.logs, self.topics, **self._settings)
        world.clock._start_ms = self.clock.time_ms()
        return world

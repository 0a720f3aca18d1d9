"""OffsetCommit, OffsetFetch and OffsetDelete: how far groups have read (B-E2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.cluster.topics import ZERO_ID, Topics
from fastprod.broker.config import INT64_MAX
from fastprod.broker.coordinator.group.group import Committing
from fastprod.broker.coordinator.group.group_offsets import UNSTABLE
from fastprod.broker.coordinator.group.group_records import OffsetAndMetadata, TopicPartition
from fastprod.broker.coordinator.group.offset_metadata_manager import OffsetMetadataManager
from fastprod.broker.server.acl import Operation, ResourceType
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.apis.group.membership import may_read_group
from fastprod.error_codes import (
    GROUP_AUTHORIZATION_FAILED,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSTABLE_OFFSET_COMMIT,
)
from fastprod.protocol.messages.group.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from fastprod.protocol.messages.group.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from fastprod.protocol.messages.group.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from fastprod.protocol.messages.transaction.txn_offset_commit import TxnOffsetCommitRequestTopic

_FIRST_EPOCH_VERSION: Final = 9
_FIRST_TOPIC_ID_VERSION: Final = 10
_FIRST_MANY_GROUPS_VERSION: Final = 8
_FIRST_GROUP_ERROR_VERSION: Final = 2

_NOTHING: Final = OffsetAndMetadata(-1, -1, "", -1)

P = TypeVar("P", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)


class OffsetCommitApi:
    """Handles OffsetCommit. Any thread.

    Args:
        offsets: of all groups.
        topics: offsets are for those that exist.
        now_ms: the broker's clock.
    """

    def __init__(
        self, offsets: OffsetMetadataManager, topics: Topics, now_ms: Callable[[], int]
    ) -> None:
        self._offsets = offsets
        self._topics = topics
        self._now_ms = now_ms

    def handle(self, call: Call[OffsetCommitRequest]) -> None:
        """Write the offsets down, and answer for each partition."""
        message = call.message
        if not may_read_group(call, message.group_id):
            self.refuse(call, GROUP_AUTHORIZATION_FAILED, None)
            return
        now_ms = self._now_ms()
        retention_ms = message.retention_time_ms
        expires_ms = -1 if retention_ms == -1 else min(now_ms + retention_ms, INT64_MAX)
        unknown: dict[TopicPartition, int] = {}
        if call.version >= _FIRST_TOPIC_ID_VERSION:
            for topic in message.topics:
                topic.name = self._topics.name_of(topic.topic_id)
                if not topic.name:
                    each = ((topic.name, each.partition_index) for each in topic.partitions)
                    unknown |= dict.fromkeys(each, UNKNOWN_TOPIC_ID)
        codes, offsets, partitions = checked_offsets(
            call, message.topics, self._topics, now_ms, expires_ms
        )
        codes |= unknown
        committing = Committing(
            message.group_id,
            message.generation_id_or_member_epoch,
            message.member_id,
            message.group_instance_id,
            offsets,
            knows_epochs=call.version >= _FIRST_EPOCH_VERSION,
            partitions=partitions,
        )
        if offsets:
            codes |= self._offsets.commit(committing, call.node_id)
        self._answer(call, lambda name, index: codes[name, index])

    def refuse(self, call: Call[OffsetCommitRequest], code: int, text: str | None) -> None:
        """Answer every partition with `code`."""
        self._answer(call, lambda name, index: code)

    def _answer(self, call: Call[OffsetCommitRequest], code_of: Callable[[str, int], int]) -> None:
        call.answer(
            OffsetCommitResponse(
                topics=[
                    OffsetCommitResponseTopic(
                        name=topic.name,
                        topic_id=topic.topic_id,
                        partitions=[
                            OffsetCommitResponsePartition(
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


def checked_offsets(
    call: Call[Any],
    asked: Sequence[OffsetCommitRequestTopic] | Sequence[TxnOffsetCommitRequestTopic],
    topics: Topics,
    now_ms: int,
    expires_ms: int,
) -> tuple[
    dict[TopicPartition, int],
    dict[TopicPartition, OffsetAndMetadata],
    dict[TopicPartition, Partition],
]:
    """The codes of partitions whose offsets are refused; the offsets of the others, and these.

    Args:
        call: of the client.
        asked: what it wants to commit.
        topics: offsets are for those that exist.
        now_ms: by the broker's clock.
        expires_ms: until when they are kept; -1: as long as the group's.
    """
    codes: dict[TopicPartition, int] = {}
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    partitions: dict[TopicPartition, Partition] = {}
    for topic in asked:
        denied = not call.allows_topic(Operation.READ, topic.name)
        for each in topic.partitions:
            place = topic.name, each.partition_index
            partition = topics.partition(*place)
            if denied:
                codes[place] = TOPIC_AUTHORIZATION_FAILED
            elif partition is None:
                codes[place] = UNKNOWN_TOPIC_OR_PARTITION
            else:
                partitions[place] = partition
                offsets[place] = OffsetAndMetadata(
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    now_ms,
                    expires_ms,
                )
    return codes, offsets, partitions


class _Found(NamedTuple):
    """The offset of one partition, or why it is not told."""

    partition: int
    offset: OffsetAndMetadata
    error: int = NONE


def _found(index: int, offset: OffsetAndMetadata) -> _Found:
    """The offset of a partition, unless an open transaction is about it (KIP-447)."""
    return _Found(index, offset, UNSTABLE_OFFSET_COMMIT if offset is UNSTABLE else NONE)


class _FoundTopic(NamedTuple):
    """The offsets of one topic."""

    name: str
    topic_id: bytes
    partitions: Sequence[_Found]


class _FoundGroup(NamedTuple):
    """The offsets of one group, or why they are not told."""

    group_id: str
    topics: Sequence[_FoundTopic]
    error: int = NONE


class OffsetFetchApi:
    """Handles OffsetFetch. Any thread.

    Args:
        offsets: of all groups.
        topics: which newer versions name by their ids.
    """

    def __init__(self, offsets: OffsetMetadataManager, topics: Topics) -> None:
        self._offsets = offsets
        self._topics = topics

    def handle(self, call: Call[OffsetFetchRequest]) -> None:
        """Answer for one group, from version 8 on for each."""
        _answer_fetch(call, [self._find(call, asked) for asked in self._asked(call)])

    def refuse(self, call: Call[OffsetFetchRequest], code: int, text: str | None) -> None:
        """Answer every group with `code`."""
        _answer_fetch(call, [_refused(asked, code) for asked in _asked(call)])

    def _find(self, call: Call[OffsetFetchRequest], asked: OffsetFetchRequestGroup) -> _FoundGroup:
        group_id = asked.group_id
        if not call.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            return _refused(asked, GROUP_AUTHORIZATION_FAILED)
        if asked.topics is None:
            return self._find_all(call, asked)
        code, offsets = self._offsets.fetch(
            group_id,
            [(topic.name, index) for topic in asked.topics for index in topic.partition_indexes],
            call.node_id,
            call.message.require_stable,
            asked.member_id,
            asked.member_epoch,
        )
        if code != NONE:
            return _refused(asked, code)
        found = []
        for topic in asked.topics:
            error = NONE
            if call.version >= _FIRST_TOPIC_ID_VERSION and not topic.name:
                error = UNKNOWN_TOPIC_ID
            elif not call.allows_topic(Operation.DESCRIBE, topic.name):
                error = TOPIC_AUTHORIZATION_FAILED
            partitions = [
                _Found(index, _NOTHING, error)
                if error != NONE
                else _found(index, offsets.get((topic.name, index), _NOTHING))
                for index in topic.partition_indexes
            ]
            found.append(_FoundTopic(topic.name, topic.topic_id, partitions))
        return _FoundGroup(group_id, found)

    def _find_all(
        self, call: Call[OffsetFetchRequest], asked: OffsetFetchRequestGroup
    ) -> _FoundGroup:
        code, offsets = self._offsets.fetch(
            asked.group_id,
            None,
            call.node_id,
            call.message.require_stable,
            asked.member_id,
            asked.member_epoch,
        )
        # Of the others the client does not learn that they are there.
        topics: dict[str, list[_Found]] = {}
        for (name, index), each in sorted(offsets.items()):
            if call.allows_topic(Operation.DESCRIBE, name):
                topics.setdefault(name, []).append(_found(index, each))
        found = []
        for name, partitions in topics.items():
            topic = self._topics.get(name)
            topic_id = ZERO_ID if topic is None else topic.id
            if topic is not None or call.version < _FIRST_TOPIC_ID_VERSION:
                found.append(_FoundTopic(name, topic_id, partitions))
        return _FoundGroup(asked.group_id, found, code)

    def _asked(self, call: Call[OffsetFetchRequest]) -> list[OffsetFetchRequestGroup]:
        """The groups, each once, with each of their topics and partitions once.

        Otherwise a small request could have a huge answer.
        """
        asked = _asked(call)
        for group in asked:
            if group.topics is None:
                continue
            topics: dict[tuple[str, bytes], dict[int, None]] = {}
            for each in group.topics:
                topic_id = bytes(each.topic_id)
                if call.version >= _FIRST_TOPIC_ID_VERSION:
                    each.name = self._topics.name_of(topic_id)
                indexes = topics.setdefault((each.name, topic_id), {})
                indexes.update(dict.fromkeys(each.partition_indexes))
            group.topics = [
                OffsetFetchRequestTopics(
                    name=name, topic_id=topic_id, partition_indexes=list(indexes)
                )
                for (name, topic_id), indexes in topics.items()
            ]
        return asked


def _asked(call: Call[OffsetFetchRequest]) -> list[OffsetFetchRequestGroup]:
    """The groups, each once, as their topics are."""
    message = call.message
    if call.version >= _FIRST_MANY_GROUPS_VERSION:
        by_group: dict[str, OffsetFetchRequestGroup] = {}
        for each in message.groups:
            before = by_group.setdefault(each.group_id, each)
            if before is each:
                continue
            if before.topics is None or each.topics is None:
                before.topics = None
            else:
                before.topics += each.topics
        return list(by_group.values())
    topics = message.topics
    return [
        OffsetFetchRequestGroup(
            group_id=message.group_id,
            topics=None
            if topics is None
            else [
                OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
                for each in topics
            ],
        )
    ]


def _refused(asked: OffsetFetchRequestGroup, code: int) -> _FoundGroup:
    topics = [
        _FoundTopic(
            topic.name,
            topic.topic_id,
            [_Found(index, _NOTHING, code) for index in topic.partition_indexes],
        )
        for topic in asked.topics or ()
    ]
    return _FoundGroup(asked.group_id, topics, code)


def _answer_fetch(call: Call[OffsetFetchRequest], groups: Sequence[_FoundGroup]) -> None:
    if call.version >= _FIRST_MANY_GROUPS_VERSION:
        call.answer(OffsetFetchResponse(groups=[_group_response(each) for each in groups]))
        return
    (group,) = groups
    # A version without an error for all tells it of each partition.
    tells_partitions = group.error == NONE or call.version < _FIRST_GROUP_ERROR_VERSION
    call.answer(
        OffsetFetchResponse(
            error_code=group.error,
            topics=[
                OffsetFetchResponseTopic(
                    name=each.name,
                    partitions=_told(OffsetFetchResponsePartition, each.partitions),
                )
                for each in (group.topics if tells_partitions else ())
            ],
        )
    )


def _told(kind: type[P], found: Sequence[_Found]) -> list[P]:
    """The partitions as messages of a version."""
    return [
        kind(
            partition_index=each.partition,
            committed_offset=each.offset.offset,
            committed_leader_epoch=each.offset.leader_epoch,
            metadata=each.offset.metadata,
            error_code=each.error,
        )
        for each in found
    ]


def _group_response(group: _FoundGroup) -> OffsetFetchResponseGroup:
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        error_code=group.error,
        topics=[
            OffsetFetchResponseTopics(
                name=each.name,
                topic_id=each.topic_id,
                partitions=_told(OffsetFetchResponsePartitions, each.partitions),
            )
            for each in (group.topics if group.error == NONE else ())
        ],
    )


class OffsetDeleteApi:
    """Handles OffsetDelete. Any thread.

    Args:
        offsets: of all groups.
        topics: offsets are of those that exist.
    """

    def __init__(self, offsets: OffsetMetadataManager, topics: Topics) -> None:
        self._offsets = offsets
        self._topics = topics

    def handle(self, call: Call[OffsetDeleteRequest]) -> None:
        """Forget the offsets, and answer for each partition."""
        message = call.message
        if not call.allows(Operation.DELETE, ResourceType.GROUP, message.group_id):
            self.refuse(call, GROUP_AUTHORIZATION_FAILED, None)
            return
        codes: dict[TopicPartition, int] = {}
        places: list[TopicPartition] = []
        for topic in message.topics:
            denied = not call.allows_topic(Operation.READ, topic.name)
            for each in topic.partitions:
                place = topic.name, each.partition_index
                if denied:
                    codes[place] = TOPIC_AUTHORIZATION_FAILED
                elif self._topics.partition(*place) is None:
                    codes[place] = UNKNOWN_TOPIC_OR_PARTITION
                else:
                    places.append(place)
        error, found = self._offsets.delete_offsets(message.group_id, places, call.node_id)
        if error != NONE:
            self.refuse(call, error, None)
            return
        codes |= found
        call.answer(
            OffsetDeleteResponse(
                error_code=NONE,
                topics=[
                    OffsetDeleteResponseTopic(
                        name=topic.name,
                        partitions=[
                            OffsetDeleteResponsePartition(
                                partition_index=each.partition_index,
                                error_code=codes[topic.name, each.partition_index],
                            )
                            for each in topic.partitions
                        ],
                    )
                    for topic in message.topics
                ],
            )
        )

    def refuse(self, call: Call[OffsetDeleteRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(OffsetDeleteResponse(error_code=code))

"""OffsetCommit, OffsetFetch and OffsetDelete: how far groups have read (B-E2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from fastprod.broker.cluster.topics import Topics
from fastprod.broker.config import INT64_MAX
from fastprod.broker.coordinator.group.group_offsets import UNSTABLE
from fastprod.broker.coordinator.group.group_records import OffsetAndMetadata, TopicPartition
from fastprod.broker.coordinator.group.offset_metadata_manager import (
    Committing,
    OffsetMetadataManager,
)
from fastprod.broker.server.acl import Operation, ResourceType
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.apis.group.membership import may_read_group
from fastprod.error_codes import (
    GROUP_AUTHORIZATION_FAILED,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
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

_FIRST_MISSING_GROUP_VERSION: Final = 9
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
        codes, offsets = checked_offsets(call, message.topics, self._topics, now_ms, expires_ms)
        committing = Committing(
            message.group_id,
            message.generation_id_or_member_epoch,
            message.member_id,
            message.group_instance_id,
            offsets,
            knows_missing_groups=call.version >= _FIRST_MISSING_GROUP_VERSION,
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
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, OffsetAndMetadata]]:
    """The codes of partitions whose offsets are refused, and the offsets of the others.

    Args:
        call: of the client.
        asked: what it wants to commit.
        topics: offsets are for those that exist.
        now_ms: by the broker's clock.
        expires_ms: until when they are kept; -1: as long as the group's.
    """
    codes: dict[TopicPartition, int] = {}
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in asked:
        denied = not call.allows_topic(Operation.READ, topic.name)
        for each in topic.partitions:
            place = topic.name, each.partition_index
            if denied:
                codes[place] = TOPIC_AUTHORIZATION_FAILED
            elif topics.partition(*place) is None:
                codes[place] = UNKNOWN_TOPIC_OR_PARTITION
            else:
                offsets[place] = OffsetAndMetadata(
                    each.committed_offset,
                    each.committed_leader_epoch,
                    each.committed_metadata or "",
                    now_ms,
                    expires_ms,
                )
    return codes, offsets


class _Found(NamedTuple):
    """The offset of one partition, or why it is not told."""

    partition: int
    offset: OffsetAndMetadata
    error: int = NONE


def _found(index: int, offset: OffsetAndMetadata) -> _Found:
    """The offset of a partition, unless an open transaction is about it (KIP-447)."""
    return _Found(index, offset, UNSTABLE_OFFSET_COMMIT if offset is UNSTABLE else NONE)


class _FoundGroup(NamedTuple):
    """The offsets of one group, or why they are not told."""

    group_id: str
    topics: Sequence[tuple[str, Sequence[_Found]]]
    error: int = NONE


class OffsetFetchApi:
    """Handles OffsetFetch. Any thread.

    Args:
        offsets: of all groups.
    """

    def __init__(self, offsets: OffsetMetadataManager) -> None:
        self._offsets = offsets

    def handle(self, call: Call[OffsetFetchRequest]) -> None:
        """Answer for one group, from version 8 on for each."""
        _answer_fetch(call, [self._find(call, asked) for asked in _asked(call)])

    def refuse(self, call: Call[OffsetFetchRequest], code: int, text: str | None) -> None:
        """Answer every group with `code`."""
        _answer_fetch(call, [_refused(asked, code) for asked in _asked(call)])

    def _find(self, call: Call[OffsetFetchRequest], asked: OffsetFetchRequestGroup) -> _FoundGroup:
        group_id = asked.group_id
        if not call.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            return _refused(asked, GROUP_AUTHORIZATION_FAILED)
        stable = call.message.require_stable
        if asked.topics is None:
            code, offsets = self._offsets.fetch(group_id, None, call.node_id, stable)
            # Of the others the client does not learn that they are there.
            topics: dict[str, list[_Found]] = {}
            for (name, index), each in sorted(offsets.items()):
                if call.allows_topic(Operation.DESCRIBE, name):
                    topics.setdefault(name, []).append(_found(index, each))
            return _FoundGroup(group_id, list(topics.items()), code)
        # Each once: otherwise a small request could have a huge answer.
        places = list(
            dict.fromkeys(
                (topic.name, index) for topic in asked.topics for index in topic.partition_indexes
            )
        )
        code, offsets = self._offsets.fetch(group_id, places, call.node_id, stable)
        if code != NONE:
            return _refused(asked, code)
        names = dict.fromkeys(topic.name for topic in asked.topics)
        denied = {name for name in names if not call.allows_topic(Operation.DESCRIBE, name)}
        found: dict[str, list[_Found]] = {name: [] for name in names}
        for name, index in places:
            found[name].append(
                _Found(index, _NOTHING, TOPIC_AUTHORIZATION_FAILED)
                if name in denied
                else _found(index, offsets.get((name, index), _NOTHING))
            )
        return _FoundGroup(group_id, list(found.items()))


def _asked(call: Call[OffsetFetchRequest]) -> list[OffsetFetchRequestGroup]:
    """The groups, each once, as their topics are."""
    message = call.message
    if call.version >= _FIRST_MANY_GROUPS_VERSION:
        by_group: dict[str, list[OffsetFetchRequestTopics] | None] = {}
        for each in message.groups:
            before = by_group.setdefault(each.group_id, [])
            if before is None or each.topics is None:
                by_group[each.group_id] = None
            else:
                before += each.topics
        return [
            OffsetFetchRequestGroup(group_id=group_id, topics=topics)
            for group_id, topics in by_group.items()
        ]
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
        (topic.name, [_Found(index, _NOTHING, code) for index in topic.partition_indexes])
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
                    name=name,
                    partitions=_told(OffsetFetchResponsePartition, found),
                )
                for name, found in (group.topics if tells_partitions else ())
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
                name=name,
                partitions=_told(OffsetFetchResponsePartitions, found),
            )
            for name, found in (group.topics if group.error == NONE else ())
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

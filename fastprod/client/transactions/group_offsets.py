"""Offsets and group metadata of any consumer, for send_offsets_to_transaction (P-I.5, KIP-447)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from fastprod.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

_LIBRDKAFKA: Final = b"CGMDv2:"
_NO_OFFSET: Final = -1001
"""What confluent-kafka has for a partition of which nothing was read."""
_LARGEST_OFFSET: Final = 2**63 - 1


def group_metadata_of(given: Any) -> ConsumerGroupMetadata:
    """What a consumer says about itself, as one of ours.

    Args:
        given: a group id; a `ConsumerGroupMetadata`; what confluent-kafka's
            `consumer_group_metadata()` returns; or any object with `group_id`, and perhaps
            `generation_id`, `member_id` and `group_instance_id`.

    Raises:
        TypeError: it is none of these.
        ValueError: no group id; or a generation without a member (P-A.8.4).
    """
    if given is None:
        raise ValueError("group_metadata is None: give the consumer's group metadata, or its id")
    if isinstance(given, str):
        found = ConsumerGroupMetadata(given)
    elif isinstance(given, bytes | bytearray) and given.startswith(_LIBRDKAFKA):
        found = _of_librdkafka(bytes(given))
    elif hasattr(given, "group_id"):
        generation_id = getattr(given, "generation_id", None)
        found = ConsumerGroupMetadata(
            given.group_id,
            -1 if generation_id is None else int(generation_id),
            getattr(given, "member_id", None) or "",
            getattr(given, "group_instance_id", None),
        )
    else:
        raise TypeError(
            f"group_metadata must be a group id or what a consumer says about its group, not "
            f"{type(given).__name__}"
        )
    if not isinstance(found.group_id, str) or not found.group_id:
        raise ValueError("group_metadata has no group id")
    if found.generation_id > 0 and not found.member_id:
        raise ValueError(
            f"group_metadata has generation {found.generation_id}, but no member id: take it from "
            f"the consumer after it has joined its group"
        )
    return found


def _of_librdkafka(data: bytes) -> ConsumerGroupMetadata:
    """What `rd_kafka_consumer_group_metadata_write` made, in this machine's byte order."""
    import sys  # noqa: PLC0415

    at = len(_LIBRDKAFKA)
    generation_id = int.from_bytes(data[at : at + 4], sys.byteorder, signed=True)
    group_id, _, rest = data[at + 4 :].partition(b"\0")
    member_id, _, rest = rest.partition(b"\0")
    if not rest:
        raise ValueError("group_metadata of confluent-kafka ends early")
    instance_id = None if rest[0] else rest[1:].partition(b"\0")[0].decode()
    return ConsumerGroupMetadata(group_id.decode(), generation_id, member_id.decode(), instance_id)


def offsets_of(given: Any) -> dict[TopicPartition, OffsetAndMetadata]:
    """Offsets by partition.

    Args:
        given: a mapping from partitions, as (topic, partition) or objects with these attributes, to
            the offset of the next record to read: a number, or an object with `offset` and perhaps
            `metadata` and `leader_epoch`. Or confluent-kafka's list of `TopicPartition`; those of
            which nothing was read are left out.

    Raises:
        TypeError, ValueError: it is something else, or an offset is negative.
    """
    if isinstance(given, Mapping):
        return {_partition(key): _offset(value) for key, value in given.items()}
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"offsets must be a mapping or a list, not {type(given).__name__}")
    return {
        _partition(each): _offset(each)
        for each in given
        if getattr(each, "offset", None) != _NO_OFFSET
    }


def _partition(given: Any) -> TopicPartition:
    if hasattr(given, "topic") and hasattr(given, "partition"):
        topic, partition = given.topic, given.partition
    else:
        topic, partition = given
    if not isinstance(topic, str) or not isinstance(partition, int) or partition < 0:
        raise ValueError(f"{given!r} is no partition of a topic")
    return TopicPartition(topic, partition)


def _offset(given: Any) -> OffsetAndMetadata:
    if isinstance(given, int):
        found = OffsetAndMetadata(given)
    elif hasattr(given, "offset"):
        epoch = getattr(given, "leader_epoch", None)
        if callable(epoch):
            epoch = epoch()
        found = OffsetAndMetadata(
            given.offset, getattr(given, "metadata", None) or "", -1 if epoch is None else epoch
        )
    else:
        raise TypeError(f"an offset must be a number or have one, not {type(given).__name__}")
    if not 0 <= found.offset <= _LARGEST_OFFSET:
        raise ValueError(f"offset {found.offset}: must be 0 or more")
    return found

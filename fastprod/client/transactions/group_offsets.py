"""Offsets and group metadata of any consumer, for send_offsets_to_transaction (P-I.5, KIP-447)."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fastprod.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from fastprod.security.secret import plain_text

_LIBRDKAFKA: Final = b"CGMDv2:"
_NO_OFFSET: Final = -1001
"""What confluent-kafka has for a partition of which nothing was read."""
_LARGEST_OFFSET: Final = 2**63 - 1
_LARGEST_INT32: Final = 2**31 - 1


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
            -1 if generation_id is None else generation_id,
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
    instance_id = found.group_instance_id
    found = ConsumerGroupMetadata(
        _text("the group's id", found.group_id),
        _number("generation_id", found.generation_id, -1, _LARGEST_INT32),
        _text("member_id", found.member_id),
        None if instance_id is None else _text("group_instance_id", instance_id),
    )
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
    elif isinstance(given, tuple | list) and len(given) == 2:
        topic, partition = given
    else:
        raise TypeError(f"offsets has {given!r:.100}, which is no partition of a topic")
    return TopicPartition(
        _text("a topic's name", topic), _number("partition", partition, 0, _LARGEST_INT32)
    )


def _offset(given: Any) -> OffsetAndMetadata:
    if not hasattr(given, "offset"):
        return OffsetAndMetadata(_number("offset", given, 0, _LARGEST_OFFSET))
    epoch = getattr(given, "leader_epoch", None)
    if callable(epoch):
        epoch = epoch()
    return OffsetAndMetadata(
        _number("offset", given.offset, 0, _LARGEST_OFFSET),
        _text("an offset's metadata", getattr(given, "metadata", None) or ""),
        -1 if epoch is None else _number("leader_epoch", epoch, -1, _LARGEST_INT32),
    )


def _number(name: str, value: Any, low: int, high: int) -> int:
    """`value` as an int; what a request cannot carry would fail where nobody waits for it."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {type(value).__name__}") from None
    if not low <= number <= high:
        raise ValueError(f"{name} = {number:,}: must be {low}..{high:,}")
    return number


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {type(value).__name__}")
    text = plain_text(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} cannot be written as UTF-8: {text!r:.100}") from None
    return text

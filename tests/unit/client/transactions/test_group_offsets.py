"""Offsets and group metadata of other clients (P-A.8.4, P-I.5, KIP-447)."""

from __future__ import annotations

import sys
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import TopicPartition as ConfluentPartition

from fastprod.client.transactions.group_offsets import group_metadata_of, offsets_of
from fastprod.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

INVALID_OFFSET = -1001


def librdkafkas(generation: int, group: bytes, member: bytes, instance: bytes | None) -> bytes:
    """As rd_kafka_consumer_group_metadata_write has it."""
    tail = b"\1" if instance is None else b"\0" + instance + b"\0"
    number = generation.to_bytes(4, sys.byteorder, signed=True)
    return b"CGMDv2:" + number + group + b"\0" + member + b"\0" + tail


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("readers", ConsumerGroupMetadata("readers")),
        (ConsumerGroupMetadata("g", 3, "m", "i"), ConsumerGroupMetadata("g", 3, "m", "i")),
        (librdkafkas(7, b"g", b"m", None), ConsumerGroupMetadata("g", 7, "m")),
        (librdkafkas(-1, b"g", b"", b"i"), ConsumerGroupMetadata("g", -1, "", "i")),
        (
            SimpleNamespace(group_id="g", generation_id=2, member_id="m", group_instance_id=None),
            ConsumerGroupMetadata("g", 2, "m"),
        ),
        (SimpleNamespace(group_id="g"), ConsumerGroupMetadata("g")),
    ],
)
def test_group_metadata_of_any_client_is_understood(
    given: Any, expected: ConsumerGroupMetadata
) -> None:
    assert group_metadata_of(given) == expected


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (None, ValueError),
        ("", ValueError),
        (ConsumerGroupMetadata("g", 1), ValueError),
        (librdkafkas(1, b"g", b"m", None)[:-2], ValueError),
        (7, TypeError),
        (b"no metadata", TypeError),
    ],
)
def test_what_is_no_group_metadata_is_refused(given: Any, kind: type[Exception]) -> None:
    """P-A.8.4: none, and a generation without a member."""
    with pytest.raises(kind):
        group_metadata_of(given)


def test_offsets_are_numbers_or_objects_with_one() -> None:
    where = TopicPartition("t", 1)
    for given, expected in [
        (5, OffsetAndMetadata(5)),
        (OffsetAndMetadata(5, "note", 2), OffsetAndMetadata(5, "note", 2)),
        (SimpleNamespace(offset=5, metadata=None, leader_epoch=None), OffsetAndMetadata(5)),
    ]:
        assert offsets_of({where: given}) == {where: expected}
        assert offsets_of({("t", 1): given}) == {where: expected}


def test_confluents_list_of_positions_is_taken_as_it_is() -> None:
    """Partitions of which nothing was read are left out, as librdkafka does."""
    positions = [ConfluentPartition("t", 0, 7), ConfluentPartition("t", 1, INVALID_OFFSET)]
    assert offsets_of(positions) == {TopicPartition("t", 0): OffsetAndMetadata(7)}
    assert offsets_of([]) == {}


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({("t", 0): -1}, ValueError),
        ({("t", -1): 1}, ValueError),
        ({("t", 0): "5"}, TypeError),
        ({(1, 0): 1}, TypeError),
        ("offsets", TypeError),
        (5, TypeError),
    ],
)
def test_what_is_no_offset_is_refused(given: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        offsets_of(given)


@pytest.mark.parametrize("given", [1.0, Decimal(1), "1", None, 2**63, np.float64(1)])
@pytest.mark.parametrize("part", ["offset", "partition", "leader_epoch"])
def test_numbers_that_a_request_cannot_carry_are_refused_by_name(part: str, given: Any) -> None:
    """Else the request would fail in the thread that writes it, and the call wait in vain."""
    where = TopicPartition("t", given if part == "partition" else 0)
    offset = OffsetAndMetadata(1, "", -1 if given is None else given)
    if part != "leader_epoch":
        offset = OffsetAndMetadata(given if part == "offset" else 1)
    elif given is None:
        return  # an epoch that is not known
    with pytest.raises((TypeError, ValueError), match=part):
        offsets_of({where: offset})


def test_numbers_of_numpys_and_texts_with_more_to_them_are_what_they_hold() -> None:
    topic = np.str_("t")
    offset = OffsetAndMetadata(np.int64(5), np.str_("note"), np.int32(2))  # type: ignore[arg-type]
    found = offsets_of({(topic, np.int64(1)): offset, (topic, 2): np.int64(7)})
    assert found == {
        TopicPartition("t", 1): OffsetAndMetadata(5, "note", 2),
        TopicPartition("t", 2): OffsetAndMetadata(7),
    }
    for where, at in found.items():
        kinds = [type(part) for part in (*where, *at)]
        assert kinds == [str, int, int, str, int]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (ConsumerGroupMetadata("g", 1.0, "m"), "generation_id"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata("g", 2**31, "m"), "generation_id"),
        (ConsumerGroupMetadata("g", 1, b"m"), "member_id"),  # type: ignore[arg-type]
        (ConsumerGroupMetadata("g", 1, "m", 5), "group_instance_id"),  # type: ignore[arg-type]
        ("\udc80", "cannot be written as UTF-8"),
    ],
    ids=["fraction", "too large", "bytes", "number", "no text"],
)
def test_a_group_that_a_request_cannot_carry_is_refused_by_name(given: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        group_metadata_of(given)


def test_an_offsets_metadata_is_text() -> None:
    note: Any = b"note"
    with pytest.raises(TypeError, match="metadata must be a str, not bytes"):
        offsets_of({("t", 0): OffsetAndMetadata(1, note)})

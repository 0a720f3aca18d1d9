"""The broker's codec against kio's, both ways, and on damaged bytes (B-B1, B-D5)."""

from __future__ import annotations

import dataclasses
import functools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader

from fastprod.protocol.schema import SchemaError
from support.oracle import kio_messages
from support.oracle.message_samples import CASES, Case, from_plain, sample
from support.processes.scale import examples

FETCH = 1
# Those with which a length or a number is none, short, or far too large.
TELLING_BYTES = (0, 1, 2, 0x7F, 0x80, 0xFF)


@functools.cache
def message_pairs(case: Case) -> Any:
    """Strategy of (our message, kio's)."""
    kind = kio_messages.schema(case.api_key, case.version, case.direction)
    pairs = kio_messages.messages(kind)
    if case.api_key == FETCH and case.direction == "response":
        pairs = pairs.map(with_empty_records)
    return pairs.map(lambda pair: (from_plain(case.schema.kind, pair[0]), pair[1]))


def with_empty_records(pair: kio_messages.Pair) -> kio_messages.Pair:
    """B-B1.2: ours are never null."""
    plain, rich = pair
    for topic in plain["responses"]:
        for partition in topic["partitions"]:
            partition["records"] = partition["records"] or b""
    topics = tuple(
        dataclasses.replace(
            topic,
            partitions=tuple(
                dataclasses.replace(partition, records=partition.records or b"")
                for partition in topic.partitions
            ),
        )
        for topic in rich.responses
    )
    return plain, dataclasses.replace(rich, responses=topics)


@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=examples(10))
@given(data=st.data())
def test_each_side_reads_what_the_other_wrote(case: Case, data: st.DataObject) -> None:
    """B-B1, B-B1.2; P-G.9, P-J.1.2."""
    ours, theirs = data.draw(message_pairs(case))
    assert case.decoded(kio_messages.encoded(theirs)) == ours
    reader = entity_reader(type(theirs))
    written = case.encoded(ours)
    assert reader(written, 0) == (theirs, len(written))


@pytest.mark.parametrize("case", CASES, ids=str)
@settings(max_examples=examples(15))
@given(seed=st.integers(0, 2**64 - 1))
def test_a_damaged_message_is_refused_or_is_another_message(case: Case, seed: int) -> None:
    """B-D5: nothing but SchemaError comes out, and what is read can be written."""
    body = bytearray(case.encoded(sample(case)))
    if not body:
        return
    chance = random.Random(seed)
    for _ in range(chance.randint(1, 6)):
        body[chance.randrange(len(body))] = chance.choice([*TELLING_BYTES, chance.randrange(256)])
    try:
        read = case.decoded(bytes(body))
    except SchemaError:
        return
    # By its bytes: a number may have become a NaN, which equals nothing.
    written = case.encoded(read)
    assert case.encoded(case.decoded(written)) == written

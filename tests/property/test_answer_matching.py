"""Answers of any order, against a dictionary: of a batch the first that is said counts."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fastprod._core.testing.request_doors import decode_response_for_test
from support.engine.one_request import BY_ID, BY_NAME, OneRequest, Place, response, topic_id
from support.engine.sender_steps import offset, outcome
from support.oracle.damage import damaged
from support.processes.scale import examples

# Some begin others, and some differ in length only.
PLACES = st.tuples(st.sampled_from(["a", "b", "ab", "aa", "b" * 40]), st.integers(0, 9))

SUCCESS = (0, 46)
"""None, and DUPLICATE_SEQUENCE_NUMBER: the broker has it already."""


@settings(max_examples=examples(100))
@given(
    version=st.sampled_from([BY_NAME, BY_ID]),
    asked=st.lists(PLACES, min_size=1, unique=True),
    told=st.lists(PLACES),
)
def test_each_batch_gets_the_first_answer_that_names_it(
    version: int, asked: list[Place], told: list[Place]
) -> None:
    """P-F.4.1, P-F.3.4; what no answer names is sent again, what nobody asked is passed over."""
    request = OneRequest(version, asked)
    answers = [(place, number) for number, place in enumerate(told)]
    request.answer(answers)
    first = dict(reversed(answers))
    for place, future in request.futures.items():
        if place in first:
            assert offset(future) == first[place]
        else:
            assert outcome(future) is None
            assert len(request.sender.door.queue(*place)) == 1


def _said(payload: bytes, version: int) -> dict[tuple[bytes, int], dict[str, Any]] | None:
    """The first that it says of each partition; None: it does not parse."""
    try:
        found, _, _ = decode_response_for_test(payload, version)
    except ValueError:
        return None
    return {(each["topic"], each["index"]): each for each in reversed(found)}


@settings(max_examples=examples(300))
@given(
    version=st.sampled_from([BY_NAME, BY_ID]),
    asked=st.lists(PLACES, min_size=1, unique=True),
    chance=st.randoms(use_true_random=False),
)
def test_of_a_damaged_answer_nothing_is_believed_or_what_it_says(
    version: int, asked: list[Place], chance: random.Random
) -> None:
    """P-J.1.5; the second reading of each partition is that of the first."""
    request = OneRequest(version, asked)
    whole = response(version, [(place, number) for number, place in enumerate(asked)])
    payload = damaged(whole, [whole], chance)
    said = _said(payload, version)
    assert request.take(payload) == (said is not None)
    for (topic, index), future in request.futures.items():
        key = (topic_id(topic) if version >= BY_ID else topic.encode(), index)
        told = (said or {}).get(key)
        if told is None:
            assert outcome(future) is None
        elif told["error_code"] in SUCCESS:
            assert offset(future) == max(told["base_offset"], -1)
        else:
            assert outcome(future) is None or future.exception(0) is not None

"""Answers of any order, against a dictionary: of a batch the first that is said counts."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from support.engine.one_request import BY_ID, BY_NAME, OneRequest, Place
from support.engine.sender_steps import offset, outcome
from support.processes.scale import examples

# Some begin others, and some differ in length only.
PLACES = st.tuples(st.sampled_from(["a", "b", "ab", "aa", "b" * 40]), st.integers(0, 9))


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

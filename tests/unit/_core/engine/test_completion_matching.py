"""Which batch of its request a partition of an answer is for (P-F.4.1, P-F.3.4, P-J.3.5)."""

from __future__ import annotations

import math
import random

import pytest

from support.engine.one_request import BY_ID, BY_NAME, OneRequest, Place
from support.engine.sender_steps import offset, outcome

COUNT = 512


def partitions(count: int) -> list[Place]:
    return [("t", index) for index in range(count)]


def topics(count: int) -> list[Place]:
    """Names of several lengths, of which some begin others."""
    return [("topic" * (1 + number % 3) + str(number), 0) for number in range(count)]


@pytest.mark.parametrize("places", [partitions(COUNT), topics(COUNT)], ids=["one", "many"])
@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_whatever_its_order_an_answer_costs_little_for_each_partition(
    version: int, places: list[Place]
) -> None:
    """P-J.3.5: brokers answer in the order of a hash table."""
    request = OneRequest(version, places)
    order = random.Random(7).sample(places, COUNT)
    looks = request.answer([(place, number) for number, place in enumerate(order)])
    assert [offset(request.futures[place]) for place in order] == list(range(COUNT))
    assert looks <= COUNT * (2 + math.ceil(math.log2(COUNT)))


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
@pytest.mark.parametrize("nodes", [1, 3])
def test_partitions_evenly_apart_are_found_at_once(version: int, nodes: int) -> None:
    """As those that one of several nodes leads: the request's next place, a guess, a half."""
    places = partitions(COUNT * nodes)[1::nodes]
    request = OneRequest(version, places)
    order = random.Random(7).sample(places, len(places))
    looks = request.answer([(place, number) for number, place in enumerate(order)])
    assert [offset(request.futures[place]) for place in order] == list(range(len(places)))
    assert looks <= 3 * COUNT


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_partitions_however_far_apart_cost_little(version: int) -> None:
    """Guesses alone would go from one to the next."""
    places = [("t", index) for index in [*range(COUNT - 20), *(1024 + 2**at for at in range(17))]]
    request = OneRequest(version, places)
    order = random.Random(7).sample(places, len(places))
    looks = request.answer([(place, number) for number, place in enumerate(order)])
    assert [offset(request.futures[place]) for place in order] == list(range(len(places)))
    assert looks <= COUNT * (2 + 2 * math.ceil(math.log2(COUNT)))


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_batches_are_done_in_the_order_of_the_request(version: int) -> None:
    """Whatever the answer's: so memory is given back in the order in which it was taken."""
    places = partitions(COUNT)
    request = OneRequest(version, places)
    order = random.Random(7).sample(places, COUNT)
    request.answer([(place, 0) for place in order])
    assert request.told == places


def test_in_the_order_of_the_request_a_look_for_each_partition_is_enough() -> None:
    request = OneRequest(BY_NAME, partitions(COUNT))
    looks = request.answer([(("t", index), index) for index in range(COUNT)])
    assert [offset(future) for future in request.futures.values()] == list(range(COUNT))
    assert looks == COUNT


@pytest.mark.parametrize("version", [BY_NAME, BY_ID])
def test_of_two_answers_for_a_partition_the_first_counts(version: int) -> None:
    """And what nobody asked for is passed over."""
    request = OneRequest(version, [("a", 0), ("a", 1), ("b", 0)])
    request.answer(
        [
            (("a", 2), 1),
            (("c", 0), 2),
            (("b", 0), 3),
            (("b", 0), 4),
            (("", 0), 5),
            (("a", 0), 6),
            (("b", 1), 7),
            (("a", 1), 8),
            (("a", 0), 9),
        ]
    )
    assert [offset(future) for future in request.futures.values()] == [6, 8, 3]


def test_a_partition_that_is_not_answered_is_sent_again() -> None:
    """P-F.4.1."""
    request = OneRequest(BY_NAME, [("a", 0), ("a", 1), ("b", 0)])
    request.answer([(("b", 0), 3), (("a", 0), 4)])
    assert offset(request.futures["a", 0]) == 4
    assert outcome(request.futures["a", 1]) is None
    assert len(request.sender.door.queue("a", 1)) == 1
    assert offset(request.futures["b", 0]) == 3

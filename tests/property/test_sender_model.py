"""The sender against brokers that are a model, with a network that loses what it likes.

Whatever happens: each partition's log has the records in the order of their sends, none twice, none
missing that was acknowledged; every future is done; all memory is back. And nothing fails without
a reason: refused for good, or out of time.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.engine.sender_world import (
    APPENDED_AND_REFUSED,
    DELIVERY_TIMEOUT_MS,
    DUPLICATE_SEQUENCE,
    INVALID_RECORD,
    MESSAGE_TOO_LARGE,
    NETWORK_EXCEPTION,
    NOT_LEADER,
    REQUEST_TIMED_OUT,
    Fault,
    World,
)
from support.processes.scale import examples

CORRUPT_MESSAGE: Final = 2
NOT_ENOUGH_REPLICAS: Final = 19
NOT_ENOUGH_REPLICAS_AFTER_APPEND: Final = 20
CODES: Final = (
    CORRUPT_MESSAGE,
    NOT_LEADER,
    REQUEST_TIMED_OUT,
    MESSAGE_TOO_LARGE,
    NOT_ENOUGH_REPLICAS,
    NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    DUPLICATE_SEQUENCE,
    INVALID_RECORD,
)

Step = tuple[str, tuple[Any, ...]]


class Story(NamedTuple):
    """A world's parts, and what happens in it."""

    world: dict[str, Any]
    steps: list[Step]


def faults(partitions: int) -> st.SearchStrategy[Fault]:
    return st.builds(
        lambda code, partition, appends: Fault(
            code, partition, appends and code in APPENDED_AND_REFUSED
        ),
        st.sampled_from(CODES),
        st.none() | st.integers(0, partitions - 1),
        st.booleans(),
    )


@st.composite
def stories(
    draw: st.DrawFn, *, leaders_move: bool, time_runs_out: bool, cancels: bool = False
) -> Story:
    partitions = draw(st.integers(1, 3))
    slots = draw(st.integers(2 if leaders_move else 1, 2))
    partition, slot = st.integers(0, partitions - 1), st.integers(0, slots - 1)
    codes = st.sampled_from([NETWORK_EXCEPTION, REQUEST_TIMED_OUT])
    waits_ms = [1, 50, 300, 1000]
    if time_runs_out:
        waits_ms += [DELIVERY_TIMEOUT_MS // 2, DELIVERY_TIMEOUT_MS - 1, DELIVERY_TIMEOUT_MS]
    kinds: list[st.SearchStrategy[Step]] = [
        st.tuples(st.just("send"), st.tuples(partition, st.sampled_from([1, 1, 2, 12]))),
        st.tuples(st.just("drain"), st.tuples(slot)),
        st.tuples(st.just("burst"), st.tuples(partition, slot, st.integers(2, 7))),
        st.tuples(st.just("process"), st.tuples(slot, st.none() | faults(partitions))),
        st.tuples(st.just("process"), st.tuples(slot, st.none())),
        st.tuples(st.just("deliver"), st.tuples(slot)),
        st.tuples(st.just("lose"), st.tuples(slot, st.integers(0, 3), codes)),
        st.tuples(st.just("pass_time"), st.tuples(st.sampled_from(waits_ms))),
    ]
    if cancels:
        kinds.append(st.tuples(st.just("cancel"), st.tuples(partition, st.integers(0, 9))))
        kinds.append(st.tuples(st.just("cancel"), st.tuples(partition, st.integers(0, 1))))
        kinds.append(st.tuples(st.just("miss"), st.tuples(partition, st.integers(0, 9))))
        kinds.append(st.tuples(st.just("purge"), st.tuples(st.integers(1, 3))))
    if leaders_move:
        kinds.append(st.tuples(st.just("move"), st.tuples(partition, slot)))
        kinds.append(st.tuples(st.just("tell"), st.just(())))
    world: dict[str, Any] = {
        "partitions": partitions,
        "slots": slots,
        "takes_any_first": draw(st.booleans()),
        "largest_batch": draw(st.sampled_from([1, 3, 1000])),
        "config": draw(
            st.sampled_from(
                [
                    {},
                    {"max_in_flight_requests_per_connection": 1},
                    {"max_in_flight_requests_per_connection": 2},
                    {"buffer_memory": 1 << 16},
                    {"linger_ms": 20},
                    {"linger_ms": None},
                ]
            )
        ),
    }
    return Story(world, draw(st.lists(st.one_of(kinds), max_size=80)))


def tell(story: Story) -> None:
    world = World(**story.world)
    for name, arguments in story.steps:
        getattr(world, name)(*arguments)
    world.settle()


@settings(max_examples=examples(150))
@given(story=stories(leaders_move=False, time_runs_out=False))
def test_through_errors_and_lost_connections(story: Story) -> None:
    """P-F.4.2, P-F.4.3, P-F.5.4 to P-F.5.10, P-D.7.4, P-D.9.3."""
    tell(story)


@settings(max_examples=examples(150))
@given(story=stories(leaders_move=True, time_runs_out=False))
def test_through_leaders_that_move(story: Story) -> None:
    """P-F.5.3, P-D.6.3: nothing fails, although batches are under way to two leaders at once."""
    tell(story)


@settings(max_examples=examples(150))
@given(story=stories(leaders_move=True, time_runs_out=True))
def test_through_batches_that_run_out_of_time(story: Story) -> None:
    """P-D.8, P-F.5.7, P-F.5.8."""
    tell(story)


@settings(max_examples=examples(100))
@given(story=stories(leaders_move=True, time_runs_out=True))
def test_without_idempotence_nothing_acknowledged_is_lost(story: Story) -> None:
    """P-F.3.6, P-F.4.8: records may be there twice, or in another order."""
    config = {**story.world["config"], "enable_idempotence": False}
    tell(Story({**story.world, "config": config}, story.steps))


@settings(max_examples=examples(150))
@given(story=stories(leaders_move=True, time_runs_out=True, cancels=True))
def test_what_is_taken_back_never_leaves_and_nothing_else_changes(story: Story) -> None:
    """Cancelled, purged, or at its deadline; also after splits and new epochs every offset is the
    record's own.
    """
    tell(story)


@pytest.mark.parametrize("steps", [[], [("lose", (1, 0, NETWORK_EXCEPTION))]])
def test_what_nobody_waits_for_any_more_goes_out_again(steps: list[Step]) -> None:
    """Split, or lost on its way: its sequences have to be filled, and its memory comes back."""
    missed = [("send", (1, 2)), ("drain", (1,)), ("miss", (1, 0)), ("miss", (1, 1))]
    tell(Story({"partitions": 2, "slots": 2, "largest_batch": 1}, [*missed, *steps]))


@pytest.mark.parametrize("takes_any_first", [True, False])
def test_the_last_epoch_is_passed_under_way(takes_any_first: bool) -> None:
    """P-F.5.9: with two partitions, and batches to be resent."""
    world = World(2, takes_any_first=takes_any_first)
    engine = world.steps.engine
    engine.set_producer_id(7, 32766)
    world.steps.door.obey()
    for _ in range(3):
        world.send(1, 3)
        world.drain(0)
        world.send(0, 2)
        world.drain(0)
        world.process(0)
        world.process(0, Fault(INVALID_RECORD, 0))
        world.send(0, 2)
        world.deliver(0)
        world.deliver(0)
        world.drain(0)
        world.lose(0, 1)
        world.rest()
    world.settle()
    assert world.next_id > 5000, "the last epoch was passed"

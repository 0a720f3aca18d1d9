"""The protocol by which callers drive, walked through all its states (docs/design/engine.md)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from support.engine.drive_model import SEND, SEND_AND_LEAVE, SEND_NOW, WAIT, Protocol

AWAITED = [(send, WAIT) for send in (SEND, SEND_NOW, SEND_AND_LEAVE)]
FORGOTTEN = [(send,) for send in (SEND, SEND_NOW, SEND_AND_LEAVE)]
AGAIN = (SEND_AND_LEAVE, WAIT, SEND_AND_LEAVE, WAIT)


def check(one: tuple[str, ...], two: tuple[str, ...], **given: Any) -> None:
    """Every wait ends, the socket is watched at last, and nobody spins."""
    found = Protocol((one, two), **given).walk()
    assert not found.stuck, (one, two, found.stuck[0])
    assert not found.is_endless, (one, two)


@pytest.mark.parametrize("two", FORGOTTEN)
@pytest.mark.parametrize("one", [*AWAITED, *FORGOTTEN])
def test_a_caller_and_one_that_does_not_wait(one: tuple[str, ...], two: tuple[str, ...]) -> None:
    check(one, two)


def test_two_callers_that_wait() -> None:
    check(AWAITED[2], AWAITED[2])


def test_a_caller_that_sends_again_finds_the_socket_as_it_left_it() -> None:
    check(AGAIN, (), losses=1)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_every_pair_of_callers() -> None:
    """With a connection that is lost, and with a second record of one of them."""
    for one, two in itertools.combinations_with_replacement([*AWAITED, *FORGOTTEN], 2):
        check(one, two, losses=1)
    for two in ((SEND,), (SEND_NOW,), (SEND_AND_LEAVE,), AWAITED[2]):
        check(AGAIN, two)


@pytest.mark.parametrize("two", [(), (SEND,), (SEND_NOW,)])
def test_who_waits_does_not_depend_on_the_guard(two: tuple[str, ...]) -> None:
    """It is there for callers that do not come: who waits for what it sent itself is called."""
    check(AWAITED[2], two, has_guard=False)


@pytest.mark.parametrize(
    ("without", "one", "two"),
    [
        ("watching what was left", (SEND_AND_LEAVE,), ()),
        ("the guard", (SEND_AND_LEAVE,), ()),
        ("calling the driver", AWAITED[2], ()),
        ("looking at the kicks again", AWAITED[0], ()),
        ("kicking instead", (SEND_NOW,), ()),
        ("sending what has lingered", AWAITED[2], (SEND_NOW,)),
        ("watching what is in flight", AWAITED[2], (SEND_NOW,)),
    ],
)
def test_the_model_misses_what_is_left_out(
    without: str, one: tuple[str, ...], two: tuple[str, ...]
) -> None:
    found = Protocol((one, two), losses=1, without=without).walk(stops_early=True)
    assert found.stuck or found.is_endless

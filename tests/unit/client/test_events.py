"""fastprod.client.events: the numbers are those of the engine's headers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fastprod.client import events
from fastprod.client.events import CloseReason, Event, EventKind

CORE = Path(events.__file__).parents[1] / "_core"
OWN = {EventKind.WAKE, EventKind.WARM}


def native(module: str, prefix: str) -> dict[str, int]:
    """The members of an enum of `module` whose names start with `prefix`, without it."""
    text = (CORE / f"{module}.pxd").read_text()
    return {
        name: int(number)
        for name, number in re.findall(rf"^ +{prefix}(\w+) = (\d+)", text, re.MULTILINE)
    }


def test_every_event_of_the_io_thread_has_its_number_here() -> None:
    assert {kind.name: kind.value for kind in EventKind if kind not in OWN} == native(
        "event_queue", "ON_"
    )


def test_our_own_events_cannot_be_taken_for_the_io_thread_s() -> None:
    assert min(OWN) > max(native("event_queue", "").values())


def test_every_reason_of_a_channel_s_end_has_its_number_here() -> None:
    expected = native("channel", "CLOSE_")
    del expected["NONE"]
    assert {reason.name: reason.value for reason in CloseReason} == expected


def test_an_event_is_made_of_what_the_engine_hands_out() -> None:
    event = Event(*(103, 2, 7, 0, 0, 0, None, b"\0\0\0\1"))
    assert event.kind == EventKind.RESPONSE
    assert (event.slot, event.a, event.topic, event.data) == (2, 7, None, b"\0\0\0\1")
    with pytest.raises(TypeError):
        Event(*(103, 2, 7))  # type: ignore[call-arg]

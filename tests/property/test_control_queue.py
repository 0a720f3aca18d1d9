"""The event queue against a deque."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from fastprod._core.testing.engine_doors import EventQueueForTest

Event = tuple[int, int, int, bytes | None]
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
EVENTS = st.tuples(INT32, INT32, INT64, st.none() | st.binary())


@given(st.lists(st.none() | EVENTS))
def test_a_queue_is_a_deque(steps: list[Event | None]) -> None:
    """None: take one."""
    queue, model = EventQueueForTest(), deque[Event]()
    for event in steps:
        if event is None:
            assert queue.take() == (model.popleft() if model else None)
        else:
            queue.push(*event)
            model.append(event)
        assert queue.count == len(model)

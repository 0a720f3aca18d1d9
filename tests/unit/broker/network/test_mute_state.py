"""The mute state machine (B-A3.11)."""

from __future__ import annotations

import itertools

import pytest

from fastprod.broker.network.mute_state import MuteEvent, MuteState, state_after
from fastprod.errors import IllegalStateError

S, E = MuteState, MuteEvent

ALLOWED = {
    (S.NOT_MUTED, E.READ): S.MUTED,
    (S.MUTED, E.REQUEST_RECEIVED): S.MUTED_AND_RESPONSE_PENDING,
    (S.MUTED, E.UNMUTED): S.NOT_MUTED,
    (S.MUTED_AND_RESPONSE_PENDING, E.RESPONSE_SENT): S.MUTED,
    (S.MUTED_AND_RESPONSE_PENDING, E.THROTTLE_STARTED): (
        S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING
    ),
    (S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, E.RESPONSE_SENT): S.MUTED_AND_THROTTLED,
    (S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, E.THROTTLE_ENDED): S.MUTED_AND_RESPONSE_PENDING,
    (S.MUTED_AND_THROTTLED, E.THROTTLE_ENDED): S.MUTED,
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(S, E)))
def test_what_is_not_allowed_is_a_bug_and_says_so(state: MuteState, event: MuteEvent) -> None:
    """B-A3.11."""
    if (state, event) in ALLOWED:
        assert state_after(state, event) is ALLOWED[state, event]
        return
    with pytest.raises(IllegalStateError, match=f"{event.name} cannot .* that is {state.name}"):
        state_after(state, event)


@pytest.mark.parametrize(
    "order", [(E.RESPONSE_SENT, E.THROTTLE_ENDED), (E.THROTTLE_ENDED, E.RESPONSE_SENT)]
)
def test_response_and_throttle_end_in_whichever_order(order: tuple[MuteEvent, MuteEvent]) -> None:
    """B-A3.11: only after both may the connection be read."""
    state = S.NOT_MUTED
    for event in (E.READ, E.REQUEST_RECEIVED, E.THROTTLE_STARTED, *order):
        state = state_after(state, event)
        assert (state is S.MUTED) == (event in (E.READ, order[-1]))
    assert state_after(state, E.UNMUTED) is S.NOT_MUTED

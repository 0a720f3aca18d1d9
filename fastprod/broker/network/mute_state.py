"""When a connection may be read: the mute state machine (contract B-A3.11)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from fastprod.errors import IllegalStateError


class MuteState(IntEnum):
    """Why a connection is not read. The values index `_NEXT`."""

    NOT_MUTED = 0
    MUTED = 1
    MUTED_AND_RESPONSE_PENDING = 2
    MUTED_AND_THROTTLED = 3
    MUTED_AND_THROTTLED_AND_RESPONSE_PENDING = 4


class MuteEvent(IntEnum):
    """What moves a connection from one state to another. The values index the rows of `_NEXT`."""

    READ = 0
    REQUEST_RECEIVED = 1
    RESPONSE_SENT = 2
    THROTTLE_STARTED = 3
    THROTTLE_ENDED = 4
    UNMUTED = 5


_S = MuteState

# One row for each state, one column for each event; None: the event cannot happen in that state.
_NEXT: Final[tuple[tuple[MuteState | None, ...], ...]] = (
    (_S.MUTED, None, None, None, None, None),
    (None, _S.MUTED_AND_RESPONSE_PENDING, None, None, None, _S.NOT_MUTED),
    (None, None, _S.MUTED, _S.MUTED_AND_THROTTLED_AND_RESPONSE_PENDING, None, None),
    (None, None, None, None, _S.MUTED, None),
    (None, None, _S.MUTED_AND_THROTTLED, None, _S.MUTED_AND_RESPONSE_PENDING, None),
)


def state_after(state: MuteState, event: MuteEvent) -> MuteState:
    """The state that follows (KafkaChannel.handleChannelMuteEvent).

    Raises:
        IllegalStateError: the event cannot happen in `state`: a bug of the broker; no
            client can cause it.
    """
    following = _NEXT[state][event]
    if following is None:
        raise IllegalStateError(
            f"{event.name} cannot happen to a connection that is {state.name}",
            state=state.name,
            event=event.name,
        )
    return following

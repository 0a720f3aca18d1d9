"""The engine's events, as the control thread names them (the numbers are event_queue.pxd's)."""

from __future__ import annotations

import enum
from typing import NamedTuple


class EventKind(enum.IntEnum):
    """What the I/O thread tells, and two of our own: WAKE, and WARM (a: node id)."""

    CONNECTED = 101
    DISCONNECTED = 102
    RESPONSE = 103
    CONNECT_WANTED = 104
    METADATA_WANTED = 105
    LEADER_HINT = 106
    PRODUCER_ID_WANTED = 107
    FATAL = 108
    FAILED = 109
    STOPPED = 110
    PROTOCOL_ERROR = 111
    WAKE = 200
    WARM = 201


class CloseReason(enum.IntEnum):
    """Why a connection ended (channel.pxd, contract G.7.8)."""

    NOT_CONNECTED = 1
    REMOTE = 2
    EXPIRED = 3
    FAILED_SEND = 4
    LOCAL = 5
    BAD_FRAME = 6
    FRAME_TOO_LARGE = 7
    NO_MEMORY = 8
    OUTGROWN = 9  # only where frames share a bounded pool, as a server's do


class Event(NamedTuple):
    """One event; what the numbers mean depends on the kind, see event_queue.pxd."""

    kind: int
    slot: int
    a: int
    b: int
    c: int
    d: int
    topic: str | None
    data: bytes | None

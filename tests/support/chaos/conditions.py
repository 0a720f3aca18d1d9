"""Conditions: what a chaos proxy does to the bytes that it passes on."""

from __future__ import annotations

from dataclasses import dataclass

REQUESTS = "requests"
ANSWERS = "answers"
BOTH = frozenset({REQUESTS, ANSWERS})


@dataclass(frozen=True)
class Conditions:
    """The state of a network between clients and one node; as made, a good one.

    Attributes:
        latency_s: added to each way.
        jitter_s: up to so much more, at random; the order of bytes stays.
        bytes_per_s: of each way of each connection; 0: no limit.
        pieces: what is read at once is sent in up to so many segments, cut at random places.
        merge_s: what comes within so long goes out as one.
        held: ways on which nothing arrives: both are a black hole, one alone is half of one. What
            is under way arrives when the hold ends, even if who sent it has given up: as with a
            network that goes on trying.
        reset_after: bytes, of both ways together, after which each connection that there is then is
            reset; 0: never.
        is_refusing: connections are reset as soon as they are there; those that there were stay.
            (The port stays open: another cluster of the machine could come to have it.)
    """

    latency_s: float = 0.0
    jitter_s: float = 0.0
    bytes_per_s: float = 0.0
    pieces: int = 1
    merge_s: float = 0.0
    held: frozenset[str] = frozenset()
    reset_after: int = 0
    is_refusing: bool = False


GOOD = Conditions()

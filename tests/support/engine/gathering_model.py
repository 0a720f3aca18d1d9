"""Who gathers: two callers and the I/O thread, every interleaving of their steps.

The steps are those of `fastprod/_core/drive/gathering.pyx` and of `accumulator_append`, cut at the
atomics. Each caller sends one record to the same partition and waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

IO: Final = 2
"""The I/O thread's number; the callers are 0 and 1."""
CALLERS: Final = (0, 1)


class State(NamedTuple):
    """All that a step may look at. A pc is a step's name."""

    pcs: tuple[str, str, str] = ("append", "append", "check")
    gathering: int = 0
    is_timed: bool = False  # gather_until_ns is set
    queued: int = 0
    is_announced: bool = False
    is_known: bool = False  # the I/O thread has the partition on a list
    sent: int = 0
    kicks: int = 0
    seen_kicks: int = 0
    parked: bool = False
    wake: bool = False


class Gathering:
    """The steps.

    Args:
        awaited: how many records are waited for when the walk begins; more than two never come.
        without: a part that is left out, to see that it is missed.
    """

    def __init__(self, awaited: int, without: str = "") -> None:
        self.without = without
        self.first = State(gathering=awaited, is_timed=True)

    def stuck(self) -> list[State]:
        """States in which nothing can happen, and a record has not been sent."""
        seen, todo, found = {self.first}, [self.first], []
        while todo:
            state = todo.pop()
            ways = [*self._io(state), *(w for me in CALLERS for w in self._caller(state, me))]
            if not ways and state.sent < len(CALLERS):
                found.append(state)
            new = set(ways) - seen
            seen |= new
            todo += new
        return found

    @staticmethod
    def _go(s: State, me: int, pc: str) -> State:
        pcs = [*s.pcs]
        pcs[me] = pc
        return s._replace(pcs=(pcs[0], pcs[1], pcs[2]))

    def _io(self, s: State) -> Iterator[State]:
        pc = s.pcs[IO]
        takes_first = self.without == "the order of check and take"
        if pc == "check":
            s = s._replace(seen_kicks=s.kicks) if not takes_first else s
            if s.is_timed and s.gathering <= 0:
                s = s._replace(is_timed=False, gathering=0)
            yield self._go(s, IO, "serve" if takes_first else "take")
            if s.is_timed and self.without != "the time":  # it has passed meanwhile
                s = s._replace(is_timed=False, gathering=0)
                yield self._go(s, IO, "serve" if takes_first else "take")
        elif pc == "take":
            s = s._replace(seen_kicks=s.kicks) if takes_first else s
            s = s._replace(is_known=s.is_known or s.is_announced, is_announced=False)
            yield self._go(s, IO, "check" if takes_first else "serve")
        elif pc == "serve":
            if s.is_known and not s.is_timed:
                s = s._replace(sent=s.sent + s.queued, queued=0, is_known=False)
            yield self._go(s._replace(parked=True), IO, "park")
        elif pc == "park":
            can_sleep = s.kicks == s.seen_kicks
            yield self._go(s, IO, "sleep" if can_sleep else "awake")
        elif pc == "awake" or s.wake or (s.is_timed and self.without != "the time"):
            s = s._replace(parked=False, wake=False)
            yield self._go(s, IO, "take" if takes_first else "check")

    def _caller(self, s: State, me: int) -> Iterator[State]:
        pc = s.pcs[me]
        if pc == "append":
            opens = s.queued == 0
            s = s._replace(queued=s.queued + 1, is_announced=s.is_announced or opens)
            yield self._go(s, me, "look, new" if opens else "look")
        elif pc in ("look", "look, new"):
            kicks = pc == "look, new"
            yield self._go(s, me, "count" if s.gathering > 0 else "kick" if kicks else "urge")
        elif pc == "count":
            s = s._replace(gathering=s.gathering - 1)
            is_last = s.gathering <= 0 and self.without != "the kick of the last"
            yield self._go(s, me, "kick" if is_last else "urge")
        elif pc in ("kick", "kick again"):
            s = s._replace(kicks=s.kicks + 1)
            yield self._go(s, me, "wake" if pc == "kick" else "wake again")
        elif pc in ("wake", "wake again"):
            if s.parked:
                s = s._replace(parked=False, wake=True)
            yield self._go(s, me, "urge" if pc == "wake" else "wait")
        elif pc == "urge":
            if s.queued:
                s = s._replace(is_announced=True)
            yield self._go(s, me, "look again")
        elif pc == "look again":
            yield self._go(s, me, "wait" if s.gathering > 0 else "kick again")

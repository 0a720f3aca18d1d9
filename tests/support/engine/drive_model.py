"""Who drives: two callers and the I/O thread, every interleaving of their steps.

The steps are those of `fastprod/_core/drive/caller_drive.pyx`, `lent_socket.pyx`, `sender.pyx` and
`selector.pyx`, cut where another thread may come between: at the lock, the atomics, descriptors.
There is one connection with one request in flight at most, no time-out but the guard, and a wait
that nothing ends stays one: in the engine waits are in slices, which would hide a lost wake-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

IO: Final = 2
"""The I/O thread's number; the callers are 0 and 1."""
NOBODY: Final = -1
WAIT: Final = "wait"
SEND: Final = "send"
"""Kick the I/O thread: as a caller does who did not wait for its last record."""
SEND_NOW: Final = "send now"
"""Send, if the loop is to be had; the poller still watches the socket."""
SEND_AND_LEAVE: Final = "send and leave"
"""The same, and take the socket from the poller: as a caller that has waited for all it sent."""


class State(NamedTuple):
    """All that a step may look at. A record is (caller, number); a pc is a step's name."""

    pcs: tuple[str, str, str] = ("next", "next", "lock")
    at: tuple[int, int] = (0, 0)  # place in each caller's program
    lock: int = NOBODY
    queued: frozenset[tuple[int, int]] = frozenset()
    in_flight: frozenset[tuple[int, int]] = frozenset()
    answered: bool = False  # the socket is readable
    done: frozenset[tuple[int, int]] = frozenset()
    kicks: int = 0
    seen_kicks: int = 0  # by the I/O thread, at the start of its turn
    parked: bool = False
    wake: bool = False  # the poller's eventfd
    is_watched: bool = True
    connection: int = 0
    lent: int = NOBODY  # the connection that is lent; NOBODY: none is
    driver: int = NOBODY  # the caller at the lent socket
    is_called: bool = False
    call: bool = False  # the driver's eventfd
    is_guarded: bool = False  # the timer is set and has not fired
    guard: bool = False  # it has fired, and the poller has not seen it
    can_sleep: bool = False  # the I/O thread's poll has no reason not to
    found: tuple[bool, bool] = (False, False)  # what the I/O thread's poll brought: wake, socket
    read: tuple[bool, bool] = (False, False)  # of each caller: its poll found the socket readable
    losses: int = 0  # how often the connection may still be lost


class Found(NamedTuple):
    """What a walk over all states came to."""

    states: int
    stuck: list[State]  # nothing can happen, and the work is not done
    is_endless: bool  # there is a circle: somebody spins


class Protocol:
    """The steps, with `programs` for the two callers.

    Args:
        programs: of each caller, the calls it makes.
        losses: how often the connection is lost at most.
        without: a part of the protocol that is left out, to see that it is missed.
        has_guard: False: the guard never fires, so that nobody can depend on it.
    """

    def __init__(
        self,
        programs: tuple[tuple[str, ...], tuple[str, ...]],
        losses: int = 0,
        without: str = "",
        has_guard: bool = True,
    ) -> None:
        self.programs = programs
        self.without = without
        self.has_guard = has_guard
        self.first = State(losses=losses)
        self._io: dict[str, Callable[[State], Iterator[State]]] = {
            "lock": self._io_lock,
            "turn": self._io_turn,
            "attend": self._io_attend,
            "park": self._io_park,
            "sleep": self._io_sleep,
            "collect": self._io_collect,
        }
        self._caller: dict[str, Callable[[State, int], Iterator[State]]] = {
            "next": self._next,
            "try send": self._try_send,
            "kick": self._kick,
            "wake": self._wake,
            "try drive": self._try_drive,
            "poll": self._poll,
            "relock": self._relock,
            "urge": self._urge,
            "wait": self._wait,
        }

    def next_states(self, s: State) -> list[State]:
        """Every state that one step of a thread, the server, the network or the timer leads to."""
        found = list(self._io[s.pcs[IO]](s))
        for me in (0, 1):
            found += self._caller[s.pcs[me]](s, me)
        if s.in_flight and not s.answered:
            found.append(s._replace(answered=True))
        if s.is_guarded and self.has_guard:
            found.append(s._replace(is_guarded=False, guard=True))
        return found

    def is_over(self, s: State) -> bool:
        """All calls have returned, and the I/O thread sees to what comes."""
        return (
            all(s.at[me] == len(self.programs[me]) for me in (0, 1))
            and s.pcs[IO] == "sleep"
            and not s.queued
            and not s.in_flight
            and s.is_watched
        )

    def callers_are_through(self, s: State) -> bool:
        """All calls have returned."""
        return all(s.at[me] == len(self.programs[me]) for me in (0, 1))

    def walk(self, stops_early: bool = False) -> Found:
        """Depth first over every state there is, or up to the first one that should not be."""
        done: set[State] = set()
        path: set[State] = {self.first}
        stack = [(self.first, iter(self.next_states(self.first)))]
        stuck: list[State] = []
        is_endless = False
        is_over = self.is_over if self.has_guard else self.callers_are_through
        while stack and not (stops_early and (stuck or is_endless)):
            state, following = stack[-1]
            after = next(following, None)
            if after is None:
                stack.pop()
                path.discard(state)
                done.add(state)
                continue
            if after in path:
                is_endless = True
            elif after not in done:
                ways = self.next_states(after)
                if not ways and not is_over(after):
                    stuck.append(after)
                path.add(after)
                stack.append((after, iter(ways)))
        return Found(len(done), stuck, is_endless)

    # What the steps are made of; each is done under the loop's lock.

    @staticmethod
    def _go(s: State, me: int, pc: str) -> State:
        pcs = [*s.pcs]
        pcs[me] = pc
        return s._replace(pcs=(pcs[0], pcs[1], pcs[2]))

    @staticmethod
    def _serve(s: State, me: int) -> State:
        """One request in flight: what is queued meanwhile lingers until its answer is read."""
        assert s.lock == me
        if s.queued and not s.in_flight:
            return s._replace(in_flight=s.queued, queued=frozenset())
        return s

    @staticmethod
    def _complete(s: State, me: int) -> State:
        assert s.lock == me
        return s._replace(done=s.done | s.in_flight, in_flight=frozenset(), answered=False)

    @staticmethod
    def _watch(s: State) -> State:
        """lent_watch"""
        if s.lent == s.connection:
            s = s._replace(is_watched=True)
        return s._replace(lent=NOBODY)

    # The I/O thread.

    def _io_lock(self, s: State) -> Iterator[State]:
        if s.lock == NOBODY:
            yield self._go(s._replace(lock=IO, seen_kicks=s.kicks), IO, "turn")

    def _io_turn(self, s: State) -> Iterator[State]:
        yield self._go(self._serve(s, IO), IO, "attend")
        if s.losses > 0 and s.in_flight:  # a time-out: the connection goes, and another one comes
            s = self._complete(s, IO)._replace(
                losses=s.losses - 1, connection=s.connection + 1, is_watched=True
            )
            yield self._go(self._serve(s, IO), IO, "attend")

    def _io_attend(self, s: State) -> Iterator[State]:
        """lent_attend"""
        if s.driver == NOBODY:
            if s.lent != NOBODY and self.without != "watching what was left":
                s = self._watch(s)
        elif not s.is_called and self.without != "calling the driver":
            mine = (s.driver, s.at[s.driver] - 1)
            if mine in s.done or s.lent != s.connection:
                s = s._replace(is_called=True, call=True)
        yield self._go(s._replace(parked=True), IO, "park")

    def _io_park(self, s: State) -> Iterator[State]:
        can_sleep = s.kicks == s.seen_kicks or self.without == "looking at the kicks again"
        yield self._go(s._replace(can_sleep=can_sleep, lock=NOBODY), IO, "sleep")

    def _io_sleep(self, s: State) -> Iterator[State]:
        socket = s.is_watched and s.answered
        if s.wake or socket or s.guard or not s.can_sleep:
            s = s._replace(parked=False, guard=False, found=(s.wake, socket))
            yield self._go(s, IO, "collect")

    def _io_collect(self, s: State) -> Iterator[State]:
        if s.lock != NOBODY:
            return
        s = s._replace(lock=IO)
        if s.found[0]:
            s = s._replace(wake=False)
        if s.found[1] and s.answered:  # else a caller was faster: there is nothing to read
            s = self._complete(s, IO)
        yield self._go(s._replace(found=(False, False), seen_kicks=s.kicks), IO, "turn")

    # A caller.

    def _next(self, s: State, me: int) -> Iterator[State]:
        """The next call of the program."""
        at = s.at[me]
        if at == len(self.programs[me]):
            return
        call = self.programs[me][at]
        s = s._replace(at=(at + 1, s.at[1]) if me == 0 else (s.at[0], at + 1))
        if call == WAIT:
            yield self._go(s, me, "try drive")
        else:
            # Its number is that of the wait that may follow.
            s = s._replace(queued=s.queued | {(me, at + 1)})
            yield self._go(s, me, "kick" if call == SEND else "try send")

    def _try_send(self, s: State, me: int) -> Iterator[State]:
        """_send_now"""
        if s.lock != NOBODY:
            yield self._go(s, me, "next" if self.without == "kicking instead" else "kick")
            return
        s = s._replace(lock=me)
        leaves = self.programs[me][s.at[me] - 1] == SEND_AND_LEAVE
        if leaves and not s.in_flight and s.driver == NOBODY:
            is_guarded = self.without != "the guard"
            s = s._replace(is_guarded=is_guarded, is_watched=False, lent=s.connection)
        yield self._go(self._serve(s, me)._replace(lock=NOBODY), me, "next")

    def _kick(self, s: State, me: int) -> Iterator[State]:
        yield self._go(s._replace(kicks=s.kicks + 1), me, "wake")

    def _wake(self, s: State, me: int) -> Iterator[State]:
        if s.parked:
            s = s._replace(parked=False, wake=True)
        is_waiting = s.at[me] > 0 and self.programs[me][s.at[me] - 1] == WAIT
        yield self._go(s, me, "wait" if is_waiting else "next")

    def _mine(self, s: State, me: int) -> tuple[int, int]:
        """The record that the last send before this wait was for."""
        return me, s.at[me] - 1

    def _try_drive(self, s: State, me: int) -> Iterator[State]:
        """_drive"""
        mine = self._mine(s, me)
        if mine in s.done:
            yield self._go(s, me, "next")
            return
        if s.lock != NOBODY:
            yield self._go(s, me, "urge")
            return
        s = self._serve(s._replace(lock=me), me)
        if s.driver == NOBODY and mine in s.in_flight:
            s = s._replace(driver=me, lent=s.connection, is_watched=False)
            yield self._go(s._replace(lock=NOBODY), me, "poll")
        else:
            yield self._go(s._replace(lock=NOBODY), me, "urge")

    def _poll(self, s: State, me: int) -> Iterator[State]:
        # The descriptor of a connection that has ended is not readable, nor will it be.
        is_readable = s.answered and s.lent == s.connection
        if is_readable or s.call:
            read = (is_readable, s.read[1]) if me == 0 else (s.read[0], is_readable)
            yield self._go(s._replace(read=read), me, "relock")

    def _relock(self, s: State, me: int) -> Iterator[State]:
        """The end of _sleep, and what _wait_at_socket does then."""
        if s.lock != NOBODY:
            return
        assert s.driver == me
        s = s._replace(lock=me)
        if s.is_called:
            s = s._replace(is_called=False, call=False)
        if s.lent == s.connection and s.read[me] and s.answered:
            s = self._complete(s, me)
            if self.without != "sending what has lingered":
                s = self._serve(s, me)
        s = s._replace(read=(False, s.read[1]) if me == 0 else (s.read[0], False))
        is_there = s.lent == s.connection
        if is_there and self._mine(s, me) not in s.done and s.in_flight:
            yield self._go(s._replace(lock=NOBODY), me, "poll")
            return
        s = s._replace(driver=NOBODY)
        is_watched = not is_there or bool(s.in_flight) or not s.is_guarded
        if is_watched and self.without != "watching what is in flight":
            s = self._watch(s)
        yield self._go(s._replace(lock=NOBODY), me, "urge")

    def _urge(self, s: State, me: int) -> Iterator[State]:
        """result_urge: only for what has not been sent."""
        is_sent = self._mine(s, me) not in s.queued
        yield self._go(s, me, "wait" if is_sent else "kick")

    def _wait(self, s: State, me: int) -> Iterator[State]:
        if self._mine(s, me) in s.done:
            yield self._go(s, me, "next")

"""FaultVerbs: the methods of `broker.faults` that make a broker misbehave (B-G2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import dedent
from typing import Any, Final, Protocol, TypeVar

from fastprod.broker.faults.answers import Dribble
from fastprod.broker.faults.hooks import Close, Drop
from fastprod.broker.faults.planned_faults import (
    AppendLate,
    Delay,
    Effect,
    Garble,
    Instead,
    Interceptor,
    Lose,
    PlannedFaults,
    Refuse,
    Truncate,
)
from fastprod.broker.faults.target import aim, check_count, check_ms, error_code_of
from fastprod.errors import IllegalStateError

_SHARED: Final = {
    "api": 'Kafka\'s name of an API or its key, as "Produce" or 0; "all": every API.',
    "n": "how many requests, 1 or more; None: all, until `reset`.",
    "topic": "only requests that name this topic; None, the default: any.",
    "partition": "only requests that name this partition, 0 or more; None, the default: any.",
    "after": "so many requests that it would have met pass first; 0, the default, or more.",
    "node": "only requests to the node with this id; None, the default: to any.",
}
_Verb = TypeVar("_Verb", bound=Any)


def _shares(verb: _Verb) -> _Verb:
    """Add to a verb's docstring what all verbs have in common, so that `help` shows the whole."""
    code = verb.__code__
    names = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    if verb.__doc__ is not None:
        first, _, rest = verb.__doc__.partition("\n")
        own = f"{first}\n{dedent(rest)}".strip()
        shared = [f"    {n}: {_SHARED[n]}" for n in names if n in _SHARED and f" {n}: " not in own]
        verb.__doc__ = "\n".join(
            [
                own,
                "\nWhich requests meet it:",
                *shared,
                "\nRaises:\n    ValueError: an argument is unknown or out of its range.",
                "\nReturns at once, also before the start.  Threads: any.  Source: contract B-G2.",
            ]
        )
    return verb


class ReadingNode(Protocol):
    """What the verbs need of a node."""

    @property
    def id(self) -> int: ...
    def set_reading(self, reads: bool, waits: bool) -> None: ...
    def set_fetching(self, fetches: bool) -> None: ...
    def cut_off(self, is_fenced: bool) -> None: ...
    def reconnect(self) -> None: ...


class FaultVerbs:
    """Faults on demand: `broker.faults.fail("Produce", "NOT_ENOUGH_REPLICAS", n=2)`.

    Every verb may be called by any thread, also before the broker starts, returns at once, and
    concerns the requests that come after it. `delay` and `dribble` say how answers travel; the
    others say what happens to requests. A request meets one fault of these at most, the first that
    was planned; those without an end (n=None) come after those with a count, the newest first. Only
    `fail`s for several partitions meet in one request.

    Source: contract B-G2; the queue of errors is librdkafka's mock's idea (B-F2), `intercept`
    is kfake's (B-F3).
    """

    def __init__(self, planned: PlannedFaults, nodes: Sequence[ReadingNode]) -> None:
        self._planned = planned
        self._nodes = nodes  # none before the start

    # What happens to requests.

    @_shares
    def fail(
        self,
        api: str | int,
        error: str | int,
        n: int | None = 1,
        topic: str | None = None,
        partition: int | None = None,
        after: int = 0,
        delay_ms: float = 0,
        *,
        node: int | None = None,
    ) -> None:
        """Answer with an error and do nothing else.

        With `topic` or `partition`, only these fail in a Produce, Fetch, ListOffsets or Metadata
        request, and the rest of it is done (B-D1.1). A Produce with acks=0 ends its connection.

        Args:
            error: Kafka's name or code of it, as "NOT_LEADER_OR_FOLLOWER" or 6.
            delay_ms: the answer waits so long; default 0.
        """
        effect = Refuse(error_code_of(error), check_ms("delay_ms", delay_ms))
        self._plan(effect, api, n, topic, partition, after, node)

    @_shares
    def drop(
        self,
        api: str | int,
        n: int | None = 1,
        topic: str | None = None,
        partition: int | None = None,
        after: int = 0,
        *,
        node: int | None = None,
    ) -> None:
        """Never answer, and do nothing: the client waits until its own time-out.

        Nothing more is read from that connection, since answers come in order.
        """
        self._plan(Instead(Drop()), api, n, topic, partition, after, node)

    @_shares
    def close(
        self,
        api: str | int,
        n: int | None = 1,
        topic: str | None = None,
        partition: int | None = None,
        after: int = 0,
        *,
        node: int | None = None,
    ) -> None:
        """End the connection and do nothing."""
        self._plan(Instead(Close()), api, n, topic, partition, after, node)

    @_shares
    def lose_reply(
        self,
        api: str | int = "Produce",
        n: int | None = 1,
        topic: str | None = None,
        partition: int | None = None,
        after: int = 0,
        *,
        node: int | None = None,
    ) -> None:
        """Do what was asked, records are appended, and end the connection in place of the answer.

        The client cannot know that it was done: the classic test of idempotence.
        """
        self._plan(Lose(), api, n, topic, partition, after, node)

    @_shares
    def truncate(
        self,
        api: str | int,
        size_bytes: int,
        n: int | None = 1,
        topic: str | None = None,
        partition: int | None = None,
        after: int = 0,
        *,
        node: int | None = None,
    ) -> None:
        """Do what was asked, write the beginning of the answer, and end the connection.

        Args:
            size_bytes: how much of it, from 0 on; the first 4 bytes are its size.
            n: how many requests; not those with acks=0, they have no answer.
        """
        effect = Truncate(check_count("size_bytes", size_bytes, 0))
        self._plan(effect, api, n, topic, partition, after, node)

    @_shares
    def garble(
        self,
        api: str | int,
        n: int | None = 1,
        topic: str | None = None,
        partition: int | None = None,
        after: int = 0,
        *,
        node: int | None = None,
    ) -> None:
        """Do what was asked, and answer with bytes that make no sense.

        Size and correlation id are right, so that the client takes it for its answer.

        Args:
            n: how many requests; not those with acks=0, they have no answer.
        """
        self._plan(Garble(), api, n, topic, partition, after, node)

    @_shares
    def time_out_then_append(
        self,
        n: int | None = 1,
        delay_ms: float = 100,
        topic: str | None = None,
        partition: int | None = None,
        after: int = 0,
        *,
        node: int | None = None,
    ) -> None:
        """Answer Produce requests with REQUEST_TIMED_OUT(7) and append their records later.

        What a broker does whose followers are slow (B-D1): the client tries again, and the first
        attempt succeeds nevertheless, before the second or after it.

        Args:
            n: how many requests; not those with acks=0, nobody would wait for them.
            delay_ms: between answer and append; default 100.
        """
        effect = AppendLate(check_ms("delay_ms", delay_ms))
        self._plan(effect, "Produce", n, topic, partition, after, node)

    def intercept(self, function: Interceptor) -> Callable[[], None]:
        """Let `function` decide about every request, before all planned faults.

        Args:
            function: called with each request, by a thread of the broker that it must not block. It
                returns None: the next interceptor, or the planned faults, decide; an error code or
                Kafka's name of it: the request is answered with that; an action (`Close()`,
                `Drop()`, `Park()` of `fastprod.broker.faults`): that takes the request. If it
                raises, the client gets UNKNOWN_SERVER_ERROR and the log says why.

        Returns:
            A function that ends this; `reset` does so too.

        Raises:
            ValueError: `function` cannot be called.

        Returns at once, also before the start.  Source: contract B-F3.
        """
        if not callable(function):
            raise ValueError(f"intercept takes a function of one request, not {function!r}")
        self._planned.add_interceptor(function)
        return lambda: self._planned.remove_interceptor(function)

    # How answers travel, and requests.

    @_shares
    def delay(
        self,
        api: str | int,
        ms: float,
        n: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        after: int = 0,
        *,
        node: int | None = None,
    ) -> None:
        """Do what was asked, or what a fault says, and answer `ms` later.

        Args:
            ms: how long; 0 to a day.
        """
        effect = Delay(check_ms("ms", ms))
        self._plan(effect, api, n, topic, partition, after, node)

    @_shares
    def dribble(
        self,
        api: str | int,
        chunk_bytes: int,
        pause_ms: float = 0,
        n: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        after: int = 0,
        *,
        node: int | None = None,
    ) -> None:
        """Write answers in small pieces.

        Args:
            chunk_bytes: size of a piece, from 1 on.
            pause_ms: between two pieces; default 0.
        """
        effect = Dribble(check_count("chunk_bytes", chunk_bytes, 1), check_ms("pause_ms", pause_ms))
        self._plan(effect, api, n, topic, partition, after, node)

    def stop_reading(self, node: int | None = None) -> None:
        """Read nothing from any connection: what clients send stays in the sockets until they fill.

        Connections are accepted, and what has been read is answered.

        Args:
            node: a node's id; None, the default: all nodes.

        Raises:
            ValueError: no such node.
            IllegalStateError: the broker has not been started.
            TimeoutError: a network thread is busy for very long.

        Blocks: until it is so, as long as a network thread is busy; not if an interceptor calls it.
        """
        self._set_reading(False, node)

    def resume_reading(self, node: int | None = None) -> None:
        """Read again what clients send.

        Args:
            node: a node's id; None, the default: all nodes.

        Raises, blocks: as `stop_reading`.
        """
        self._set_reading(True, node)

    # What nodes hear of one another: for partitions with several replicas.

    def stop_fetching(self, node: int) -> None:
        """Have the replicas of a node fetch nothing from their leaders: they fall behind.

        After `replica.lag.time.max.ms` they are not in sync any more.

        Args:
            node: its id.

        Raises:
            ValueError: no such node.
            IllegalStateError: the broker has not been started.

        Does not wait.
        """
        self._node(node).set_fetching(False)

    def resume_fetching(self, node: int) -> None:
        """Have the replicas of a node fetch again.

        Args:
            node: its id.

        Raises: as `stop_fetching`.

        Does not wait.
        """
        self._node(node).set_fetching(True)

    def cut_off(self, node: int, fenced: bool = True) -> None:
        """Have a node hear nothing of the other nodes and the controller; clients still reach it.

        It goes on to lead what it leads, as far as it knows: with acks=1 it takes records that are
        lost when it is back, with acks=all its answer is REQUEST_TIMED_OUT. Nothing happens to a
        node that is down. Partitions with one replica move on and lose nothing.

        Args:
            node: its id.
            fenced: True, the default: the controller has noticed, as Kafka's does after
                `broker.session.timeout.ms`; others lead, and Metadata does not name the node.
                False: it has not, and leaders and replicas in sync stay.

        Raises:
            ValueError: no such node.
            IllegalStateError: the broker has not been started.
            OSError: the new leaders cannot be written to `data_dir`; the node is cut off.

        Blocks: while the new leaders are written to `data_dir`.
        """
        self._node(node).cut_off(fenced)

    def reconnect(self, node: int) -> None:
        """Undo `cut_off`: the node learns who leads, and its replicas follow.

        Args:
            node: its id.

        Raises: as `cut_off`.

        Blocks: as `cut_off`.
        """
        self._node(node).reconnect()

    def reset(self) -> None:
        """Undo everything: planned faults, interceptors, `stop_reading`, `stop_fetching`,
        `cut_off`.

        What is delayed goes on at once.

        Raises:
            TimeoutError: a network thread is busy for very long.

        Blocks: after `stop_reading`, as long as a network thread is busy.
        """
        self._planned.forget()
        if self._nodes:
            self._set_reading(True, None)
        for each in self._nodes:
            each.set_fetching(True)
            each.reconnect()

    def _node(self, node: int) -> ReadingNode:
        if not self._nodes:
            raise IllegalStateError("the broker has not been started; it has no nodes yet")
        for each in self._nodes:
            if each.id == node:
                return each
        raise ValueError(f"no node {node!r}; there are 0 to {len(self._nodes) - 1}")

    def _plan(
        self,
        effect: Effect,
        api: str | int,
        n: int | None,
        topic: str | None,
        partition: int | None,
        after: int,
        node: int | None,
    ) -> None:
        needs_answer = isinstance(effect, AppendLate | Truncate | Dribble | Garble)
        at = aim(api, topic, partition, node)._replace(is_at_answers=needs_answer)
        self._planned.plan(effect, at, n, after)

    def _set_reading(self, reads: bool, node: int | None) -> None:
        if not self._nodes:
            raise IllegalStateError("the broker has not been started; there is nothing to read")
        if node is not None and node not in [each.id for each in self._nodes]:
            raise ValueError(f"no node {node!r}; there are 0 to {len(self._nodes) - 1}")
        for each in self._nodes:
            if node in (None, each.id):
                each.set_reading(reads, not self._planned.is_called_by_interceptor)

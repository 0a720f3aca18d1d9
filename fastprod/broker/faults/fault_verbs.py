"""FaultVerbs: what a test says to make a broker misbehave (G2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from fastprod.broker.faults.answers import Dribble
from fastprod.broker.faults.hooks import Close, Drop
from fastprod.broker.faults.planned_faults import (
    AppendLate,
    Delay,
    Effect,
    Instead,
    Interceptor,
    Lose,
    PlannedFaults,
    Refuse,
    Truncate,
)
from fastprod.broker.faults.target import aim, check_count, check_ms, error_code_of
from fastprod.broker.purgatory import DelayedOperationPurgatory
from fastprod.errors import IllegalStateError


class ReadingNode(Protocol):
    """What the verbs need of a node."""

    @property
    def id(self) -> int: ...
    def set_reading(self, reads: bool, waits: bool) -> None: ...


class FaultVerbs(PlannedFaults):
    """Faults on demand: `broker.faults.fail("Produce", "NOT_ENOUGH_REPLICAS", n=2)`.

    Every verb may be called by any thread, also before the broker starts, returns at once, and
    concerns the requests that come after it. `delay` and `dribble` say how answers travel; the
    others say what happens to requests. A request meets one fault of these at most, the first that
    was planned; those without an end (n=None) come after those with a count, the newest first. Only
    `fail`s for several partitions meet in one request.

    Arguments that most verbs have; a verb tells of its own only:
        api: Kafka's name of an API or its key, as "Produce" or 0; "all": every API.
        n: how many requests, 1 or more; None, the default of `delay` and `dribble`: all, until
            `reset`.
        topic: only requests that name this topic; None: any.
        partition: only requests that name this partition, from 0 on; None: any.
        after: so many requests, which it would have met, pass first; 0 or more.
        node: only requests to the node with this id; None: to any.
    They raise ValueError for an argument that cannot be.

    Source: broker contract G2; the queue of errors is librdkafka's mock's idea (F2), `intercept`
    is kfake's (F3).
    """

    def __init__(self) -> None:
        super().__init__()
        self._nodes: Sequence[ReadingNode] = ()

    def attach(self, purgatory: DelayedOperationPurgatory, nodes: Sequence[ReadingNode]) -> None:
        """The broker starts: its timer, and its nodes."""
        self.use_timer(purgatory)
        self._nodes = nodes

    # What happens to requests.

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
        request, and the rest of it is done (D1.1). A Produce with acks=0 ends its connection.

        Args:
            error: Kafka's name or code of it, as "NOT_LEADER_OR_FOLLOWER" or 6.
            delay_ms: the answer waits so long; default 0.
        """
        effect = Refuse(error_code_of(error), check_ms("delay_ms", delay_ms))
        self._plan(effect, api, n, topic, partition, after, node)

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

        What a broker does whose followers are slow (D1): the client tries again, and the first
        attempt succeeds nevertheless, before the second or after it.

        Args:
            n: how many requests; not those with acks=0, nobody would wait for them.
            delay_ms: between answer and append; default 100.
        """
        effect = AppendLate(check_ms("delay_ms", delay_ms))
        self._plan(effect, "Produce", n, topic, partition, after, node)

    def intercept(self, function: Interceptor) -> Callable[[], None]:
        """Have `function` decide about every request, before all planned faults.

        Args:
            function: called by a thread of the broker that it must not keep. It returns None: the
                next interceptor, or the planned faults, decide; an error code or Kafka's name of
                it: the request is answered with that; an action (`Close()`, `Drop()`, `Park()` of
                `fastprod.broker.faults`): it takes the request. If it raises, the client is told
                UNKNOWN_SERVER_ERROR and the log says why.

        Returns:
            What ends it; `reset` does too.
        """
        if not callable(function):
            raise ValueError(f"intercept takes a function of one request, not {function!r}")
        self.add_interceptor(function)
        return lambda: self.remove_interceptor(function)

    # How answers travel, and requests.

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

        Connections are accepted and answers to what has been read go out. Returns when it is so;
        blocks for as long as a network thread is busy, but not when an interceptor calls it.

        Args:
            node: a node's id; None: all nodes.

        Raises:
            ValueError: no such node.
            IllegalStateError: the broker has not been started.
            TimeoutError: a network thread is busy for very long.
        """
        self._set_reading(False, node)

    def resume_reading(self, node: int | None = None) -> None:
        """Read again; arguments, exceptions and waiting as for `stop_reading`."""
        self._set_reading(True, node)

    def reset(self) -> None:
        """Undo everything: plans, interceptors, `stop_reading`; what is delayed goes on at once.

        Raises:
            TimeoutError: a network thread is busy for very long.
        """
        self.forget()
        if self._nodes:
            self._set_reading(True, None)

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
        needs_answer = isinstance(effect, AppendLate | Truncate | Dribble)
        at = aim(api, topic, partition, node)._replace(is_at_answers=needs_answer)
        self.plan(effect, at, n, after)

    def _set_reading(self, reads: bool, node: int | None) -> None:
        if not self._nodes:
            raise IllegalStateError("the broker has not been started; there is nothing to read")
        if node is not None and node not in [each.id for each in self._nodes]:
            raise ValueError(f"no node {node!r}; there are 0 to {len(self._nodes) - 1}")
        for each in self._nodes:
            if node in (None, each.id):
                each.set_reading(reads, not self.is_called_by_interceptor)

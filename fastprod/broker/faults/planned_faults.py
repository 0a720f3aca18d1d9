"""PlannedFaults: the planned faults, applied to requests and answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from fastprod.broker.api_table import APIS
from fastprod.broker.faults.answers import AnswerPlan, Dribble, PlannedAnswer, garbled
from fastprod.broker.faults.fault_queue import FaultQueue, PlannedFault
from fastprod.broker.faults.held_actions import HeldActions
from fastprod.broker.faults.hooks import Action, Close, Drop, Faults
from fastprod.broker.faults.refusals import (
    REFUSABLE,
    refuse_everywhere,
    refuse_places,
    withhold,
)
from fastprod.broker.faults.target import Aim, RequestTarget, error_code_of, names_by_id
from fastprod.broker.network.request import Request, SizedBuffer
from fastprod.broker.threads.purgatory import DelayedOperationPurgatory
from fastprod.error_codes import REQUEST_TIMED_OUT


class Refuse(NamedTuple):
    """Answer with an error after `delay_ms`, and do nothing."""

    code: int
    delay_ms: float


class Instead(NamedTuple):
    """Do this, and nothing else."""

    action: Action


class AppendLate(NamedTuple):
    """Answer REQUEST_TIMED_OUT, and append after `delay_ms`."""

    delay_ms: float


class Lose(NamedTuple):
    """Handle the request, and close the connection instead of answering."""


class Truncate(NamedTuple):
    """Handle the request, and send only the first bytes of the answer."""

    size_bytes: int


class Garble(NamedTuple):
    """Handle the request, and send an answer that makes no sense."""


class Delay(NamedTuple):
    """Handle the request, and answer later."""

    ms: float


RequestEffect = Refuse | Instead | AppendLate | Lose | Truncate | Garble
Effect = RequestEffect | Delay | Dribble


class InterceptedRequest(NamedTuple):
    """A request as an interceptor sees it.

    Attributes:
        api: Kafka's name of the API, as "Produce".
        version: of the request.
        client_id: the client's name for itself.
        node_id: node that was asked.
        connection_id: Kafka's name of the connection (B-A3.2).
        message: decoded, in Kafka's field names with underscores; not to be changed.
    """

    api: str
    version: int
    client_id: str | None
    node_id: int
    connection_id: str
    message: Any


Interceptor = Callable[[InterceptedRequest], int | str | Action | None]


class PlannedFaults(Faults):
    """Planned effects, and interceptors. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: FaultQueue[RequestEffect] = FaultQueue()
        self._delays: FaultQueue[Delay] = FaultQueue()
        self._dribbles: FaultQueue[Dribble] = FaultQueue()
        self._interceptors: list[Interceptor] = []
        self._is_idle = True
        self._purgatory: DelayedOperationPurgatory | None = None
        # A new one after each reset; a plan keeps its own: by that it knows of a reset.
        self._held = HeldActions()
        self._calling = threading.local()

    @property
    def is_called_by_interceptor(self) -> bool:
        """Whether this thread is the broker's and runs an interceptor."""
        return getattr(self._calling, "is_on", False)

    def use_timer(self, purgatory: DelayedOperationPurgatory) -> None:
        """Delay with this timer from now on; without one nothing is delayed."""
        self._purgatory = purgatory
        self._held = HeldActions(purgatory)

    def plan(self, effect: Effect, aim: Aim, n: int | None, after: int) -> None:
        """Plan `effect` for `n` requests (None: all), after the first `after` of them.

        Raises:
            ValueError: a count is negative, or n is 0.
        """
        with self._lock:
            if isinstance(effect, Delay):
                self._delays.add(PlannedFault(effect, aim, n, after))
            elif isinstance(effect, Dribble):
                self._dribbles.add(PlannedFault(effect, aim, n, after))
            else:
                self._requests.add(PlannedFault(effect, aim, n, after))
            self._is_idle = False

    def add_interceptor(self, function: Interceptor) -> None:
        """Add an interceptor; it is asked after those that are there."""
        with self._lock:
            self._interceptors = [*self._interceptors, function]
            self._is_idle = False

    def remove_interceptor(self, function: Interceptor) -> None:
        """Remove an interceptor; does nothing if it is not there."""
        with self._lock:
            self._interceptors = [each for each in self._interceptors if each is not function]

    def forget(self) -> None:
        """Drop plans and interceptors; what is held back goes on at once."""
        with self._lock:
            for queue in (self._requests, self._delays, self._dribbles):
                queue.clear()
            self._interceptors = []
            self._is_idle = True
            held, self._held = self._held, HeldActions(self._purgatory)
        held.release()

    def before(self, request: Request, message: Any) -> int | Action | None:
        """Say what happens to a decoded request."""
        if self._is_idle:
            return None
        decided: int | Action | AppendLate | None = self._intercept(request, message)
        with self._lock:
            plan = AnswerPlan(self._held)
            target = RequestTarget(request, message)
            if decided is None:
                decided = self._decide(target, plan)
            if not isinstance(decided, Close | Drop):
                delay = self._delays.take(target)
                plan.delay_ms += 0 if delay is None else delay.ms
                plan.dribble = self._dribbles.take(target)
            planned = (self._requests, self._delays, self._dribbles, self._interceptors)
            self._is_idle = not any(planned)
        if plan.refused:
            withhold(target.api_key, message, plan.refused)
            request.withheld = {topic for topic, _ in plan.refused}
            plan.names = names_by_id(target.api_key, message)
        request.fault = plan
        if isinstance(decided, AppendLate):
            early = refuse_everywhere(request, message, REQUEST_TIMED_OUT)
            return _LateAppend(decided, plan, early)
        return decided

    def after(
        self, request: Request, parts: Sequence[SizedBuffer] | None
    ) -> Sequence[SizedBuffer] | Action | None:
        """Say what happens to an answer."""
        plan = request.fault
        if not isinstance(plan, AnswerPlan):
            return None
        if plan.is_answered:
            return Drop()
        request.fault = None
        is_changed = bool(plan.refused) and parts is not None
        if parts is not None and is_changed:
            parts = refuse_places(request.header, parts, plan.refused, plan.names)
        if parts is not None and plan.is_garbled:
            parts, is_changed = garbled(parts), True
        if plan.sends_as_usual:
            return parts if is_changed else None
        return PlannedAnswer(plan, parts, is_changed)

    def _intercept(self, request: Request, message: Any) -> int | Action | None:
        interceptors = self._interceptors
        if not interceptors:
            return None
        header = request.header
        seen = InterceptedRequest(
            APIS[header.api_key].name,
            header.version,
            header.client_id,
            request.node_id,
            request.connection.id,
            message,
        )
        self._calling.is_on = True
        try:
            for function in interceptors:
                answer = function(seen)
                if answer is not None:
                    return _verdict(answer)
        finally:
            self._calling.is_on = False
        return None

    def _decide(self, target: RequestTarget, plan: AnswerPlan) -> int | Action | AppendLate | None:
        """Find what is planned for a request; the lock is held."""
        for fault, places in self._requests.aimed_at(target):
            effect = fault.effect
            refuses_places = (
                isinstance(effect, Refuse)
                and fault.aim.is_at_places
                and target.api_key in REFUSABLE
            )
            if (plan.refused and not refuses_places) or fault.lets_pass():
                continue
            self._requests.use(fault)
            if not isinstance(effect, Refuse):
                return _settle(effect, plan)
            plan.delay_ms = max(plan.delay_ms, effect.delay_ms)
            if not refuses_places:
                return effect.code
            plan.refused.update(dict.fromkeys(places, effect.code))
            target.places = [each for each in target.places if each not in plan.refused]
        codes = set(plan.refused.values())
        if len(codes) == 1 and not target.places:
            plan.refused.clear()
            return codes.pop()
        return None


class _LateAppend:
    """Answers REQUEST_TIMED_OUT, and lets the request be handled later."""

    def __init__(self, effect: AppendLate, plan: AnswerPlan, parts: Sequence[SizedBuffer]) -> None:
        self._delay_ms = effect.delay_ms
        self._plan = plan
        self._parts = parts

    def take(self, request: Request, go_on: Callable[[], None]) -> None:
        """Answer now; the handler's answer will be dropped."""
        held = self._plan.held
        request.fault = AnswerPlan(held, is_answered=True)
        PlannedAnswer(self._plan, self._parts, True).take(request, go_on)
        held.hold(self._delay_ms, go_on)


def _settle(
    effect: Instead | AppendLate | Lose | Truncate | Garble, plan: AnswerPlan
) -> Action | AppendLate | None:
    if isinstance(effect, Instead):
        return effect.action
    if isinstance(effect, AppendLate):
        return effect
    if isinstance(effect, Truncate):
        plan.truncate_to_bytes = effect.size_bytes
    elif isinstance(effect, Garble):
        plan.is_garbled = True
    else:
        plan.is_lost = True
    return None


def _verdict(answer: object) -> int | Action:
    """Check what an interceptor returned.

    Raises:
        ValueError: it is neither an error nor an action.
    """
    if isinstance(answer, int | str):
        return error_code_of(answer)
    if isinstance(answer, type) or not callable(getattr(answer, "take", None)):
        raise ValueError(
            f"an interceptor returned {answer!r}; it can return None, an error or an action"
        )
    return answer  # type: ignore[return-value]

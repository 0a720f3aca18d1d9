"""What a peer is told to do: rules, written as a sentence, and what they make of one request."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, Self

from fastprod.protocol.api_keys import API_NAMES
from support.peer.connection import OPENING_BYTES, SIZE_BYTES, After
from support.peer.journal import Journal, PeerFaultError, Request

CORRELATION_END: Final = SIZE_BYTES + 4

Body = Literal["v0", "asked", "junk", "bare"]
Message = dict[str, Any]
ReplyFunction = Callable[[Request], bytes | Mapping[str, Any]]
Edit = Callable[[bytes], bytes]
Scope = tuple[str, int | None] | None
"""None: the whole request; (topic, None): a topic; (topic, partition)."""


class Hint(NamedTuple):
    """The leader that a Produce response names (KIP-951); `node` None: the id is unknown."""

    leader_id: int
    leader_epoch: int
    host: str | None = None
    port: int | None = None
    has_endpoint: bool = True


class Processing(enum.Enum):
    """Whether the request has its effect, and whether a reply is made."""

    UNREAD = enum.auto()
    LOST = enum.auto()


@dataclass
class Plan:
    """What one rule asks for; None leaves a matter to other rules, then to the peer."""

    error_code: int | None = None
    error_message: str | None = None
    record_errors: Mapping[int, str | None] | None = None
    is_appended: bool | None = None
    fields: Mapping[str, Any] | None = None
    hint: Hint | None = None
    is_left_out: bool | None = None

    throttle_ms: int | None = None
    is_reversed: bool | None = None
    change: Callable[[Message], object] | None = None
    reply: bytes | ReplyFunction | None = None
    unsupported_body: Body | None = None

    delay_s: float | None = None
    is_held: bool | None = None
    is_before_append: bool | None = None

    edits: tuple[Edit, ...] | None = None
    part_bytes: int | None = None
    pause_s: float | None = None
    processing: Processing | None = None
    after: After | None = None
    close_mark: int | None = None
    stop_mark: int | None = None

    def over(self, other: Plan) -> Plan:
        """This plan, with what it leaves open taken from `other`."""
        return Plan(
            *(
                getattr(other, each.name) if mine is None else mine
                for each, mine in ((each, getattr(self, each.name)) for each in _PLAN_FIELDS)
            )
        )

    def without_reply_faults(self) -> Plan:
        """The plan without what it does to the reply's bytes and to the connection."""
        return dataclasses.replace(self, **dict.fromkeys(_REPLY_FAULTS))


_PLAN_FIELDS: Final = dataclasses.fields(Plan)
_REPLY_FAULTS: Final = ("reply", "edits", "processing", "after", "close_mark", "stop_mark")


@dataclass
class Cue:
    """What the script makes of one request: plans in the order of their authority."""

    plans: list[tuple[Scope, Plan]] = field(default_factory=list)

    @property
    def whole(self) -> Plan:
        """For what concerns the request as one."""
        merged = Plan()
        for _, plan in self.plans:
            merged = merged.over(plan)
        return merged

    def for_partition(self, topic: str, partition: int | None) -> Plan:
        """For one partition; with None for the topic."""
        merged = Plan()
        for scope, plan in self.plans:
            if scope in (None, (topic, None), (topic, partition)):
                merged = merged.over(plan)
        return merged


class Rule:
    """One sentence of a script; every word returns the rule itself.

    It is in force from its first verb on, for one request unless `times` or `always` follow. When
    requests are already under way put the filters (`for_topic`, `for_partition`, `after`,
    `on_connection`, `when`) before the verb. THREADS: any.
    """

    def __init__(self, script: Script, api_key: int) -> None:
        self.api_key = api_key
        self.plan = Plan()
        self.scope: Scope = None
        self.hits = 0
        self._script = script
        self._limit: int | None = 1
        self._skip_count = 0
        self._seen_count = 0
        self._connection: int | None = None
        self._predicate: Callable[[Request], bool] | None = None

    # How often, and for which requests.

    def once(self) -> Self:
        return self.times(1)

    def times(self, count: int) -> Self:
        self._limit = count
        return self

    def always(self) -> Self:
        """A standing rule: it lies under those that are counted."""
        self._limit = None
        return self

    def after(self, request_count: int) -> Self:
        """Let so many matching requests pass first, whatever becomes of them."""
        self._skip_count = request_count
        return self

    def for_topic(self, topic: str) -> Self:
        self.scope = (topic, None)
        return self

    def for_partition(self, topic: str, partition: int) -> Self:
        """Requests with this partition; an error or field then concerns it alone."""
        self.scope = (topic, partition)
        return self

    def on_connection(self, number: int) -> Self:
        self._connection = number
        return self

    def when(self, predicate: Callable[[Request], bool]) -> Self:
        """Requests for which `predicate(request)`; it must not wait."""
        self._predicate = predicate
        return self

    # What the answer says.

    def error(
        self,
        code: int,
        *,
        message: str | None = None,
        record_errors: Mapping[int, str | None] | None = None,
        append: bool = False,
    ) -> Self:
        """Answer with an error; `append`: the batches went into the log all the same."""
        return self._plan(
            error_code=code,
            error_message=message,
            record_errors=record_errors,
            is_appended=append,
        )

    def answer(self, **fields: Any) -> Self:
        """Set fields of the usual answer by kio's names: a partition's in Produce, else the top."""
        return self._plan(fields=fields)

    def leader_hint(
        self,
        node: int,
        epoch: int,
        *,
        host: str | None = None,
        port: int | None = None,
        endpoint: bool = True,
    ) -> Self:
        """Name a leader beside an error (Produce v10+); host and port are those of the node."""
        return self._plan(hint=Hint(node, epoch, host, port, endpoint))

    def throttle(self, ms: int) -> Self:
        return self._plan(throttle_ms=ms)

    def leave_out(self) -> Self:
        """Answer without the partitions concerned; their batches are appended."""
        return self._plan(is_left_out=True)

    def reverse(self) -> Self:
        """Answer topics and partitions in the opposite order."""
        return self._plan(is_reversed=True)

    def change(self, change: Callable[[Message], object]) -> Self:
        """Have `change(message)` alter the usual answer in place before it is encoded."""
        return self._plan(change=change)

    def reply(self, reply: bytes | ReplyFunction) -> Self:
        """Answer with these bytes, or what `reply(request)` returns: bytes, or fields to encode.

        The bytes are whole frames, size prefix included. Nothing is appended unless the function
        calls `request.usual()`, which returns the frame that would have been sent.
        """
        return self._plan(reply=reply)

    def unsupported(self, body: Body = "v0") -> Self:
        """Answer ApiVersions with error 35.

        Args:
            body: "v0" as Kafka does; "asked" in the version of the request; "junk": the code, then
                bytes that are no body; "bare": the code alone.
        """
        return self._plan(unsupported_body=body)

    # When it is sent.

    def delay(self, seconds: float, *, before_append: bool = False) -> Self:
        """Send the reply so much later; `before_append`: the effect is as late."""
        return self._plan(delay_s=seconds, is_before_append=before_append)

    def hold(self, *, before_append: bool = False) -> Self:
        """Keep the reply, and those after it, until `release`."""
        return self._plan(is_held=True, is_before_append=before_append)

    # What becomes of the reply's bytes.

    def truncate(self, byte_count: int, *, close: bool = True) -> Self:
        """Send the first bytes of the reply's frame, then close, or say nothing more."""
        after = After.CLOSE if close else After.SILENCE
        return self._edit(lambda frame: frame[:byte_count], after=after)

    def garble(self, at: int = CORRELATION_END) -> Self:
        """Invert every bit from byte `at` of the frame on; the default spares the header."""
        return self._edit(lambda frame: frame[:at] + bytes(255 - byte for byte in frame[at:]))

    def wrong_correlation_id(self, by: int = 1) -> Self:
        return self._edit(lambda frame: _shift_correlation_id(frame, by))

    def announce(self, byte_count: int) -> Self:
        """Put another size before the reply, up to 2**31 - 1 or negative; then say nothing more."""
        size = byte_count.to_bytes(SIZE_BYTES, "big", signed=True)
        return self._edit(lambda frame: size + frame[SIZE_BYTES:], after=After.SILENCE)

    def duplicate_reply(self) -> Self:
        return self._edit(lambda frame: frame * 2)

    def unasked_frame(self, frame: bytes = bytes.fromhex("00000008 7fffff00 00000000")) -> Self:
        """Send a frame that answers nothing after the reply."""
        return self._edit(lambda reply: reply + frame)

    def dribble(self, part_bytes: int = 1, *, pause_s: float = 0.0) -> Self:
        """Send the reply in parts of so many bytes."""
        return self._plan(part_bytes=part_bytes, pause_s=pause_s)

    # What becomes of the connection.

    def close(self, *, after_bytes_read: int | None = None, reset: bool = False) -> Self:
        """Close without effect or reply.

        Args:
            after_bytes_read: of the request's frame, size prefix included, 8 or more; None: all.
            reset: send RST in place of FIN.
        """
        after = After.RESET if reset else After.CLOSE
        return self._plan(
            processing=Processing.UNREAD, after=after, close_mark=_checked_mark(after_bytes_read)
        )

    def close_after_append(self, *, reset: bool = False) -> Self:
        """Do what was asked, then close in place of a reply."""
        after = After.RESET if reset else After.CLOSE
        return self._plan(processing=Processing.LOST, after=after)

    def half_close(self, *, append: bool = False) -> Self:
        """Send FIN in place of a reply, and go on reading."""
        return self._plan(processing=_processing(append), after=After.HALF_CLOSE)

    def silence(self, *, append: bool = False) -> Self:
        """From here on answer nothing on this connection, which stays open and is read."""
        return self._plan(processing=_processing(append), after=After.SILENCE)

    def stop_reading(self, after_bytes_read: int) -> Self:
        """Take exactly so many bytes of the request's frame (8 or more) until `resume_reading`."""
        return self._plan(stop_mark=_checked_mark(after_bytes_read))

    # The rule itself.

    def cancel(self) -> None:
        """Take the rule out of force; that it never came is then no fault."""
        self._script.cancel(self)

    def wait_for_hits(self, count: int = 1, timeout_s: float | None = None) -> None:
        """Wait until the rule has taken so many requests; TimeoutError otherwise."""
        what = f"{count} hits of {self}"
        self._script.journal.wait_until(lambda: self.hits >= count, timeout_s, what)

    @property
    def is_standing(self) -> bool:
        return self._limit is None

    @property
    def is_live(self) -> bool:
        return self._limit is None or self.hits < self._limit

    @property
    def is_due(self) -> bool:
        """As many requests have come as it lets pass."""
        return self._seen_count >= self._skip_count

    @property
    def is_early(self) -> bool:
        """It acts while the request is being read."""
        return self.plan.close_mark is not None or self.plan.stop_mark is not None

    @property
    def looks_inside(self) -> bool:
        return self.scope is not None or self._predicate is not None

    def __str__(self) -> str:
        asked = {
            each.name: value
            for each in _PLAN_FIELDS
            if (value := getattr(self.plan, each.name)) is not None
        }
        scope = "" if self.scope is None else f" for {self.scope}"
        return f"on({API_NAMES.get(self.api_key, self.api_key)}){scope}: {asked}"

    def covers(self, api_key: int, connection: int, request: Request | None) -> bool:
        """Whether it is for such a request; `request` None: only its opening is known."""
        if self.api_key != api_key or self._connection not in (None, connection):
            return False
        if request is None:
            return not self.looks_inside
        if self._predicate is not None and not self._predicate(request):
            return False
        return self.scope is None or _concerns(request, *self.scope)

    def see(self) -> bool:
        """Count a complete request that it covers; whether it may take it."""
        is_due = self.is_due
        self._seen_count += 1
        return is_due

    def _plan(self, **words: Any) -> Self:
        with self._script.journal.lock:
            self.plan = dataclasses.replace(self.plan, **words)
            if self.is_early and self.looks_inside:
                raise PeerFaultError(f"{self}: what a frame holds is not known while it is read")
            self._script.enter(self)
        return self

    def _edit(self, edit: Edit, **words: Any) -> Self:
        return self._plan(edits=(*(self.plan.edits or ()), edit), **words)


class Script:
    """The rules of one peer, or of a whole cluster. THREADS: any; under the journal's lock."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self.rules: list[Rule] = []

    def on(self, api_key: int) -> Rule:
        return Rule(self, api_key)

    def enter(self, rule: Rule) -> None:
        if rule not in self.rules:
            self.rules.append(rule)

    def cancel(self, rule: Rule) -> None:
        with self.journal.lock:
            if rule in self.rules:
                self.rules.remove(rule)

    def clear(self) -> None:
        with self.journal.lock:
            self.rules.clear()

    def unused(self) -> list[Rule]:
        """Counted rules for which no request came."""
        with self.journal.lock:
            return [rule for rule in self.rules if not rule.is_standing and not rule.hits]


def take_early(rules: list[Rule], api_key: int, connection: int) -> Rule | None:
    """The rule that takes a request of which only the opening is read, if it acts that early."""
    for rule in rules:
        if not rule.is_live or not rule.is_due or not rule.covers(api_key, connection, None):
            continue
        if rule.is_early:
            rule.hits += 1
            return rule
        if not rule.is_standing:
            # An older rule stands first in line; it takes the request once that is complete.
            return None
    return None


def take_cue(rules: list[Rule], request: Request, early: Rule | None) -> Cue:
    """What `rules` make of a complete request; of each scope one counted rule takes it."""
    counted: dict[Scope, Rule] = {} if early is None else {early.scope: early}
    standing: list[Rule] = []
    for rule in rules:
        is_concerned = rule.covers(request.api_key, request.connection, request) and rule.see()
        if not is_concerned or not rule.is_live or rule.is_early:
            continue
        if rule.is_standing:
            standing.insert(0, rule)
        elif rule.scope not in counted:
            counted[rule.scope] = rule
        else:
            continue
        rule.hits += 1
    plans = [(rule.scope, rule.plan) for rule in _narrow_first(list(counted.values()))]
    is_set_aside = None in counted
    for rule in _narrow_first(standing):
        plan = rule.plan.without_reply_faults() if is_set_aside else rule.plan
        plans.append((rule.scope, plan))
    return Cue(plans)


def _narrow_first(rules: list[Rule]) -> list[Rule]:
    return sorted(rules, key=lambda rule: 2 if rule.scope is None else rule.scope[1] is None)


def _concerns(request: Request, topic: str, partition: int | None) -> bool:
    """Whether a request is about a topic; one that names none, like all of Metadata, is."""
    if request.batches:
        return request.has_partition(topic, partition)
    asked = getattr(request.message, "topics", None)
    names = {getattr(each, "name", None) for each in asked or ()}
    return not names or topic in names


def _processing(append: bool) -> Processing:
    return Processing.LOST if append else Processing.UNREAD


def _checked_mark(byte_count: int | None) -> int | None:
    if byte_count is not None and byte_count < OPENING_BYTES:
        raise PeerFaultError(
            f"after_bytes_read={byte_count}: only byte {OPENING_BYTES} tells which request it is"
        )
    return byte_count


def _shift_correlation_id(frame: bytes, by: int) -> bytes:
    number = (int.from_bytes(frame[SIZE_BYTES:CORRELATION_END], "big") + by) % 2**32
    return frame[:SIZE_BYTES] + number.to_bytes(4, "big") + frame[CORRELATION_END:]

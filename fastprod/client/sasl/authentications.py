"""Authentications: which connections of a producer authenticate now, and whose sessions end.

A connection authenticates before anything else is sent on it. Before its session ends (KIP-368) a
spare connection to the same broker does, and takes its place: no request waits for that. Where
there can be no spare, the connection itself authenticates again: between the first frame and the
last answer no other request leaves to that broker; what is under way is answered meanwhile, and
other brokers are not concerned.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from fastprod._core.engine.control_queue import EventKind
from fastprod.client.connections.api_versions import ApiVersions
from fastprod.client.connections.connection_states import NO_LIMIT_MS
from fastprod.client.log_thread import LOG_THREAD
from fastprod.client.sasl.authenticator import Authenticator, Frame
from fastprod.client.sasl.credentials import Credentials
from fastprod.client.sasl.login import LoginPendingError
from fastprod.client.sasl.mechanism import Mechanism, MechanismError
from fastprod.client.system_threads import threads
from fastprod.errors import AuthenticationError, KafkaError, NetworkError
from fastprod.log import Log
from fastprod.protocol.api_keys import API_VERSIONS, SASL_HANDSHAKE
from fastprod.protocol.field_types import SchemaError

_LOG = Log(__name__)

_EARLIEST: Final = 0.7
_LATEST: Final = 0.8
"""Part of a session after which the next one is prepared, at random (P-G.10.7)."""
_SPARE_UNTIL: Final = 0.9
"""Part of a session after which it is too late for a spare connection."""
_LEAST_MS: Final = 200
"""However short sessions are, connections do not come faster."""
_BETWEEN_MS: Final = 1_050
"""Brokers refuse a repetition on the same connection within a second of the one before."""


class Connections(Protocol):
    """What is asked of the connections, by their slots; see SaslConnections."""

    def where(self, slot: int) -> str:
        """The broker's address and id, for errors."""

    def host(self, slot: int) -> str:
        """The broker's host, as its address has it."""

    def send(self, slot: int, frame: Frame, exchange: object) -> None:
        """Send a frame; its answer comes to `on_answer`."""

    def hold(self, slot: int, is_held: bool) -> None:
        """Whether Produce requests stay here."""

    def authenticated(self, slot: int, again_after_ms: int | None) -> None:
        """It succeeded; None: for the first time, else again, and how long that took."""

    def refuse(self, slot: int, error: KafkaError, *, was_ready: bool) -> None:
        """It failed: close the connection."""

    def open_spare(self, slot: int) -> int | None:
        """Connect once more to the same broker: `begin` or `lose_spare` follows.

        Returns:
            The spare connection's slot; None: there can be none.
        """

    def close_spare(self, slot: int) -> None:
        """Close a spare connection, by its slot; nothing more comes of it."""


class Waker(Protocol):
    """What is asked of the engine. Any thread."""

    def post(self, kind: int) -> None:
        """Put an event into the control thread's queue."""


class _Session:
    """One connection, from its first exchange to its end."""

    __slots__ = (
        "acceptance",
        "authenticator",
        "began_ms",
        "due_ms",
        "end_ms",
        "first",
        "generation",
        "is_held",
        "is_ready",
        "is_waiting",
        "mechanism",
        "slot",
        "spare",
        "spare_until_ms",
        "token_number",
        "versions",
    )

    def __init__(self, slot: int) -> None:
        self.slot = slot
        self.first: _Session | None = None  # if this is a spare connection's: whose place it takes
        self.spare: _Session | None = None
        self.spare_until_ms = 0
        self.mechanism: Mechanism | None = None  # of a spare one that has not begun
        self.authenticator: Authenticator | None = None
        self.versions: ApiVersions | None = None
        self.acceptance = b""
        self.is_ready = False
        self.is_waiting = False
        self.is_held = False
        self.token_number = 0
        self.generation = 0
        self.began_ms = 0
        self.due_ms = NO_LIMIT_MS
        self.end_ms = NO_LIMIT_MS


class _Outcome(NamedTuple):
    """What a mechanism that may block came to, on a thread of its own."""

    session: _Session
    authenticator: Authenticator
    frame: Frame | None
    error: KafkaError | None


class Authentications:
    """Runs the exchanges of one producer's connections.

    Args:
        credentials: make the mechanisms.
        client_id: in every header.
        connections: send, hold back and close.
        clock_ms: monotonic ms.
        waker: makes the control thread call `do_due`.
        patience_ms: the longest that a spare connection may take until it is authenticated.
        uniform: a random float between two others.

    Threads: the control thread's.
    """

    def __init__(
        self,
        credentials: Credentials,
        client_id: str,
        connections: Connections,
        clock_ms: Callable[[], int],
        waker: Waker,
        patience_ms: int = 10_000,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._credentials = credentials
        self._client_id = client_id
        self._connections = connections
        self._clock_ms = clock_ms
        self._waker = waker
        self._patience_ms = patience_ms
        self._uniform = uniform
        self._sessions: dict[int, _Session] = {}
        self._outcomes: deque[_Outcome] = deque()

    def begin(self, slot: int) -> None:
        """A connection was made: authenticate."""
        session = self._sessions.get(slot)
        if session is not None and session.mechanism is not None:
            mechanism, session.mechanism = session.mechanism, None
            self._begin_exchange(session, mechanism)
            return
        session = self._sessions[slot] = _Session(slot)
        self._start(session)

    def forget(self, slot: int) -> str:
        """The connection, no spare one, ended, and a spare of it is closed; returns in words what
        was waited for, "" if nothing was."""
        found = self.step(slot)
        session = self._sessions.pop(slot, None)
        if session is not None:
            self._drop_spare(session)
        return found

    # Spare connections.

    def lose_spare(self, slot: int, why: str) -> None:
        """A spare connection cannot be had, or is of no use: the first one authenticates again."""
        session = self._sessions.get(slot)
        if session is not None and session.first is not None:
            self._do_without(session.first, why)

    def wait_for_spare(self, slot: int) -> None:
        """A spare connection is about to take the place of the first one: `swapped` follows, or
        the end of one of the two."""
        first = self._sessions[slot].first
        assert first is not None
        first.due_ms = NO_LIMIT_MS
        first.is_held = True

    def swapped(self, slot: int) -> None:
        """A spare connection has taken the place of the first one, which is closed."""
        session = self._sessions.pop(slot)
        assert session.first is not None
        session.slot = session.first.slot
        session.first = None
        self._sessions[session.slot] = session

    def _open_spare(self, first: _Session, mechanism: Mechanism, now_ms: int) -> bool:
        """Prepare the next session on a spare connection; False: there can be none."""
        slot = self._connections.open_spare(first.slot)
        if slot is None:
            return False
        spare = first.spare = self._sessions[slot] = _Session(slot)
        spare.first = first
        spare.mechanism = mechanism
        spare.token_number = first.token_number
        spare.generation = first.generation
        first.due_ms = min(first.spare_until_ms, now_ms + self._patience_ms)
        return True

    def _drop_spare(self, first: _Session) -> None:
        spare, first.spare = first.spare, None
        if spare is not None:
            first.is_held = False
            self._sessions.pop(spare.slot)
            self._connections.close_spare(spare.slot)

    def _do_without(self, first: _Session, why: str) -> None:
        """Authenticate on the first connection, as there is no spare one."""
        _LOG.info(
            "the session with broker %s is renewed on its connection, as a second one could not "
            "be used: %s",
            self._connections.where(first.slot),
            why,
        )
        self._drop_spare(first)
        first.spare_until_ms = 0
        self._start(first)

    # Exchanges.

    def step(self, slot: int) -> str:
        """What an exchange under way waits for, in words; "": there is none."""
        session = self._sessions.get(slot)
        if session is None or (session.authenticator is None and not session.is_waiting):
            return ""
        if session.authenticator is None:
            return self._credentials.token_name
        return session.authenticator.step.value or "the mechanism's next message"

    def is_busy(self, slot: int) -> bool:
        """Whether an exchange or a swap is under way: no other request may be sent."""
        session = self._sessions.get(slot)
        return session is not None and (session.is_held or not session.is_ready)

    def do_due(self, now_ms: int) -> int:
        """Go on with what is due; returns ms to the next time."""
        while self._outcomes:
            self._take(self._outcomes.popleft())
        for session in tuple(self._sessions.values()):
            if session.first is not None:
                continue  # what is due of it is due of the first one
            if session.spare is not None and session.due_ms <= now_ms:
                self._do_without(session, "it was not ready in time")
            elif session.is_waiting or session.due_ms <= now_ms:
                self._start(session)
        dues = [self._next_ms(session) for session in self._sessions.values()]
        return max(min(dues, default=NO_LIMIT_MS) - now_ms, 0)

    def on_answer(self, exchange: object, api_key: int, payload: bytes) -> None:
        """An answer to a frame of an exchange.

        Raises:
            SchemaError: it does not parse.
        """
        found = [each for each in self._sessions.values() if each.authenticator is exchange]
        if not found:
            return  # the connection is being closed
        (session,) = found
        authenticator = session.authenticator
        assert authenticator is not None
        try:
            if api_key == API_VERSIONS:
                authenticator.on_versions(payload)
                self._send(session, authenticator.handshake_frame())
                return
            if api_key == SASL_HANDSHAKE:
                authenticator.on_handshake(payload)
                if not session.is_ready:  # else the token is on its way
                    self._work(session, authenticator.first_token_frame)
                return
        except SchemaError:
            raise
        except KafkaError as error:
            self._fail(session, error)
            return
        self._work(session, lambda: authenticator.on_authenticate(payload))

    def _start(self, session: _Session) -> None:
        """Begin an exchange, if there is something to begin it with."""
        slot, now_ms = session.slot, self._clock_ms()
        left_s = max(session.end_ms - now_ms, 0) / 1000 if session.is_ready else 0.0
        session.due_ms = NO_LIMIT_MS
        session.generation = self._credentials.generation
        try:
            mechanism, session.token_number = self._credentials.new_mechanism(
                self._connections.host(slot),
                after=session.token_number,
                least_life_s=2 * left_s,
            )
        except LoginPendingError:
            self._wait(session, now_ms, None)
            return
        except (AuthenticationError, MechanismError) as error:
            failure = AuthenticationError(f"broker {self._connections.where(slot)}: {error}")
            failure.__cause__ = error.__cause__
            self._wait(session, now_ms, failure)
            return
        except Exception as error:  # its text may have a part of a secret
            where = self._connections.where(slot)
            text = f"authentication with broker {where} cannot begin: {type(error).__name__}"
            _LOG.error("%s", text)
            self._fail(session, AuthenticationError(text))
            return
        session.is_waiting = False
        may_have_spare = session.is_ready and now_ms < session.spare_until_ms
        if not (may_have_spare and self._open_spare(session, mechanism, now_ms)):
            self._begin_exchange(session, mechanism)

    def _begin_exchange(self, session: _Session, mechanism: Mechanism) -> None:
        session.began_ms = self._clock_ms()
        authenticator = session.authenticator = Authenticator(
            mechanism,
            self._credentials.mechanism,
            self._connections.where(session.slot),
            self._client_id,
            session.versions,
        )
        if session.is_ready:
            self._work(session, authenticator.first_token_frame)
        else:
            self._send(session, authenticator.versions_frame())

    def _wait(self, session: _Session, now_ms: int, failure: AuthenticationError | None) -> None:
        """There is no token: wait for one while that may help."""
        session.is_waiting = True
        if session.is_ready and now_ms < session.end_ms:
            return
        if failure is not None:
            self._fail(session, failure)
        elif session.is_ready:
            where = self._connections.where(session.slot)
            text = f"the session with broker {where} ended before there was a new access token"
            self._fail(session, NetworkError(text))

    def _work(self, session: _Session, step: Callable[[], Frame | None]) -> None:
        """Have the mechanism make its next message, on a thread of its own if it may block."""
        authenticator = session.authenticator
        assert authenticator is not None

        def run() -> _Outcome:
            try:
                return _Outcome(session, authenticator, step(), None)
            except KafkaError as error:
                return _Outcome(session, authenticator, None, error)
            except BaseException as error:  # of a package: it must not leave the connection waiting
                _LOG.exception("uncaught error in a SASL mechanism")
                where = self._connections.where(session.slot)
                text = f"authentication with broker {where} failed: {type(error).__name__}"
                return _Outcome(session, authenticator, None, AuthenticationError(text))

        def run_aside() -> None:
            LOG_THREAD.serve()
            self._outcomes.append(run())
            self._waker.post(EventKind.ON_WAKE)

        if authenticator.mechanism.may_block:
            try:
                threads().Thread(target=run_aside, name="kafka-sasl", daemon=True).start()
            except RuntimeError as error:  # the system gives no thread now; later it may
                where = self._connections.where(session.slot)
                text = f"authentication with broker {where} could not begin: {error}"
                self._take(_Outcome(session, authenticator, None, NetworkError(text)))
        else:
            self._take(run())

    def _take(self, outcome: _Outcome) -> None:
        session, authenticator, frame, error = outcome
        if self._sessions.get(session.slot) is not session:
            return  # the connection ended meanwhile
        if isinstance(error, SchemaError):
            where = self._connections.where(session.slot)
            text = (
                f"broker {where} sent an answer to {authenticator.step.value} that does not parse"
            )
            self._fail(session, NetworkError(f"{text}: {error}"))
        elif error is not None:
            self._fail(session, error)
        elif frame is None:
            self._succeed(session, authenticator)
        elif session.is_ready and not session.is_held:
            self._repeat(session, authenticator, frame)
        else:
            self._send(session, frame)

    def _repeat(self, session: _Session, authenticator: Authenticator, first: Frame) -> None:
        """Handshake and first token, one right behind the other: one round trip, not two."""
        try:
            handshake = authenticator.handshake_frame()
        except KafkaError as error:
            self._fail(session, error)
            return
        session.is_held = True
        self._connections.hold(session.slot, True)
        session.began_ms = self._clock_ms()
        self._send(session, handshake)
        self._send(session, first._replace(releases=session.acceptance))

    def _send(self, session: _Session, frame: Frame) -> None:
        self._connections.send(session.slot, frame, session.authenticator)

    def _succeed(self, session: _Session, authenticator: Authenticator) -> None:
        now_ms = self._clock_ms()
        took_ms = now_ms - session.began_ms
        session.authenticator = None
        session.versions = authenticator.versions
        session.acceptance = authenticator.acceptance
        lifetime_ms = authenticator.session_lifetime_ms
        session.end_ms = session.began_ms + lifetime_ms if lifetime_ms else NO_LIMIT_MS
        if lifetime_ms:
            share = self._uniform(_EARLIEST, _LATEST)
            session.due_ms = session.began_ms + max(int(lifetime_ms * share), _LEAST_MS)
            session.spare_until_ms = session.began_ms + int(lifetime_ms * _SPARE_UNTIL)
        if not session.is_ready:
            session.is_ready = True
            self._connections.authenticated(session.slot, None)
            return
        # From now on: when the broker has begun to count, nobody here can know.
        session.due_ms = max(session.due_ms, now_ms + _BETWEEN_MS)
        session.is_held = False
        self._connections.hold(session.slot, False)
        self._connections.authenticated(session.slot, took_ms)

    def _fail(self, session: _Session, error: KafkaError) -> None:
        """One side does not accept the other: the connection ends.

        A spare one's end is nobody's: the first one will be told the same, or else.
        """
        if isinstance(error, AuthenticationError):
            self._credentials.refused(session.token_number)
            if session.generation != self._credentials.generation:
                error = NetworkError(f"{error}; the user was replaced meanwhile")
        if session.first is not None:
            self._do_without(session.first, str(error))
            return
        self._sessions.pop(session.slot, None)
        self._connections.refuse(session.slot, error, was_ready=session.is_ready)

    def _next_ms(self, session: _Session) -> int:
        if session.first is not None:
            return NO_LIMIT_MS
        return min(session.due_ms, session.end_ms) if session.is_waiting else session.due_ms

"""Authentications: which connections of a producer authenticate now, and which have to again.

A connection authenticates before anything else is sent on it, and again before its session ends
(KIP-368). Between the first frame of such a repetition and its last answer no other request leaves
to that broker; what is under way is answered meanwhile, and other brokers are not concerned.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from fastprod._core.engine.control_queue import EventKind
from fastprod.client.connections.api_versions import ApiVersions
from fastprod.client.connections.connection_states import NO_LIMIT_MS
from fastprod.client.sasl.authenticator import Authenticator, Frame
from fastprod.client.sasl.credentials import Credentials
from fastprod.client.sasl.login import LoginPendingError
from fastprod.client.sasl.mechanism import MechanismError
from fastprod.errors import AuthenticationError, KafkaError, NetworkError
from fastprod.log import Log
from fastprod.protocol.api_keys import API_VERSIONS, SASL_HANDSHAKE
from fastprod.protocol.field_types import SchemaError

_LOG = Log(__name__)

_EARLIEST: Final = 0.85
_LATEST: Final = 0.95
"""Part of a session after which the next authentication begins, at random (P-G.10.7)."""
_BETWEEN_MS: Final = 1_050
"""Brokers refuse a repetition within a second of the one before."""


class Connections(Protocol):
    """What is asked of the connections; see BrokerConnections."""

    def where(self, node_id: int) -> str:
        """The broker's address and id, for errors."""

    def host(self, node_id: int) -> str:
        """The broker's host, as its address has it."""

    def send_sasl(self, node_id: int, frame: Frame, exchange: object) -> None:
        """Send a frame; its answer comes to `on_answer`."""

    def hold(self, node_id: int, is_held: bool) -> None:
        """Whether Produce requests stay here."""

    def authenticated(self, node_id: int, again_after_ms: int | None) -> None:
        """It succeeded; None: for the first time, else again, and how long that took."""

    def refuse(self, node_id: int, error: KafkaError, *, was_ready: bool) -> None:
        """It failed: close the connection."""


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
        "generation",
        "is_held",
        "is_ready",
        "is_waiting",
        "node_id",
        "token_number",
        "versions",
    )

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
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
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._credentials = credentials
        self._client_id = client_id
        self._connections = connections
        self._clock_ms = clock_ms
        self._waker = waker
        self._uniform = uniform
        self._sessions: dict[int, _Session] = {}
        self._outcomes: deque[_Outcome] = deque()

    def begin(self, node_id: int) -> None:
        """A connection was made: authenticate."""
        session = self._sessions[node_id] = _Session(node_id)
        self._start(session)

    def forget(self, node_id: int) -> str:
        """The connection ended; returns in words what was waited for, "" if nothing was."""
        found = self.step(node_id)
        self._sessions.pop(node_id, None)
        return found

    def step(self, node_id: int) -> str:
        """What an exchange under way waits for, in words; "": there is none."""
        session = self._sessions.get(node_id)
        if session is None or (session.authenticator is None and not session.is_waiting):
            return ""
        if session.authenticator is None:
            return "the access token"
        return session.authenticator.step.value or "the mechanism's next message"

    def is_busy(self, node_id: int) -> bool:
        """Whether an exchange is under way: no other request may be sent."""
        session = self._sessions.get(node_id)
        return session is not None and (session.is_held or not session.is_ready)

    def do_due(self, now_ms: int) -> int:
        """Go on with what is due; returns ms to the next time."""
        while self._outcomes:
            self._take(self._outcomes.popleft())
        for session in tuple(self._sessions.values()):
            if session.is_waiting or session.due_ms <= now_ms:
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
        node_id, now_ms = session.node_id, self._clock_ms()
        left_s = max(session.end_ms - now_ms, 0) / 1000 if session.is_ready else 0.0
        session.due_ms = NO_LIMIT_MS
        session.generation = self._credentials.generation
        try:
            mechanism, session.token_number = self._credentials.new_mechanism(
                self._connections.host(node_id),
                after=session.token_number,
                least_life_s=2 * left_s,
            )
        except LoginPendingError:
            self._wait(session, now_ms, None)
            return
        except (AuthenticationError, MechanismError) as error:
            failure = AuthenticationError(f"broker {self._connections.where(node_id)}: {error}")
            failure.__cause__ = error.__cause__
            self._wait(session, now_ms, failure)
            return
        except Exception as error:  # its text may have a part of a secret
            where = self._connections.where(node_id)
            text = f"authentication with broker {where} cannot begin: {type(error).__name__}"
            _LOG.error("%s", text)
            self._fail(session, AuthenticationError(text))
            return
        session.is_waiting = False
        session.began_ms = now_ms
        authenticator = session.authenticator = Authenticator(
            mechanism,
            self._credentials.mechanism,
            self._connections.where(node_id),
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
            where = self._connections.where(session.node_id)
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
                where = self._connections.where(session.node_id)
                text = f"authentication with broker {where} failed: {type(error).__name__}"
                return _Outcome(session, authenticator, None, AuthenticationError(text))

        def run_aside() -> None:
            self._outcomes.append(run())
            self._waker.post(EventKind.ON_WAKE)

        if authenticator.mechanism.may_block:
            threading.Thread(target=run_aside, name="kafka-sasl", daemon=True).start()
        else:
            self._take(run())

    def _take(self, outcome: _Outcome) -> None:
        session, authenticator, frame, error = outcome
        if self._sessions.get(session.node_id) is not session:
            return  # the connection ended meanwhile
        if isinstance(error, SchemaError):
            where = self._connections.where(session.node_id)
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
        self._connections.hold(session.node_id, True)
        session.began_ms = self._clock_ms()
        self._send(session, handshake)
        self._send(session, first._replace(releases=session.acceptance))

    def _send(self, session: _Session, frame: Frame) -> None:
        self._connections.send_sasl(session.node_id, frame, session.authenticator)

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
            session.due_ms = session.began_ms + int(lifetime_ms * share)
        if not session.is_ready:
            session.is_ready = True
            self._connections.authenticated(session.node_id, None)
            return
        session.due_ms = max(session.due_ms, session.began_ms + _BETWEEN_MS)
        session.is_held = False
        self._connections.hold(session.node_id, False)
        self._connections.authenticated(session.node_id, took_ms)

    def _fail(self, session: _Session, error: KafkaError) -> None:
        """One side does not accept the other: the connection ends."""
        self._sessions.pop(session.node_id, None)
        if isinstance(error, AuthenticationError):
            self._credentials.refused(session.token_number)
            if session.generation != self._credentials.generation:
                error = NetworkError(f"{error}; the user was replaced meanwhile")
        self._connections.refuse(session.node_id, error, was_ready=session.is_ready)

    def _next_ms(self, session: _Session) -> int:
        return min(session.due_ms, session.end_ms) if session.is_waiting else session.due_ms

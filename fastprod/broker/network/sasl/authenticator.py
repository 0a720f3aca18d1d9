"""SaslAuthenticator: who the client of a connection is (B-A7.5; KIP-43, KIP-152, KIP-368)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any, Final, Protocol

from fastprod.broker.api_table import APIS, ApiTable
from fastprod.broker.network.connection import Connection
from fastprod.broker.network.request import Request, RequestHeader, SizedBuffer
from fastprod.broker.network.sasl.mechanism import InvalidCredentialsError, ServerMechanism
from fastprod.broker.network.sasl.mechanisms import Mechanisms
from fastprod.broker.threads.clock import Clock
from fastprod.error_codes import (
    NONE,
    SASL_AUTHENTICATION_FAILED,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_SASL_MECHANISM,
)
from fastprod.errors import KafkaError
from fastprod.protocol.api_keys import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from fastprod.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from fastprod.protocol.messages.sasl_handshake import SaslHandshakeResponse
from fastprod.protocol.schema import SchemaError

_log = logging.getLogger(__name__)

_NS_PER_MS: Final = 1_000_000
# sasl.server.max.receive.size.
_MAX_TOKEN_BYTES: Final = 524_288
_MIN_REAUTH_INTERVAL_NS: Final = 1_000_000_000
# The version of a header that a token without one is given.
_NO_VERSION: Final = -1
_RAW_HEADER: Final = RequestHeader(SASL_AUTHENTICATE, _NO_VERSION, 0, None, 0)
_FAULT: Final = "a fault that was asked for"


class AuthenticationError(KafkaError):
    """A request that must not come before the client has said who it is; its connection closes."""


class SessionExpiredError(KafkaError):
    """A request after the end of a session (`connections_max_reauth_ms`): its connection closes."""


class AuthenticationConfig(Protocol):
    """The settings an authenticator reads (B-A1)."""

    @property
    def connections_max_reauth_ms(self) -> int: ...
    @property
    def connection_failed_authentication_delay_ms(self) -> int: ...


class TakingAction(Protocol):
    """What a fault does in place of the next step."""

    def take(self, request: Request, go_on: Callable[[], None]) -> None: ...


class Onlooker(Protocol):
    """Who sees the exchanges besides: the faults, and the log of requests."""

    def note(self, request: Request, message: Any) -> None:
        """Remember a request; `message` is None if it holds a secret."""

    def before(self, request: Request, message: Any) -> int | TakingAction | None:
        """Say what happens to a request: as `Faults.before`."""

    def after(
        self, request: Request, parts: Sequence[SizedBuffer] | None
    ) -> Sequence[SizedBuffer] | TakingAction | None:
        """Say what happens to an answer: as `Faults.after`."""


class _Stage(Enum):
    HANDSHAKE = auto()  # nothing has been chosen
    TOKEN = auto()  # a SaslAuthenticate is due
    RAW_TOKEN = auto()  # a token in a frame of its own is due (handshake version 0)
    DONE = auto()


class SaslAuthenticator:
    """SASL of one connection, at its start and again later.

    One thread at a time: its Processor's, or one that lets a request go on that a fault held back;
    the connection is muted until that is answered.

    Args:
        connection: gets its `principal`.
        mechanisms: those that are offered.
        table: reads and writes the messages.
        config: how long a session lasts, and how long a refusal is held back.
        clock: for the end of the session.
        onlooker: sees the exchanges; None: nobody does.
    """

    def __init__(
        self,
        connection: Connection,
        mechanisms: Mechanisms,
        table: ApiTable,
        config: AuthenticationConfig,
        clock: Clock,
        onlooker: Onlooker | None = None,
    ) -> None:
        self._connection = connection
        self._mechanisms = mechanisms
        self._table = table
        self._max_session_ms = config.connections_max_reauth_ms
        self._refusal_delay_ms = config.connection_failed_authentication_delay_ms
        self._clock = clock
        self._onlooker = onlooker
        self._stage = _Stage.HANDSHAKE
        self._user: str | None = None
        self._mechanism = ""  # that the client has authenticated by, or is about to
        self._server: ServerMechanism | None = None
        self._refusal: str | None = None  # of whatever token comes next
        self._session_ms = 0
        self._session_end_ns: int | None = None
        self._reauth_start_ns: int | None = None

    @property
    def max_frame_bytes(self) -> int:
        """How large the client's next frame may be; -1: as large as anybody's."""
        return -1 if self._stage is _Stage.DONE else _MAX_TOKEN_BYTES

    def parse_header(self, view: memoryview) -> RequestHeader:
        """Read the header of a frame, and look whether it may come now.

        Raises:
            AuthenticationError: it may not.
            SessionExpiredError: the session is over.
            InvalidRequestError: it is damaged, or not served.
        """
        if self._stage is _Stage.RAW_TOKEN:
            return _RAW_HEADER
        header = self._table.parse_header(view)
        if not self._is_due(header.api_key):
            raise AuthenticationError(f"{APIS[header.api_key].name} before authentication")
        if self._has_expired() and not self.takes(header):
            raise SessionExpiredError(
                f"{APIS[header.api_key].name} after {self._session_ms:,} ms "
                f"(connections_max_reauth_ms, or the end of a token) without a new authentication"
            )
        return header

    def takes(self, header: RequestHeader) -> bool:
        """Whether `handle` answers the request, not KafkaApis.

        Where sessions have no end, and within a second of the last time, a new handshake is not:
        as in Kafka it is answered with ILLEGAL_SASL_STATE.
        """
        if self._stage is not _Stage.DONE:
            return header.api_key != API_VERSIONS
        if header.api_key != SASL_HANDSHAKE or self._session_end_ns is None:
            return False
        last_ns = self._reauth_start_ns
        return last_ns is None or self._clock.monotonic_ns() - last_ns >= _MIN_REAUTH_INTERVAL_NS

    def handle(self, request: Request) -> None:
        """Answer a request that `takes` has claimed, or have its connection closed."""
        is_raw = request.header.version == _NO_VERSION
        try:
            message = (
                SaslAuthenticateRequest(auth_bytes=bytes(request.frame))
                if is_raw
                else self._table.decode_request(request.header, memoryview(request.frame))
            )
        except SchemaError as error:
            _log.warning("%r cannot be read: %s; its connection is closed", request, error)
            request.close_connection()
            return
        onlooker = self._onlooker
        if onlooker is None:
            self._serve(request, message)
            return
        onlooker.note(request, message)
        try:
            verdict = onlooker.before(request, message)
        except Exception:
            _log.exception("%r failed", request)
            verdict = UNKNOWN_SERVER_ERROR
        if verdict is None:
            self._serve(request, message)
        elif isinstance(verdict, int):
            self._refuse(request, verdict, _FAULT)
        else:
            verdict.take(request, lambda: self._serve(request, message))

    def _is_due(self, api_key: int) -> bool:
        if self._stage is _Stage.HANDSHAKE:
            return api_key in (API_VERSIONS, SASL_HANDSHAKE)
        return self._stage is _Stage.DONE or api_key in (API_VERSIONS, SASL_AUTHENTICATE)

    def _has_expired(self) -> bool:
        end_ns = self._session_end_ns
        return (
            self._stage is _Stage.DONE
            and end_ns is not None
            and self._clock.monotonic_ns() > end_ns
        )

    def _serve(self, request: Request, message: Any) -> None:
        try:
            if request.header.api_key == SASL_HANDSHAKE:
                self._handshake(request, message.mechanism)
            else:
                self._authenticate(request, bytes(message.auth_bytes))
        except Exception as error:
            # Not its text: it may hold a secret.
            kind = type(error).__name__
            _log.error("%r has failed by %s; its connection is closed", request, kind)
            if not request.answered:
                request.close_connection()

    def _handshake(self, request: Request, name: str) -> None:
        if self._stage is _Stage.DONE:
            self._reauth_start_ns = self._clock.monotonic_ns()
        server = self._mechanisms.server(name)
        if server is None:
            self._refuse(request, UNSUPPORTED_SASL_MECHANISM, None)
            return
        self._server, self._refusal = server, None
        if self._user is not None and name != self._mechanism:
            # Told with the first token, as in Kafka.
            self._refusal = (
                f"SASL mechanism '{name}' requested by client is not supported for "
                f"re-authentication of mechanism '{self._mechanism}'"
            )
        else:
            self._mechanism = name
        # Who knows version 0 alone does not know SaslAuthenticate (KIP-152).
        self._stage = _Stage.RAW_TOKEN if request.header.version == 0 else _Stage.TOKEN
        answer = SaslHandshakeResponse(error_code=NONE, mechanisms=list(self._mechanisms.names))
        request.error_counts = {NONE: 1}
        self._send(request, self._table.encode_response(request.header, answer))

    def _authenticate(self, request: Request, token: bytes) -> None:
        server = self._server
        assert server is not None
        try:
            if self._refusal is not None:
                raise InvalidCredentialsError(self._refusal)
            challenge = server.next(token)
            if server.is_done:
                self._check_user(server.user)
        except InvalidCredentialsError as error:
            again = "re-authentication" if self._user is not None else "authentication"
            self._refuse(
                request,
                SASL_AUTHENTICATION_FAILED,
                error.told
                or f"Authentication failed during {again} due to invalid credentials with SASL "
                f"mechanism {self._mechanism}",
            )
            return
        lifetime_ms = self._finish(server) if server.is_done else 0
        request.error_counts = {NONE: 1}
        if request.header.version == _NO_VERSION:
            self._send(request, [challenge])
            return
        answer = SaslAuthenticateResponse(
            error_code=NONE,
            error_message=None,
            auth_bytes=challenge,
            session_lifetime_ms=lifetime_ms,
        )
        self._send(request, self._table.encode_response(request.header, answer))

    def _check_user(self, user: str) -> None:
        """KIP-368: the principal stays."""
        if self._user not in (None, user):
            raise InvalidCredentialsError(
                "Cannot change principals during re-authentication from "
                f"User.{self._user}: User.{user}"
            )

    def _finish(self, server: ServerMechanism) -> int:
        """Take the client in; returns the milliseconds of its session, 0: without an end."""
        self._stage = _Stage.DONE
        self._server = None
        self._user = server.user
        self._connection.principal = f"User:{server.user}"
        ends = [self._max_session_ms] if self._max_session_ms > 0 else []
        if server.expires_ms is not None:
            ends.append(max(0, server.expires_ms - self._clock.time_ms()))
        self._session_ms = min(ends, default=0)
        self._session_end_ns = None
        if ends:
            self._session_end_ns = self._clock.monotonic_ns() + self._session_ms * _NS_PER_MS
        return self._session_ms

    def _refuse(self, request: Request, code: int, text: str | None) -> None:
        """Answer with an error, after the delay, and have the connection closed."""
        if text is not None:
            _log.warning("%s: %s", self._connection.id, text)
        request.error_counts = {code: 1}
        if request.header.api_key == SASL_HANDSHAKE:
            names = list(self._mechanisms.names)
            answer: Any = SaslHandshakeResponse(error_code=code, mechanisms=names)
        else:
            answer = SaslAuthenticateResponse(error_code=code, error_message=text, auth_bytes=b"")
        # A raw answer is the mechanism's token, and there is none to a wrong one.
        is_raw = request.header.version == _NO_VERSION
        parts = None if is_raw else self._table.encode_response(request.header, answer)
        self._send(request, parts, self._refusal_delay_ms)

    def _send(
        self,
        request: Request,
        parts: Sequence[SizedBuffer] | None,
        refusal_delay_ms: int | None = None,
    ) -> None:
        """Send an answer, or with a delay a refusal, unless a fault changes it."""

        def send(parts: Sequence[SizedBuffer] | None) -> None:
            if refusal_delay_ms is None:
                request.respond(parts)
            else:
                request.refuse(parts, refusal_delay_ms)

        verdict = None if self._onlooker is None else self._onlooker.after(request, parts)
        if verdict is None:
            send(parts)
        elif isinstance(verdict, Sequence):
            send(verdict)
        else:
            verdict.take(request, lambda: send(parts))

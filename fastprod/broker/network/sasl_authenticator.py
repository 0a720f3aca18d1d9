"""SaslAuthenticator: who the client of a connection is (B-A7.5; KIP-43, KIP-152, KIP-368)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from enum import Enum, auto
from typing import Any, Final, Protocol

from fastprod.broker.api_table import APIS, ApiTable
from fastprod.broker.network.connection import Connection
from fastprod.broker.network.request import Request, RequestHeader
from fastprod.broker.threads.clock import Clock
from fastprod.error_codes import NONE, SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM
from fastprod.errors import KafkaError
from fastprod.protocol.api_keys import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from fastprod.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from fastprod.protocol.messages.sasl_handshake import SaslHandshakeResponse
from fastprod.protocol.schema import SchemaError

_log = logging.getLogger(__name__)

MECHANISM: Final = "PLAIN"
_NS_PER_MS: Final = 1_000_000
# sasl.server.max.receive.size, looked at when the frame is there: until then it is bounded as any
# other, by socket.request.max.bytes and queued.max.request.bytes.
_MAX_TOKEN_BYTES: Final = 524_288
_MIN_REAUTH_INTERVAL_NS: Final = 1_000_000_000
# The version of a header that a token without one is given.
_NO_VERSION: Final = -1
_RAW_HEADER: Final = RequestHeader(SASL_AUTHENTICATE, _NO_VERSION, 0, None, 0)
_WRONG: Final = "Authentication failed: Invalid username or password"


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


class _Stage(Enum):
    HANDSHAKE = auto()  # nothing has been chosen
    TOKEN = auto()  # a SaslAuthenticate is due
    RAW_TOKEN = auto()  # a token in a frame of its own is due (handshake version 0)
    DONE = auto()


class SaslAuthenticator:
    """SASL/PLAIN of one connection, at its start and again later. Its Processor's thread.

    Args:
        connection: gets its `principal`.
        users: passwords by name.
        table: reads and writes the messages.
        config: how long a session lasts, and how long a refusal is held back.
        clock: for the end of the session.
    """

    def __init__(
        self,
        connection: Connection,
        users: Mapping[str, str],
        table: ApiTable,
        config: AuthenticationConfig,
        clock: Clock,
    ) -> None:
        self._connection = connection
        self._users = users
        self._table = table
        self._max_session_ms = config.connections_max_reauth_ms
        self._refusal_delay_ms = config.connection_failed_authentication_delay_ms
        self._clock = clock
        self._stage = _Stage.HANDSHAKE
        self._user: str | None = None
        self._session_end_ns: int | None = None
        self._reauth_start_ns: int | None = None

    def parse_header(self, view: memoryview) -> RequestHeader:
        """Read the header of a frame, and look whether it may come now.

        Raises:
            AuthenticationError: it may not.
            SessionExpiredError: the session is over.
            InvalidRequestError: it is damaged, or not served.
        """
        if self._stage is not _Stage.DONE and len(view) > _MAX_TOKEN_BYTES:
            raise AuthenticationError(
                f"{len(view):,} bytes before authentication, over {_MAX_TOKEN_BYTES:,}"
            )
        if self._stage is _Stage.RAW_TOKEN:
            return _RAW_HEADER
        header = self._table.parse_header(view)
        if not self._is_due(header.api_key):
            raise AuthenticationError(f"{APIS[header.api_key].name} before authentication")
        if self._has_expired() and not self.takes(header):
            raise SessionExpiredError(
                f"{APIS[header.api_key].name} after {self._max_session_ms:,} ms "
                f"(connections_max_reauth_ms) without a new authentication"
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
        try:
            if request.header.api_key == SASL_HANDSHAKE:
                self._handshake(request)
            else:
                self._authenticate(request)
        except SchemaError as error:
            _log.warning("%r cannot be read: %s; its connection is closed", request, error)
            request.close_connection()

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

    def _decode(self, request: Request) -> Any:
        return self._table.decode_request(request.header, memoryview(request.frame))

    def _handshake(self, request: Request) -> None:
        if self._stage is _Stage.DONE:
            self._reauth_start_ns = self._clock.monotonic_ns()
        is_known = self._decode(request).mechanism == MECHANISM
        code = NONE if is_known else UNSUPPORTED_SASL_MECHANISM
        answer = SaslHandshakeResponse(error_code=code, mechanisms=[MECHANISM])
        parts = self._table.encode_response(request.header, answer)
        request.error_counts = {code: 1}
        if not is_known:
            request.refuse(parts, self._refusal_delay_ms)
            return
        # Who knows version 0 alone does not know SaslAuthenticate (KIP-152).
        self._stage = _Stage.RAW_TOKEN if request.header.version == 0 else _Stage.TOKEN
        request.respond(parts)

    def _authenticate(self, request: Request) -> None:
        is_raw = request.header.version == _NO_VERSION
        token = bytes(request.frame) if is_raw else bytes(self._decode(request).auth_bytes)
        why_not = self._check(token)
        code = SASL_AUTHENTICATION_FAILED if why_not else NONE
        request.error_counts = {code: 1}
        answer = SaslAuthenticateResponse(
            error_code=code,
            error_message=why_not,
            auth_bytes=b"",
            session_lifetime_ms=0 if why_not else self._max_session_ms,
        )
        # A raw answer is the mechanism's token: PLAIN's is empty, and there is none to a wrong one.
        parts = [] if is_raw else self._table.encode_response(request.header, answer)
        if why_not:
            _log.warning("%s: %s", self._connection.id, why_not)
            request.refuse(None if is_raw else parts, self._refusal_delay_ms)
            return
        self._stage = _Stage.DONE
        self._connection.principal = f"User:{self._user}"
        if self._max_session_ms > 0:
            self._session_end_ns = self._clock.monotonic_ns() + self._max_session_ms * _NS_PER_MS
        request.respond(parts)

    def _check(self, token: bytes) -> str | None:
        """Take the user of a token (RFC 4616), or say why not."""
        # It brings 4 MB of OpenSSL, which most brokers do without.
        import hmac  # noqa: PLC0415

        try:
            authorization_id, user, password = token.decode().split("\0")
        except ValueError:
            return "Authentication failed: the token is none of PLAIN"
        known = self._users.get(user)
        if known is None or not hmac.compare_digest(known.encode(), password.encode()):
            return _WRONG
        if authorization_id not in ("", user):
            return "Authentication failed: one user cannot act for another"
        if self._user not in (None, user):
            return f"Cannot change principals during re-authentication from {self._user} to {user}"
        self._user = user
        return None

"""Authenticator: the frames of one SASL exchange on one connection (P-G.10; KIP-43, 152, 368)."""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import Final, NamedTuple

from fastprod.client.connections.api_versions import ApiVersions, parse_api_versions_response
from fastprod.client.sasl.mechanism import Mechanism, MechanismError
from fastprod.error_codes import ILLEGAL_SASL_STATE, UNSUPPORTED_SASL_MECHANISM
from fastprod.errors import (
    KAFKA_ERRORS,
    AuthenticationError,
    KafkaError,
    NetworkError,
    UnsupportedVersionError,
)
from fastprod.protocol.api_keys import API_NAMES, API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from fastprod.protocol.messages import api_versions, sasl_authenticate, sasl_handshake
from fastprod.protocol.messages.api_versions import ApiVersionsRequest
from fastprod.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from fastprod.protocol.messages.sasl_handshake import SaslHandshakeRequest

_HANDSHAKE_VERSION: Final = 1
"""After version 0 the tokens are no Kafka messages, and errors have no text (KIP-152)."""
_MOST_ROUNDS: Final = 20
_CORRELATION_BYTES: Final = 4
_BEHIND_TOKEN: Final = {1: 8, 2: 9}
"""Bytes of an answer to SaslAuthenticate behind its token, by version: lifetime, and no tags."""
_MOST_SHOWN: Final = 300
_UNKNOWN: Final = -1


class Frame(NamedTuple):
    """A request to be sent; an answer that begins with `releases` says that all is well."""

    api_key: int
    version: int
    data: bytes
    releases: bytes = b""


class Step(enum.Enum):
    """What the broker is to answer next; the value is the request's name."""

    NOTHING = ""
    API_VERSIONS = "ApiVersions"
    HANDSHAKE = "SaslHandshake"
    AUTHENTICATE = "SaslAuthenticate"


class Authenticator:
    """Makes the frames of an exchange and reads the answers; sends nothing itself.

    A first exchange is ApiVersions, SaslHandshake, SaslAuthenticate until both sides are content.
    One that repeats it on the same connection knows the versions and that the mechanism is offered:
    its handshake and its first token need not wait for one another.

    Args:
        mechanism: the client's side, made for this exchange.
        name: the mechanism's.
        where: the broker's address and id, for errors.
        client_id: in every header.
        versions: what the broker offers, if this is not the connection's first exchange.

    Attributes:
        step: what is waited for.
        session_lifetime_ms: how long the broker takes requests now; 0: for ever.
        acceptance: how an answer begins, behind its correlation id, by which this broker accepts
            the mechanism's only message; empty if that took several.

    Raises, in every method:
        AuthenticationError: one side does not accept the other; says which broker, and what to do.
        NetworkError: it may succeed at another time.
        SchemaError: an answer does not parse.

    Threads: one at a time.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        name: str,
        where: str,
        client_id: str,
        versions: ApiVersions | None = None,
    ) -> None:
        self.mechanism = mechanism
        self._name = name
        self._where = where
        self._client_id = client_id
        self.versions = versions
        self.step = Step.NOTHING
        self.session_lifetime_ms = 0
        self.acceptance = b""
        self._rounds = 0

    def versions_frame(self) -> Frame:
        """What does the broker offer? In the version that every broker takes."""
        self.step = Step.API_VERSIONS
        return _versions_frame(self._client_id)

    def on_versions(self, payload: bytes) -> None:
        """Take the answer to `versions_frame`."""
        _, found = parse_api_versions_response(0, payload)
        if found.error_code:
            raise self._refused(API_VERSIONS, found.error_code, "")
        self.versions = found

    def handshake_frame(self) -> Frame:
        """The mechanism that is wanted."""
        if self._version(SASL_HANDSHAKE) < _HANDSHAKE_VERSION:
            raise AuthenticationError(
                f"broker {self._where} speaks SaslHandshake in version 0 only: it has to be of "
                f"Kafka 1.0 or later"
            )
        self._version(SASL_AUTHENTICATE)
        self.step = Step.HANDSHAKE
        return _handshake_frame(self._client_id, self._name)

    def on_handshake(self, payload: bytes) -> None:
        """Take the answer to `handshake_frame`."""
        _, answer = sasl_handshake.API.read_response(_HANDSHAKE_VERSION, payload)
        code = answer.error_code
        if code == UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join([_shown(name) for name in answer.mechanisms]) or "none"
            raise self._error(
                code,
                f"broker {self._where} does not offer the mechanism {self._name}: it offers "
                f"{offered}: change sasl_mechanism",
            )
        if code:
            raise self._refused(SASL_HANDSHAKE, code, "")
        self.step = Step.AUTHENTICATE

    def first_token_frame(self) -> Frame:
        """The mechanism's first message.  May block if the mechanism does."""
        try:
            token = self.mechanism.initial()
        except MechanismError as error:
            raise self._mechanism_error(error) from error.__cause__
        return self._token_frame(token)

    def on_authenticate(self, payload: bytes) -> Frame | None:
        """Take a message of the broker's.  May block if the mechanism does.

        Returns:
            The next message; None: both sides are content.
        """
        version = self._version(SASL_AUTHENTICATE)
        _, answer = sasl_authenticate.API.read_response(version, payload)
        if answer.error_code:
            raise self._refused(SASL_AUTHENTICATE, answer.error_code, answer.error_message or "")
        try:
            token = self.mechanism.next(bytes(answer.auth_bytes))
        except MechanismError as error:
            raise self._mechanism_error(error) from error.__cause__
        self._rounds += 1
        if token is not None and self._rounds < _MOST_ROUNDS:
            return self._token_frame(token)
        if not self.mechanism.is_done:
            raise AuthenticationError(
                f"broker {self._where} did not come to an end of {self._name} within "
                f"{self._rounds} round(s)"
            )
        self.step = Step.NOTHING
        self.session_lifetime_ms = max(answer.session_lifetime_ms, 0)
        behind = _BEHIND_TOKEN.get(version)
        if self._rounds == 1 and behind is not None:
            self.acceptance = payload[_CORRELATION_BYTES:-behind]
        return None

    def _token_frame(self, token: bytes) -> Frame:
        version = self._version(SASL_AUTHENTICATE)
        self.step = Step.AUTHENTICATE
        message = SaslAuthenticateRequest(auth_bytes=token)
        data = sasl_authenticate.API.request_frame(version, 0, self._client_id, message)
        return Frame(SASL_AUTHENTICATE, version, data)

    def _version(self, api_key: int) -> int:
        assert self.versions is not None
        try:
            return self.versions.pick(api_key)
        except UnsupportedVersionError as error:
            raise AuthenticationError(
                f"broker {self._where} cannot authenticate us: {error}"
            ) from None

    def _mechanism_error(self, error: MechanismError) -> AuthenticationError:
        mechanism = self.mechanism
        return AuthenticationError(
            f"{self._name} with broker {self._where} failed for {mechanism.user}: "
            f"{self._hidden(str(error))}: {mechanism.hint}"
        )

    def _refused(self, api_key: int, code: int, message: str) -> KafkaError:
        row = KAFKA_ERRORS.get(code, KAFKA_ERRORS[_UNKNOWN])
        if code == ILLEGAL_SASL_STATE:
            return self._error(
                code,
                f"broker {self._where} takes no SASL on this listener (ILLEGAL_SASL_STATE): use "
                f"the port of its SASL listener, or security_protocol PLAINTEXT or SSL",
            )
        why = self._hidden(message) or row.text or row.name
        if row.retriable:
            return NetworkError(f"broker {self._where} refused {API_NAMES[api_key]}: {why}")
        detail = getattr(self.mechanism, "refusal", "")
        told = f" ({self._hidden(detail)})" if detail else ""
        return self._error(
            code,
            f"broker {self._where} refused {self.mechanism.user} by {self._name}: {why}{told}: "
            f"{self.mechanism.hint}",
        )

    def _error(self, code: int, text: str) -> AuthenticationError:
        row = KAFKA_ERRORS.get(code, KAFKA_ERRORS[_UNKNOWN])
        return AuthenticationError(text, code=code, name=row.name)

    def _hidden(self, text: str) -> str:
        """A text without our secrets, whoever put them there, and fit for a log."""
        for secret in self.mechanism.secrets:
            text = text.replace(secret, "[hidden]")
        return _shown(text)


# Each exchange of a producer begins with these two, and callers wait for what they take.


@lru_cache(maxsize=8)
def _versions_frame(client_id: str) -> Frame:
    data = api_versions.API.request_frame(0, 0, client_id, ApiVersionsRequest())
    return Frame(API_VERSIONS, 0, data)


@lru_cache(maxsize=8)
def _handshake_frame(client_id: str, mechanism: str) -> Frame:
    message = SaslHandshakeRequest(mechanism=mechanism)
    data = sasl_handshake.API.request_frame(_HANDSHAKE_VERSION, 0, client_id, message)
    return Frame(SASL_HANDSHAKE, _HANDSHAKE_VERSION, data)


def _shown(text: str) -> str:
    """A broker's text, of one line and not too long."""
    cut = text[:_MOST_SHOWN].strip().rstrip(".:")
    return "".join([each if each.isprintable() else " " for each in cut])

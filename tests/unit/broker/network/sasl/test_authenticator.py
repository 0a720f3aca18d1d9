"""SASL of one connection, without sockets: B-A7.5, KIP-43, KIP-152, KIP-368."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from fastprod._core.io.server_selector import Frame
from fastprod.broker.api_table import ApiTable
from fastprod.broker.config import BrokerConfig
from fastprod.broker.network.connection import ANONYMOUS, Connection
from fastprod.broker.network.request import (
    CloseConnectionResponse,
    RefusalResponse,
    Request,
    Response,
    SendResponse,
)
from fastprod.broker.network.sasl.authenticator import (
    AuthenticationError,
    SaslAuthenticator,
    SessionExpiredError,
)
from fastprod.broker.network.sasl.bearer_token import BearerToken
from fastprod.broker.network.sasl.mechanisms import Mechanisms
from fastprod.broker.network.sasl.users import Users
from fastprod.broker.threads.clock import FakeClock
from fastprod.error_codes import NONE, SASL_AUTHENTICATION_FAILED, UNSUPPORTED_SASL_MECHANISM
from fastprod.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from fastprod.protocol.messages.sasl_handshake import SaslHandshakeRequest
from fastprod.security.scram import ScramClient
from support.broker.sasl_client import (
    ALICE,
    AUTHENTICATE,
    HANDSHAKE,
    PLAIN,
    USERS,
    body_of,
    payload,
)

API_VERSIONS, METADATA = 18, 3


class Client:
    """Gives an authenticator one frame after the other, as its Processor does."""

    def __init__(self, names: Sequence[str] = ("PLAIN", "SCRAM-SHA-256"), **config: Any) -> None:
        self.clock = FakeClock()
        self.connection = Connection("c", 1, "SASL_PLAINTEXT", 0, ("h", 1), ("h", 2))
        self.authenticator = SaslAuthenticator(
            self.connection,
            Mechanisms(names, Users(USERS), self.whose),
            ApiTable(),
            BrokerConfig.make(config),
            self.clock,
        )
        self.responses: list[Response] = []

    def whose(self, token: str) -> BearerToken | None:
        """A token says for how many milliseconds from now on it is ada's."""
        lasts_ms = int(token)
        return BearerToken("ada", self.clock.time_ms() + lasts_ms) if lasts_ms else None

    def send_response(self, response: Response) -> None:
        self.responses.append(response)

    def passes(self, key: int, version: int) -> bool:
        """Whether a request is for the handlers."""
        return not self.authenticator.takes(
            self.authenticator.parse_header(memoryview(payload(key, version)))
        )

    def say(self, data: bytes) -> Response:
        header = self.authenticator.parse_header(memoryview(data))
        assert self.authenticator.takes(header)
        request = Request(cast(Frame, bytearray(data)), header, self.connection, 0, 0, self)
        self.authenticator.handle(request)
        return self.responses.pop()

    def ask(self, key: int, version: int, message: Any) -> tuple[Any, Response]:
        """The answer, decoded, and what the Processor is told."""
        response = self.say(payload(key, version, message))
        assert isinstance(response, SendResponse)
        data = b"".join(bytes(part) for part in response.parts)
        return body_of(key, version, data[4:]), response

    def log_in(
        self, token: bytes = ALICE, version: int = 2, mechanism: str = "PLAIN"
    ) -> tuple[Any, Response]:
        handshake = SaslHandshakeRequest(mechanism=mechanism)
        assert self.ask(HANDSHAKE, 1, handshake)[0].error_code == NONE
        return self.ask(AUTHENTICATE, version, SaslAuthenticateRequest(auth_bytes=token))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_client_says_who_it_is(version: int) -> None:
    """KIP-152."""
    client = Client()
    assert client.connection.principal == ANONYMOUS
    answer, response = client.log_in(version=version)
    assert (answer.error_code, answer.auth_bytes, answer.error_message) == (0, b"", None)
    assert answer.session_lifetime_ms == 0
    assert not isinstance(response, RefusalResponse)
    assert client.connection.principal == "User:alice"
    assert client.passes(METADATA, 5)


def test_a_client_of_the_first_handshake_sends_bare_tokens() -> None:
    """KIP-43."""
    client = Client()
    answer, _ = client.ask(HANDSHAKE, 0, PLAIN)
    assert (answer.error_code, answer.mechanisms) == (0, ["PLAIN", "SCRAM-SHA-256"])
    response = client.say(ALICE)
    assert isinstance(response, SendResponse)
    assert b"".join(bytes(part) for part in response.parts) == b"\0\0\0\0"
    assert client.connection.principal == "User:alice"
    assert client.passes(METADATA, 5)


def test_versions_are_told_before_and_during_authentication() -> None:
    """B-A7.5."""
    client = Client()
    assert client.passes(API_VERSIONS, 3)
    client.ask(HANDSHAKE, 1, PLAIN)
    assert client.passes(API_VERSIONS, 3)


def test_nothing_else_comes_before_authentication() -> None:
    """B-A7.5."""
    client = Client()
    for key, version in ((METADATA, 5), (AUTHENTICATE, 1)):
        with pytest.raises(AuthenticationError, match="before authentication"):
            client.passes(key, version)
    client.ask(HANDSHAKE, 1, PLAIN)
    for key, version in ((METADATA, 5), (HANDSHAKE, 1)):
        with pytest.raises(AuthenticationError, match="before authentication"):
            client.passes(key, version)


def test_a_frame_before_authentication_is_small() -> None:
    """sasl.server.max.receive.size."""
    client = Client()
    sizes = [client.authenticator.max_frame_bytes]
    client.ask(HANDSHAKE, 1, PLAIN)
    sizes.append(client.authenticator.max_frame_bytes)
    client.ask(AUTHENTICATE, 1, SaslAuthenticateRequest(auth_bytes=ALICE))
    sizes.append(client.authenticator.max_frame_bytes)
    assert sizes == [524_288, 524_288, -1]


@pytest.mark.parametrize(
    "token",
    [
        b"\0alice\0looking-glass",
        b"\0carol\0wonderland",
        b"\0\0",
        b"bob\0alice\0wonderland",
        b"\0alice\0wonderland\0",
        b"alice",
        b"",
        b"\0alice\0\xff",
    ],
)
def test_a_wrong_token_is_refused_after_a_delay(token: bytes) -> None:
    client = Client(connection_failed_authentication_delay_ms=250)
    answer, response = client.log_in(token)
    assert answer.error_code == SASL_AUTHENTICATION_FAILED
    assert answer.error_message.startswith("Authentication failed")
    assert isinstance(response, RefusalResponse)
    assert response.delay_ms == 250
    assert client.connection.principal == ANONYMOUS


def test_a_wrong_bare_token_has_no_answer() -> None:
    client = Client()
    client.ask(HANDSHAKE, 0, PLAIN)
    response = client.say(b"\0alice\0no")
    assert isinstance(response, RefusalResponse)
    assert (response.size_bytes, len(response.parts), response.delay_ms) == (0, 0, 100)


def test_another_mechanism_is_told_what_there_is() -> None:
    client = Client()
    answer, response = client.ask(HANDSHAKE, 1, SaslHandshakeRequest(mechanism="GSSAPI"))
    assert (answer.error_code, answer.mechanisms) == (
        UNSUPPORTED_SASL_MECHANISM,
        ["PLAIN", "SCRAM-SHA-256"],
    )
    assert isinstance(response, RefusalResponse)


def test_a_damaged_request_ends_the_connection() -> None:
    response = Client().say(payload(HANDSHAKE, 1) + b"\0\x20PL")
    assert isinstance(response, CloseConnectionResponse)


def test_a_session_ends_unless_the_client_authenticates_again() -> None:
    """KIP-368."""
    client = Client(connections_max_reauth_ms=1000)
    answer, _ = client.log_in()
    assert answer.session_lifetime_ms == 1000
    client.clock.advance(1000)
    assert client.passes(METADATA, 5)
    assert client.log_in()[0].error_code == NONE
    client.clock.advance(1000)
    assert client.passes(METADATA, 5)
    client.clock.advance(1)
    for key, version in ((METADATA, 5), (API_VERSIONS, 3), (AUTHENTICATE, 1)):
        with pytest.raises(SessionExpiredError, match=r"after 1,000 ms"):
            client.passes(key, version)
    assert client.log_in()[0].error_code == NONE
    assert client.passes(METADATA, 5)


def test_another_user_cannot_take_over_the_connection() -> None:
    """KIP-368: the principal stays."""
    client = Client(connections_max_reauth_ms=1000)
    client.log_in()
    answer, response = client.log_in(b"\0bob\0builder")
    assert answer.error_code == SASL_AUTHENTICATION_FAILED
    assert answer.error_message.endswith("from User.alice: User.bob")
    assert isinstance(response, RefusalResponse)
    assert client.connection.principal == "User:alice"


def test_a_token_without_a_handshake_is_for_the_handlers() -> None:
    """They answer ILLEGAL_SASL_STATE."""
    client = Client()
    client.log_in()
    assert client.passes(AUTHENTICATE, 1)


def test_a_handshake_is_for_the_handlers_where_sessions_have_no_end() -> None:
    """KIP-368: as before it, they answer ILLEGAL_SASL_STATE."""
    client = Client()
    client.log_in()
    assert client.passes(HANDSHAKE, 1)


def test_a_client_authenticates_again_once_a_second_at_most() -> None:
    """KafkaChannel.maybeBeginServerReauthentication."""
    client = Client(connections_max_reauth_ms=60_000)
    client.log_in()
    client.log_in()
    client.clock.advance(999)
    assert client.passes(HANDSHAKE, 1)
    client.clock.advance(1)
    assert client.log_in()[0].error_code == NONE


def bearer(lasts_ms: int) -> bytes:
    return b"n,,\x01auth=Bearer %d\x01\x01" % lasts_ms


def test_scram_takes_two_tokens_and_proves_the_broker() -> None:
    """RFC 5802: each side proves that it knows the password."""
    client = Client()
    exchange = ScramClient("SCRAM-SHA-256", "alice", "wonderland")
    challenge, _ = client.log_in(exchange.first(), mechanism="SCRAM-SHA-256")
    assert (challenge.error_code, challenge.session_lifetime_ms) == (NONE, 0)
    assert client.connection.principal == ANONYMOUS
    proof = SaslAuthenticateRequest(auth_bytes=exchange.final(bytes(challenge.auth_bytes)))
    answer, _ = client.ask(AUTHENTICATE, 2, proof)
    exchange.verify(bytes(answer.auth_bytes))
    assert client.connection.principal == "User:alice"
    assert client.passes(METADATA, 5)


def test_the_session_of_a_token_ends_with_it() -> None:
    """KIP-368: its expiry bounds the session, as `connections_max_reauth_ms` does."""
    client = Client(["OAUTHBEARER"])
    assert client.log_in(bearer(700), mechanism="OAUTHBEARER")[0].session_lifetime_ms == 700
    client.clock.advance(701)
    with pytest.raises(SessionExpiredError, match="after 700 ms"):
        client.passes(METADATA, 5)
    client = Client(["OAUTHBEARER"], connections_max_reauth_ms=500)
    assert client.log_in(bearer(700), mechanism="OAUTHBEARER")[0].session_lifetime_ms == 500
    assert (
        Client(["OAUTHBEARER"], connections_max_reauth_ms=900)
        .log_in(bearer(700), mechanism="OAUTHBEARER")[0]
        .session_lifetime_ms
        == 700
    )


def test_a_token_that_is_not_valid_is_told_before_the_refusal() -> None:
    """RFC 7628: the client answers the error with one byte, and only then fails."""
    client = Client(["OAUTHBEARER"])
    told, _ = client.log_in(bearer(0), mechanism="OAUTHBEARER")
    assert (told.error_code, bytes(told.auth_bytes)) == (NONE, b'{"status":"invalid_token"}')
    answer, response = client.ask(AUTHENTICATE, 2, SaslAuthenticateRequest(auth_bytes=b"\x01"))
    assert answer.error_code == SASL_AUTHENTICATION_FAILED
    assert answer.error_message == '{"status":"invalid_token"}'
    assert isinstance(response, RefusalResponse)
    assert client.connection.principal == ANONYMOUS


def test_another_mechanism_cannot_take_over_the_connection() -> None:
    """KIP-368: it is told with the first token."""
    client = Client(connections_max_reauth_ms=1000)
    client.log_in()
    first = ScramClient("SCRAM-SHA-256", "alice", "wonderland").first()
    answer, response = client.log_in(first, mechanism="SCRAM-SHA-256")
    assert answer.error_code == SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "SASL mechanism 'SCRAM-SHA-256' requested by client is not supported for "
        "re-authentication of mechanism 'PLAIN'"
    )
    assert isinstance(response, RefusalResponse)


def test_a_refusal_does_not_tell_which_users_there_are() -> None:
    """As Kafka's: the same for a wrong name and a damaged token, and once more for both."""
    client = Client(connections_max_reauth_ms=1000)
    nobody = ScramClient("SCRAM-SHA-256", "nobody", "x").first()
    answer, _ = client.log_in(nobody, mechanism="SCRAM-SHA-256")
    text = "Authentication failed during {} due to invalid credentials with SASL mechanism {}"
    assert answer.error_message == text.format("authentication", "SCRAM-SHA-256")
    client = Client(connections_max_reauth_ms=1000)
    client.log_in()
    answer, _ = client.log_in(b"\0\0")
    assert answer.error_message == text.format("re-authentication", "PLAIN")

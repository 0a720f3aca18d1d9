"""Authenticator: the frames of an exchange, and what the broker may say to them."""

from __future__ import annotations

import pytest

from fastprod.client.connections.api_versions import ApiVersions
from fastprod.client.sasl.authenticator import Authenticator, Frame
from fastprod.client.sasl.bearer_token import read_token
from fastprod.client.sasl.oauthbearer import OAuthBearerMechanism
from fastprod.client.sasl.plain import PlainMechanism
from fastprod.client.sasl.scram import ScramMechanism
from fastprod.errors import AuthenticationError, KafkaError, NetworkError
from fastprod.protocol.api_keys import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from fastprod.protocol.field_types import SchemaError
from support.oracle import kio_codec
from support.security.sasl_answers import authenticate_answer, handshake_answer, versions_answer

WHERE = "b0:9092 (node 3)"
OFFERED = ApiVersions({SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)})


def plain(versions: ApiVersions | None = OFFERED) -> Authenticator:
    return Authenticator(PlainMechanism("ada", "hush"), "PLAIN", WHERE, "me", versions)


def header(frame: Frame) -> tuple[int, int]:
    found = kio_codec.request_header(frame.data[4:])
    assert (found.api_key, found.version) == (frame.api_key, frame.version)
    return found.api_key, found.version


def test_the_steps_of_a_first_exchange() -> None:
    """P-G.10.1: in ApiVersions' lowest version, then the highest that both sides speak."""
    exchange = plain(None)
    assert header(exchange.versions_frame()) == (API_VERSIONS, 0)
    exchange.on_versions(versions_answer({SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 1)}))
    assert header(exchange.handshake_frame()) == (SASL_HANDSHAKE, 1)
    assert exchange.step.value == "SaslHandshake"
    exchange.on_handshake(handshake_answer(0, "PLAIN"))
    frame = exchange.first_token_frame()
    assert header(frame) == (SASL_AUTHENTICATE, 1)
    assert frame.data.endswith(b"\0ada\0hush")
    assert exchange.step.value == "SaslAuthenticate"
    assert exchange.on_authenticate(authenticate_answer(1, lifetime_ms=5_000)) is None
    assert exchange.session_lifetime_ms == 5_000
    assert not exchange.step.value


@pytest.mark.parametrize("version", [1, 2])
def test_an_acceptance_is_known_again_by_how_it_begins(version: int) -> None:
    """P-G.10.7: whatever the lifetime, and unlike a refusal and a challenge."""
    versions = ApiVersions({SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, version)})
    exchange = plain(versions)
    exchange.on_authenticate(authenticate_answer(version, lifetime_ms=7))
    assert exchange.acceptance
    others = {
        authenticate_answer(version, lifetime_ms=1 << 40): True,
        authenticate_answer(version, 58, "no"): False,
        authenticate_answer(version, token=b"{}"): False,
    }
    for payload, is_one in others.items():
        assert payload[4:].startswith(exchange.acceptance) is is_one


def test_of_several_rounds_no_answer_is_an_acceptance() -> None:
    exchange = Authenticator(Endless(b"more"), "X", WHERE, "me", OFFERED)
    exchange.on_authenticate(authenticate_answer(2))
    assert exchange.acceptance == b""


def refusal(exchange: Authenticator, payload: bytes) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        exchange.on_authenticate(payload)
    for secret in ("hush", "pencil"):
        assert secret not in str(caught.value)
    return caught.value


def test_a_mechanism_that_is_not_offered_is_told_with_those_that_are() -> None:
    """P-G.10.2"""
    with pytest.raises(AuthenticationError) as caught:
        plain().on_handshake(handshake_answer(33, "SCRAM-SHA-256", "GSSAPI"))
    assert caught.value.code == 33
    text = str(caught.value)
    for word in (WHERE, "PLAIN", "it offers SCRAM-SHA-256, GSSAPI", "sasl_mechanism"):
        assert word in text


def test_a_listener_without_sasl_says_so() -> None:
    """P-G.10.2"""
    with pytest.raises(AuthenticationError, match="takes no SASL on this listener") as caught:
        plain().on_handshake(handshake_answer(34))
    assert caught.value.code == 34
    assert WHERE in str(caught.value)


def test_a_refused_user_is_named_and_the_password_is_not() -> None:
    """P-G.10.2, P-G.10.8: even if the broker sends it back."""
    error = refusal(plain(), authenticate_answer(2, 58, "password hush\n is wrong" + "x" * 999))
    assert isinstance(error, AuthenticationError)
    text = str(error)
    assert f"broker {WHERE} refused user 'ada' by PLAIN: password [hidden]  is wrong" in text
    assert "check sasl_username and sasl_password" in text
    assert len(text) < 500


def test_a_refused_token_is_told_with_the_brokers_json() -> None:
    """P-L.181, P-G.10.5"""
    mechanism = OAuthBearerMechanism(read_token("hush", 0.0))
    exchange = Authenticator(mechanism, "OAUTHBEARER", WHERE, "me", OFFERED)
    answer = exchange.on_authenticate(authenticate_answer(2, token=b'{"status":"invalid_token"}'))
    assert answer is not None
    assert answer.data.endswith(b"\x02\x01\x00"), "a compact length, the byte, no tags"
    error = refusal(exchange, authenticate_answer(2, 58, "no"))
    assert '{"status":"invalid_token"}' in str(error)
    again = Authenticator(
        OAuthBearerMechanism(read_token("hush", 0.0)), "OAUTHBEARER", WHERE, "me", OFFERED
    )
    again.on_authenticate(authenticate_answer(2, token=b"{}"))
    assert "refused the token" in str(refusal(again, authenticate_answer(2)))


def test_an_error_that_passes_is_no_refusal() -> None:
    error = refusal(plain(), authenticate_answer(2, 7))
    assert isinstance(error, NetworkError)


def test_a_server_that_proves_nothing_is_refused() -> None:
    """P-G.10.4"""
    mechanism = ScramMechanism("SCRAM-SHA-256", "ada", "pencil")
    exchange = Authenticator(mechanism, "SCRAM-SHA-256", WHERE, "me", OFFERED)
    exchange.first_token_frame()
    error = refusal(exchange, authenticate_answer(2, token=b"r=other,s=QQ==,i=4096"))
    assert isinstance(error, AuthenticationError)
    assert "another exchange" in str(error)
    assert WHERE in str(error)


class Endless:
    """Never comes to an end."""

    user, hint, secrets, is_done, may_block = "x", "check it", (), False, False

    def __init__(self, answer: bytes | None) -> None:
        self.answer = answer

    def initial(self) -> bytes:
        return b""

    def next(self, challenge: bytes) -> bytes | None:
        return self.answer


@pytest.mark.parametrize("answer", [None, b"more"])
def test_an_exchange_ends(answer: bytes | None) -> None:
    exchange = Authenticator(Endless(answer), "X", WHERE, "me", OFFERED)
    for _ in range(19 if answer else 0):
        assert exchange.on_authenticate(authenticate_answer(2)) is not None
    assert "come to an end of X" in str(refusal(exchange, authenticate_answer(2)))


@pytest.mark.parametrize(
    ("versions", "words"),
    [
        ({}, "does not offer SaslHandshake"),
        ({SASL_HANDSHAKE: (0, 0), SASL_AUTHENTICATE: (0, 2)}, "version 0 only"),
        ({SASL_HANDSHAKE: (0, 1)}, "does not offer SaslAuthenticate"),
        ({SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (3, 9)}, "offers 3 to 9"),
    ],
)
def test_a_broker_that_speaks_other_versions(
    versions: dict[int, tuple[int, int]], words: str
) -> None:
    exchange = plain(None)
    exchange.on_versions(versions_answer(versions))
    with pytest.raises(AuthenticationError, match=words) as caught:
        exchange.handshake_frame()
    assert WHERE in str(caught.value)


def test_an_answer_that_does_not_parse() -> None:
    """P-L.181"""
    with pytest.raises(SchemaError):
        plain().on_handshake(b"\0\0\0\0\0")
    with pytest.raises(SchemaError):
        plain().on_authenticate(b"\0\0\0\0\0")
    with pytest.raises(AuthenticationError, match="refused"):
        plain(None).on_versions(versions_answer({}, error_code=58))

"""SCRAM of the broker, with the arithmetic of fastprod.security.scram on the other side."""

from __future__ import annotations

import pytest

from fastprod.broker.network.sasl.mechanism import InvalidCredentialsError
from fastprod.broker.network.sasl.scram import Scram
from fastprod.broker.network.sasl.users import Users
from fastprod.security.scram import ScramClient, ScramCredentials

MECHANISMS = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
PASSWORD = "pass=word,with commas"
USERS = Users({"a,d=a": PASSWORD})


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_both_sides_prove_that_they_know_the_password(mechanism: str) -> None:
    """RFC 5802; a name may have commas and equals signs."""
    client, server = ScramClient(mechanism, "a,d=a", PASSWORD), Scram(mechanism, USERS)
    challenge = server.next(client.first())
    assert not server.is_done
    client.verify(server.next(client.final(challenge)))
    assert (server.is_done, server.user, server.expires_ms) == (True, "a,d=a", None)
    with pytest.raises(InvalidCredentialsError):
        server.next(client.first())


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_refused_with_the_proof(mechanism: str) -> None:
    client, server = ScramClient(mechanism, "a,d=a", "other"), Scram(mechanism, USERS)
    challenge = server.next(client.first())
    with pytest.raises(InvalidCredentialsError) as caught:
        server.next(client.final(challenge))
    assert caught.value.told is None
    assert not server.is_done


def test_a_proof_counts_once() -> None:
    """Whoever has failed begins a new connection."""
    client, server = ScramClient("SCRAM-SHA-256", "a,d=a", PASSWORD), Scram("SCRAM-SHA-256", USERS)
    answer = client.final(server.next(client.first()))
    with pytest.raises(InvalidCredentialsError):
        server.next(answer.replace(b"p=", b"p=A"))
    assert not server.is_done


@pytest.mark.parametrize("first", [b"", b"n,,n=nobody,r=abc", b"p=x,,n=a=2Cd=3Da,r=abc", b"\xff"])
def test_a_first_message_of_nobody_is_refused(first: bytes) -> None:
    with pytest.raises(InvalidCredentialsError) as caught:
        Scram("SCRAM-SHA-256", USERS).next(first)
    assert caught.value.told is None


def test_one_user_cannot_act_for_another() -> None:
    client = ScramClient("SCRAM-SHA-256", "a,d=a", PASSWORD, authorization_id="bob")
    with pytest.raises(InvalidCredentialsError, match="authorization id that is different"):
        Scram("SCRAM-SHA-256", USERS).next(client.first())


def test_a_credential_with_few_iterations_lets_nobody_in() -> None:
    """As Kafka: 4,096 at least, however it came to be."""
    users = Users()
    users.put_scram("bob", "SCRAM-SHA-256", ScramCredentials(b"salt", b"s", b"k", 4095))
    with pytest.raises(InvalidCredentialsError):
        Scram("SCRAM-SHA-256", users).next(ScramClient("SCRAM-SHA-256", "bob", "x").first())

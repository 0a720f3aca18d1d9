"""Credentials: a mechanism for each exchange, and users that are replaced."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import pytest

from fastprod.client.sasl.credentials import Credentials
from fastprod.client.sasl.gssapi import GssapiMechanism
from fastprod.client.sasl.login import LoginPendingError
from fastprod.client.sasl.mechanism import MechanismError
from fastprod.client.sasl.oauthbearer import OAuthBearerMechanism
from fastprod.client.sasl.plain import PlainMechanism
from fastprod.client.sasl.scram import ScramMechanism
from fastprod.errors import ConfigError, IllegalStateError
from fastprod.security import scram
from fastprod.security.sasl_settings import AwsSettings, SaslSettings, TokenEndpoint
from fastprod.security.secret import Secret


def credentials(mechanism: str, **settings: Any) -> Credentials:
    made = SaslSettings(mechanism, username="ada", password=Secret("hush"), **settings)
    return Credentials(made, lambda: None, "me")


def _keys(password: str, salt: bytes) -> scram.ScramCredentials:
    """What a server keeps; made beside what a test counts."""
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 4096)
    return scram.credentials_from_salted("SCRAM-SHA-256", salted, salt, 4096)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("PLAIN", PlainMechanism),
        ("SCRAM-SHA-256", ScramMechanism),
        ("SCRAM-SHA-512", ScramMechanism),
    ],
)
def test_each_exchange_has_a_mechanism_of_its_own(name: str, kind: type) -> None:
    made = credentials(name)
    made.start()
    (first, number), (second, _) = made.new_mechanism("b0"), made.new_mechanism("b0")
    assert (type(first), number, made.mechanism) == (kind, 0, name)
    assert first is not second
    assert (first.user, first.secrets) == ("user 'ada'", ("hush",))
    made.refused(0)
    made.close()


def test_a_user_is_replaced_from_the_next_exchange_on() -> None:
    changes = []
    settings = SaslSettings("PLAIN", username="ada", password=Secret("hush"))
    made = Credentials(settings, lambda: changes.append(made.generation), "me")
    before, _ = made.new_mechanism("b0")
    made.replace("bob", "other")
    assert changes == [1]
    assert made.new_mechanism("b0")[0].initial() == b"\0bob\0other"
    assert before.initial() == b"\0ada\0hush"


def test_a_password_is_salted_once_for_all_exchanges_until_one_of_both_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    salted: list[str] = []
    plain = scram.salted_password

    def counted(mechanism: str, password: str, salt: bytes, iterations: int) -> bytes:
        salted.append(password)
        return plain(mechanism, password, salt, iterations)

    monkeypatch.setattr(scram, "salted_password", counted)
    made = credentials("SCRAM-SHA-256")

    def log_in(keys: scram.ScramCredentials) -> None:
        server = scram.ScramServer("SCRAM-SHA-256")
        client, _ = made.new_mechanism("b0")
        server.read_first(client.initial())
        proof = client.next(server.first(keys))
        assert proof is not None
        client.next(server.final(proof))
        assert client.is_done

    keys = [_keys("hush", b"1"), _keys("hush", b"2")]
    other = _keys("other", b"2")
    for each in (keys[0], keys[0], keys[1], keys[1]):
        log_in(each)
    made.replace("bob", "other")
    log_in(other)
    with pytest.raises(scram.ScramError, match="the proof is wrong"):
        log_in(keys[1])
    log_in(other)
    assert salted == ["hush", "hush", "other"]
    assert "hush" not in repr(vars(made.new_mechanism("b0")[0]))


def test_tokens_come_from_a_login() -> None:
    """P-G.10.5: one for the whole producer."""
    made = credentials("OAUTHBEARER", token_callback=lambda: "abc", extensions={"a": "1"})
    with pytest.raises(LoginPendingError):
        made.new_mechanism("b0")
    made.start()
    while True:
        try:
            mechanism, number = made.new_mechanism("b0")
        except LoginPendingError:
            continue
        break
    made.close()
    assert isinstance(mechanism, OAuthBearerMechanism)
    assert (mechanism.initial(), number) == (b"n,,\x01auth=Bearer abc\x01a=1\x01\x01", 1)
    with pytest.raises(IllegalStateError, match="OAUTHBEARER has no user name and password"):
        made.replace("bob", "other")
    made.refused(1)
    with pytest.raises(LoginPendingError):
        made.new_mechanism("b0")


def test_a_package_that_is_missing_is_told_when_it_is_needed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    monkeypatch.setitem(sys.modules, "gssapi", None)
    made = credentials("AWS_MSK_IAM", aws=AwsSettings("eu-central-1"))
    assert made.mechanism == "OAUTHBEARER", "so it is called on the wire"
    made.start()
    with pytest.raises(MechanismError, match=r"fastprod\[msk\]"):
        made.new_mechanism("b0")
    made.close()
    with pytest.raises(MechanismError, match=r"fastprod\[kerberos\]"):
        credentials("GSSAPI").new_mechanism("b0")
    assert GssapiMechanism.may_block


def test_settings_that_lack_a_source_are_refused() -> None:
    for name in ("OAUTHBEARER", "AWS_MSK_IAM"):
        with pytest.raises(ConfigError):
            credentials(name)
    endpoint = TokenEndpoint("http://127.0.0.1:1/")
    credentials("OAUTHBEARER", token_endpoint=endpoint).close()


def hanging() -> str:
    return "abc"


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"token_callback": hanging}, "the token callback hanging"),
        (
            {"token_endpoint": TokenEndpoint("https://me:hush@a.example/t?key=hush")},
            "the token endpoint https://a.example/t",
        ),
    ],
)
def test_what_a_token_is_awaited_from_is_named(settings: dict[str, Any], name: str) -> None:
    """P-G.10.8: without a secret."""
    made = credentials("OAUTHBEARER", **settings)
    assert made.token_name == f"the access token from {name}"
    assert made.awaited() == f"the access token from {name} is still awaited"
    made.end()
    assert made.awaited() == ""
    assert credentials("PLAIN").awaited() == ""

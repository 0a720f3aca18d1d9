"""GSSAPI: the steps of an exchange, with a package gssapi that plays its part."""

from __future__ import annotations

import enum
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from fastprod.client.sasl.gssapi import GssapiMechanism
from fastprod.client.sasl.mechanism import MechanismError
from fastprod.security.sasl_settings import KerberosSettings


class Flag(enum.IntFlag):
    mutual_authentication = 1
    integrity = 2
    out_of_sequence_detection = 4


class GSSError(Exception):
    pass


class Context:
    """Complete after two steps; wraps by a prefix."""

    def __init__(self, **words: Any) -> None:
        self.words = words
        self.tokens: list[bytes | None] = []
        self.complete = False

    def step(self, token: bytes | None = None) -> bytes | None:
        if token == b"bad":
            raise GSSError("clock skew too great")
        self.tokens.append(token)
        self.complete = len(self.tokens) == 2
        return None if self.complete else b"ticket"

    def unwrap(self, message: bytes) -> Any:
        return SimpleNamespace(message=message.removeprefix(b"w:"))

    def wrap(self, message: bytes, encrypt: bool) -> Any:
        assert not encrypt
        return SimpleNamespace(message=b"w:" + message)


@pytest.fixture(autouse=True)
def package(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = SimpleNamespace(
        Name=lambda text, kind: (text, kind),
        NameType=SimpleNamespace(hostbased_service="service", kerberos_principal="principal"),
        MechType=SimpleNamespace(kerberos="kerberos"),
        RequirementFlag=Flag,
        SecurityContext=Context,
        Credentials=lambda **words: words,
        exceptions=SimpleNamespace(GSSError=GSSError),
    )
    monkeypatch.setitem(sys.modules, "gssapi", made)
    return made


def test_the_steps_of_an_exchange() -> None:
    """P-G.10.6; RFC 4752: ticket, the broker's answer, and no security layer."""
    settings = KerberosSettings(principal="ada@REALM", keytab="/k")
    mechanism = GssapiMechanism(settings, "b0.example", "bob")
    assert mechanism.initial() == b"ticket"
    words = mechanism._context.words
    assert words["name"] == ("kafka@b0.example", "service")
    assert words["creds"]["name"] == ("ada@REALM", "principal")
    assert words["creds"]["store"] == {"client_keytab": "/k"}
    assert mechanism.next(b"answer") == b""
    assert mechanism.next(b"w:\x07\0\x10\0") == b"w:\x01\0\0\0bob"
    assert not mechanism.is_done
    assert mechanism.next(b"") is None
    assert mechanism.is_done
    assert "ada@REALM" in mechanism.user


def test_the_ticket_of_the_cache_is_used_as_it_is() -> None:
    mechanism = GssapiMechanism(KerberosSettings("broker", "alias"), "b0")
    mechanism.initial()
    words = mechanism._context.words
    assert (words["name"][0], words["creds"]) == ("broker@alias", None)


def test_failures_name_the_service(package: Any) -> None:
    mechanism = GssapiMechanism(KerberosSettings(), "b0")
    mechanism.initial()
    with pytest.raises(MechanismError, match="'kafka@b0': clock skew"):
        mechanism.next(b"bad")

    def refuse(**words: Any) -> Any:
        raise GSSError("no ticket in the cache")

    package.SecurityContext = refuse
    with pytest.raises(MechanismError, match="no ticket for 'kafka@b0': no ticket in the cache"):
        GssapiMechanism(KerberosSettings(), "b0").initial()


@pytest.mark.parametrize("offer", [b"w:\x06\0\0\0", b"w:\x01\0", b""])
def test_a_broker_that_insists_on_a_security_layer(offer: bytes) -> None:
    mechanism = GssapiMechanism(KerberosSettings(), "b0")
    mechanism.initial()
    mechanism.next(b"answer")
    with pytest.raises(MechanismError, match="security layer"):
        mechanism.next(offer)

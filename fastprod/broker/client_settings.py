"""Settings by which a client reaches a broker, in the names of several clients."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from fastprod.broker.network.sasl.mechanisms import OAUTHBEARER
from fastprod.broker.network.sasl.users import PLAIN
from fastprod.errors import ConfigError

_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL
)
_LOGIN_MODULES: Final = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


class Login(NamedTuple):
    """How a client says who it is.

    Attributes:
        mechanism: of SASL.
        user: its name.
        password: None with OAUTHBEARER.
    """

    mechanism: str
    user: str
    password: str | None

    def __repr__(self) -> str:
        """Without the password."""
        return f"Login({self.mechanism}, {self.user})"


class Way(NamedTuple):
    """A way to a broker.

    Attributes:
        bootstrap_servers: addresses, "host:port,host:port".
        protocol: Kafka's name.
        trusted: certificates in PEM that the client must trust; None: no TLS.
        login: None: no SASL.
    """

    bootstrap_servers: str
    protocol: str
    trusted: str | None
    login: Login | None


def certificates_of(pem: str) -> str:
    """The certificates in a text in PEM, without keys that may be there, too."""
    return "".join(f"{each.strip()}\n" for each in _CERTIFICATE.findall(pem))


def settings_for(way: Way, flavour: str) -> dict[str, Any]:
    """The settings for a client.

    Args:
        way: to the broker.
        flavour: one of FLAVOURS.

    Raises:
        ConfigError: there is no such flavour, or that client needs a token of its own.
    """
    if flavour not in FLAVOURS:
        raise ConfigError(
            f"flavour is {flavour!r}; there are {', '.join(FLAVOURS)}", key="flavour", value=flavour
        )
    found: dict[str, Any] = FLAVOURS[flavour](way)
    login = way.login
    if login is not None and login.mechanism == OAUTHBEARER and flavour != "librdkafka":
        raise ConfigError(
            f"{flavour} needs a token for OAUTHBEARER, from a callback of yours; only librdkafka "
            f"makes tokens by itself",
            key="flavour",
        )
    return found


def _kafka(way: Way) -> dict[str, Any]:
    found = {"bootstrap.servers": way.bootstrap_servers, "security.protocol": way.protocol}
    if way.trusted is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": way.trusted}
    if way.login is not None:
        found |= {
            "sasl.mechanism": way.login.mechanism,
            "sasl.username": way.login.user,
            "sasl.password": way.login.password or "",
        }
    return found


def _java(way: Way) -> dict[str, Any]:
    found = _kafka(way)
    login = way.login
    if login is not None:
        del found["sasl.username"], found["sasl.password"]
        module = _LOGIN_MODULES[PLAIN if login.mechanism == PLAIN else "SCRAM"]
        user, password = (_quoted(each) for each in (login.user, login.password or ""))
        found["sasl.jaas.config"] = f"{module} required username={user} password={password};"
    return found


def _quoted(text: str) -> str:
    """As Java's JAAS reads it, where a line break would end the text."""
    for each, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(each, escaped)
    return f'"{text}"'


def _librdkafka(way: Way) -> dict[str, Any]:
    found = {"bootstrap.servers": way.bootstrap_servers, "security.protocol": way.protocol}
    if way.trusted is not None:
        found["ssl.ca.pem"] = way.trusted
    login = way.login
    if login is None:
        return found
    found["sasl.mechanism"] = login.mechanism
    if login.mechanism == OAUTHBEARER:
        return found | {
            "enable.sasl.oauthbearer.unsecure.jwt": True,
            "sasl.oauthbearer.config": f"principal={login.user}",
        }
    return found | {"sasl.username": login.user, "sasl.password": login.password}


def _kafka_python(way: Way) -> dict[str, Any]:
    found: dict[str, Any] = {
        "bootstrap_servers": way.bootstrap_servers,
        "security_protocol": way.protocol,
    }
    if way.trusted is not None:
        # Its other setting for certificates takes a file alone.
        import ssl  # noqa: PLC0415

        found["ssl_context"] = ssl.create_default_context(cadata=way.trusted)
    if way.login is not None:
        found |= {
            "sasl_mechanism": way.login.mechanism,
            "sasl_plain_username": way.login.user,
            "sasl_plain_password": way.login.password,
        }
    return found


FLAVOURS: Final[Mapping[str, Any]] = {
    "kafka": _kafka,
    "java": _java,
    "librdkafka": _librdkafka,
    "kafka-python": _kafka_python,
    "aiokafka": _kafka_python,
}
"""Clients, and what makes their settings: fastprod has the names of "kafka"."""

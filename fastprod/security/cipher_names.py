"""Names of cipher suites: Java's (those of IANA) and OpenSSL's."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from fastprod.errors import ConfigError
from fastprod.security.secret import HIDDEN, Secret

_TLS13: Final = re.compile(r"TLS_(AES|CHACHA20|SM4)_[A-Z0-9_]+")
_IANA: Final = re.compile(r"(?:TLS|SSL)_([A-Za-z0-9_]+)_WITH_([A-Z0-9_]+)")
_OPENSSL: Final = re.compile(r"[A-Za-z0-9+!@=.-]+")
_KEY_EXCHANGES: Final = {"RSA": "", "DH_anon": "ADH", "ECDH_anon": "AECDH"}
# Longer ones first.
_PARTS: Final = (
    ("3DES_EDE_CBC", "DES-CBC3"),
    ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    ("AES_128", "AES128"),
    ("AES_256", "AES256"),
    ("CAMELLIA_128", "CAMELLIA128"),
    ("CAMELLIA_256", "CAMELLIA256"),
    ("ARIA_128", "ARIA128"),
    ("ARIA_256", "ARIA256"),
    ("CCM_8", "CCM8"),
    ("_CBC_", "_"),
)
_SIGNALS: Final = ("TLS_EMPTY_RENEGOTIATION_INFO_SCSV", "TLS_FALLBACK_SCSV")
_BOTH: Final = ("TLSv1.2", "TLSv1.3")


def cipher_lists(key: str, names: Iterable[str]) -> tuple[str | None, str | None, tuple[str, ...]]:
    """Return OpenSSL's list for TLS 1.2, that for TLS 1.3, and the versions that have a suite.

    Args:
        key: the setting, for errors.
        names: of Java's or OpenSSL's form; one may be a list with ':' between, or a `Secret`.

    Returns:
        None in place of a list: OpenSSL's default.  If a name is a `Secret`, so are the lists.  As
        in Java, suites for one version alone shut the other one out; words of OpenSSL's, such as
        HIGH, leave TLS 1.3 as it is.

    Raises:
        ConfigError: a name has neither form.
    """
    old: list[str] = []
    new: list[str] = []
    is_java = True
    given = list(names)
    text = Secret if any(isinstance(each, Secret) for each in given) else str
    for name in (part for each in given for part in re.split(r"[:;\s]+", each) if part):
        if name in _SIGNALS:
            continue
        if _TLS13.fullmatch(name):
            new.append(name)
        elif found := _IANA.fullmatch(name):
            old.append(_openssl_name(*found.groups()))
        elif _OPENSSL.fullmatch(name):
            old.append(name)
            is_java = False
        else:
            shown = HIDDEN if text is Secret else repr(name)
            raise ConfigError(f"{key}: {shown} is no name of a cipher suite", key=key)
    if not old and not new:
        return None, None, _BOTH
    versions: tuple[str, ...] = _BOTH
    if not old:
        versions = ("TLSv1.3",)
    elif is_java and not new:
        versions = ("TLSv1.2",)
    lists = [text(":".join(each)) if each else None for each in (old, new)]
    return lists[0], lists[1], versions


def _openssl_name(exchange: str, cipher: str) -> str:
    for iana, openssl in _PARTS:
        cipher = cipher.replace(iana, openssl)
    parts = (_KEY_EXCHANGES.get(exchange, exchange), cipher)
    return "-".join(filter(None, parts)).replace("_", "-")

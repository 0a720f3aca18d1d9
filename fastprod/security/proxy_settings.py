"""ProxySettings: the proxy that connections to brokers go through."""

from __future__ import annotations

import contextlib
from typing import NoReturn

from fastprod.errors import ConfigError
from fastprod.frozen import FrozenRecord
from fastprod.security.secret import Secret, is_unicode

_FORM = "must be socks5://, socks5h:// or http:// and [user:password@]host:port"
_SCHEMES = ("socks5", "socks5h", "http")
_LIMIT_BYTES = 255


class ProxySettings(FrozenRecord):
    """A proxy; plain data, which pickles.

    Attributes:
        protocol: "socks5" (RFC 1928, RFC 1929) or "http" (CONNECT, RFC 9110).
        host: its name or address; an IPv6 address stands without brackets.
        port: 1..65535.
        username: at most 255 bytes in UTF-8, as is the password; "": it asks for none, or, with a
            password by HTTP, it is empty.
        password: None: it asks for none.
        resolves_names: whether the proxy resolves the brokers' names: socks5h and http.
    """

    protocol: str
    host: str
    port: int
    username: str = ""
    password: Secret | None = None
    resolves_names: bool = False


def parse_proxy_url(key: str, url: Secret) -> ProxySettings:
    """Return what a proxy's URL says; user and password may be percent-encoded.

    Raises:
        ConfigError: it is not of the form; no part of it is shown, as it may hold a password.
    """
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415

    parts, port = urlsplit(""), None
    # The error's own text may have a part of the URL, and must not be this one's context.
    with contextlib.suppress(ValueError):
        parts = urlsplit(url.reveal())
        port = parts.port
    host = parts.hostname
    if parts.scheme == "https":
        _refuse(key, "TLS to the proxy itself is not possible; " + _FORM)
    if parts.scheme not in _SCHEMES:
        _refuse(key, _FORM)
    if not host or not port:
        _refuse(key, "names no host and port; " + _FORM)
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        _refuse(key, "has something behind the port; " + _FORM)
    username = unquote(parts.username or "")
    password = None if parts.password is None else Secret(unquote(parts.password))
    if not is_unicode(username) or not is_unicode(password or ""):
        _refuse(key, "user and password cannot be written as UTF-8")
    for text in (username, password or ""):
        if len(text.encode("utf-8", "surrogatepass")) > _LIMIT_BYTES:
            _refuse(key, f"user and password may have {_LIMIT_BYTES} bytes each")
    if password is not None and not username and parts.scheme != "http":
        _refuse(key, "has a password without a user, which SOCKS5 cannot say (RFC 1929)")
    if ":" in username and parts.scheme == "http":
        _refuse(key, "a user with ':' cannot be told to an HTTP proxy (RFC 7617)")
    return ProxySettings(
        protocol=parts.scheme.removesuffix("h"),
        host=host,
        port=port,
        username=username,
        password=password,
        resolves_names=parts.scheme != "socks5",
    )


def _refuse(key: str, why: str) -> NoReturn:
    raise ConfigError(f"{key}: {why}", key=key)

"""Proxy: what is said to the proxy that connections go through, and what it answers."""

from __future__ import annotations

import base64
import ipaddress
import os
import struct
from collections.abc import Callable
from typing import Final

from fastprod._core.engine.control_queue import ControlEvent
from fastprod._core.io.channel import CloseReason
from fastprod._core.io.proxy_transport import ProxyKind, ProxyPlan
from fastprod.client.connections.addresses import Address, NodeAddresses
from fastprod.errors import AuthenticationError, KafkaError, NetworkError
from fastprod.security.proxy_settings import ProxySettings

_VERSION: Final = 5
_NO_PASSWORD: Final = 0
_USER_AND_PASSWORD: Final = 2
_CONNECT: Final = 1
_NAME: Final = 3
_NAME_BYTES: Final = 255
_IP_TYPES: Final = {4: 1, 6: 4}
_HIDDEN: Final = "a password is needed, or another one: give it in proxy_url"
_PASSWORD_WORDS: Final = ("socks_method", "socks_password")
# RFC 1928, 6.
_REPLIES: Final = {
    1: "general failure",
    2: "its rules do not allow the connection",
    3: "the network is unreachable",
    4: "the host is unreachable",
    5: "the broker refused the connection",
    6: "the time to live is over",
    7: "it cannot connect (command not supported)",
    8: "it does not take this kind of address",
}


class Proxy:
    """One producer's proxy. Used by the control thread.

    Args:
        settings: where it is, and who we are to it.
    """

    def __init__(self, settings: ProxySettings) -> None:
        self._settings = settings
        self._addresses = NodeAddresses(settings.host, settings.port)

    def __str__(self) -> str:
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        return f"{host}:{self._settings.port}"

    @property
    def resolves_names(self) -> bool:
        """Whether it is told names of brokers; else their addresses."""
        return self._settings.resolves_names

    def route(
        self, host: str, port: int, resolved: Callable[[], Address]
    ) -> tuple[Address, ProxyPlan]:
        """Return where to connect to, and what to say there, to reach a broker.

        Args:
            host: the broker's name or address.
            port: the broker's.
            resolved: gives the broker's address, if the proxy is not to be told its name.

        Blocks: for DNS now and then.

        Raises:
            OSError: a name does not resolve, or cannot be told to the proxy.
        """
        try:
            address = self._addresses.current()
        except OSError as error:
            raise OSError(f"that of proxy {self}: {error}") from error
        self._addresses.move_to_next()
        plan = self.plan(host if self.resolves_names else resolved().ip, port)
        return address, ProxyPlan(plan)

    def plan(self, host: str, port: int) -> bytes:
        """Return what is to be said to it to reach a broker, as a `ProxyPlan` takes it.

        Args:
            host: the broker's name or address, as the proxy is to be told.
            port: the broker's.

        Raises:
            OSError: no proxy takes such a name.
        """
        if self._settings.protocol == "http":
            return _packed(ProxyKind.PROXY_HTTP, self._http(host, port))
        methods = bytes([_NO_PASSWORD])
        password = b""
        if self._settings.username:
            methods += bytes([_USER_AND_PASSWORD])
            user, secret = self._settings.username.encode(), self._secret().encode()
            password = bytes([1, len(user)]) + user + bytes([len(secret)]) + secret
        greeting = bytes([_VERSION, len(methods)]) + methods
        request = bytes([_VERSION, _CONNECT, 0]) + _socks_address(host) + struct.pack("!H", port)
        return _packed(ProxyKind.PROXY_SOCKS5, greeting, password, request)

    def _secret(self) -> str:
        password = self._settings.password
        return "" if password is None else password.reveal()

    def _http(self, host: str, port: int) -> bytes:
        is_text = host.isascii() and host.isprintable() and " " not in host
        if not is_text or len(host) > _NAME_BYTES:
            raise OSError(f"{host!r} cannot be told to a proxy")
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
        if self._settings.username or self._settings.password is not None:
            pair = f"{self._settings.username}:{self._secret()}".encode()
            lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair).decode()}")
        return "\r\n".join([*lines, "", ""]).encode()

    def failure(self, broker: str, event: ControlEvent) -> KafkaError | None:
        """Return why a connection to `broker` ended, if that is the proxy's doing.

        Args:
            broker: its address.
            event: an ON_DISCONNECTED event.
        """
        if event.reason == CloseReason.CLOSE_NOT_CONNECTED:
            return NetworkError(
                f"connection to proxy {self} for broker {broker} could not be established: "
                f"{os.strerror(event.err)} (errno {event.err}): is proxy_url right?"
            )
        if event.reason != CloseReason.CLOSE_PROXY:
            return None
        word, _, value = (event.data or b"").decode().partition("=")
        text = f"proxy {self} did not connect to broker {broker}: {_why(word, value, event.err)}"
        if word in _PASSWORD_WORDS or value.endswith(" 407") or " 407 " in value:
            return AuthenticationError(text)
        return NetworkError(text)


def _why(word: str, value: str, err: int) -> str:
    if word == "lost":
        return f"it ended the connection ({os.strerror(err)})"
    if word == "http":
        hint = f"; {_HIDDEN}" if " 407" in value else ""
        return f"it answered {value!r}{hint}" if value else "it does not speak HTTP"
    if word == "http_bytes":
        return f"its answer has more than {int(value):,} bytes of headers"
    if word == "socks_version":
        return "it does not speak SOCKS5: does proxy_url name the right protocol?"
    if word in _PASSWORD_WORDS:
        return _HIDDEN
    if word == "socks_reply":
        return _REPLIES.get(int(value), f"SOCKS5 reply {value}")
    return "its answer makes no sense"


def _packed(kind: ProxyKind, *messages: bytes) -> bytes:
    return bytes([kind]) + b"".join(struct.pack("!H", len(each)) + each for each in messages)


def _socks_address(host: str) -> bytes:
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        name = host.encode()
        if not host.isascii() or len(name) > _NAME_BYTES:
            raise OSError(f"{host!r} cannot be told to a proxy") from None
        return bytes([_NAME, len(name)]) + name
    return bytes([_IP_TYPES[ip.version]]) + ip.packed

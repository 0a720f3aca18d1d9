"""BrokerAccess: how the brokers of a protected cluster are reached, the same for all of them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import click

from fastprod.cli.cluster.connection_trouble import ConnectionTrouble
from fastprod.cli.cluster.resolution import resolve_in_time
from fastprod.client.connections.addresses import Address
from fastprod.config import ProducerConfig
from fastprod.config_values import BootstrapAddress
from fastprod.errors import ConfigError

if TYPE_CHECKING:
    from fastprod._core.io.proxy_transport import ProxyPlan
    from fastprod.client.connections.proxy import Proxy
    from fastprod.client.connections.tls_contexts import TlsContexts
    from fastprod.client.sasl.credentials import Credentials
    from fastprod.client.sasl.mechanism import Mechanism


class Route(NamedTuple):
    """Where to connect to, and what to say to the proxy there; None: there is no proxy."""

    address: Address
    plan: ProxyPlan | None


class BrokerAccess:
    """What connections to the brokers of one cluster share.

    Args:
        config: the settings of TLS, SASL and the proxy; others' defaults do.

    Attributes:
        config: the same.
        tls: None: not by TLS.
        credentials: None: without SASL.
        proxy: None: without one.

    Raises:
        ConfigError: a certificate or a key cannot be read or used.
        ImportError: a package is missing, or OpenSSL.
    """

    def __init__(self, config: ProducerConfig) -> None:
        self.config = config
        self.tls: TlsContexts | None = None
        self.credentials: Credentials | None = None
        self.proxy: Proxy | None = None
        self._login_changed = threading.Event()
        if config.tls is not None:
            from fastprod.client.connections.tls_contexts import TlsContexts  # noqa: PLC0415

            self.tls = TlsContexts(config.tls)
        if config.proxy is not None:
            from fastprod.client.connections.proxy import Proxy  # noqa: PLC0415

            self.proxy = Proxy(config.proxy)
        if config.sasl is not None:
            from fastprod.client.sasl.credentials import Credentials  # noqa: PLC0415

            self.credentials = Credentials(config.sasl, self._login_changed.set, config.client_id)
            self.credentials.start()

    def close(self) -> None:
        """Fetch no more tokens."""
        if self.credentials is not None:
            self.credentials.close()

    def routes(self, broker: BootstrapAddress, timeout_s: float) -> list[Route]:
        """Return the ways to a broker, in the order of trying.

        Raises:
            ConnectionTrouble: DNS does not know a name, or does not answer in time; or the name
                cannot be told to the proxy.

        Blocks: up to `timeout_s` for each name.
        """
        settings = self.config.proxy
        if self.proxy is None or settings is None:
            return [
                Route(each, None) for each in resolve_in_time(broker.host, broker.port, timeout_s)
            ]
        from fastprod._core.io.proxy_transport import ProxyPlan  # noqa: PLC0415

        host = broker.host
        if not self.proxy.resolves_names:
            host = resolve_in_time(host, broker.port, timeout_s)[0].ip
        try:
            plan = ProxyPlan(self.proxy.plan(host, broker.port))
        except OSError as error:
            raise ConnectionTrouble("proxy", f"broker {broker}: {error}") from error
        addresses = resolve_in_time(settings.host, settings.port, timeout_s)
        return [Route(each, plan) for each in addresses]

    def mechanism(self, host: str, deadline_s: float) -> Mechanism:
        """Return the client's side of one authentication.

        Args:
            host: the broker's.
            deadline_s: by when a token must be there, in seconds of the monotonic clock.

        Raises:
            AuthenticationError: there is no token, and why.
            MechanismError: the mechanism lacks something.
            ConnectionTrouble: the token is not there in time.
        """
        from fastprod.client.sasl.login import LoginPendingError  # noqa: PLC0415

        assert self.credentials is not None
        while True:
            self._login_changed.clear()
            try:
                return self.credentials.new_mechanism(host)[0]
            except LoginPendingError:
                if not self._login_changed.wait(max(deadline_s - time.monotonic(), 0)):
                    raise ConnectionTrouble(
                        "authentication", f"{self.credentials.token_name} did not come in time"
                    ) from None


@contextlib.contextmanager
def broker_access(config: ProducerConfig) -> Iterator[BrokerAccess | None]:
    """Give a block the access to a protected cluster; None: this one is reached in plain text.

    Raises:
        click.UsageError: a certificate, a key or a package that the settings need is missing.
    """
    if config.security_protocol == "PLAINTEXT" and config.proxy is None:
        yield None
        return
    try:
        access = BrokerAccess(config)
    except (ConfigError, ImportError) as error:
        raise click.UsageError(str(error)) from error
    try:
        yield access
    finally:
        access.close()

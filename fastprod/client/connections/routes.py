"""Routes: where a connection to a broker goes, over TLS or not, and through a proxy or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastprod._core.engine.control_queue import ControlEvent
from fastprod.client.connections.addresses import Address
from fastprod.client.connections.disconnect_reasons import setup_timeout_reason
from fastprod.client.engine_view import EngineView
from fastprod.config import ProducerConfig
from fastprod.errors import KafkaError
from fastprod.records import Node

if TYPE_CHECKING:
    from fastprod._core.io.proxy_transport import ProxyPlan
    from fastprod._core.tls.tls_context import TlsContext
    from fastprod.client.connections.proxy import Proxy
    from fastprod.client.connections.tls_contexts import TlsContexts


class Routes:
    """The way of one producer's connections. Used by the control thread.

    What TLS and proxies need is imported only if they are used.

    Args:
        engine: opens them.
        config: tls, proxy.
        current_address: ``current_address(node_id)``: where a node is; may block for DNS.
    """

    def __init__(
        self,
        engine: EngineView,
        config: ProducerConfig,
        current_address: Callable[[int], Address],
    ) -> None:
        self._engine = engine
        self._current_address = current_address
        self._tls_settings = config.tls
        self._tls: TlsContexts | None = None
        if config.tls is not None:
            from fastprod.client.connections.tls_contexts import TlsContexts  # noqa: PLC0415

            self._tls = TlsContexts(config.tls)
        self._proxy: Proxy | None = None
        if config.proxy is not None:
            from fastprod.client.connections.proxy import Proxy  # noqa: PLC0415

            self._proxy = Proxy(config.proxy)

    @property
    def has_tls(self) -> bool:
        """Whether connections speak TLS."""
        return self._tls is not None

    @property
    def has_proxy(self) -> bool:
        """Whether connections go through a proxy."""
        return self._proxy is not None

    def open(self, slot: int, node: Node, where: str, *, home: int | None = None) -> Address:
        """Begin to connect; an ON_CONNECTED or ON_DISCONNECTED event follows.

        Blocks for DNS when its name has to be resolved, and for the disk when a certificate's file
        has changed.

        Args:
            slot: the engine's number for the connection.
            node: whom to connect to.
            where: its address and id, for errors.
            home: the number of the first connection, if this is a spare one; None: it is the first.

        Returns:
            Where the connection goes to: the broker, or the proxy.

        Raises:
            OSError: a name does not resolve, or cannot be told to the proxy.
        """
        address, plan = self._route(node)
        tls, name = self._tls_to(node)
        packed = address.packed()
        if home is None:
            self._engine.connect(slot, node.id, packed, where, tls, name, plan)
        else:
            self._engine.connect(slot, node.id, packed, where, tls, name, plan, home)
        return address

    def _tls_to(self, node: Node) -> tuple[TlsContext | None, str]:
        """By what to use TLS with a node, and the name that its certificate must have."""
        if self._tls is None:
            return None, ""
        from fastprod.client.connections.tls_contexts import server_name  # noqa: PLC0415

        return self._tls.current(), server_name(node.host)

    def _route(self, node: Node) -> tuple[Address, ProxyPlan | None]:
        """Where to connect to, and what to say to a proxy there. Blocks for DNS."""
        if self._proxy is None:
            return self._current_address(node.id), None
        return self._proxy.route(node.host, node.port, lambda: self._current_address(node.id))

    def proxy_failure(self, where: str, event: ControlEvent) -> KafkaError | None:
        """Return why a connection ended (an ON_DISCONNECTED event), if that is the proxy's doing.

        Args:
            where: the broker's address and id.
            event: how it ended.
        """
        return None if self._proxy is None else self._proxy.failure(where, event)

    def overdue_reason(self, where: str, after_ms: int, sasl_step: str) -> str:
        """Return why a connection was given up that was not ready in time.

        Args:
            where: the broker's address and id.
            after_ms: the time that it had.
            sasl_step: what an authentication waited for; "": there was none yet.
        """
        proxy = "" if self._proxy is None else str(self._proxy)
        return setup_timeout_reason(where, after_ms, sasl_step, proxy=proxy, has_tls=self.has_tls)

    def tls_reason(self, where: str, node: Node, event: ControlEvent) -> str:
        """Return why TLS failed (an ON_DISCONNECTED event, CLOSE_TLS).

        Args:
            where: the broker's address and id.
            node: the broker.
            event: how it ended.
        """
        from fastprod.client.connections.tls_reasons import tls_reason  # noqa: PLC0415

        assert self._tls_settings is not None
        return tls_reason(where, node.host, event, self._tls_settings)

    @staticmethod
    def is_misconfigured(event: ControlEvent) -> bool:
        """Whether a failure of TLS will come again until somebody changes something."""
        from fastprod.client.connections.tls_reasons import is_misconfiguration  # noqa: PLC0415

        return is_misconfiguration(event)

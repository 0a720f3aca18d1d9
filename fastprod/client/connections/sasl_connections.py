"""SaslConnections: exchanges on a producer's connections, and the spare ones that renew sessions.

A spare is a second connection to a node, in a slot of the engine of its own. It authenticates, asks
what the broker speaks, and takes the place of the first one (P-G.10.7).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fastprod._core.engine.control_queue import ControlEvent
from fastprod._core.io.channel import CloseReason
from fastprod.client.connections.api_versions import HIGHEST_VERSION, ApiVersions
from fastprod.client.connections.control_requests import PendingRequest
from fastprod.client.connections.disconnect_reasons import Limits, connection_reason
from fastprod.client.connections.routes import Routes
from fastprod.client.engine_view import EngineView
from fastprod.client.metrics.authentication_counters import AuthenticationCounters
from fastprod.client.sasl.authentications import Authentications
from fastprod.client.sasl.authenticator import Frame
from fastprod.client.sasl.credentials import Credentials
from fastprod.config import ProducerConfig
from fastprod.errors import KafkaError, UnsupportedVersionError
from fastprod.log import Log
from fastprod.protocol.api_keys import PRODUCE
from fastprod.records import Node

_LOG = Log(__name__)


class Owner(Protocol):
    """What is asked of the connections themselves; see BrokerConnections."""

    def new_slot(self, node_id: int) -> int:
        """One more of the engine's numbers for a node."""

    def node_id(self, slot: int) -> int:
        """Whose number it is."""

    def connected_node(self, node_id: int) -> Node:
        """A node as it was last connected to."""

    def where(self, node_id: int) -> str:
        """Its address and id, for messages."""

    def send(self, frame: bytes, pending: PendingRequest, releases: bytes = b"") -> int:
        """Send a request."""

    def ask_api_versions(self, node_id: int, version: int, spare: int | None = None) -> None:
        """Ask what the broker speaks; of a spare connection, `SaslConnections.spare_ready` follows,
        or the loss of it."""

    def authenticated(self, node_id: int) -> None:
        """A node's own connection may be used."""

    def refuse(self, node_id: int, error: KafkaError, *, was_ready: bool) -> None:
        """Close it: its authentication failed."""

    def swapped(self, node_id: int, versions: ApiVersions) -> None:
        """Another connection has taken its place, to a broker that speaks these versions."""


class SaslConnections:
    """One producer's connections as `Authentications` sees them, by their slots.

    Used by the control thread.

    Args:
        owner: the connections.
        engine: the native side.
        routes: where spare connections go.
        credentials: who we say we are.
        config: client_id, acks, socket_connection_setup_timeout_ms.
        limits: what texts on lost connections name.
        counters: of authentications.
        clock_ms: monotonic ms.
    """

    def __init__(
        self,
        owner: Owner,
        engine: EngineView,
        routes: Routes,
        credentials: Credentials,
        config: ProducerConfig,
        limits: Limits,
        counters: AuthenticationCounters,
        clock_ms: Callable[[], int],
    ) -> None:
        self._owner = owner
        self._engine = engine
        self._routes = routes
        # Without answers there is no knowing what is in flight: it might be overtaken.
        self._may_swap = config.acks != 0
        self._limits = limits
        self._counters = counters
        self._clock_ms = clock_ms
        self._spares: dict[int, int] = {}
        self._open: set[int] = set()
        self._swaps: dict[int, tuple[ApiVersions, int]] = {}  # asked for at what time
        self._all = Authentications(
            credentials,
            config.client_id,
            self,
            clock_ms,
            engine,
            config.socket_connection_setup_timeout_ms,
        )

    # What the connections tell.

    def begin(self, slot: int) -> None:
        """A connection was made."""
        if slot in self._open or not self.is_spare(slot):
            self._all.begin(slot)

    def forget(self, slot: int) -> str:
        """A node's own connection ended; returns what its exchange waited for, in words."""
        return self._all.forget(slot)

    def step(self, slot: int) -> str:
        """What an exchange under way waits for, in words; "": there is none."""
        return self._all.step(slot)

    def is_busy(self, slot: int) -> bool:
        """Whether no other request may be sent."""
        return self._all.is_busy(slot)

    def do_due(self, now_ms: int) -> int:
        """Go on with what is due; returns ms to the next time."""
        return self._all.do_due(now_ms)

    def on_answer(self, data: bytes, pending: PendingRequest) -> None:
        """An answer to a frame of an exchange.

        Raises:
            SchemaError: it does not parse.
        """
        self._all.on_answer(pending.exchange, pending.api_key, data)

    # What Authentications asks for.

    def where(self, slot: int) -> str:
        """The broker's address and id, for errors."""
        return self._owner.where(self._owner.node_id(slot))

    def host(self, slot: int) -> str:
        """The broker's host, as its address has it."""
        return self._owner.connected_node(self._owner.node_id(slot)).host

    def send(self, slot: int, frame: Frame, exchange: object) -> None:
        """Send a frame of an exchange."""
        node_id = self._owner.node_id(slot)
        spare = slot if self.is_spare(slot) else None
        pending = PendingRequest(frame.api_key, frame.version, node_id, exchange, spare)
        self._owner.send(frame.data, pending, frame.releases)

    def hold(self, slot: int, is_held: bool) -> None:
        """Let no Produce request leave to a node, or let them leave again."""
        self._engine.hold(slot, is_held)

    def authenticated(self, slot: int, again_after_ms: int | None) -> None:
        """A connection may be used; for the first time (None), or again after so many ms."""
        node_id = self._owner.node_id(slot)
        if slot in self._open:
            self._owner.ask_api_versions(node_id, HIGHEST_VERSION, slot)
        elif again_after_ms is None:
            self._owner.authenticated(node_id)
        else:
            self._counters.repeated(again_after_ms)

    def refuse(self, slot: int, error: KafkaError, *, was_ready: bool) -> None:
        """Close a node's own connection, whose authentication failed."""
        self._owner.refuse(self._owner.node_id(slot), error, was_ready=was_ready)

    # Spare connections.

    def is_spare(self, slot: int) -> bool:
        """Whether it is the number of a spare connection, open or not."""
        return slot in self._spares.values()

    def open_spare(self, slot: int) -> int | None:
        """Connect once more to the node in `slot`. Blocks as `Routes.open` does.

        Returns:
            The spare connection's slot; None: there can be none.
        """
        if not self._may_swap:
            return None
        node_id = self._owner.node_id(slot)
        spare = self._spares.get(slot)
        if spare is None:
            spare = self._spares[slot] = self._owner.new_slot(node_id)
        node, where = self._owner.connected_node(node_id), self._owner.where(node_id)
        try:
            self._routes.open(spare, node, where, home=slot)
        except Exception as error:  # whatever it is, the first connection can do without
            kind = type(error).__name__
            _LOG.info("no second connection to broker %s can be opened: %s", where, kind)
            return None
        self._open.add(spare)
        return spare

    def close_spare(self, slot: int) -> None:
        """Close a spare connection, by its own slot; nothing more comes of it."""
        if slot in self._open:
            self._end_spare(slot)
            self._engine.close_connection(slot)

    def lose_spare(self, slot: int, why: str) -> None:
        """A spare connection is of no use: the first one authenticates again."""
        if slot in self._open:
            self._all.lose_spare(slot, why)

    def on_spare_disconnected(self, event: ControlEvent) -> None:
        """A spare connection ended, or could not be made."""
        slot = event.slot
        if slot in self._open:
            why = self._reason(event)
            self._end_spare(slot)
            self._all.lose_spare(slot, why)

    def _reason(self, event: ControlEvent) -> str:
        where = self.where(event.slot)
        failure = self._routes.proxy_failure(where, event)
        if failure is not None:
            return str(failure)
        if event.reason == CloseReason.CLOSE_TLS:
            node = self._owner.connected_node(self._owner.node_id(event.slot))
            return self._routes.tls_reason(where, node, event)
        step = self._all.step(event.slot)
        return connection_reason(where, event, self._limits, True, step) or "it was closed"

    def _end_spare(self, slot: int) -> None:
        self._open.discard(slot)
        self._swaps.pop(slot, None)

    def spare_ready(self, slot: int, versions: ApiVersions) -> None:
        """A spare connection is authenticated, and the broker said what it speaks: swap."""
        if slot not in self._open:
            return
        try:
            produce_version = versions.pick(PRODUCE)
        except UnsupportedVersionError as error:
            self.lose_spare(slot, str(error))
            return
        self._swaps[slot] = versions, self._clock_ms()
        self._all.wait_for_spare(slot)
        self._engine.swap(slot, produce_version)

    def on_swapped(self, event: ControlEvent) -> None:
        """A spare connection has taken the place of the first one."""
        if event.slot not in self._swaps:
            return
        versions, asked_ms = self._swaps[event.slot]
        self._end_spare(event.slot)
        self._all.swapped(event.slot)
        self._owner.swapped(self._owner.node_id(event.slot), versions)
        self._counters.repeated(self._clock_ms() - asked_ms)

"""ClusterConnectionStates: what is known about the connection to each node (P-G.4 to P-G.6)."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.connections.addresses import (
    Address,
    NodeAddresses,
    Resolver,
    resolve_by_system,
)
from fastprod.client.connections.api_versions import ApiVersions
from fastprod.errors import IllegalStateError
from fastprod.records import Node
from fastprod.system_random import random_index

NO_LIMIT_MS: Final = (1 << 63) - 1
"""A delay that only an event ends."""

_REFUSED_BACKOFF_MS: Final = (500, 1000)
"""First and longest delay at least after failed authentications: who is wrong stays so for a while,
and brokers count such attempts."""


class ConnectionState(enum.Enum):
    """Where a connection stands (contract P-G.4.1)."""

    DISCONNECTED = "disconnected"
    CONNECTING = "connecting"
    CHECKING_API_VERSIONS = "checking api versions"
    READY = "ready"
    CLOSING = "closing"
    """It was READY, and its end is ordered: it takes no request any more."""
    AUTHENTICATION_FAILED = "authentication failed"


_WITHOUT_CONNECTION: Final = (
    ConnectionState.DISCONNECTED,
    ConnectionState.AUTHENTICATION_FAILED,
)


_ANSWERING: Final = (ConnectionState.READY, ConnectionState.CLOSING)


class LeastLoadedNode(NamedTuple):
    """Result of ``ClusterConnectionStates.least_loaded_node``."""

    node: Node | None
    is_any_connection_ready: bool

    @property
    def has_node_or_ready_connection(self) -> bool:
        """False: nothing is left to try, which is when a rebootstrap is due (P-H.5.2)."""
        return self.node is not None or self.is_any_connection_ready


class _NodeState:
    """State of one node's connection."""

    __slots__ = (
        "addresses",
        "api_versions",
        "failed_attempts",
        "failed_authentications",
        "failed_connect_attempts",
        "is_overdue",
        "last_connect_attempt_ms",
        "reconnect_backoff_ms",
        "setup_timeout_ms",
        "state",
        "throttled_until_ms",
    )

    def __init__(self, addresses: NodeAddresses, setup_timeout_ms: int) -> None:
        self.addresses = addresses
        self.state = ConnectionState.DISCONNECTED
        self.last_connect_attempt_ms = 0
        self.failed_attempts = 0
        self.failed_connect_attempts = 0
        self.failed_authentications = 0
        self.reconnect_backoff_ms = 0
        self.setup_timeout_ms = setup_timeout_ms
        self.is_overdue = False
        self.throttled_until_ms = 0
        self.api_versions: ApiVersions | None = None


class ClusterConnectionStates:
    """State, backoff, throttle, address and API versions of every node's connection.

    Pure bookkeeping: the caller connects, sends and closes, and reports it here. Times are ms of
    one clock of the caller's. Used by one thread; only ``current_address`` blocks (DNS).

    Args:
        reconnect_backoff: ``reconnect.backoff.ms`` and its max.
        setup_timeout: ``socket.connection.setup.timeout.ms`` and its max.
        resolver: default asks the system.
        random_index: ``random_index(n)`` gives 0 <= i < n; default: the system's
            randomness.

    Source: Java's ``ClusterConnectionStates``, ``NodeApiVersions``, ``NetworkClient``.
    """

    def __init__(
        self,
        reconnect_backoff: ExponentialBackoff,
        setup_timeout: ExponentialBackoff,
        *,
        resolver: Resolver = resolve_by_system,
        random_index: Callable[[int], int] = random_index,
    ) -> None:
        self._reconnect_backoff = reconnect_backoff
        self._refused_backoff = ExponentialBackoff(*_REFUSED_BACKOFF_MS)
        self._setup_timeout = setup_timeout
        self._resolver = resolver
        self._random_index = random_index
        self._nodes: dict[int, _NodeState] = {}

    def state(self, node_id: int) -> ConnectionState:
        """State of the node's connection; an unknown node is DISCONNECTED."""
        known = self._nodes.get(node_id)
        return ConnectionState.DISCONNECTED if known is None else known.state

    def is_disconnected(self, node_id: int) -> bool:
        """There is no connection, and none is being made."""
        return self.state(node_id) in _WITHOUT_CONNECTION

    def can_connect(self, node_id: int, now_ms: int) -> bool:
        """Whether a connection may be started now (P-G.4.2)."""
        return self.is_disconnected(node_id) and self.connection_delay_ms(node_id, now_ms) == 0

    def connection_delay_ms(self, node_id: int, now_ms: int) -> int:
        """How long to wait before looking at this node again (P-G.4.3).

        The rest of the backoff when disconnected, the setup timeout when connecting, else
        ``NO_LIMIT_MS``.
        """
        known = self._nodes.get(node_id)
        if known is None:
            return 0
        if known.state in _WITHOUT_CONNECTION:
            waited_ms = now_ms - known.last_connect_attempt_ms
            return max(known.reconnect_backoff_ms - waited_ms, 0)
        if known.state is ConnectionState.CONNECTING:
            return known.setup_timeout_ms
        return NO_LIMIT_MS

    def connecting(self, node: Node, now_ms: int) -> None:
        """A connection to ``node`` is being started; take its address from ``current_address``.

        A repeated attempt moves on to the next address. If the node's host or port changed, it
        begins anew, without the backoff earned by the old address.
        """
        known = self._nodes.get(node.id)
        if known is not None and self._is_at(known, node):
            known.addresses.move_to_next()
        else:
            known = _NodeState(
                NodeAddresses(node.host, node.port, self._resolver),
                self._setup_timeout.backoff_ms(0),
            )
            known.reconnect_backoff_ms = self._reconnect_backoff.backoff_ms(0)
            self._nodes[node.id] = known
        known.last_connect_attempt_ms = now_ms
        known.is_overdue = False
        known.state = ConnectionState.CONNECTING

    def current_address(self, node_id: int) -> Address:
        """Address of the attempt under way (P-G.4.5). Blocks for DNS when it has to be resolved.

        Raises:
            OSError: the name does not resolve; report it with ``disconnected``.
            IllegalStateError: ``connecting`` was never called for the node.
        """
        return self._known(node_id).addresses.current()

    def checking_api_versions(self, node_id: int) -> None:
        """The channel is open, TLS and SASL are done, and ApiVersions is being sent."""
        known = self._known(node_id)
        known.state = ConnectionState.CHECKING_API_VERSIONS
        self._reset_setup_timeout(known)

    def ready(self, node_id: int, api_versions: ApiVersions) -> None:
        """A good ApiVersions answer arrived: requests may be sent (P-G.5.7)."""
        known = self._known(node_id)
        known.state = ConnectionState.READY
        known.api_versions = api_versions
        known.failed_attempts = 0
        known.failed_authentications = 0
        known.reconnect_backoff_ms = self._reconnect_backoff.backoff_ms(0)
        self._reset_setup_timeout(known)

    def closing(self, node_id: int) -> None:
        """The connection is being closed, and is no longer READY; `disconnected` follows."""
        known = self._known(node_id)
        if known.state is ConnectionState.READY:
            known.state = ConnectionState.CLOSING

    def disconnected(self, node_id: int, now_ms: int) -> None:
        """The connection ended, or could not be made; without effect if there was none
        (P-G.4.7).
        """
        known = self._known(node_id)
        if known.state in _WITHOUT_CONNECTION:
            return
        self._grow_reconnect_backoff(known, now_ms)
        if known.state is ConnectionState.CONNECTING:
            known.failed_connect_attempts += 1
            known.setup_timeout_ms = self._setup_timeout.backoff_ms(known.failed_connect_attempts)
        else:
            self._reset_setup_timeout(known)
        if known.state in _ANSWERING:
            # A connection that was good is lost: the host may have moved (P-G.4.5). One that never
            # was says nothing of the addresses behind its own, which come next.
            known.addresses.clear()
        known.state = ConnectionState.DISCONNECTED
        known.api_versions = None

    def authentication_failed(self, node_id: int, now_ms: int) -> None:
        """The connection ended because one side did not accept who the other is (P-G.4.6).

        Backs off as ``disconnected`` does, and by half a second at least, then by a whole one.
        """
        known = self._known(node_id)
        if known.state in _WITHOUT_CONNECTION:
            return
        self._grow_reconnect_backoff(known, now_ms)
        least_ms = self._refused_backoff.backoff_ms(known.failed_authentications)
        known.reconnect_backoff_ms = max(known.reconnect_backoff_ms, least_ms)
        known.failed_authentications += 1
        self._reset_setup_timeout(known)
        known.state = ConnectionState.AUTHENTICATION_FAILED
        known.api_versions = None

    def retry_refused(self) -> None:
        """Why authentications failed is no longer so: their nodes may be connected to at once."""
        for known in self._nodes.values():
            if known.state is ConnectionState.AUTHENTICATION_FAILED:
                known.reconnect_backoff_ms = 0
                known.failed_authentications = 0

    def forget_old_addresses(self, nodes: Iterable[Node]) -> None:
        """Nodes that are elsewhere now owe nothing for what their old addresses have failed."""
        for node in nodes:
            known = self._nodes.get(node.id)
            is_idle = known is not None and known.state in _WITHOUT_CONNECTION
            if known is not None and is_idle and not self._is_at(known, node):
                del self._nodes[node.id]

    def have_all_failed_again(self, nodes: Sequence[Node]) -> bool:
        """None of these nodes has a connection, and each has failed twice in a row, or more.

        The first may be the end of a connection that there was.
        """
        found = [self._nodes.get(node.id) for node in nodes]
        return all(
            known is not None and known.state in _WITHOUT_CONNECTION and known.failed_attempts > 1
            for known in found
        )

    def is_connecting(self, node_id: int) -> bool:
        """The channel is not established yet."""
        return self.state(node_id) is ConnectionState.CONNECTING

    def is_preparing_connection(self, node_id: int) -> bool:
        """On the way to READY: connecting, or waiting for the ApiVersions answer."""
        return self.state(node_id) in (
            ConnectionState.CONNECTING,
            ConnectionState.CHECKING_API_VERSIONS,
        )

    def is_new(self, node_id: int) -> bool:
        """No connection to it has been ready or has failed, at the address that it has."""
        known = self._nodes.get(node_id)
        if known is None:
            return True
        return known.failed_attempts == 0 and self.is_preparing_connection(node_id)

    def is_any_node_connecting(self) -> bool:
        """Some node is on the way to READY (P-H.2.7)."""
        return any(self.is_preparing_connection(node_id) for node_id in self._nodes)

    def is_ready(self, node_id: int, now_ms: int) -> bool:
        """READY and not throttled."""
        known = self._nodes.get(node_id)
        return (
            known is not None
            and known.state is ConnectionState.READY
            and known.throttled_until_ms <= now_ms
        )

    def nodes_with_setup_timeout(self, now_ms: int) -> list[int]:
        """Connecting nodes whose setup timeout is over: close them (P-G.4.4), and say so by
        ``overdue``.
        """
        return [
            node_id
            for node_id, known in self._awaited()
            if now_ms - known.last_connect_attempt_ms > known.setup_timeout_ms
        ]

    def overdue(self, node_id: int) -> None:
        """The attempt is being given up: it is no longer among ``nodes_with_setup_timeout``."""
        self._known(node_id).is_overdue = True

    def setup_delay_ms(self, now_ms: int) -> int:
        """How long ``nodes_with_setup_timeout`` stays as it is; at least 1."""
        ends = (
            known.last_connect_attempt_ms + known.setup_timeout_ms for _, known in self._awaited()
        )
        return max(min(ends, default=NO_LIMIT_MS) - now_ms + 1, 1)

    def _awaited(self) -> Iterator[tuple[int, _NodeState]]:
        for node_id, known in self._nodes.items():
            if known.state is ConnectionState.CONNECTING and not known.is_overdue:
                yield node_id, known

    def throttle_delay_ms(self, node_id: int, now_ms: int) -> int:
        """How long the node is still to be sent nothing; 0: it may be."""
        known = self._nodes.get(node_id)
        return 0 if known is None else max(known.throttled_until_ms - now_ms, 0)

    def throttle(self, node_id: int, until_ms: int) -> None:
        """Send the node nothing until ``until_ms``; an earlier moment than before is ignored."""
        known = self._known(node_id)
        known.throttled_until_ms = max(known.throttled_until_ms, until_ms)

    def api_versions(self, node_id: int) -> ApiVersions | None:
        """What the node offers, while it is READY or CLOSING (P-G.5.5)."""
        known = self._nodes.get(node_id)
        return None if known is None else known.api_versions

    def least_loaded_node(
        self,
        nodes: Sequence[Node],
        now_ms: int,
        *,
        in_flight_count: Callable[[int], int],
        can_send_more: Callable[[int], bool],
    ) -> LeastLoadedNode:
        """The node to ask next, from a random start (P-G.6).

        Prefers one that can be sent to (with nothing in flight at once, else the fewest), then one
        being connected, then the connectable one with the oldest last attempt.

        Args:
            nodes: the cluster's nodes.
            now_ms: the time.
            in_flight_count: requests in flight to a node id.
            can_send_more: whether a ready node's channel takes one more request (P-G.2.1).

        Raises:
            IllegalStateError: ``nodes`` is empty.
        """
        if not nodes:
            raise IllegalStateError("there are no nodes in the Kafka cluster")
        start = self._random_index(len(nodes))
        fewest = 0
        is_any_ready = False
        sendable: Node | None = None
        connecting: Node | None = None
        connectable: Node | None = None
        for node in (*nodes[start:], *nodes[:start]):
            # One that is throttled answers, only later: no reason to look for other brokers.
            is_any_ready = is_any_ready or self.state(node.id) in _ANSWERING
            if self.is_ready(node.id, now_ms):
                if not can_send_more(node.id):
                    continue
                count = in_flight_count(node.id)
                if count == 0:
                    return LeastLoadedNode(node, True)
                if sendable is None or count < fewest:
                    sendable, fewest = node, count
            elif self.is_preparing_connection(node.id):
                connecting = node
            elif self.can_connect(node.id, now_ms) and (
                connectable is None or self._last_attempt(node) < self._last_attempt(connectable)
            ):
                connectable = node
        return LeastLoadedNode(sendable or connecting or connectable, is_any_ready)

    def _known(self, node_id: int) -> _NodeState:
        known = self._nodes.get(node_id)
        if known is None:
            raise IllegalStateError(f"no connection to node {node_id} was ever started")
        return known

    @staticmethod
    def _is_at(known: _NodeState, node: Node) -> bool:
        return (known.addresses.host, known.addresses.port) == (node.host, node.port)

    def _last_attempt(self, node: Node) -> float:
        known = self._nodes.get(node.id)
        return float("-inf") if known is None else known.last_connect_attempt_ms

    def _grow_reconnect_backoff(self, known: _NodeState, now_ms: int) -> None:
        # The delay runs from the end of the attempt, not from its start (P-G.4.2).
        known.last_connect_attempt_ms = now_ms
        known.reconnect_backoff_ms = self._reconnect_backoff.backoff_ms(known.failed_attempts)
        known.failed_attempts += 1

    def _reset_setup_timeout(self, known: _NodeState) -> None:
        known.failed_connect_attempts = 0
        known.setup_timeout_ms = self._setup_timeout.backoff_ms(0)

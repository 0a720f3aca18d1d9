"""MetadataUpdater: whom to ask for metadata, and when to start again from bootstrap_servers."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import NamedTuple

from fastprod.client.connections.connection_states import (
    NO_LIMIT_MS,
    ClusterConnectionStates,
    LeastLoadedNode,
)
from fastprod.client.metadata.metadata import Metadata, MetadataChanges, MetadataRequestAndVersion
from fastprod.error_codes import REBOOTSTRAP_REQUIRED
from fastprod.errors import IllegalStateError, KafkaError, error_for_code
from fastprod.log import Log
from fastprod.protocol.field_types import SchemaError
from fastprod.protocol.messages.metadata import MetadataResponse
from fastprod.records import Node

_LOG = Log(__name__)

_WAIT_WITHOUT_BACKOFF_MS = 10
"""Between two looks while nothing can be done; what happens meanwhile wakes the thread."""
_PARTITION_LIMIT = 1 << 20
"""No topic has so many: a damaged number must not become memory."""


def check_partitions(response: MetadataResponse) -> None:
    """Refuse an answer with impossible partition numbers.

    Raises:
        SchemaError: and which they are.
    """
    for topic in response.topics:
        numbers = [partition.partition_index for partition in topic.partitions]
        if numbers and not 0 <= min(numbers) <= max(numbers) < _PARTITION_LIMIT:
            raise SchemaError(
                f"topic {topic.name!r} has partitions numbered {min(numbers)} to {max(numbers)}"
            )


class Step(enum.Enum):
    """What the control thread should do for metadata now."""

    WAIT = "wait"
    CONNECT = "connect"
    SEND = "send"


class MetadataStep(NamedTuple):
    """Answer of ``MetadataUpdater.maybe_update``.

    Attributes:
        step: what to do.
        delay_ms: when to ask ``maybe_update`` again at the latest; ``NO_LIMIT_MS`` for an event.
        node: whom to connect or send to; None with WAIT.
        request: what to send; None but with SEND.
    """

    step: Step
    delay_ms: int
    node: Node | None = None
    request: MetadataRequestAndVersion | None = None


class MetadataUpdater:
    """One metadata request at a time, to the least loaded node (P-H.2.5 to P-H.2.7, P-H.5).

    Decides only; the control thread sends, connects and reports. Used by that thread. Times are
    ms of the clock of ``metadata``.

    Args:
        metadata: what to keep up to date.
        connections: states of the connections, the same the caller reports to.
        in_flight_count: requests in flight to a node id.
        can_send_more: whether a ready node's channel takes one more request (P-G.2.1).
        rebootstraps: ``metadata.recovery.strategy`` is "rebootstrap".
        rebootstrap_trigger_ms: ``metadata.recovery.rebootstrap.trigger.ms``.
        reconnect_backoff_ms: ``reconnect.backoff.ms``.
        request_timeout_ms: ``request.timeout.ms``.

    Source: Java's ``NetworkClient.DefaultMetadataUpdater``, KIP-899, KIP-1102.
    """

    def __init__(
        self,
        metadata: Metadata,
        connections: ClusterConnectionStates,
        *,
        in_flight_count: Callable[[int], int],
        can_send_more: Callable[[int], bool],
        rebootstraps: bool,
        rebootstrap_trigger_ms: int,
        reconnect_backoff_ms: int,
        request_timeout_ms: int,
    ) -> None:
        self._metadata = metadata
        self._connections = connections
        self._in_flight_count = in_flight_count
        self._can_send_more = can_send_more
        self._rebootstraps = rebootstraps
        self._rebootstrap_trigger_ms = rebootstrap_trigger_ms
        self._reconnect_backoff_ms = reconnect_backoff_ms or _WAIT_WITHOUT_BACKOFF_MS
        self._request_timeout_ms = request_timeout_ms
        self._in_progress: tuple[int, MetadataRequestAndVersion] | None = None
        self._attempt_start_ms: int | None = None
        self._is_rebootstrap_demanded = False

    @property
    def is_in_progress(self) -> bool:
        """A request is on its way."""
        return self._in_progress is not None

    def is_update_due(self, now_ms: int) -> bool:
        """A request should be sent and none is on its way (P-G.2.8: then it goes first)."""
        return not self.is_in_progress and self._metadata.time_to_next_update_ms(now_ms) == 0

    def maybe_update(self, now_ms: int) -> MetadataStep:
        """Decide what to do now. With SEND the request counts as sent (P-H.2.7).

        Starts again from the bootstrap servers when nothing is left to try (P-H.5.2): the nodes of
        ``metadata.cluster`` are then others than before. While all of these fail, those of before
        and the bootstrap servers are tried, too.
        """
        delay_ms = self._metadata.time_to_next_update_ms(now_ms)
        if self.is_in_progress:
            delay_ms = max(delay_ms, self._request_timeout_ms)
        if delay_ms > 0:
            return MetadataStep(Step.WAIT, delay_ms)
        if self._attempt_start_ms is None:
            self._attempt_start_ms = now_ms
        found = self._least_loaded_node(self._metadata.cluster.nodes, now_ms)
        # From the bootstrap servers themselves there is nowhere to go back to.
        is_lost = not found.has_node_or_ready_connection and not self._metadata.cluster.is_bootstrap
        if self._rebootstraps and is_lost:
            self.rebootstrap(now_ms)
            found = self._least_loaded_node(self._metadata.cluster.nodes, now_ms)
        elif self._is_at_a_loss:
            found = self._least_loaded_node(self._all_nodes, now_ms)
        door = None if found.is_any_connection_ready else self._open_door(now_ms)
        if door is not None:
            return self._step_to(door, now_ms)
        if found.node is None:
            return MetadataStep(Step.WAIT, self._reconnect_backoff_ms)
        return self._step_to(found.node, now_ms)

    def handle_response(
        self,
        response: MetadataResponse,
        now_ms: int,
        *,
        apply: Callable[[MetadataChanges], None] | None = None,
    ) -> MetadataChanges | KafkaError:
        """Take the answer to the request on its way; `apply` as in ``Metadata.update``.

        Returns:
            What changed, or why the answer counts as a failure (P-H.2.5, P-H.5.3), for the caller
            to record with the broker's name. After REBOOTSTRAP_REQUIRED ``needs_rebootstrap`` is
            true.

        Raises:
            IllegalStateError: no request is on its way, or the metadata is closed.
        """
        if self._in_progress is None:
            raise IllegalStateError("a metadata answer arrived, and no request was on its way")
        _, request = self._in_progress
        self._in_progress = None
        if response.error_code == REBOOTSTRAP_REQUIRED and self._rebootstraps:
            self._is_rebootstrap_demanded = True
            return self._failed(error_for_code(REBOOTSTRAP_REQUIRED), now_ms)
        if response.error_code:
            return self._failed(error_for_code(response.error_code), now_ms)
        if not response.brokers:
            # A broker that is starting may answer so.
            return self._failed(KafkaError("the metadata answer names no broker"), now_ms)
        self._attempt_start_ms = None
        self._is_rebootstrap_demanded = False
        changes = self._metadata.update(request, response, now_ms, apply=apply)
        self._connections.forget_old_addresses(self._metadata.cluster.nodes)
        return changes

    def handle_failed_request(self, now_ms: int, fatal_error: KafkaError | None = None) -> None:
        """The request on its way failed: lost, unreadable, or refused before it was sent.

        Args:
            now_ms: the time.
            fatal_error: an error for the waiters, such as ``UnsupportedVersionError`` (P-G.2.7).
        """
        self._in_progress = None
        if fatal_error is not None:
            self._metadata.fatal_error(fatal_error)
        self._metadata.failed_update(now_ms)

    def handle_disconnect(self, node_id: int, now_ms: int) -> None:
        """A connection ended: the request on it failed, and what we know may be stale (P-H.2.6).

        Args:
            node_id: the connection's node.
            now_ms: the time.
        """
        if self._in_progress is not None and self._in_progress[0] == node_id:
            self.handle_failed_request(now_ms)
        elif self.is_update_due(now_ms) and not self._may_try_another(now_ms):
            self._metadata.failed_update(now_ms)
        self._metadata.request_update()

    def needs_rebootstrap(self, now_ms: int) -> bool:
        """Whether to close every connection and call ``rebootstrap`` (KIP-1102, P-H.5.3)."""
        if not self._rebootstraps:
            return False
        if self._is_rebootstrap_demanded:
            return True
        start_ms = self._attempt_start_ms
        return start_ms is not None and now_ms - start_ms > self._rebootstrap_trigger_ms

    def rebootstrap(self, now_ms: int) -> None:
        """Start again from the bootstrap servers; the clock of P-H.5.3 starts anew."""
        _LOG.info("no known broker answers: starting again from bootstrap_servers")
        self._metadata.rebootstrap()
        self._attempt_start_ms = now_ms
        self._is_rebootstrap_demanded = False

    def time_to_rebootstrap_ms(self, now_ms: int) -> int:
        """How long until ``needs_rebootstrap`` may become true by itself."""
        if not self._rebootstraps or self._attempt_start_ms is None:
            return NO_LIMIT_MS
        return max(self._attempt_start_ms + self._rebootstrap_trigger_ms + 1 - now_ms, 0)

    def _failed(self, error: KafkaError, now_ms: int) -> KafkaError:
        self._metadata.failed_update(now_ms)
        return error

    def _step_to(self, node: Node, now_ms: int) -> MetadataStep:
        if self._connections.is_ready(node.id, now_ms) and self._can_send_more(node.id):
            request = self._metadata.new_request(now_ms)
            self._in_progress = (node.id, request)
            return MetadataStep(Step.SEND, self._request_timeout_ms, node, request)
        if self._connections.is_any_node_connecting():
            # One attempt at a time: others are not bothered while one may still succeed.
            return MetadataStep(Step.WAIT, self._reconnect_backoff_ms)
        if self._connections.can_connect(node.id, now_ms):
            return MetadataStep(Step.CONNECT, self._reconnect_backoff_ms, node)
        return MetadataStep(Step.WAIT, NO_LIMIT_MS)

    @property
    def _is_at_a_loss(self) -> bool:
        """Every broker has failed, again: they may be elsewhere by now.

        Brokers fail one after the other, and the first has done its backoff when the last has
        failed, so that there is always one left to try. From here on bootstrap_servers are tried
        beside them, and after a bootstrap the brokers of before: all that can be at once, as all
        have backoffs of their own.
        """
        return self._rebootstraps and self._connections.have_all_failed_again(
            self._metadata.cluster.nodes
        )

    @property
    def _all_nodes(self) -> Sequence[Node]:
        """The bootstrap servers, and the brokers as they were last known: either may be old."""
        return (*self._metadata.known_cluster.nodes, *self._metadata.bootstrap_nodes)

    def _open_door(self, now_ms: int) -> Node | None:
        """A bootstrap server that is connected, while no broker has been yet (P-H.2.10).

        It answers at once, where a broker would have to be connected to first.
        """
        cluster = self._metadata.cluster
        if cluster.is_bootstrap or not all(
            self._connections.is_new(node.id) for node in cluster.nodes
        ):
            return None
        for node in self._metadata.bootstrap_nodes:
            if self._connections.is_ready(node.id, now_ms) and self._can_send_more(node.id):
                return node
        return None

    def _may_try_another(self, now_ms: int) -> bool:
        return self._is_at_a_loss and any(
            self._connections.can_connect(node.id, now_ms) for node in self._all_nodes
        )

    def _least_loaded_node(self, nodes: Sequence[Node], now_ms: int) -> LeastLoadedNode:
        return self._connections.least_loaded_node(
            nodes,
            now_ms,
            in_flight_count=self._in_flight_count,
            can_send_more=self._can_send_more,
        )

"""TransactionRequests: sends what a TransactionManager has in line, one at a time (P-I.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from fastprod._core.engine.control_queue import ControlEvent
from fastprod.client.connections.broker_connections import LONGEST_SLEEP_MS
from fastprod.client.connections.connection_states import ClusterConnectionStates
from fastprod.client.connections.control_requests import PendingRequest
from fastprod.client.transactions.ending_question import EndingQuestion, ending_question
from fastprod.client.transactions.producer_id_handlers import (
    EndTxnHandler,
    InitProducerIdHandler,
)
from fastprod.client.transactions.request_handler import CoordinatorType, TxnRequestHandler
from fastprod.client.transactions.transaction_manager import TransactionManager
from fastprod.client.transactions.transaction_state import TransactionState
from fastprod.errors import AuthenticationError, UnsupportedVersionError
from fastprod.protocol.api_keys import DESCRIBE_TRANSACTIONS, INIT_PRODUCER_ID
from fastprod.protocol.field_types import SchemaError
from fastprod.records import Node

_BUSY_MS: Final = 50
_EPOCH_BUMP_FROM: Final = 3


class Connections(Protocol):
    """What is used of `BrokerConnections`."""

    def ready_node(self, now_ms: int) -> Node | None: ...
    def can_send_more(self, node_id: int) -> bool: ...
    def connect(self, node: Node, now_ms: int) -> None: ...
    def newest(self, node: Node) -> Node: ...
    def pick_version(self, node_id: int, api_key: int) -> int: ...
    def slot(self, node_id: int) -> int: ...
    def send(
        self,
        frame: bytes,
        pending: PendingRequest,
        *,
        ending: int = 0,
        question: EndingQuestion | None = None,
    ) -> int: ...
    def forget(self, token: int) -> None: ...
    def disconnect_reason(self, node_id: int) -> str: ...
    def throttle(self, pending: PendingRequest, throttle_ms: int) -> None: ...


class _EarlyEnd(NamedTuple):
    """An EndTxn that the engine sends by itself."""

    handler: TxnRequestHandler
    token: int
    ending: int


class TransactionRequests:
    """Finds the broker for each request, and takes its answer.

    Where Java's I/O thread waits, for a connection or a backoff, this one is looked at again.

    Args:
        manager: has the requests in line.
        connections: to the brokers.
        states: their bookkeeping.
        client_id: in every request.
        request_timeout_ms: how long a coordinator may take to be connected.
        clock_ms: the control thread's.

    Used by the control thread.  Source: Sender.maybeSendAndPollTransactionalRequest; P-F.1.3.
    """

    def __init__(
        self,
        manager: TransactionManager,
        connections: Connections,
        states: ClusterConnectionStates,
        client_id: str,
        request_timeout_ms: int,
        clock_ms: Callable[[], int],
    ) -> None:
        self._manager = manager
        self._connections = connections
        self._states = states
        self._client_id = client_id
        self._request_timeout_ms = request_timeout_ms
        self._clock_ms = clock_ms
        self._in_flight: TxnRequestHandler | None = None
        self._early_end: _EarlyEnd | None = None
        self._may_ask_for_ends = True
        self._waiting_for: Node | None = None

    def why_waiting(self) -> str:
        """What the request that is next waits for, if that is a broker. Any thread."""
        node, handler = self._waiting_for, self._in_flight
        if handler is not None:
            before = f"; before, {handler.last_refusal}" if handler.last_refusal else ""
            return f"{handler.api.name} has no answer yet{before}"
        if node is None:
            waiting = self._manager.line.all()
            return next((each.last_refusal for each in waiting if each.last_refusal), "")
        why = self._connections.disconnect_reason(node.id)
        return why or f"the coordinator {node.host}:{node.port} is not connected"

    def do_due(self, now_ms: int) -> int:
        """Send what is to go next; returns ms to the next look."""
        while self._in_flight is None:
            handler = self._manager.next_request()
            if handler is None:
                self._maybe_end_early(now_ms)
                break
            if handler.due_ms > now_ms:
                return handler.due_ms - now_ms
            node = self._manager.line.coordinator(handler)
            if handler.coordinator_type is None:
                node = self._connections.ready_node(now_ms)
                if node is None:
                    break  # a connection that is ready wakes us
            elif node is None:
                self._manager.line.lookup_coordinator(handler.coordinator_type, handler.group_id)
                continue
            else:
                delay_ms = self._connect(handler, node, now_ms)
                if delay_ms > 0:
                    return min(delay_ms, LONGEST_SLEEP_MS)
                if self._manager.line.coordinator(handler) is None:
                    continue  # it is looked up anew
            self._send(handler, node)
        return LONGEST_SLEEP_MS

    def _connect(self, handler: TxnRequestHandler, node: Node, now_ms: int) -> int:
        """Ms until the coordinator may take the request; 0: it does, or was given up (P-I.3.4)."""
        assert handler.coordinator_type is not None
        states = self._states
        if states.is_ready(node.id, now_ms):
            handler.waiting_since_ms = self._waiting_for = None
            return 0 if self._connections.can_send_more(node.id) else _BUSY_MS
        self._waiting_for = node
        is_first = handler.waiting_since_ms is None
        if handler.waiting_since_ms is None:
            handler.waiting_since_ms = now_ms
        is_late = now_ms - handler.waiting_since_ms >= self._request_timeout_ms
        if is_first and states.can_connect(node.id, now_ms):
            self._connections.connect(self._connections.newest(node), now_ms)
        if is_late or states.is_disconnected(node.id):
            # Perhaps it is another one by now.
            handler.waiting_since_ms = None
            pause_ms = max(states.connection_delay_ms(node.id, now_ms), _BUSY_MS)
            if not states.is_disconnected(node.id):
                pause_ms = 0
            self._manager.line.lookup_coordinator(
                handler.coordinator_type, handler.group_id, min(pause_ms, LONGEST_SLEEP_MS)
            )
            return 0
        # When it is connected, or cannot be, we are woken; a throttle ends without a word.
        return states.throttle_delay_ms(node.id, now_ms) or LONGEST_SLEEP_MS

    def _maybe_end_early(self, now_ms: int) -> None:
        """Hand EndTxn to the engine while the last records are under way; if anything is amiss it
        is sent when its turn has come."""
        found = self._manager.early_end()
        if found is None:
            return
        handler, ending = found
        node = self._manager.line.coordinator(handler)
        if node is None or handler.due_ms > now_ms or not self._states.is_ready(node.id, now_ms):
            return
        if self._connections.can_send_more(node.id):
            self._send(handler, node, ending)

    def drained(self, ending: int) -> None:
        """Every record has its outcome, and the engine has not sent EndTxn; or it knew of none."""
        early = self._early_end
        if early is not None and early.ending <= ending:
            self._early_end = self._in_flight = None
            self._connections.forget(early.token)
            self._manager.line.enqueue(early.handler)

    def refused(self, error: AuthenticationError) -> None:
        """A broker does not let us in: init_transactions() says so, if it still waits to be sent
        (P-G.4.6). Transactions that are open wait for a better time, as their records do."""
        if self._manager.state is not TransactionState.INITIALIZING:
            return
        for handler in self._manager.line.all():
            if isinstance(handler, InitProducerIdHandler) and not handler.is_epoch_bump:
                self._manager.initialization_refused(error, handler.result)

    def question_refused(self) -> None:
        """The coordinator does not tell whether a transaction has ended: it is not asked again."""
        self._may_ask_for_ends = False
        self._manager.last_end.question = None

    def _ask_about(self, handler: EndTxnHandler, node: Node) -> EndingQuestion | None:
        """What is asked as soon as it is answered."""
        last_end = self._manager.last_end
        last_end.question = self._question(node, committed=handler.committed)
        return last_end.question if handler.is_v2 and last_end.is_followed else None

    def _question(self, node: Node, *, committed: bool) -> EndingQuestion | None:
        """P-I.7.8"""
        if not self._may_ask_for_ends:
            return None
        try:
            self._connections.pick_version(node.id, DESCRIBE_TRANSACTIONS)
        except UnsupportedVersionError:
            return None
        slot = self._connections.slot(node.id)
        transactional_id = self._manager.transactional_id
        return ending_question(slot, self._client_id, transactional_id, committed=committed)

    def _send(self, handler: TxnRequestHandler, node: Node, ending: int = 0) -> None:
        api = handler.api
        try:
            if handler.coordinator_type is CoordinatorType.TRANSACTION:
                self._learn(node)
            version = min(self._connections.pick_version(node.id, api.key), handler.highest_version)
            message = handler.message(version)
        except UnsupportedVersionError as error:
            self._manager.sent(handler)
            self._manager.unsupported(handler, error)
            return
        frame = api.request_frame(version, 0, self._client_id, message)
        self._manager.sent(handler)
        self._in_flight = handler
        pending = PendingRequest(api.key, version, node.id)
        question = None
        if isinstance(handler, EndTxnHandler):
            question = self._ask_about(handler, node)
        token = self._connections.send(frame, pending, ending=ending, question=question)
        if ending:
            self._early_end = _EarlyEnd(handler, token, ending)

    def _learn(self, node: Node) -> None:
        versions = self._states.api_versions(node.id)
        if versions is not None:
            _, highest = versions.versions.get(INIT_PRODUCER_ID, (0, 0))
            self._manager.can_bump_epoch = highest >= _EPOCH_BUMP_FROM

    def on_answer(self, event: ControlEvent, pending: PendingRequest) -> None:
        """The answer to the request that is under way, or there will be none.

        Raises:
            SchemaError: it does not parse.
        """
        handler, self._in_flight = self._in_flight, None
        assert handler is not None
        early, self._early_end = self._early_end, None
        if early is not None:
            self._manager.drained(early.ending, 1, 0)
        if event.data is None:
            self._manager.lost(handler)
            return
        try:
            _, answer = handler.api.read_response(pending.version, event.data)
            self._connections.throttle(pending, answer.throttle_time_ms)
            self._manager.answered(handler, answer, pending.version)
        except SchemaError:
            self._manager.lost(handler)
            raise

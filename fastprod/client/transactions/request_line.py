"""RequestLine: the transactional requests that wait, and who their coordinators are."""

from __future__ import annotations

import threading
from collections.abc import Callable

from fastprod.client.transactions.producer_id_handlers import FindCoordinatorHandler
from fastprod.client.transactions.request_handler import (
    CoordinatorType,
    ManagerView,
    Priority,
    TxnRequestHandler,
)
from fastprod.errors import KafkaError
from fastprod.records import Node


class RequestLine:
    """Requests by priority, first come first served among equals (P-I.3.1).

    Args:
        manager: whose requests they are.
        lock: the manager's.
        clock_ms: the control thread's.
        wake: makes that thread look at the line.

    Threads: any; every method takes the lock.  Source: TransactionManager.pendingRequests.
    """

    def __init__(
        self,
        manager: ManagerView,
        lock: threading.RLock,
        clock_ms: Callable[[], int],
        wake: Callable[[], None],
    ) -> None:
        self._manager = manager
        self._lock = lock
        self._clock_ms = clock_ms
        self._wake = wake
        self._waiting: list[TxnRequestHandler] = []
        self._coordinators: dict[CoordinatorType, tuple[str, Node]] = {}

    def enqueue(self, handler: TxnRequestHandler) -> None:
        """Behind those of its priority."""
        with self._lock:
            at = len(self._waiting)
            while at > 0 and self._waiting[at - 1].priority > handler.priority:
                at -= 1
            self._waiting.insert(at, handler)
        self._wake()

    def _enqueue_again(self, handler: TxnRequestHandler) -> None:
        """Behind those of its priority, but in front of later offsets of its group (P-I.3.10)."""
        with self._lock:
            for at, other in enumerate(self._waiting):
                if handler.offsets_of and other.offsets_of == handler.offsets_of:
                    self._waiting.insert(at, handler)
                    self._wake()
                    return
            self.enqueue(handler)

    def reenqueue(self, handler: TxnRequestHandler, backoff_ms: int | None = None) -> None:
        """Send it again after a while (P-I.3.5)."""
        pause_ms = self._manager.retry_backoff_ms if backoff_ms is None else backoff_ms
        handler.due_ms = self._clock_ms() + pause_ms
        handler.waiting_since_ms = None
        self._enqueue_again(handler)

    def first(self) -> TxnRequestHandler | None:
        """The one that goes next."""
        with self._lock:
            return self._waiting[0] if self._waiting else None

    def all(self) -> tuple[TxnRequestHandler, ...]:
        """Those that wait, as they stand in line."""
        with self._lock:
            return tuple(self._waiting)

    def remove(self, handler: TxnRequestHandler) -> None:
        """It has gone, or never will; perhaps `fail_all` has been there first."""
        with self._lock:
            if handler in self._waiting:
                self._waiting.remove(handler)

    def remove_begun(self) -> None:
        """Those that a call of the API put in line before it was interrupted."""
        for handler in self.all():
            if handler.priority in (Priority.INIT_PRODUCER_ID, Priority.END_TXN):
                self.remove(handler)

    def fail_all(self, error: KafkaError) -> None:
        """None of them will go."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            for handler in waiting:
                handler.fail(error)

    def coordinator(self, handler: TxnRequestHandler) -> Node | None:
        """Who is to be asked, as far as is known."""
        if handler.coordinator_type is None:
            return None
        with self._lock:
            key, node = self._coordinators.get(handler.coordinator_type, ("", None))
        return node if key == self._key(handler.group_id) else None

    def lookup_coordinator(
        self, kind: CoordinatorType, group_id: str = "", pause_ms: int = 0
    ) -> None:
        """Forget who it is, and ask after so long (P-I.3.4)."""
        key = self._key(group_id)
        with self._lock:
            self._coordinators.pop(kind, None)
            if any(
                isinstance(each, FindCoordinatorHandler) and (each.kind, each.key) == (kind, key)
                for each in self._waiting
            ):
                return
            finder = FindCoordinatorHandler(self._manager, kind, key)
            finder.due_ms = self._clock_ms() + pause_ms
            self.enqueue(finder)

    def coordinator_found(self, kind: CoordinatorType, key: str, node: Node) -> None:
        """It is this one."""
        with self._lock:
            self._coordinators[kind] = key, node

    def _key(self, group_id: str) -> str:
        return group_id or self._manager.transactional_id

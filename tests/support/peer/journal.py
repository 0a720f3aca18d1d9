"""The record of everything that reached the peers of one cluster, and the waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fastprod.protocol.api_keys import API_NAMES
from support.oracle.kio_codec import encode_response
from support.peer.received_batch import ReceivedBatch


class PeerFaultError(AssertionError):
    """A client broke the protocol, a script did not fit, or a scripted fault never came."""


@dataclass(eq=False)
class Request:
    """One request, complete.

    Attributes:
        node_id: the peer that received it.
        connection: number of the connection at that peer, from 1.
        arrival: number among all requests of the cluster, from 1.
        payload: the frame without its size prefix.
        message: the decoded body: a dataclass with kio's field names; None if there is no schema.
        received_s: `time.monotonic()` of its last byte.
        batches: what a Produce request carries.
    """

    node_id: int
    connection: int
    arrival: int
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    payload: bytes
    message: Any
    received_s: float
    batches: list[ReceivedBatch] = field(default_factory=list)
    answer: Callable[[Request], bytes] | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return API_NAMES.get(self.api_key, f"API {self.api_key}")

    def encode(self, message: Mapping[str, Any], *, correlation_id: int | None = None) -> bytes:
        """The frame of a response to this request, fields by kio's names."""
        number = self.correlation_id if correlation_id is None else correlation_id
        return encode_response(self.api_key, self.version, number, message)

    def usual(self) -> bytes:
        """Do what the peer would do without a reply function; returns the frame it would send."""
        if self.answer is None:
            raise RuntimeError("usual() is for reply functions, while they run")
        return self.answer(self)

    def has_partition(self, topic: str, partition: int | None = None) -> bool:
        return any(
            each.topic == topic and partition in (None, each.partition) for each in self.batches
        )

    def __str__(self) -> str:
        return (
            f"#{self.arrival} {self.name} v{self.version}"
            f" (node {self.node_id}, connection {self.connection})"
        )


class Journal:
    """THREADS: any. `changed` is notified at every event; its lock is the cluster's.

    Args:
        patience_s: default bound of every wait.
    """

    def __init__(self, patience_s: float) -> None:
        self.patience_s = patience_s
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.requests: list[Request] = []
        self.batches: list[ReceivedBatch] = []
        self.held: dict[int, Callable[[], None]] = {}
        self._faults: list[str] = []
        self._loop_threads: set[int] = set()
        self._arrival_count = 0
        self._event_count = 0

    def next_arrival(self) -> int:
        with self.lock:
            self._arrival_count += 1
            return self._arrival_count

    def add(self, request: Request) -> None:
        with self.changed:
            self.requests.append(request)
            self.batches += request.batches
            self._notify()

    def notify(self) -> None:
        """Something happened that a wait may be for."""
        with self.changed:
            self._notify()

    def _notify(self) -> None:
        self._event_count += 1
        self.changed.notify_all()

    def hold(self, arrival: int, release: Callable[[], None]) -> None:
        with self.changed:
            self.held[arrival] = release
            self._notify()

    def let_go(self, arrival: int) -> None:
        """The held request is answered or its connection gone."""
        with self.changed:
            if self.held.pop(arrival, None) is not None:
                self._notify()

    def fault(self, text: str) -> None:
        with self.changed:
            self._faults.append(text)
            self._notify()

    def take_faults(self) -> list[str]:
        """All faults so far, which then count as dealt with."""
        with self.lock:
            taken, self._faults = self._faults, []
            return taken

    def enter_loop(self) -> None:
        """Called in a peer's own thread, which must not wait for what only it can do."""
        with self.lock:
            self._loop_threads.add(threading.get_ident())

    def wait_until(
        self, predicate: Callable[[], bool], timeout_s: float | None = None, what: str = ""
    ) -> None:
        """Wait until `predicate()`, looked at after every event.

        Raises:
            TimeoutError: with what did arrive.
        """
        bound_s = self.patience_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + bound_s
        if threading.get_ident() in self._loop_threads:
            raise RuntimeError("a reply function or predicate must not wait for the peer")
        while True:
            with self.lock:
                seen_count = self._event_count
            # Without the lock: the predicate may ask the peer's thread, which may want the lock.
            if predicate():
                return
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(
                    f"{what or 'the condition'} did not come in {bound_s} s; {self.summary()}"
                )
            with self.changed:
                if self._event_count == seen_count:
                    # Not every event is the peers': a predicate may look at the client as well.
                    self.changed.wait(min(left_s, 0.05))

    def summary(self) -> str:
        with self.lock:
            counts: dict[str, int] = {}
            for request in self.requests:
                counts[request.name] = counts.get(request.name, 0) + 1
            last = ", ".join(str(request) for request in self.requests[-5:])
            text = f"arrived: {counts}; last: {last or 'nothing'}; held: {len(self.held)}"
            return f"{text}; faults: {self._faults}" if self._faults else text

"""Acceptor: one thread that takes in the connections of one listener (contract B-A2)."""

from __future__ import annotations

import contextlib
import errno
import heapq
import itertools
import logging
import os
import selectors
import socket
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Final, Protocol

from fastprod.broker.network.admission import Admission
from fastprod.broker.network.connection import Address, hang_up
from fastprod.broker.network.connection_quotas import (
    ConnectionQuotas,
    ConnectionThrottledError,
    TooManyConnectionsError,
    WaitAbandonedError,
)
from fastprod.broker.network.rate_quota import UNLIMITED
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.wake_pipe import WakePipe
from fastprod.errors import IllegalStateError
from fastprod.frozen import FrozenRecord

_log = logging.getLogger(__name__)

# The process or the machine has run out of something; the connection stays in the queue.
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_PAUSE_S: Final = 0.1

# Held from accept(2) until the socket is noted: a child of os.fork closes all that it inherits,
# and so must not inherit a socket that nobody knows.
_accepting: Final = threading.Lock()


class Listener(FrozenRecord):
    """Where connections come in.

    Attributes:
        name: Kafka's listener name.
        host: address or name to bind to; "": every interface.
        port: 0: the system chooses one.
        max_connections: of this listener.
        max_connection_creation_rate: of this listener, a second.
        admission: what clients must prove; default: nothing.
    """

    name: str = "PLAINTEXT"
    host: str = "127.0.0.1"
    port: int = 0
    max_connections: int = UNLIMITED
    max_connection_creation_rate: float = UNLIMITED
    admission: Admission = Admission()


class AcceptingProcessor(Protocol):
    """What an Acceptor needs of a Processor."""

    def accept(
        self,
        sock: socket.socket,
        may_block: bool,
        peer_address: Address | None = None,
        local_address: Address | None = None,
    ) -> bool: ...
    def start(self) -> None: ...
    def begin_shutdown(self) -> None: ...
    def shutdown(self, timeout_s: float) -> None: ...
    def abandon(self) -> None: ...


class AcceptorConfig(Protocol):
    """The settings an Acceptor reads (B-A1)."""

    @property
    def socket_send_buffer_bytes(self) -> int: ...
    @property
    def socket_receive_buffer_bytes(self) -> int: ...
    @property
    def socket_listen_backlog_size(self) -> int: ...


def open_listening_socket(listener: Listener, config: AcceptorConfig) -> socket.socket:
    """Bind and listen; non-blocking.

    Raises:
        OSError: the address cannot be had; the message names it.
    """
    host = listener.host or None
    try:
        found = socket.getaddrinfo(
            host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Before the bind: accepted sockets inherit it, and windows scale by it (B-A2.3).
            if config.socket_receive_buffer_bytes != -1:
                listening.setsockopt(
                    socket.SOL_SOCKET, socket.SO_RCVBUF, config.socket_receive_buffer_bytes
                )
            listening.bind(address)
            listening.listen(config.socket_listen_backlog_size)
            listening.setblocking(False)
        except BaseException:
            listening.close()
            raise
    except OSError as error:
        raise OSError(
            error.errno,
            f"listener {listener.name} cannot listen on {listener.host}:{listener.port}:"
            f" {error.strerror}",
        ) from error
    return listening


class Acceptor:
    """Accepts what comes in on a listener and deals it out to its Processors in turn.

    It listens from the start, so that `port` is known and clients may connect, but accepts nothing
    before `start` (B-A2.2, B-A2.8).  Its thread sleeps until a connection comes, the throttle of a
    parked one ends or it is woken; no error ends it (B-A2.7).

    Args:
        listener: where.
        processors: one or more; the Acceptor starts and stops them.
        quotas: decide whether a connection is accepted, and may make the thread wait.
        config: of the sockets.
        clock: measures throttles, and how long accepting was blocked.
        node_id: for the thread's name.

    Attributes:
        listener: as given.
        processors: as given.

    Raises:
        OSError: the address cannot be had.
    """

    def __init__(
        self,
        listener: Listener,
        processors: Sequence[AcceptingProcessor],
        quotas: ConnectionQuotas,
        config: AcceptorConfig,
        clock: Clock,
        node_id: int = 0,
    ) -> None:
        self.listener = listener
        self.processors = tuple(processors)
        self._quotas = quotas
        self._clock = clock
        self._send_buffer_bytes = config.socket_send_buffer_bytes
        self._next_processor = 0
        self._blocked_ns = 0
        self._blocked_since_ns: int | None = None
        self._started_ns: int | None = None
        self._ended_ns: int | None = None
        # A heap of connections that come too fast: end of the throttle, order, socket (B-A2.5).
        self._parked: list[tuple[int, int, socket.socket]] = []
        self._park_order = itertools.count()
        # Accepted sockets that no Processor's selector has taken over yet.
        self._accepted: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._paused_until: float | None = None
        self._state_lock = threading.Lock()
        self._stopping = threading.Event()
        self._closed = False
        name = f"{node_id}-{listener.name}"
        self._thread = threading.Thread(
            target=self._run, name=f"fastprod-acceptor-{name}", daemon=True
        )
        self._listening = open_listening_socket(listener, config)
        address = self._listening.getsockname()
        self.host: str = address[0]
        self.port: int = address[1]
        with contextlib.ExitStack() as on_error:
            on_error.callback(hang_up, self._listening)
            self._wake = WakePipe()
            on_error.callback(self._wake.close)
            self._selector = selectors.DefaultSelector()
            on_error.callback(self._selector.close)
            on_error.pop_all()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._unsubscribe = clock.subscribe(self._wake.wake)

    # What other threads call.

    def start(self) -> None:
        """Start the Processors, then the thread; once.

        Raises:
            IllegalStateError: it was started or stopped before.
        """
        with self._state_lock:
            if self._started_ns is not None or self._stopping.is_set():
                raise IllegalStateError(
                    f"listener {self.listener.name} starts once, and not after its end"
                )
            for processor in self.processors:
                processor.start()
            self._started_ns = self._clock.monotonic_ns()
            self._thread.start()

    def begin_shutdown(self) -> None:
        """Tell the thread and the Processors to end, wherever they wait.  May be repeated."""
        with self._state_lock:
            self._stopping.set()
        for processor in self.processors:
            processor.begin_shutdown()
        self._quotas.wake_waiters()
        self._wake.wake()

    def shutdown(self, timeout_s: float) -> None:
        """`begin_shutdown`, then wait until nobody is left; may be repeated, also unstarted.

        The port is free afterwards, parked connections are closed (B-A2.9) and every Processor has
        closed its own.

        Raises:
            TimeoutError: a thread still runs after `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        self.begin_shutdown()
        late: TimeoutError | None = None
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        if self._thread.is_alive():
            late = TimeoutError(f"{self._thread.name} has not ended within {timeout_s} s")
        else:
            self._close()
        for step in [processor.shutdown for processor in self.processors]:
            try:
                step(max(0.0, deadline - time.monotonic()))
            except TimeoutError as error:
                late = late or error
        if late is not None:
            raise late

    def _close(self) -> None:
        with self._state_lock:
            if self._closed:
                return
            self._closed = True
        self._ended_ns = self._clock.monotonic_ns()
        self._unsubscribe()
        # Whatever child has a copy of it: the port is free, and nobody connects any more.
        hang_up(self._listening)
        for *_, sock in self._parked:
            hang_up(sock)
        self._parked.clear()
        self._selector.close()
        self._wake.close()

    def abandon(self) -> None:
        """In the child of a fork, where the thread is not: let go of the descriptors.

        The parent's port and connections stay untouched, and no lock is taken.
        """
        self._stopping = threading.Event()
        self._stopping.set()
        if self._closed:
            return
        self._closed = True
        self._listening.close()
        for sock in self._accepted:
            sock.close()
        # Its own descriptor alone: the set behind it is the parent's too.
        self._selector.close()
        self._wake.abandon()
        for processor in self.processors:
            processor.abandon()

    @property
    def blocked_ratio(self) -> float:
        """`AcceptorBlockedPercent`, 0 to 1: share of the time that it could not accept."""
        if self._started_ns is None:
            return 0.0
        now_ns = self._ended_ns or self._clock.monotonic_ns()
        since_ns = self._blocked_since_ns
        blocked_ns = self._blocked_ns + (0 if since_ns is None else now_ns - since_ns)
        return min(1.0, max(0, blocked_ns) / max(1, now_ns - self._started_ns))

    @property
    def blocked_ns(self) -> int:
        """Nanoseconds of the waits that have ended."""
        return self._blocked_ns

    @property
    def is_blocked(self) -> bool:
        """Whether a connection waits now for a slot, for the rate, or for a Processor."""
        return self._blocked_since_ns is not None

    # The thread.

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._turn()
            except Exception:
                _log.exception("listener %s: a turn of the loop has failed", self.listener.name)
                # The cause may last: no busy loop.
                self._stopping.wait(_PAUSE_S)

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._timeout_s()):
            if key.fileobj is self._wake:
                self._wake.drain()
            else:
                self._accept_one()
        self._close_parked()
        if self._paused_until is not None and time.monotonic() >= self._paused_until:
            self._paused_until = None
            self._selector.register(self._listening, selectors.EVENT_READ)

    def _timeout_s(self) -> float | None:
        timeouts = []
        if self._parked:
            timeouts.append(self._clock.seconds_until(self._parked[0][0]))
        if self._paused_until is not None:
            timeouts.append(max(0.0, self._paused_until - time.monotonic()))
        return min((each for each in timeouts if each is not None), default=None)

    def _accept_one(self) -> None:
        """Take in who has waited longest; whether there are more, the next turn sees.

        Who comes alone, as a login does, is not followed by a second try.
        """
        if self._stopping.is_set():
            return
        try:
            with _accepting:
                sock, address = self._listening.accept()
                self._accepted.add(sock)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno in _EXHAUSTED:
                self._pause(error)
            else:
                # The client left before it was accepted.
                _log.debug("listener %s: accept: %s", self.listener.name, error)
            return
        self._let_in(sock, address[:2])

    def _pause(self, error: OSError) -> None:
        _log.error(
            "listener %s takes nobody in for %.1f s: %s", self.listener.name, _PAUSE_S, error
        )
        if self._paused_until is None:
            self._selector.unregister(self._listening)
        self._paused_until = time.monotonic() + _PAUSE_S

    def _let_in(self, sock: socket.socket, address: tuple[str, int]) -> None:
        try:
            self._quotas.inc(self.listener.name, address[0], self._has_waited, self._may_wait)
        except ConnectionThrottledError as error:
            _log.debug("listener %s: parked: %s", self.listener.name, error)
            heapq.heappush(self._parked, (error.end_ns, next(self._park_order), sock))
        except TooManyConnectionsError as error:
            _log.info("listener %s: closed: %s", self.listener.name, error)
            self._close_counted(sock, address[0])
        except WaitAbandonedError:
            hang_up(sock)
        except BaseException:
            hang_up(sock)
            raise
        else:
            self._hand_over(sock, address)

    def _hand_over(self, sock: socket.socket, address: tuple[str, int]) -> None:
        taken = False
        try:
            self._configure(sock)
            local = sock.getsockname()[:2]
            taken = self._assign(sock, address, local)
        except OSError as error:
            _log.info("listener %s: closed: %s:%d: %s", self.listener.name, *address, error)
            if error.errno in _EXHAUSTED:
                self._pause(error)
        except Exception:
            _log.exception("listener %s: closed: %s:%d", self.listener.name, *address)
        if not taken:
            self._close_counted(sock, address[0])

    def _close_counted(self, sock: socket.socket, address: str) -> None:
        """Close a connection that has been counted."""
        hang_up(sock)
        self._quotas.dec(self.listener.name, address)

    def _configure(self, sock: socket.socket) -> None:
        """B-A2.4."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._send_buffer_bytes != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)

    def _assign(self, sock: socket.socket, address: Address, local: Address) -> bool:
        """Round robin over those with room; if none has, wait for the last one's turn (B-A2.6)."""
        for _ in self.processors:
            processor = self.processors[self._next_processor]
            self._next_processor = (self._next_processor + 1) % len(self.processors)
            if processor.accept(sock, False, address, local):
                return True
        self._blocked_since_ns = start_ns = self._clock.monotonic_ns()
        try:
            return processor.accept(sock, True, address, local)
        finally:
            self._has_waited(self._clock.monotonic_ns() - start_ns)

    def _may_wait(self) -> bool:
        """Note that a wait begins; returns whether it may."""
        if self._blocked_since_ns is None:
            self._blocked_since_ns = self._clock.monotonic_ns()
        return not self._stopping.is_set()

    def _has_waited(self, blocked_ns: int) -> None:
        self._blocked_ns += blocked_ns
        self._blocked_since_ns = None

    def _close_parked(self) -> None:
        """B-A2.5: those whose throttle has ended."""
        now_ns = self._clock.monotonic_ns()
        while self._parked and self._parked[0][0] <= now_ns:
            hang_up(heapq.heappop(self._parked)[2])

    def __repr__(self) -> str:
        return f"Acceptor({self.listener.name}, {self.host}:{self.port})"


os.register_at_fork(
    before=_accepting.acquire,
    after_in_parent=_accepting.release,
    after_in_child=_accepting.release,
)

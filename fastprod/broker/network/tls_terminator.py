"""TlsTerminator: takes the TLS off a listener's connections (B-A4.7)."""

from __future__ import annotations

import contextlib
import itertools
import logging
import select
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from typing import Final

from fastprod.broker.network.connection import Address
from fastprod.broker.threads.wake_pipe import WakePipe

_log = logging.getLogger(__name__)

# What one connection may hold in each direction: a few records of TLS.
_HELD_BYTES: Final = 64 * 1024
_PART_BYTES: Final = 16 * 1024
# One connection may not keep the others waiting: some 256 KiB in each direction.
_ROUNDS: Final = 16
# How long a client may take to receive the rest when its connection or the listener has ended.
_DRAIN_S: Final = 30.0
_LINGER_S: Final = 1.0
# How often connections whose client takes nothing are checked.
_LOOK_S: Final = 1.0
# After an error whose cause may last.
_PAUSE_S: Final = 0.1
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class TlsTerminator:
    """A thread between clients that speak TLS and Processors that read plain bytes.

    A Processor gets one end of a pair of local sockets for the client's socket, and limits, idle
    times and closing mean the same on both. Python's `ssl` does the rest: a broker for tests needs
    no faster one.

    Args:
        context: with a certificate.
        name: of the thread.

    Raises:
        OSError: no descriptor is left.
    """

    def __init__(self, context: ssl.SSLContext, name: str) -> None:
        self._context = context
        self._new: deque[_Relay] = deque()
        self._stopping = threading.Event()
        self._closed = False
        # Their connections, by the thread alone once it has started.
        self._relays: set[_Relay] = set()
        self._unfinished: set[_Relay] = set()  # those with more to move when their turn ended
        self._halted: set[_Relay] = set()  # those whose client takes nothing
        self._draining: dict[_Relay, float] = {}  # those whose Processor has ended, until when
        self._wake = WakePipe()
        try:
            self._selector = selectors.DefaultSelector()
        except OSError:
            self._wake.close()
            raise
        self._selector.register(self._wake, _READ)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # What other threads call.

    def start(self) -> None:
        """Start the thread, once."""
        self._thread.start()

    def wrap(self, sock: socket.socket, remote: Address) -> socket.socket:
        """Return the plain end of a connection; `sock` belongs to the terminator from now on.

        Does not wait for the handshake: nothing can be read until it is done.

        Args:
            sock: accepted, not blocking.
            remote: address of the client, for the log.

        Raises:
            OSError: no descriptor is left, or the client has gone; `sock` is closed.
        """
        with contextlib.ExitStack() as on_error:
            on_error.callback(sock.close)
            ours, theirs = socket.socketpair()
            on_error.callback(ours.close)
            on_error.callback(theirs.close)
            ours.setblocking(False)
            theirs.setblocking(False)
            # Asked here first: wrap_socket would leave a socket behind if it failed.
            sock.getpeername()
            wrapped = self._context.wrap_socket(
                sock, server_side=True, do_handshake_on_connect=False
            )
            on_error.pop_all()
        self._new.append(_Relay(wrapped, ours, remote))
        self._wake.wake()
        return theirs

    def shutdown(self, timeout_s: float) -> None:
        """End the thread, when the Processors have ended; may be repeated, also unstarted.

        What they have answered goes out to clients that take it within a second.

        Raises:
            TimeoutError: it still runs after `timeout_s`.
        """
        self._stopping.set()
        self._wake.wake()
        if self._thread.ident is None:
            self._close()
            return
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name} has not ended within {timeout_s} s")

    def abandon(self) -> None:
        """In the child of a fork, where the thread is not: let go of the descriptors."""
        self._stopping = threading.Event()
        self._stopping.set()
        if not self._closed:
            self._closed = True
            self._close_relays()
            # Its own descriptor alone: the set behind it is the parent's too.
            self._selector.close()
            self._wake.abandon()

    # The thread.

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                try:
                    self._turn(None)
                except Exception:
                    _log.exception("%s: a turn of the loop has failed", self._thread.name)
                    self._stopping.wait(_PAUSE_S)
            end = time.monotonic() + _LINGER_S
            while self._relays and time.monotonic() < end:
                self._turn(end)
        finally:
            self._close()

    def _turn(self, end: float | None) -> None:
        ready, self._unfinished = self._unfinished, set()
        for key, _ in self._selector.select(0 if ready else self._timeout_s(end)):
            if key.data is None:
                self._wake.drain()
            else:
                ready.add(key.data)
        while self._new:
            # In one of the two at any time, for the child of a fork to find it.
            self._relays.add(self._new[0])
            ready.add(self._new.popleft())
        for relay in ready:
            self._move(relay)
        now = time.monotonic()
        for relay in self._halted:
            if relay.is_given_up():
                self._draining.setdefault(relay, now + _DRAIN_S)
        while self._draining and (late := next(iter(self._draining.items())))[1] <= now:
            self._end(late[0])

    def _timeout_s(self, end: float | None) -> float | None:
        now = time.monotonic()
        timeouts = [until - now for until in itertools.islice(self._draining.values(), 1)]
        if end is not None:
            timeouts.append(end - now)
        if self._halted:
            timeouts.append(_LOOK_S)
        return max(0.0, min(timeouts)) if timeouts else None

    def _move(self, relay: _Relay) -> None:
        try:
            is_over = relay.pump()
            relay.watch(self._selector)
        except Exception:
            _log.exception("%s: its TLS connection is closed", relay)
            is_over = True
        if is_over:
            self._end(relay)
            return
        if relay.is_unfinished:
            self._unfinished.add(relay)
        if relay.server_ended:
            self._draining.setdefault(relay, time.monotonic() + _DRAIN_S)
        if relay.is_halted:
            self._halted.add(relay)
        else:
            self._halted.discard(relay)

    def _end(self, relay: _Relay) -> None:
        relay.close(self._selector)
        for relays in (self._relays, self._unfinished, self._halted):
            relays.discard(relay)
        self._draining.pop(relay, None)

    def _close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._close_relays()
        self._selector.close()
        self._wake.close()

    def _close_relays(self) -> None:
        for relay in (*self._relays, *self._new):
            relay.close(None)
        self._relays.clear()
        self._unfinished.clear()
        self._halted.clear()
        self._draining.clear()
        self._new.clear()


class _Relay:
    """One connection: the client's end and ours, and what is on its way from one to the other.

    Attributes:
        server_ended: the Processor has closed its end, and all that it wrote has been read.
        is_unfinished: the turn was over before everything was moved.
    """

    def __init__(self, tls: ssl.SSLSocket, plain: socket.socket, remote: Address) -> None:
        self._tls = tls
        self._plain = plain
        self._remote = remote
        self._to_plain = bytearray()
        self._to_tls = bytearray()
        self._is_ready = False  # the handshake is done
        self._wants_write = False  # TLS itself has something to send
        self._is_heard_out = False  # the client has ended its direction, or the Processor its end
        self._is_gone = False  # nothing can be sent to the client
        self.server_ended = False
        self.is_unfinished = False
        self._watched: dict[socket.socket, int] = {tls: 0, plain: 0}

    def __repr__(self) -> str:
        return f"{self._remote[0]}:{self._remote[1]}"

    @property
    def is_halted(self) -> bool:
        """Whether too much waits for the client to read more from the Processor."""
        return not self.server_ended and len(self._to_tls) >= _HELD_BYTES

    def is_given_up(self) -> bool:
        """Whether the Processor has closed its end; some of what it wrote may be unread."""
        poll = select.poll()
        poll.register(self._plain, 0)  # a hang-up is told without being asked for
        return bool(poll.poll(0))

    def pump(self) -> bool:
        """Move all bytes that can be moved; returns whether the connection is over."""
        self._wants_write = False
        for _ in range(_ROUNDS):
            moved = self._shake_hands() | self._decrypt() | self._deliver()
            moved |= self._collect() | self._encrypt()
            self.is_unfinished = moved
            if not moved:
                break
        return self.server_ended and (self._is_gone or not self._to_tls)

    def watch(self, selector: selectors.BaseSelector) -> None:
        """Register for the events by which bytes can be moved."""
        tls = _WRITE if self._wants_write or (self._is_ready and self._to_tls) else 0
        if not self._is_heard_out and len(self._to_plain) < _HELD_BYTES:
            tls |= _READ
        plain = _WRITE if self._to_plain else 0
        if not self.server_ended and len(self._to_tls) < _HELD_BYTES:
            plain |= _READ
        for sock, events in ((self._tls, tls), (self._plain, plain)):
            before, self._watched[sock] = self._watched[sock], events
            if before == events:
                continue
            if not events:
                selector.unregister(sock)
            elif before:
                selector.modify(sock, events, self)
            else:
                selector.register(sock, events, self)

    def close(self, selector: selectors.BaseSelector | None) -> None:
        """Close both ends; the client is told if it can be."""
        for sock, events in self._watched.items():
            if selector is not None and events:
                # KeyError: that has just failed.
                with contextlib.suppress(KeyError):
                    selector.unregister(sock)
        if selector is not None and self._is_ready and not self._is_gone:
            with contextlib.suppress(OSError, ValueError):
                self._tls.unwrap()
        self._tls.close()
        self._plain.close()

    # Each of these returns whether it moved something.

    def _shake_hands(self) -> bool:
        if self._is_ready or self._is_gone:
            return False
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLWantWriteError:
            self._wants_write = True
            return False
        except OSError as error:
            _log.info("%s: no TLS connection: %s", self, error)
            self._is_gone = True
            self._hear_no_more()
            return True
        self._is_ready = True
        return True

    def _decrypt(self) -> bool:
        room = _HELD_BYTES - len(self._to_plain)
        if not self._is_ready or self._is_heard_out or room <= 0:
            return False
        try:
            part = self._tls.recv(min(room, _PART_BYTES))
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLWantWriteError:
            self._wants_write = True
            return False
        except OSError as error:
            _log.debug("%s: %s", self, error)
            part = b""
        if part:
            self._to_plain += part
        else:
            self._hear_no_more()
        return True

    def _deliver(self) -> bool:
        if not self._to_plain:
            return False
        try:
            del self._to_plain[: self._plain.send(self._to_plain)]
        except BlockingIOError:
            return False
        except OSError:
            # The Processor has closed its end. What it wrote before that can still be read.
            self._to_plain.clear()
            self._is_heard_out = True
        self._say_if_heard_out()
        return True

    def _collect(self) -> bool:
        room = _HELD_BYTES - len(self._to_tls)
        if self.server_ended or room <= 0:
            return False
        try:
            part = self._plain.recv(min(room, _PART_BYTES))
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        self._to_tls += part
        self.server_ended = not part
        return True

    def _encrypt(self) -> bool:
        if self._is_gone:
            self._to_tls.clear()
        if not self._is_ready or not self._to_tls:
            return False
        try:
            del self._to_tls[: self._tls.send(self._to_tls)]
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return False
        except OSError as error:
            _log.debug("%s: %s", self, error)
            self._is_gone = True
            self._hear_no_more()
        return True

    def _hear_no_more(self) -> None:
        self._is_heard_out = True
        self._say_if_heard_out()

    def _say_if_heard_out(self) -> None:
        """Let the Processor read what was sent, then the end."""
        if self._is_heard_out and not self._to_plain:
            with contextlib.suppress(OSError):
                self._plain.shutdown(socket.SHUT_WR)

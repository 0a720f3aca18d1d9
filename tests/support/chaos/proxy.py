"""ChaosProxy: stands on loopback before each node of a cluster, and is as bad a network as told."""

from __future__ import annotations

import contextlib
import queue
import random
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from support.chaos.conditions import GOOD, Conditions
from support.chaos.flow import Pair
from support.chaos.request_spotter import INIT_PRODUCER_ID, Spotted

_HOST = "127.0.0.1"
_BACKLOG = 128
_PATIENCE_S = 20.0
_IDLE_S = 1.0
_FIRST_PORT, _LAST_PORT = 12_000, 32_000  # below those that the system gives to clients

Watch = Callable[[int, Spotted], None]


class Way:
    """The way to one node: its port, its conditions, its connections."""

    def __init__(self, proxy: ChaosProxy, number: int, listener: socket.socket) -> None:
        self.number = number
        self.conditions = GOOD
        self.target: int | None = None
        self.pairs: set[Pair] = set()
        self.port: int = listener.getsockname()[1]
        self.listener = listener
        self._proxy = proxy

    def requested(self, request: Spotted) -> None:
        """See `Link`."""
        self._proxy.spotted(self.number, request)

    def given_up(self, request: Spotted) -> None:
        """See `Link`."""
        if request.api_key == INIT_PRODUCER_ID:
            self._proxy.unanswered_inits[request.client_id] += 1


class ChaosProxy:
    """Ports for the nodes of a cluster, neighbours; what comes to one is passed on to its node.

    Args:
        count: number of nodes.
        seed: of jitter and cuts.

    Threads: one of its own, which does all; the methods may be called by any, and return when it is
    so, at most after 20 s.

    `unanswered_inits`: how often a client has asked for a producer id or epoch and had no answer.
    """

    def __init__(self, count: int, seed: int = 0) -> None:
        self._ways = [Way(self, number, each) for number, each in enumerate(_neighbours(count))]
        self._chance = random.Random(seed)
        self._selector = selectors.DefaultSelector()
        self._orders: queue.SimpleQueue[tuple[Callable[[], None], Future[None]]] = (
            queue.SimpleQueue()
        )
        self._bell, self._ear = socket.socketpair()
        self._ear.setblocking(False)
        self._masks: dict[socket.socket, int] = {}
        self._watches: list[Watch] = []
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="chaos proxy", daemon=True)
        self.connection_count = 0
        self.unanswered_inits: Counter[str] = Counter()

    @property
    def ports(self) -> list[int]:
        """The port of each node, for clients."""
        return [way.port for way in self._ways]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{_HOST}:{port}" for port in self.ports)

    def __enter__(self) -> Self:
        self._selector.register(self._ear, selectors.EVENT_READ)
        for way in self._ways:
            self._listen(way)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_closing = True
        with contextlib.suppress(OSError):  # the thread was awake: it has seen it, and has ended
            self._bell.send(b"x")
        self._thread.join(_PATIENCE_S)
        assert not self._thread.is_alive()

    # Orders, of any thread.

    def lead_to(self, targets: Sequence[int]) -> None:
        """Pass connections that come from now on to these ports of nodes."""
        for way, target in zip(self._ways, targets, strict=True):
            way.target = target

    def set(self, number: int, conditions: Conditions) -> None:
        """Change the conditions of the way to one node."""
        self._order(lambda: self._set(self._ways[number], conditions))

    def conditions(self, number: int) -> Conditions:
        return self._ways[number].conditions

    def cut(self, number: int) -> None:
        """Reset every connection to one node that there is."""

        def do() -> None:
            for pair in self._ways[number].pairs:
                pair.reset()

        self._order(do)

    def lose_servers(self, number: int) -> None:
        """End the node's side of its connections; set `held` before, and clients are not told."""

        def do() -> None:
            for pair in self._ways[number].pairs:
                pair.lose_server()

        self._order(do)

    def watch(self, look: Watch) -> Callable[[], None]:
        """Have a function called with each request, and its node's number, before it goes on.

        Args:
            look: called by the proxy's thread; it may call `set_at_once`, and must not block.

        Returns: a function that ends this.
        """
        self._watches.append(look)
        return lambda: self._watches.remove(look)

    def set_at_once(self, number: int, conditions: Conditions) -> None:
        """`set` for a function given to `watch`; it does not refuse connections."""
        self._ways[number].conditions = conditions

    def _order(self, work: Callable[[], None]) -> None:
        done: Future[None] = Future()
        self._orders.put((work, done))
        self._bell.send(b"x")
        done.result(_PATIENCE_S)

    # The rest is the thread's.

    def spotted(self, number: int, request: Spotted) -> None:
        """A request has begun."""
        for look in list(self._watches):
            look(number, request)

    def _set(self, way: Way, conditions: Conditions) -> None:
        way.conditions = conditions
        for pair in way.pairs:
            pair.left_bytes = conditions.reset_after

    def _listen(self, way: Way) -> None:
        self._selector.register(way.listener, selectors.EVENT_READ, way)

    def _run(self) -> None:
        try:
            while not self._is_closing:
                self._turn()
        finally:
            self._close()

    def _turn(self) -> None:
        for key, mask in self._selector.select(self._pause_s()):
            found = key.data
            if isinstance(found, Way):
                self._accept(found)
            elif isinstance(found, Pair):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if mask & selectors.EVENT_WRITE:
                    found.writable(sock)
                if mask & selectors.EVENT_READ:
                    found.readable(sock, time.monotonic())
            else:
                with contextlib.suppress(BlockingIOError):
                    self._ear.recv(4096)
        while not self._orders.empty():
            work, done = self._orders.get()
            try:
                work()
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)
        now_s = time.monotonic()
        for way in self._ways:
            for pair in list(way.pairs):
                pair.pump(now_s)
                self._arm(way, pair)

    def _pause_s(self) -> float:
        due = [pair.next_due_s() for way in self._ways for pair in way.pairs]
        first = min((each for each in due if each is not None), default=None)
        return _IDLE_S if first is None else min(max(first - time.monotonic(), 0.0), _IDLE_S)

    def _accept(self, way: Way) -> None:
        try:
            client = way.listener.accept()[0]
        except OSError:
            return
        server = socket.socket()
        for sock in (client, server):
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pair = Pair(way, client, server, self._chance)
        pair.left_bytes = way.conditions.reset_after
        way.pairs.add(pair)
        self.connection_count += 1
        if way.target is None or way.conditions.is_refusing:
            pair.reset()
        else:
            server.connect_ex((_HOST, way.target))

    def _arm(self, way: Way, pair: Pair) -> None:
        """Have the selector look for what the pair waits for; close it when it is over."""
        if pair.is_over:
            way.pairs.discard(pair)
            for sock in (pair.client, pair.server):
                self._look(sock, 0, pair)
                sock.close()
            return
        requests, answers = pair.flows
        for sock, source, sink in (
            (pair.client, requests, answers),
            (pair.server, answers, requests),
        ):
            mask = 0
            if source.wants_bytes and (pair.is_connected or sock is pair.client):
                mask |= selectors.EVENT_READ
            if sink.is_blocked or (sock is pair.server and not pair.is_connected):
                mask |= selectors.EVENT_WRITE
            self._look(sock, mask, pair)

    def _look(self, sock: socket.socket, mask: int, pair: Pair) -> None:
        before = self._masks.get(sock, 0)
        if mask == before:
            return
        if not before:
            self._selector.register(sock, mask, pair)
        elif mask:
            self._selector.modify(sock, mask, pair)
        else:
            self._selector.unregister(sock)
        if mask:
            self._masks[sock] = mask
        else:
            del self._masks[sock]

    def _close(self) -> None:
        for way in self._ways:
            for pair in way.pairs:
                pair.client.close()
                pair.server.close()
            way.listener.close()
        self._selector.close()
        self._bell.close()
        self._ear.close()


def _listener(port: int) -> socket.socket:
    found = socket.socket()
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((_HOST, port))
        found.listen(_BACKLOG)
        found.setblocking(False)
    except BaseException:
        found.close()
        raise
    return found


def _neighbours(count: int) -> list[socket.socket]:
    for _ in range(1000):
        first = random.randrange(_FIRST_PORT, _LAST_PORT - count)
        with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
            found = [opened.enter_context(_listener(port)) for port in range(first, first + count)]
            opened.pop_all()
            return found
    raise RuntimeError(f"no {count} neighbouring ports are free")


def free_neighbours(count: int) -> int:
    """The first of so many neighbouring ports that nobody uses now."""
    listeners = _neighbours(count)
    first: int = listeners[0].getsockname()[1]
    for each in listeners:
        each.close()
    return first

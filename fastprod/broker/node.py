"""One node of a broker: a SocketServer with a number, which can go down and come up again."""

from __future__ import annotations

import functools
import threading

from fastprod.broker.acceptor import Listener
from fastprod.broker.authenticator import SaslAuthenticator
from fastprod.broker.clock import Clock
from fastprod.broker.cluster import NodeAddress
from fastprod.broker.request_metrics import RequestMetrics
from fastprod.broker.security import Security
from fastprod.broker.shared_state import SharedState
from fastprod.broker.socket_server import SocketServer
from fastprod.broker.thread_end import END_TIMEOUT_S

_ANY_ADDRESS = ("", "0.0.0.0", "::")


class Node:
    """One node. `Broker` makes it; `down` and `up` may be called by any thread.

    Its port is open from the start, and the same after `up`.

    Args:
        node_id: its number.
        state: what it shares with the others.
        clock: for its connections.
        host: address that it listens on.
        port: 0: the system chooses one.
        advertised_host: address that clients are told; None: `host`, or 127.0.0.1 if that is every
            address of this machine.
        security: what it asks of its clients; None: nothing.

    Raises:
        OSError: the address cannot be had.
    """

    def __init__(
        self,
        node_id: int,
        state: SharedState,
        clock: Clock,
        host: str,
        port: int,
        advertised_host: str | None = None,
        security: Security | None = None,
    ) -> None:
        self.id = node_id
        self.metrics = RequestMetrics()
        self._state = state
        self._clock = clock
        self._host = host
        self._advertised_host = advertised_host or ("127.0.0.1" if host in _ANY_ADDRESS else host)
        self._security = security or Security()
        self._lock = threading.Lock()
        self._server: SocketServer | None = self._listen(port)
        self._port = self._server.bound_port()
        self._is_started = False
        self._reads = True

    @property
    def host(self) -> str:
        """Address that clients are told."""
        return self._advertised_host

    @property
    def port(self) -> int:
        """Port that it listens on; the same for its whole life."""
        return self._port

    @property
    def is_up(self) -> bool:
        """Whether it serves."""
        return self._is_started

    @property
    def server(self) -> SocketServer | None:
        """Its network layer; None while it is down."""
        return self._server

    def __repr__(self) -> str:
        return f"Node({self.id}, {self.host}:{self.port}, {'up' if self.is_up else 'down'})"

    def up(self) -> None:
        """Serve; nothing if it does. Partitions that have no leader and a replica here get it.

        Raises:
            OSError: somebody else has taken its port meanwhile.
        """
        with self._lock:
            if self._is_started:
                return
            server = self._server or self._listen(self._port)
            self._server = server
            if not self._reads:
                server.set_reading(False)
            self._state.cluster.node_up(NodeAddress(self.id, self.host, self.port))
            self._is_started = True
            server.start()

    def down(self, move_leaders: bool = True) -> None:
        """Close its port and its connections; nothing if it is down. Blocks until they are closed.

        Args:
            move_leaders: other nodes take over its partitions at once, as after a real failure;
                False: they have no leader until it is back (LEADER_NOT_AVAILABLE).
        """
        with self._lock:
            server, self._server = self._server, None
            was_started, self._is_started = self._is_started, False
            if was_started:
                lost = self._state.cluster.node_down(self.id, move_leaders)
                for partition in lost:
                    self._state.purgatory.check_and_complete(partition)
            if server is not None:
                server.shutdown()

    def set_reading(self, reads: bool, waits: bool = True) -> None:
        """Read nothing from its connections, or everything again, also after `up`.

        Args:
            reads: which of the two.
            waits: until it is so; a thread of the broker must not.

        Raises:
            TimeoutError: a network thread is busy for very long.
        """
        # Without the lock, which `down` holds while it waits for threads that may be here. `up`
        # looks at `_reads` when its server can be seen.
        self._reads = reads
        server = self._server
        if server is not None:
            server.set_reading(reads, END_TIMEOUT_S if waits else 0)

    def begin_shutdown(self) -> None:
        """Tell its threads to end."""
        server = self._server
        if server is not None:
            server.begin_shutdown()

    def close(self) -> None:
        """Close its port and its connections; partitions keep their leaders."""
        with self._lock:
            server, self._server = self._server, None
            self._is_started = False
            if server is not None:
                server.shutdown()

    def abandon(self) -> None:
        """In the child of a fork: close the inherited sockets; the parent's stay as they are."""
        server, self._server = self._server, None
        self._is_started = False
        if server is not None:
            server.abandon()

    def _listen(self, port: int) -> SocketServer:
        return SocketServer(
            [self._listener(port)],
            handler=self._state.apis,
            parse_header=self._state.table.parse_header,
            config=self._state.config,
            clock=self._clock,
            node_id=self.id,
            metrics=self.metrics,
            disconnect_listeners=(self._state.connection_ended,),
        )

    def _listener(self, port: int) -> Listener:
        security, state = self._security, self._state
        new_authenticator = None
        if security.users is not None:
            new_authenticator = functools.partial(
                SaslAuthenticator,
                users=security.users,
                table=state.table,
                config=state.config,
                clock=self._clock,
            )
        return Listener(
            security.protocol,
            self._host,
            port,
            ssl_context=security.ssl_context,
            new_authenticator=new_authenticator,
        )

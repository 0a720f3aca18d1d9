"""Node: one node of a broker as users see it, and NodeServer, the broker's own side of it."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Mapping

from fastprod.broker.cluster.cluster import NodeAddress
from fastprod.broker.listener_security import ListenerSecurity
from fastprod.broker.listeners import BrokerListener, Endpoint, Listeners
from fastprod.broker.network.acceptor import Listener
from fastprod.broker.network.admission import Admission
from fastprod.broker.network.request_metrics import RequestMetrics
from fastprod.broker.network.sasl.authenticator import SaslAuthenticator
from fastprod.broker.network.socket_server import SocketServer
from fastprod.broker.server.node_services import NodeServices
from fastprod.broker.threads.clock import Clock
from fastprod.broker.threads.joining import END_TIMEOUT_S
from fastprod.errors import IllegalStateError


class NodeServer:
    """A SocketServer with a number, which can go down and come up again. Any thread.

    Its ports are open from the start, and the same after `up`.

    Args:
        node_id: its number.
        state: what it shares with the others.
        clock: for its connections.
        listeners: the ways into it, with the ports of the first node.
        security: what those with TLS or SASL need.

    Raises:
        OSError: an address cannot be had.
    """

    def __init__(
        self,
        node_id: int,
        state: NodeServices,
        clock: Clock,
        listeners: Listeners,
        security: ListenerSecurity,
    ) -> None:
        self.id = node_id
        self.metrics = RequestMetrics()
        self._state = state
        self._clock = clock
        self._listeners = {name: each.of_node(node_id) for name, each in listeners.items()}
        self._security = security
        # Threads that are waited for may be in an interceptor that needs the first lock; the second
        # stands around the waiting.
        self._lock = threading.Lock()
        self._end_lock = threading.Lock()
        # The one that was told to end, until it has.
        self._ending: SocketServer | None = None
        self._server: SocketServer | None = self._listen()
        # From now on each has a port, and gets it again.
        for name, listener in self._listeners.items():
            self._listeners[name] = listener.__replace__(port=self._server.bound_port(name))
        self.endpoints = {
            name: listener.endpoint(listener.port) for name, listener in self._listeners.items()
        }
        self._is_started = False
        self._is_closed = False
        self._reads = True

    @property
    def first(self) -> Endpoint:
        """Where clients reach its first listener."""
        return next(iter(self.endpoints.values()))

    @property
    def port(self) -> int:
        """Port that its first listener listens on; the same for its whole life."""
        return next(iter(self._listeners.values())).port

    @property
    def is_up(self) -> bool:
        """Whether it serves."""
        return self._is_started

    @property
    def server(self) -> SocketServer | None:
        """Its network layer; None while it is down."""
        return self._server

    def __repr__(self) -> str:
        return f"Node({self.id}, {self.first}, {'up' if self.is_up else 'down'})"

    def join(self) -> None:
        """Be one of the nodes that clients are told of; `up` does it, too.

        Raises:
            OSError: new leaders cannot be written down.
        """
        address = NodeAddress(self.id, *self.first, self.endpoints)
        self._state.cluster.node_up(address)

    def up(self) -> None:
        """See `Node.up`."""
        while True:
            if self._may_wait:
                self._await_end()
            with self._lock:
                if self._is_closed:
                    raise IllegalStateError(f"{self!r} stays down: its broker is stopped")
                if self._is_started:
                    return
                if self._ending is None:
                    self._start()
                    return
            if not self._may_wait:
                raise IllegalStateError(f"{self!r} has not ended yet, and an interceptor waits not")

    def _start(self) -> None:
        """Serve, even if that cannot be written down; the lock is held."""
        server = self._server or self._listen()
        self._server = server
        if not self._reads:
            server.set_reading(False)
        try:
            if not self._state.cluster.is_up(self.id):
                self.join()
        finally:
            self._is_started = True
            try:
                server.start()
            except BaseException:
                self._leave(move_leaders=True)
                raise
        self._state.leaders_moved()

    def down(self, move_leaders: bool = True, is_killed: bool = False) -> None:
        """See `Node.down` and `Node.kill`."""
        with contextlib.ExitStack() as steps:
            if self._may_wait:
                steps.callback(self._await_end)
            with self._lock:
                if self._is_started:
                    steps.callback(self._state.wake_all)
                    self._leave(move_leaders, is_killed)

    def _leave(self, move_leaders: bool, is_killed: bool = False) -> None:
        """Go down, even if that cannot be written down; the lock is held."""
        self._tell_to_end()
        self._state.cluster.node_down(self.id, move_leaders, hands_over=not is_killed)

    def _tell_to_end(self) -> None:
        self._is_started = False
        if self._server is not None:
            self._ending, self._server = self._server, None
            self._ending.begin_shutdown()

    def _await_end(self) -> None:
        with self._end_lock:
            ending = self._ending
            if ending is not None:
                ending.shutdown()
                self._ending = None

    @property
    def _may_wait(self) -> bool:
        return not self._state.apis.faults.is_called_by_interceptor

    def set_reading(self, reads: bool, waits: bool = True) -> None:
        """Read nothing from its connections, or everything again, also after `up`.

        Args:
            reads: which of the two.
            waits: whether to wait until it is so; a thread of the broker must not.

        Raises:
            TimeoutError: a network thread is busy for very long.
        """
        # Without the lock: `up` looks at `_reads` when its server can be seen.
        self._reads = reads
        server = self._server
        if server is not None:
            server.set_reading(reads, END_TIMEOUT_S if waits else 0)

    def set_fetching(self, fetches: bool) -> None:
        """Have its replicas fetch nothing from their leaders, or again."""
        self._state.replication.set_fetching(self.id, fetches)

    def cut_off(self, is_fenced: bool) -> None:
        """Have it hear nothing of the other nodes and the controller, but serve clients.

        Raises:
            OSError: the new leaders cannot be written down; it is cut off.
        """
        with self._lock:
            if self._is_started:
                self._state.replication.cut_off(self.id)
                if is_fenced:
                    cluster = self._state.cluster
                    cluster.node_down(self.id, True, hands_over=False, lives=True)
        self._state.wake_all()

    def reconnect(self) -> None:
        """Undo `cut_off`.

        Raises:
            OSError: new leaders cannot be written down.
        """
        with self._lock:
            if self._is_started and self.id in self._state.replication.reachability.cut_off:
                self.join()

    def begin_shutdown(self) -> None:
        """Tell its threads to end."""
        server = self._server
        if server is not None:
            server.begin_shutdown()

    def close(self) -> None:
        """Close its port and its connections for good; partitions keep their leaders.

        Raises:
            TimeoutError: a thread has not ended within 10 s.
        """
        with self._lock:
            self._is_closed = True
            self._tell_to_end()
        self._await_end()

    def abandon(self) -> None:
        """In the child of a fork: close the inherited sockets; the parent's stay as they are."""
        servers = (self._server, self._ending)
        self._server = self._ending = None
        self._is_started = False
        for server in servers:
            if server is not None:
                server.abandon()

    def _listen(self) -> SocketServer:
        server = SocketServer(
            [self._listener(name, each) for name, each in self._listeners.items()],
            handler=self._state.apis,
            parse_header=self._state.table.parse_header,
            config=self._state.config,
            clock=self._clock,
            node_id=self.id,
            metrics=self.metrics,
            disconnect_listeners=(self._state.connection_ended,),
        )
        try:
            self._state.limit_connections(self.id, server.quotas)
        except BaseException:
            server.shutdown()
            raise
        return server

    def _listener(self, name: str, listener: BrokerListener) -> Listener:
        security, state = self._security, self._state
        new_authenticator = None
        if listener.has_sasl:
            assert security.mechanisms is not None
            new_authenticator = functools.partial(
                SaslAuthenticator,
                mechanisms=security.mechanisms,
                table=state.table,
                config=state.config,
                clock=self._clock,
                onlooker=state.sasl_exchanges,
            )
        return Listener(
            name,
            listener.host or "",
            listener.port,
            admission=Admission(
                security.certificate if listener.has_tls else None, new_authenticator
            ),
        )


class Node:
    """One node of a broker, from `Broker.nodes`.

    Its port is open from the start of the broker, and the same after `up`.

    Threads: any.  A call blocks only where its text says so.  Source: contract B-A.
    """

    def __init__(self, server: NodeServer) -> None:
        self._server = server

    @property
    def id(self) -> int:
        """Its number, from 0 on."""
        return self._server.id

    @property
    def host(self) -> str:
        """Address that clients of its first listener are told."""
        return self._server.first.host

    @property
    def port(self) -> int:
        """Port that its first listener listens on; the same for its whole life."""
        return self._server.port

    @property
    def address(self) -> str:
        """Host and port that clients of its first listener are told; IPv6 in brackets."""
        return str(self._server.first)

    @property
    def endpoints(self) -> Mapping[str, Endpoint]:
        """Names of its listeners, and the hosts and ports that their clients are told."""
        return dict(self._server.endpoints)

    @property
    def is_up(self) -> bool:
        """Whether it serves."""
        return self._server.is_up

    def __repr__(self) -> str:
        return repr(self._server)

    def up(self) -> None:
        """Serve again; does nothing if it serves.

        It becomes the leader of partitions that have no leader and a replica here; one that was not
        in sync only with `unclean.leader.election.enable`. Its other replicas drop what their
        leaders do not have (KIP-101), fetch what they lack, and are in sync again then.

        Raises:
            OSError: another process has taken its port meanwhile. Or the new leaders cannot be
                written to `data_dir`; the node is up then, and the broker tries again each second.
            IllegalStateError: the broker is stopped; or an interceptor calls it while the node is
                still going down.
            TimeoutError: the node has not finished going down within 10 s.

        Blocks: until the node listens; up to 10 s while it is still going down.
        """
        self._server.up()

    def down(self, move_leaders: bool = True) -> None:
        """Close its port and its connections; does nothing if it is down.

        Args:
            move_leaders: True, the default: other nodes take over its partitions at once. Those of
                partitions with several replicas fetch all that it has before: nothing is lost. If
                no other replica is in sync, such a partition waits for this node. False: the
                partitions have no leader until the node is back (LEADER_NOT_AVAILABLE).

        Raises:
            OSError: the new leaders cannot be written to `data_dir`; the node is down. Its
                partitions have no leader until they can be: the broker tries again each second.
            TimeoutError: a thread has not ended within 10 s; the next `down`, `up` or stop of the
                broker waits for it again.

        Blocks: until port and connections are closed, up to 10 s. Not if an interceptor calls it:
        then they are closed soon after.
        """
        self._server.down(move_leaders)

    def kill(self) -> None:
        """End it without a word to the others, as kill -9 does; does nothing if it is down.

        Partitions with several replicas: the first other replica in sync leads from now on. What
        that had not fetched is lost: it is cut off from this node's logs when it is back, and with
        acks=1 it may have been acknowledged. If no other replica is in sync, the partition waits
        for this node, whose logs are as they were. With one replica partitions lose nothing: all
        nodes share their logs.

        Raises, blocks: as `down`.
        """
        self._server.down(is_killed=True)

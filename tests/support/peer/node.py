"""One broker as its clients see it: the listener, its connections, and every request's way."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence

from fastprod.errors import UnsupportedVersionError
from fastprod.protocol.api_keys import API_VERSIONS, PRODUCE
from support.oracle.frames import SchemaError
from support.oracle.kio_codec import decode_request, request_header
from support.peer.answers import Answers
from support.peer.cluster_state import ClusterState, NodeAddress
from support.peer.connection import After, Connection, Reply
from support.peer.event_loop import READ, EventLoop
from support.peer.journal import Journal, Request
from support.peer.peer_options import PeerOptions
from support.peer.script import Cue, Plan, Processing, Rule, Script, take_cue, take_early

HOST = "127.0.0.1"
BACKLOG = 128
_REBIND_PATIENCE_S = 5.0


class Node:
    """OWNER: a `Peer`. THREADS: methods any; the calls of its connections come in its loop's.

    Args:
        node_id: broker id.
        state: what the cluster knows.
        journal: where everything is written down.
        scripts: rules to obey, those of the node before those of the cluster.
        options: how it differs from a plain broker.
    """

    def __init__(
        self,
        node_id: int,
        state: ClusterState,
        journal: Journal,
        scripts: Sequence[Script],
        options: PeerOptions,
    ) -> None:
        self.node_id = node_id
        self.answers = Answers(state, node_id, options)
        self.connections: list[Connection] = []
        self.port = 0
        self._state = state
        self._journal = journal
        self._scripts = scripts
        self._options = options
        self._loop = EventLoop(f"peer-{node_id}", journal.patience_s, journal.fault)
        self._listener: socket.socket | None = None
        self._fillers: list[socket.socket] = []
        self._is_listening = False
        self._is_reading = True
        self._drop_count = 0
        self._early: dict[Connection, Rule] = {}

    def start(self) -> None:
        self._loop.start()
        self._loop.call(self._journal.enter_loop)
        self.listen()

    def stop(self) -> None:
        """Close every socket and end the thread; a second call is harmless."""
        with contextlib.suppress(RuntimeError):
            self._loop.call(self._close_sockets)
        self._loop.stop()

    def listen(self, *, new_port: bool = False) -> None:
        """Accept connections, on the port of before unless `new_port`."""
        self._loop.call(lambda: self._listen(0 if new_port else self.port))

    def refuse(self) -> None:
        """Refuse connections; the port stays reserved."""
        self._loop.call(self._refuse)

    def hang(self) -> None:
        """Let connects neither succeed nor fail: the queue of the listener is full (Linux)."""
        self._loop.call(self._hang)

    def close_connections(self, *, reset: bool = False) -> None:
        def close() -> None:
            for connection in self.connections:
                connection.drop("peer", reset=reset)

        self._loop.call(close)

    def drop_next_connections(self, count: int) -> None:
        def arm() -> None:
            self._drop_count = count

        self._loop.call(arm)

    def set_reading(self, is_reading: bool) -> None:
        def switch() -> None:
            self._is_reading = is_reading
            for connection in self.connections:
                if is_reading:
                    connection.unhalt_all()
                else:
                    connection.halt("test")

        self._loop.call(switch)

    def _listen(self, port: int) -> None:
        if self._is_listening and port == self.port:
            return
        self._bind(port)
        assert self._listener is not None
        self._listener.listen(BACKLOG)
        self._listener.setblocking(False)
        self._loop.watch(self._listener, READ, self._accept)
        self._is_listening = True
        self.port = self._listener.getsockname()[1]
        host = self._options.advertised_host or HOST
        with self._state.lock:
            self._state.addresses[self.node_id] = NodeAddress(host, self.port)

    def _refuse(self) -> None:
        if self._is_listening:
            # A socket that is bound but does not listen refuses, and nobody else gets the port.
            self._bind(self.port)

    def _hang(self) -> None:
        self._bind(self.port)
        assert self._listener is not None
        self._listener.listen(0)
        for _ in range(2):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex((HOST, self.port))
            self._fillers.append(filler)
        # The queue has room for one: it is full when one of them is in it.
        select.select([], self._fillers, [], self._journal.patience_s)

    def _bind(self, port: int) -> None:
        self._close_listener()
        deadline = time.monotonic() + _REBIND_PATIENCE_S
        while True:
            bound = socket.socket()
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if self._options.receive_buffer_bytes is not None:
                # Accepted sockets inherit it; set later it would not shrink the window.
                bound.setsockopt(
                    socket.SOL_SOCKET, socket.SO_RCVBUF, self._options.receive_buffer_bytes
                )
            try:
                bound.bind((HOST, port))
            except OSError:
                bound.close()
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                self._listener = bound
                return

    def _close_listener(self) -> None:
        if self._listener is not None:
            self._loop.watch(self._listener, 0, self._accept)
            self._listener.close()
        while self._fillers:
            self._fillers.pop().close()
        self._listener = None
        self._is_listening = False

    def _close_sockets(self) -> None:
        self._close_listener()
        for connection in self.connections:
            connection.drop("peer")

    def _accept(self, _events: int) -> None:
        while self._listener is not None:
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            number = len(self.connections) + 1
            connection = Connection(sock, number, self.node_id, self._loop, self)
            self.connections.append(connection)
            connection.start()
            if not self._is_reading:
                connection.halt("test")
            if self._drop_count:
                self._drop_count -= 1
                connection.drop("peer")
            self._journal.notify()

    def _rules(self) -> list[Rule]:
        return [rule for script in self._scripts for rule in script.rules]

    def frame_opened(self, connection: Connection, api_key: int, version: int) -> int | None:
        with self._journal.lock:
            rule = take_early(self._rules(), api_key, connection.number)
        if rule is None:
            return None
        self._early[connection] = rule
        return rule.plan.close_mark if rule.plan.stop_mark is None else rule.plan.stop_mark

    def mark_reached(self, connection: Connection) -> None:
        plan = self._early[connection].plan
        if plan.stop_mark is not None:
            connection.halt("script")
        else:
            connection.drop("peer", reset=plan.after is After.RESET)
        self._journal.notify()

    def frame_complete(self, connection: Connection, payload: bytes) -> None:
        early = self._early.pop(connection, None)
        request = self._request(connection, payload)
        if request is None:
            return
        # In one go: who has seen the request, or taken its rule back, can release it.
        with self._journal.lock:
            if request.api_key == PRODUCE:
                request.batches = self.answers.produce.take_apart(request)
                for fault in self.answers.produce.faults(request):
                    self._journal.fault(fault)
            cue = take_cue(self._rules(), request, early)
            connection.requests.append(request)
            plan = cue.whole
            if plan.is_before_append:
                self._defer(connection, request, cue)
            else:
                self._perform(connection, request, cue)

    def reply_sent(self, connection: Connection, reply: Reply) -> None:
        self._journal.notify()

    def connection_closed(self, connection: Connection, dropped: Sequence[Reply]) -> None:
        self._early.pop(connection, None)
        for reply in dropped:
            self._journal.let_go(reply.arrival)
        self._journal.notify()

    def client_fault(self, connection: Connection, text: str) -> None:
        self._journal.fault(f"node {self.node_id}, connection {connection.number}: {text}")
        connection.drop("peer")

    def _request(self, connection: Connection, payload: bytes) -> Request | None:
        """The request in a frame; None after hanging up on one that a broker hangs up on."""
        try:
            header = request_header(payload)
            if header.api_key != API_VERSIONS:
                refusal = self.answers.refuses(header.api_key, header.version)
                if refusal is not None:
                    self.client_fault(connection, refusal)
                    return None
            message = decode_request(payload)[1]
        except SchemaError as error:
            self.client_fault(connection, str(error))
            return None
        except UnsupportedVersionError:
            message = None
        return Request(
            self.node_id,
            connection.number,
            self._journal.next_arrival(),
            *header,
            payload,
            message,
            time.monotonic(),
        )

    def _defer(self, connection: Connection, request: Request, cue: Cue) -> None:
        """Do nothing about the request yet, and read nothing after it."""
        connection.halt("processing")
        self._journal.add(request)

        def go_on() -> None:
            self._perform(connection, request, cue)
            connection.unhalt("processing")

        if cue.whole.is_held:
            self._journal.hold(request.arrival, lambda: self._loop.call(go_on))
        else:
            self._loop.at(time.monotonic() + (cue.whole.delay_s or 0.0), go_on)

    def _perform(self, connection: Connection, request: Request, cue: Cue) -> None:
        plan = cue.whole
        frame = b""
        try:
            if plan.processing is not Processing.UNREAD:
                frame = self._frame(request, cue)
        except Exception as error:
            self.client_fault(connection, f"{request}: {error!r}")
        finally:
            # Whoever waits for the request finds its batches in the log.
            if not plan.is_before_append:
                self._journal.add(request)
            else:
                self._journal.notify()
        if plan.processing is not None:
            frame = b""
        elif not frame and any(batch.error_code for batch in request.batches):
            # acks=0: hanging up is all a broker can say (contract P-F.3.2).
            connection.drop("peer")
        self._reply(connection, request, plan, frame)

    def _frame(self, request: Request, cue: Cue) -> bytes:
        def usual(_: Request) -> bytes:
            with self._journal.lock:
                return self.answers.frame(request, cue)

        plan = cue.whole
        if plan.reply is None:
            frame = usual(request)
        elif isinstance(plan.reply, bytes):
            frame = plan.reply
        else:
            request.answer = usual
            made = plan.reply(request)
            request.answer = None
            frame = made if isinstance(made, bytes) else request.encode(made)
        for edit in plan.edits or ():
            frame = edit(frame) if frame else frame
        return frame

    def _reply(self, connection: Connection, request: Request, plan: Plan, frame: bytes) -> None:
        after = plan.after or After.STAY
        is_late = not plan.is_before_append
        is_held = bool(plan.is_held) and is_late
        delay_s = (plan.delay_s or 0.0) if is_late else 0.0
        if plan.processing and after in (After.CLOSE, After.RESET) and not is_held and not delay_s:
            # Replies that still wait are lost with the connection.
            connection.drop("peer", reset=after is After.RESET)
            return
        if not frame and after is After.STAY:
            return
        size = plan.part_bytes or len(frame) or 1
        parts = deque(frame[at : at + size] for at in range(0, len(frame), size))
        reply = Reply(parts, request.arrival, 0.0, is_held, plan.pause_s or 0.0, after)
        if delay_s:
            reply.due_s = time.monotonic() + delay_s
        if is_held and connection.is_open:
            self._journal.hold(request.arrival, self._releaser(connection, request.arrival))
        connection.queue(reply)

    def _releaser(self, connection: Connection, arrival: int) -> Callable[[], None]:
        return lambda: self._loop.call(lambda: connection.release(arrival))

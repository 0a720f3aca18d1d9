"""Processor: one thread that moves requests and responses over many connections (B-A3)."""

from __future__ import annotations

import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from fastprod._core.io.server_selector import SENT, Disconnect, Frame, PollEvents, ServerSelector
from fastprod.broker.config import BrokerConfig
from fastprod.broker.network.admission import Admission
from fastprod.broker.network.client_failure import client_failure
from fastprod.broker.network.connection import Address, Connection, hang_up
from fastprod.broker.network.connection_ids import ConnectionIds
from fastprod.broker.network.connection_quotas import Quotas
from fastprod.broker.network.mute_state import MuteEvent, MuteState, state_after
from fastprod.broker.network.new_connections import NewConnection, NewConnections
from fastprod.broker.network.reading_switch import ReadingSwitch
from fastprod.broker.network.request import (
    CloseConnectionResponse,
    EndThrottlingResponse,
    NoOpResponse,
    ParseHeader,
    RefusalResponse,
    Request,
    Response,
    SendResponse,
    StartThrottlingResponse,
    complete,
    produce_first,
)
from fastprod.broker.network.request_channel import RequestChannel
from fastprod.broker.network.request_handling import RequestHandler, handle_request
from fastprod.broker.network.request_metrics import RequestMetrics
from fastprod.broker.network.sasl.authenticator import SaslAuthenticator, SessionExpiredError
from fastprod.broker.network.throttles import Throttles
from fastprod.broker.threads.clock import Clock
from fastprod.errors import IllegalStateError

_log = logging.getLogger(__name__)

_PREFIX_BYTES: Final = 4
_NO_EVENTS: Final = PollEvents([], [], [])


class Processor:
    """Serves the connections that an Acceptor gives it, in a thread of its own.

    Nothing in it waits for a fixed time: the thread sleeps until a socket is ready, somebody calls
    `wake`, a throttle ends or a connection has been idle for too long.

    Args:
        processor_id: unique within the RequestChannel.
        listener_name: of the Acceptor it belongs to.
        request_channel: where requests go and responses come from; the Processor adds itself, and
            takes itself out when it has stopped.
        quotas: told of every connection that ends.
        config: sizes and times. Idle times are measured in real time, whatever `clock` says.
        clock: for the timestamps of requests and the ends of throttles.
        parse_header: reads a frame's header; an exception from it closes the connection (B-A3.7).
        metrics: of the node.
        inline_handler: handles the requests in this thread (single-loop mode, B-A11); None: a
            KafkaRequestHandlerPool does.
        disconnect_listeners: each is called once with every connection that ends (B-A3.13).
        new_connections_capacity_count: how many accepted sockets may wait, and how many one turn
            of the loop registers at most (B-A3.1).
        selector: polls the connections; the Processor closes it. None: makes its own.
        admission: what clients must prove; None: nothing.

    Attributes:
        id: the processor_id.
        created_count: connections registered so far.
        closed_count: how many of them have ended.
        failed_handshake_count: how many of those made no TLS connection.
        expired_count: how many of those were idle for too long (`ExpiredConnectionsKilledCount`).
        incoming_bytes: of whole requests, size prefixes included.
        outgoing_bytes: of whole responses, likewise.
        reading: whether it reads at all, for tests of clients.
        turn_count: how often the loop went round; it stands still while nothing happens.

    Raises:
        OSError: no descriptor is left for the selector.
        IllegalStateError: the channel has a Processor with this id.
    """

    def __init__(
        self,
        processor_id: int,
        listener_name: str,
        request_channel: RequestChannel,
        quotas: Quotas,
        config: BrokerConfig,
        clock: Clock,
        parse_header: ParseHeader,
        metrics: RequestMetrics,
        inline_handler: RequestHandler | None = None,
        *,
        disconnect_listeners: Sequence[Callable[[Connection], None]] = (),
        new_connections_capacity_count: int = 20,
        selector: ServerSelector | None = None,
        admission: Admission | None = None,
    ) -> None:
        self.id = processor_id
        self.listener_name = listener_name
        self.created_count = 0
        self.closed_count = 0
        self.expired_count = 0
        self.failed_handshake_count = 0
        self.incoming_bytes = 0
        self.outgoing_bytes = 0
        self.turn_count = 0
        self._channel = request_channel
        self._quotas = quotas
        self._max_idle_ms = config.connections_max_idle_ms
        self._clock = clock
        self._parse_header = parse_header
        self._recorder = metrics.recorder()
        self._inline_handler = inline_handler
        self._disconnect_listeners = tuple(disconnect_listeners)
        self._admission = admission or Admission()
        self._new_connections = NewConnections(new_connections_capacity_count)
        self._start_lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._closed = False
        self._look_again = False
        self._responses: deque[Response] = deque()
        self.reading = ReadingSwitch()
        # The attributes below are used by the Processor's thread only.
        self._connections: dict[int, Connection] = {}
        self._authenticators: dict[int, SaslAuthenticator] = {}
        self._ids = ConnectionIds(processor_id)
        self._in_flight: dict[int, SendResponse] = {}  # being written, by channel (B-A3.5)
        self._written: list[int] = []  # channels whose response the socket took at once
        self._throttles = Throttles(clock)
        self._refusals: dict[int, SendResponse] = {}  # to be sent when the throttle ends
        request_channel.add_processor(self)
        try:
            self._selector = selector or ServerSelector(config.socket_request_max_bytes)
        except BaseException:
            request_channel.remove_processor(processor_id)
            raise
        self._unsubscribe = clock.subscribe(self.wake)

    # What other threads call.

    def accept(
        self,
        sock: socket.socket,
        may_block: bool,
        peer_address: Address | None = None,
        local_address: Address | None = None,
    ) -> bool:
        """Take over an accepted, configured socket that the quotas have counted.

        Args:
            sock: closed and uncounted by the Processor if the answer is True.
            may_block: wait while the queue of new connections is full (B-A2.6).
            peer_address: (host, port) as accept(2) told it; None: the socket is asked, which fails
                if the client has reset the connection.
            local_address: likewise of this end.

        Returns:
            False: the queue is full or the Processor stops; `sock` and its count stay the caller's.

        Raises:
            OSError: the socket does not know its addresses; it stays the caller's.
        """
        new = NewConnection.of(sock, local_address, peer_address)
        if is_taken := self._new_connections.put(new, may_block):
            self._selector.wake()
        return is_taken

    def enqueue_response(self, response: Response) -> None:
        """Have the thread carry out `response`; after the end it is only completed."""
        self._responses.append(response)
        # The last drain sets `_closed` before it looks: one of the two finds the response.
        if self._closed:
            self._drop_responses()
        self._selector.wake()

    def wake(self) -> None:
        """Make the loop go round once."""
        self._look_again = True
        self._selector.wake()

    def start(self) -> None:
        """Start the thread, once.

        Raises:
            IllegalStateError: it was started or stopped before.
        """
        with self._start_lock:
            if self._thread is not None or self._stopping:
                raise IllegalStateError(f"processor {self.id} starts once, and not after its end")
            name = f"fastprod-network-{self._channel.node_id}-{self.listener_name}-{self.id}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def begin_shutdown(self) -> None:
        """Tell the thread to end; whoever blocks in `accept` goes on. May be repeated."""
        with self._start_lock:
            self._stopping = True
        self._new_connections.shut()
        self._channel.wake_senders()
        self._selector.wake()

    def shutdown(self, timeout_s: float) -> None:
        """`begin_shutdown`, then wait until every connection is closed and uncounted (B-A3.16).

        May be repeated; also without `start`.

        Raises:
            TimeoutError: the thread still runs after `timeout_s`.
        """
        self.begin_shutdown()
        thread = self._thread
        if thread is None:
            self._close_all()
            return
        thread.join(timeout_s)
        if thread.is_alive():
            raise TimeoutError(f"{thread.name} has not ended within {timeout_s} s")

    def abandon(self) -> None:
        """In the child of a fork, where the thread is not: let go of the descriptors.

        The parent's connections stay untouched, and no lock is taken: the thread that held it may
        not exist here.
        """
        self._stopping = self._closed = True
        self._new_connections.abandon()
        self._selector.abandon()

    @property
    def response_queue_size(self) -> int:
        return len(self._responses)

    @property
    def in_flight_count(self) -> int:
        """Responses that the sockets have not taken yet."""
        return len(self._in_flight)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def connections(self) -> list[Connection]:
        """Those that are registered now."""
        return list(self._connections.values())

    @property
    def io_wait_ns(self) -> int:
        """Time spent waiting for sockets, until now."""
        return self._selector.io_wait_ns

    @property
    def held_bytes(self) -> int:
        """What its requests take of queued.max.request.bytes."""
        return self._selector.held_bytes

    @property
    def has_ended(self) -> bool:
        """Whether everything is closed."""
        return self._closed

    # The thread.

    def _run(self) -> None:
        try:
            while not self._stopping:
                try:
                    self._turn()
                except Exception:
                    _log.exception("processor %d: a turn of the loop has failed", self.id)
        finally:
            self._close_all()

    def _turn(self) -> None:
        """One turn of the loop, in the contract's order.

        A socket usually takes a response at once. Such a send is completed before the poll, so
        that the poll reads the next request and nobody sleeps on a muted channel.
        """
        self.turn_count += 1
        if self._new_connections:
            self._configure_new_connections()
        self.reading.obey(self._selector, self._connections.values())
        self._process_new_responses()
        self._process_completed_sends(())
        events = self._poll()
        # Only now: until the poll it keeps the thread from sleeping.
        self._look_again = False
        for frames in produce_first(events.receives):
            self._process_completed_receives(frames)
            if self._inline_handler is not None:
                self._process_new_responses()
        self._process_completed_sends(events.completed_sends)
        if events.disconnected:
            self._process_disconnected(events.disconnected)
        self._close_excess_connections()

    def _configure_new_connections(self) -> None:
        for _ in range(self._new_connections.capacity_count):
            new = self._new_connections.take()
            if new is None:
                return
            try:
                self._register(new)
            except Exception:
                _log.exception("processor %d: no connection with %s:%d", self.id, *new.remote)
                self._uncount(new.remote[0])
                hang_up(new.sock)

    def _register(self, new: NewConnection) -> None:
        sock, local, remote = new
        name = self._ids.take(local, remote)
        try:
            channel_id = self._selector.register(sock.fileno(), self._admission.tls_context())
        except BaseException:
            self._ids.give_back(name)
            raise
        sock.detach()
        connection = Connection(name, channel_id, self.listener_name, self.id, local, remote)
        authenticator = self._admission.authenticator(connection)
        if authenticator is not None:
            self._authenticators[channel_id] = authenticator
            self._selector.limit(channel_id, authenticator.max_frame_bytes)
        self._connections[channel_id] = connection
        self.created_count += 1
        if not self.reading.is_on:
            self._selector.mute(channel_id, True)

    def _process_new_responses(self) -> None:
        self._end_throttles()
        responses = self._responses
        while responses:
            response = responses.popleft()
            try:
                self._process_response(response)
            except Exception:
                self._channel_failed(response.request.connection, "a response")
                self._complete(response)

    def _process_response(self, response: Response) -> None:
        request = response.request
        connection = request.connection
        if response.is_answer:
            request.response_dequeued_ns = self._clock.monotonic_ns()
        if isinstance(response, SendResponse):
            if isinstance(response, RefusalResponse):
                self._hold_back(connection, response)
            else:
                self._send(connection, response)
        elif isinstance(response, NoOpResponse):
            self._complete(response)
            if connection.is_open:
                self._after_response(connection)
        elif isinstance(response, CloseConnectionResponse):
            self._complete(response)
            self._close(connection)
        elif isinstance(response, StartThrottlingResponse):
            self._start_throttling(connection, response.throttle_ms)
        elif isinstance(response, EndThrottlingResponse):
            self._end_throttling(connection)

    def _send(self, connection: Connection, response: SendResponse) -> None:
        try:
            outcome = self._selector.send(connection.channel_id, response.parts)
        except KeyError:
            self._complete(response)  # the connection has ended: only counted (B-A3.4)
            return
        # Also after FAILED: the next poll reports the disconnect, and does not sleep.
        self._in_flight[connection.channel_id] = response
        if outcome == SENT:
            self._written.append(connection.channel_id)

    def _hold_back(self, connection: Connection, refusal: RefusalResponse) -> None:
        if connection.is_open:
            self._refusals[connection.channel_id] = refusal
            self._throttles.add(connection, refusal.delay_ms)
        else:
            self._complete(refusal)

    def _after_response(self, connection: Connection) -> None:
        connection.mute_state = state_after(connection.mute_state, MuteEvent.RESPONSE_SENT)
        self._try_unmute(connection)

    def _try_unmute(self, connection: Connection) -> None:
        if connection.mute_state is MuteState.MUTED:
            if (authenticator := self._authenticators.get(connection.channel_id)) is not None:
                self._selector.limit(connection.channel_id, authenticator.max_frame_bytes)
            self._selector.mute(connection.channel_id, not self.reading.is_on)
            connection.mute_state = state_after(connection.mute_state, MuteEvent.UNMUTED)

    # Throttling (B-A6).

    def _start_throttling(self, connection: Connection, throttle_ms: int | None) -> None:
        if not connection.is_open:
            return
        connection.mute_state = state_after(connection.mute_state, MuteEvent.THROTTLE_STARTED)
        if throttle_ms is not None:
            self._throttles.add(connection, throttle_ms)

    def _end_throttles(self) -> None:
        for connection in self._throttles.take_ended():
            refusal = self._refusals.pop(connection.channel_id, None)
            try:
                if refusal is None:
                    self._end_throttling(connection)
                else:
                    self._send(connection, refusal)
            except Exception:
                self._channel_failed(connection, "the end of a throttle")

    def _end_throttling(self, connection: Connection) -> None:
        if connection.is_open:
            connection.mute_state = state_after(connection.mute_state, MuteEvent.THROTTLE_ENDED)
            self._try_unmute(connection)

    # Sockets.

    def _poll(self) -> PollEvents:
        self._selector.park()
        timeout_ms = 0.0 if self._has_work() else self._throttles.timeout_ms()
        try:
            return self._selector.poll(timeout_ms, self._max_idle_ms)
        except (OSError, MemoryError):
            _log.exception("processor %d: the poll has failed", self.id)
            return _NO_EVENTS

    def _has_work(self) -> bool:
        return bool(self._responses or self._new_connections or self._look_again or self._stopping)

    def _process_completed_receives(self, frames: list[Frame]) -> None:
        now_ns = self._clock.monotonic_ns()
        for frame in frames:
            connection = self._connections[frame.channel_id]
            try:
                self._receive(connection, frame, now_ns)
            except Exception:
                self._channel_failed(connection, "a request")

    def _receive(self, connection: Connection, frame: Frame, now_ns: int) -> None:
        self.incoming_bytes += len(frame) + _PREFIX_BYTES
        channel = self._channel
        authenticator = self._authenticators.get(connection.channel_id)
        if self._admission.names_by_certificate and not connection.is_named:
            certificate = self._selector.peer_certificate(connection.channel_id)
            self._admission.name(connection, certificate)
        parse = self._parse_header if authenticator is None else authenticator.parse_header
        try:
            header = parse(memoryview(frame))
        except Exception as error:
            _log.warning("%s: closed, its request makes no sense: %r", connection.id, error)
            self.expired_count += isinstance(error, SessionExpiredError)
            self._close(connection)
            return
        request = Request(frame, header, connection, channel.node_id, now_ns, channel)
        if authenticator is not None and authenticator.takes(header):
            authenticator.handle(request)
        elif self._inline_handler is not None:
            handle_request(self._inline_handler, request, self._clock)
        elif not channel.send_request(request, self._keeps_going):
            return
        self._selector.mute(connection.channel_id, True)
        state = state_after(connection.mute_state, MuteEvent.READ)
        connection.mute_state = state_after(state, MuteEvent.REQUEST_RECEIVED)

    def _keeps_going(self) -> bool:
        return not self._stopping

    def _process_completed_sends(self, channel_ids: Sequence[int]) -> None:
        if self._written:
            written, self._written = self._written, []
            channel_ids = [*written, *channel_ids]
        for channel_id in channel_ids:
            connection = self._connections.get(channel_id)
            if connection is None:
                continue
            try:
                self._complete_send(connection)
            except Exception:
                self._channel_failed(connection, "a completed send")

    def _complete_send(self, connection: Connection) -> None:
        response = self._in_flight.pop(connection.channel_id, None)
        if response is None:
            raise IllegalStateError(f"{connection.id} completed a send that nobody asked for")
        self.outgoing_bytes += response.size_bytes
        self._complete(response)
        if isinstance(response, RefusalResponse):
            self._close(connection)
        elif response.is_answer:
            self._after_response(connection)

    def _process_disconnected(self, disconnected: list[Disconnect]) -> None:
        for gone in disconnected:
            connection = self._connections.get(gone.channel_id)
            if connection is None:
                continue
            _log.debug("%s: %s, errno %d", connection.id, gone.reason, gone.err)
            if (why := client_failure(gone)) is not None:
                _log.warning("%s: %s", connection.id, why)
            self.expired_count += gone.reason == "EXPIRED"
            self.failed_handshake_count += gone.reason == "TLS"
            self._uncount(connection.client_address)
            self._forget(connection)

    def _close_excess_connections(self) -> None:
        """Close the least recently used connection if there are too many (B-A3.14)."""
        if not self._connections or not self._quotas.max_connections_exceeded(self.listener_name):
            return
        victim = self._selector.least_recently_used()
        if victim is not None:
            self._close(self._connections[victim])
            self._look_again = True

    # How a response, a connection and the Processor end.

    def _complete(self, response: Response) -> None:
        """Count a response that is written or given up, and run its `on_complete`; once."""
        request = response.request
        if response.is_answer and request.sent_ns < 0:
            request.sent_ns = self._clock.monotonic_ns()
            self._recorder.record(request)
        if response.on_complete is not None:
            complete(response)

    def _channel_failed(self, connection: Connection, what: str) -> None:
        """Log a failure and close the one connection that it concerns (B-A3.15)."""
        _log.exception("%s: closed, because %s could not be processed", connection.id, what)
        self._close(connection)

    def _close(self, connection: Connection) -> None:
        if connection.is_open:
            # Before the close: a client that sees it may connect again at once.
            self._uncount(connection.client_address)
            self._selector.close_channel(connection.channel_id)
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        """Clean up after a channel that is closed (B-A3.13)."""
        connection.is_open = False
        del self._connections[connection.channel_id]
        self._authenticators.pop(connection.channel_id, None)
        self._ids.give_back(connection.id)
        self.closed_count += 1
        for responses in (self._in_flight, self._refusals):
            if (response := responses.pop(connection.channel_id, None)) is not None:
                self._complete(response)
        for listener in self._disconnect_listeners:
            try:
                listener(connection)
            except Exception:
                _log.exception("%s: a disconnect listener has failed", connection.id)

    def _uncount(self, address: str) -> None:
        try:
            self._quotas.dec(self.listener_name, address)
        except Exception:
            _log.exception("processor %d: %s cannot be uncounted", self.id, address)

    def _close_all(self) -> None:
        if self._closed:
            return
        self._unsubscribe()
        # Again: an error may have ended the thread before anybody asked it to end.
        self._stopping = True
        self._new_connections.shut()
        while (new := self._new_connections.take()) is not None:
            self._uncount(new.remote[0])
            hang_up(new.sock)
        for connection in self.connections():
            self._close(connection)
        self._selector.close()
        self._channel.remove_processor(self.id)
        self._closed = True
        self.reading.obey(self._selector, ())
        self._drop_responses()

    def _drop_responses(self) -> None:
        """Complete the responses that are left. Any thread, after the end."""
        while self._responses:
            try:
                response = self._responses.popleft()
            except IndexError:
                return
            self._complete(response)

"""EngineChannel: requests to one broker of a protected cluster, one after the other.

The engine connects, as it does for a producer: the same TLS, the same proxy, and the same words for
what went wrong.
"""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial

from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod._core.engine.engine import Engine
from fastprod._core.io.channel import CloseReason
from fastprod.cli.cluster.broker_access import BrokerAccess, Route
from fastprod.cli.cluster.connection_trouble import ConnectionTrouble
from fastprod.client.connections import disconnect_reasons as reasons
from fastprod.client.connections.protocol_probe import speaks_kafka, speaks_tls
from fastprod.client.connections.tls_contexts import server_name
from fastprod.client.connections.tls_reasons import tls_reason
from fastprod.client.engine_settings import engine_settings
from fastprod.client.sasl.authenticator import Authenticator, Frame
from fastprod.client.sasl.mechanism import MechanismError
from fastprod.config_values import BootstrapAddress
from fastprod.errors import KafkaError
from fastprod.protocol.api_keys import API_NAMES, API_VERSIONS
from fastprod.protocol.field_types import SchemaError

_SLOT = 0
_NODE_ID = -1


class EngineChannel:
    """A connection to one address of a broker, by TLS, SASL or a proxy, as its settings say.

    Args:
        access: the settings, and what all connections share.
        broker: the broker's host and port, as its certificate has them.
        route: where to connect to.
        timeout_s: limit of connecting, of authentication, and of each request, in seconds.

    Attributes:
        where: host:port of the broker, for messages.

    Raises:
        ConnectionTrouble: from every method but `close`, and from making one.

    Blocks: up to `timeout_s` a call; making one up to twice that.  Threads: one at a time.
    """

    def __init__(
        self, access: BrokerAccess, broker: BootstrapAddress, route: Route, timeout_s: float
    ) -> None:
        self.where = str(broker)
        self._access = access
        self._broker = broker
        self._route = route
        self._timeout_s = timeout_s
        self._deadline_s = 0.0
        self._token = 0
        self._has_answered = self._has_answered_more = False
        self._authenticator: Authenticator | None = None
        self._engine = Engine(**engine_settings(access.config))
        self._engine.start()
        try:
            self._connect()
            if access.credentials is not None:
                self._authenticate()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; calling it again does nothing."""
        self._engine.close_accumulator(discards=True)
        self._engine.stop(True)
        self._engine.join()
        self._engine.close_deliveries()

    def exchange(self, request: bytes, number: int, what: str) -> bytes:
        """Send a request; return its answer without the size prefix.

        Args:
            request: a whole frame.
            number: of no meaning here: the engine counts by itself.
            what: its name, for errors.
        """
        self._deadline_s = time.monotonic() + self._timeout_s
        return self._ask(request, what)

    def _connect(self) -> None:
        self._deadline_s = time.monotonic() + self._timeout_s
        tls = None if self._access.tls is None else self._access.tls.current()
        name = "" if tls is None else server_name(self._broker.host)
        address, plan = self._route
        self._engine.connect(_SLOT, _NODE_ID, address.packed(), self.where, tls, name, plan)
        while True:
            event = self._next_event(self._not_taken())
            if event.kind == EventKind.ON_CONNECTED:
                return

    def _not_taken(self) -> str:
        proxy = "" if self._access.proxy is None else str(self._access.proxy)
        return reasons.not_taken_reason(
            self.where,
            f"{self._timeout_s:g} s",
            proxy=proxy,
            has_tls=self._access.tls is not None,
        )

    def _authenticate(self) -> None:
        """SASL, from the first message to the last."""
        self._deadline_s = time.monotonic() + self._timeout_s
        credentials = self._access.credentials
        assert credentials is not None
        try:
            mechanism = self._access.mechanism(self._broker.host, self._deadline_s)
            made = self._authenticator = Authenticator(
                mechanism, credentials.mechanism, self.where, self._access.config.client_id
            )
            made.on_versions(self._ask_frame(made.versions_frame()))
            made.on_handshake(self._ask_frame(made.handshake_frame()))
            frame = self._in_time(made.first_token_frame)
            while frame is not None:
                answer = self._ask_frame(frame)
                frame = self._in_time(partial(made.on_authenticate, answer))
        except SchemaError as error:
            raise ConnectionTrouble(
                "not kafka",
                f"{self.where} is no Kafka broker: an answer does not parse: {error}",
            ) from error
        except (KafkaError, MechanismError) as error:
            raise ConnectionTrouble("authentication", str(error)) from error
        self._authenticator = None

    def _in_time(self, step: Callable[[], Frame | None]) -> Frame | None:
        """What a step of the mechanism comes to, which may wait for another server."""
        assert self._authenticator is not None
        if not self._authenticator.mechanism.may_block:
            return step()
        found: Future[Frame | None] = Future()

        def run() -> None:
            try:
                found.set_result(step())
            except BaseException as error:  # whoever waits gets it
                found.set_exception(error)

        # Left to itself if it takes too long: it can be stopped by nobody.
        threading.Thread(target=run, name="fastprod-sasl", daemon=True).start()
        try:
            return found.result(max(self._deadline_s - time.monotonic(), 0))
        except FutureTimeoutError:
            raise ConnectionTrouble(
                "timeout",
                f"{self._authenticator.mechanism.user} could not be authenticated with broker "
                f"{self.where} within {self._timeout_s:g} s",
            ) from None

    def _ask_frame(self, frame: Frame) -> bytes:
        return self._ask(frame.data, API_NAMES[frame.api_key])

    def _ask(self, request: bytes, what: str) -> bytes:
        self._token += 1
        self._engine.send_frame(_SLOT, self._token, request)
        while True:
            event = self._next_event(
                f"broker {self.where} took the connection and did not answer {what} within "
                f"{self._timeout_s:g} s"
            )
            # An answer without data: the connection ended, and the next event says why.
            if event.kind == EventKind.ON_RESPONSE and event.data is not None:
                self._has_answered = True
                self._has_answered_more |= what != API_NAMES[API_VERSIONS]
                return event.data

    def _next_event(self, otherwise: str) -> ControlEvent:
        """The engine's next event, if it is none of an end; `otherwise`: what comes too late."""
        left_s = self._deadline_s - time.monotonic()
        event = self._engine.next_event(max(left_s, 0))
        if event is None:
            raise ConnectionTrouble("timeout", otherwise)
        if event.kind == EventKind.ON_PROTOCOL_ERROR:
            raise ConnectionTrouble("not kafka", reasons.protocol_reason(self.where, event))
        if event.kind == EventKind.ON_DISCONNECTED:
            raise self._trouble(event)
        return event

    def _trouble(self, event: ControlEvent) -> ConnectionTrouble:
        """Why the connection ended."""
        config = self._access.config
        if self._access.proxy is not None:
            failure = self._access.proxy.failure(self.where, event)
            if failure is not None:
                return ConnectionTrouble("proxy", str(failure))
        if event.reason == CloseReason.CLOSE_TLS:
            assert config.tls is not None
            return ConnectionTrouble(
                "tls", tls_reason(self.where, self._broker.host, event, config.tls)
            )
        if not self._has_answered and self._speaks_other(event):
            text = reasons.other_protocol_reason(self.where, config.security_protocol)
            return ConnectionTrouble("protocol", text)
        limits = reasons.Limits(
            config.request_timeout_ms, config.max_receive_bytes, config.security_protocol
        )
        step = "" if self._authenticator is None else self._authenticator.step.value
        text = (
            reasons.connection_reason(
                self.where,
                event,
                limits,
                not self._has_answered,
                step,
                may_want_sasl=self._access.credentials is None and not self._has_answered_more,
            )
            or f"the connection to broker {self.where} ended"
        )
        if event.reason != CloseReason.CLOSE_NOT_CONNECTED:
            return ConnectionTrouble("closed", text)
        return ConnectionTrouble("refused" if event.err == errno.ECONNREFUSED else "network", text)

    def _speaks_other(self, event: ControlEvent) -> bool:
        """Whether the broker speaks TLS and we do not, or the reverse."""
        if self._access.tls is None and reasons.answers_in_tls(event):
            return True
        if event.reason != CloseReason.CLOSE_REMOTE or self._access.proxy is not None:
            return False
        address = self._route.address
        return speaks_tls(address) if self._access.tls is None else speaks_kafka(address)

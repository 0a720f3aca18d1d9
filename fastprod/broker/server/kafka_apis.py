"""KafkaApis: from a request to its handler, and from its answer to the network (B-A5.7)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fastprod.broker.api_table import SERVICES, ApiTable
from fastprod.broker.cluster.topics import Topics
from fastprod.broker.faults.hooks import Faults
from fastprod.broker.network.request import Request, SizedBuffer, shortened
from fastprod.broker.server.apis.api_versions import ApiVersionsApi
from fastprod.broker.server.apis.call import ApiHandler, Call
from fastprod.broker.server.apis.error_counts import error_counts
from fastprod.broker.server.authorizer import Authorizer
from fastprod.broker.server.request_log import RequestLog
from fastprod.broker.server.topic_names import FIRST_ID_VERSION, name_topics
from fastprod.error_codes import UNKNOWN_SERVER_ERROR, UNSUPPORTED_VERSION
from fastprod.protocol.api_keys import API_VERSIONS, PRODUCE
from fastprod.protocol.schema import SchemaError

_log = logging.getLogger(__name__)

# Enough for a Fetch of every partition there can be. Kafka has one limit for all requests; here a
# request without records has a lower one, as its objects take several times its bytes.
_CONTROL_BYTES: Final = 8 * 1024 * 1024


class KafkaApis:
    """Answers requests of all nodes. Any thread.

    Args:
        table: versions, and how messages are read and written.
        handlers: by API key.
        faults: asked before and after each request.
        request_log: told of each request.
        authorizer: says who may do what.
        topics: names those that requests name by their ids.
    """

    def __init__(
        self,
        table: ApiTable,
        handlers: Mapping[int, ApiHandler],
        faults: Faults,
        request_log: RequestLog,
        authorizer: Authorizer,
        topics: Topics,
    ) -> None:
        self._table = table
        self._topics = topics
        self._api_versions = ApiVersionsApi(table)
        self._handlers: dict[int, ApiHandler] = {API_VERSIONS: self._api_versions, **handlers}
        self.faults = faults
        self.request_log = request_log
        self.authorizer = authorizer

    def handle(self, request: Request) -> None:
        """Answer `request`, now or later; never waits for other requests (B-A5.6).

        Raises:
            Exception: anything; the caller calls `failed` with it.
        """
        header = request.header
        if header.api_key == API_VERSIONS and not self._knows(header.version):
            self.request_log.add(request, None)
            self._answer_unknown_version(request)
            return
        message = self._decode(request)
        if header.version >= FIRST_ID_VERSION:
            name_topics(header.api_key, header.version, message, self._topics)
        self.request_log.add(request, message)
        call = Call(self, request, message)
        verdict = self.faults.before(request, message)
        if verdict is None:
            self._handlers[header.api_key].handle(call)
        elif verdict == UNSUPPORTED_VERSION and header.api_key == API_VERSIONS:
            self._answer_unknown_version(request)
        elif isinstance(verdict, int):
            self._handlers[header.api_key].refuse(call, verdict, "a fault that was asked for")
        else:
            verdict.take(request, self._later(call))

    def failed(self, request: Request, error: Exception) -> None:
        """Answer with `error` in the form of the request's API, or close (B-A5.7)."""
        if isinstance(error, SchemaError):
            # A mistake of the client, which its user needs to see first (B-D5).
            software = request.connection.client_software
            _log.warning(
                "%r of %s %s cannot be read: %s; its connection is closed",
                request,
                shortened(software.name),
                shortened(software.version),
                error,
            )
        else:
            _log.error("%r failed", request, exc_info=error)
        if request.answered:
            return
        try:
            message = self._decode(request)
            handler = self._handlers[request.header.api_key]
            handler.refuse(
                Call(self, request, message),
                UNKNOWN_SERVER_ERROR,
                f"{type(error).__name__}: {error}",
            )
        except Exception as second:
            if not isinstance(error, SchemaError):
                _log.error("no answer can be made to %r", request, exc_info=second)
            if not request.answered:
                request.close_connection()

    def try_complete_actions(self) -> None:
        """Nothing is left: each handler completes what waits for it, after its answer."""

    def encode(self, request: Request, response: Any) -> Sequence[SizedBuffer]:
        """Write header and body of an answer, and count its errors (B-A9).

        Raises:
            SchemaError: it does not fit the version of the request.
        """
        request.error_counts = error_counts(response, request.header.version)
        return self._table.encode_response(request.header, response)

    def send(self, request: Request, parts: Sequence[SizedBuffer] | None, throttle_ms: int) -> None:
        """Send an answer, unless a fault changes it."""
        verdict = self.faults.after(request, parts)
        if verdict is None:
            request.respond(parts, throttle_ms)
        elif isinstance(verdict, Sequence):
            request.respond(verdict, throttle_ms)
        else:
            verdict.take(request, lambda: request.respond(parts, throttle_ms))

    def _decode(self, request: Request) -> Any:
        """Read the body of a request.

        Raises:
            SchemaError: it is damaged, or too large for one without records.
        """
        header, size_bytes = request.header, len(request.frame)
        if size_bytes > _CONTROL_BYTES and header.api_key != PRODUCE:
            raise SchemaError(f"{size_bytes:,} bytes, over {_CONTROL_BYTES:,} without records")
        return self._table.decode_request(header, memoryview(request.frame))

    def _knows(self, version: int) -> bool:
        listed = self._table.is_listed(API_VERSIONS, version)
        return listed and version <= SERVICES[API_VERSIONS].served.last

    def _answer_unknown_version(self, request: Request) -> None:
        """In version 0, whatever was asked: the only bytes that every client can read (B-A7.2)."""
        header = request.header._replace(version=0)
        parts = self._table.encode_response(header, self._api_versions.unsupported())
        request.error_counts = {UNSUPPORTED_VERSION: 1}
        self.send(request, parts, 0)

    def _later(self, call: Call[Any]) -> Callable[[], None]:
        """What a fault calls to let a request go on, on any thread."""

        def go_on() -> None:
            try:
                self._handlers[call.request.header.api_key].handle(call)
            except Exception as error:
                self.failed(call.request, error)

        return go_on

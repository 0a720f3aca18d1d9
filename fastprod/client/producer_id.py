"""ProducerIdRequests: when to ask for a producer id, and what came of it (contract P-F.5.1)."""

from __future__ import annotations

from typing import Final, Protocol

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.connections.connection_states import NO_LIMIT_MS
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_VERSION,
)
from fastprod.errors import KAFKA_ERRORS, KafkaError, error_for_code
from fastprod.log import Log
from fastprod.protocol.field_types import SchemaError
from fastprod.protocol.messages.init_producer_id import (
    API,
    InitProducerIdRequest,
    InitProducerIdResponse,
)

_LOG = Log(__name__)

_NO_TRANSACTION_TIMEOUT_MS: Final = 2**31 - 1
_MOST_FAILURES: Final = 20
"""Beyond so many the backoff has long reached its maximum."""


def producer_id_request(version: int, client_id: str | None) -> bytes:
    """The whole request frame of a producer that wants idempotence only (contract P-F.5.1).

    Raises:
        UnsupportedVersionError: no such version.
    """
    message = InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=_NO_TRANSACTION_TIMEOUT_MS
    )
    return API.request_frame(version, 0, client_id, message)


def read_producer_id(version: int, payload: bytes) -> InitProducerIdResponse:
    """Decode an answer without its size prefix; an id that cannot be is refused.

    Raises:
        UnsupportedVersionError: no such version.
        SchemaError: the frame is not what its version promises.
    """
    _, answer = API.read_response(version, payload)
    check_producer_id(answer)
    return answer


def check_producer_id(answer: InitProducerIdResponse) -> None:
    """Refuse an id that cannot be.

    Raises:
        SchemaError: and what it is.
    """
    if answer.error_code == 0 and (answer.producer_id < 0 or answer.producer_epoch < 0):
        raise SchemaError(f"producer id {answer.producer_id} with epoch {answer.producer_epoch}")


class ProducerIdTaker(Protocol):
    """What is told; see engine.pyi."""

    def set_producer_id(self, producer_id: int, epoch: int) -> None: ...
    def set_producer_id_error(self, text: str) -> None: ...
    def abort_pending(self, code: int) -> None: ...
    def fail(self, code: int) -> None: ...


class ProducerIdRequests:
    """One InitProducerId request at a time, for as long as a producer id is wanted.

    Decides only; the control thread sends, and reports. Used by that thread. Times are ms of its
    clock.

    Attributes:
        error: why there is no id, as far as is known; "" once there is. Read by any thread.

    Args:
        engine: gets the id, or why there is none: records that fail meanwhile say so.
        backoff: ``retry.backoff.ms`` and its max.
        is_wanted: from the start (P-A.1.5).
    """

    def __init__(
        self, engine: ProducerIdTaker, backoff: ExponentialBackoff, *, is_wanted: bool
    ) -> None:
        self._engine = engine
        self._backoff = backoff
        self._is_wanted = is_wanted
        self._is_pending = False
        self._due_ms = 0
        self._failures = 0
        self.error = ""

    def want(self) -> None:
        """The engine needs a producer id."""
        self._is_wanted = True

    def delay_ms(self, now_ms: int) -> int:
        """How long until a request should be sent, 0 for now."""
        if not self._is_wanted or self._is_pending:
            return NO_LIMIT_MS
        return max(self._due_ms - now_ms, 0)

    def sent(self) -> None:
        """A request is on its way."""
        self._is_pending = True

    def failed(self, why: str, now_ms: int) -> None:
        """The request got no usable answer: ask again after a while."""
        self._is_pending = False
        self._due_ms = now_ms + self._backoff.backoff_ms(min(self._failures, _MOST_FAILURES))
        self._failures += 1
        _LOG.warning("%s; it is asked for again", why)
        self._tell(why)

    def unsupported(self, why: str) -> None:
        """A broker gives none: the producer can send nothing any more."""
        self._end(UNSUPPORTED_VERSION, why)

    def answered(
        self, answer: InitProducerIdResponse, where: str, now_ms: int
    ) -> KafkaError | None:
        """Take an answer.

        Returns:
            Why the producer can send nothing any more; None if it can, now or later.
        """
        self._is_pending = False
        code = answer.error_code
        if code == 0:
            self._is_wanted = False
            self._failures = 0
            self.error = ""
            self._engine.set_producer_id(answer.producer_id, answer.producer_epoch)
            return None
        error = error_for_code(code)
        if error.retriable:
            self.failed(f"broker {where} refused InitProducerId: {error}", now_ms)
            return None
        row = KAFKA_ERRORS.get(code, KAFKA_ERRORS[UNKNOWN_SERVER_ERROR])
        why = f"broker {where} refused InitProducerId, which idempotence needs"
        if row.text:
            why = f"{why}: {row.text}"
        if code != CLUSTER_AUTHORIZATION_FAILED:
            self._end(code, why)
            return error_for_code(code, message=why)
        _LOG.error("%s", why)  # what waits fails; the next send asks again (P-F.5.1)
        self._is_wanted = False
        self._tell(why)
        self._engine.abort_pending(code)
        return None

    def _end(self, code: int, why: str) -> None:
        _LOG.error("%s", why)
        self._is_wanted = False
        self._tell(why)
        self._engine.fail(code)

    def _tell(self, why: str) -> None:
        self.error = why
        self._engine.set_producer_id_error(why)

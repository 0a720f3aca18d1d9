"""Every exception of fastprod.

Whether to retry, refresh, abort or give up is data (`retriable`, `refresh_metadata`, `abortable`,
`fatal`); the class says what a caller may want to catch.  Which class stands under which follows
the exceptions of Apache Kafka 4.3.0 (KIP-1050); contract P-F.4.
"""

from __future__ import annotations

from typing import Any

from fastprod.error_codes import KAFKA_ERRORS as KAFKA_ERRORS
from fastprod.error_codes import ErrorRow as ErrorRow


class KafkaError(Exception):
    """Base of every fastprod error.

    Every number in the message is an attribute of the same error.  Errors pickle by value: type,
    `args` and attributes, and the cause, which comes back as a plain `KafkaError` if it was none.

    Args:
        message: the sentence, `str(error)`.
        fields: become attributes.

    Attributes:
        retriable: the same call, unchanged, may succeed later.
        refresh_metadata: what we know about the cluster is out of date.
        abortable: inside a transaction, aborting it makes the producer usable again.
        fatal: the producer is finished; every later call fails.
        code: Kafka's error code, or None if the error arose in this process.
        name: Kafka's name of the code, or else the class's name.
        topic: topic concerned, if known.
        partition: partition concerned, if known.
    """

    retriable: bool = False
    refresh_metadata: bool = False
    abortable: bool = False
    fatal: bool = False
    code: int | None = None
    name: str = "KafkaError"
    topic: str | None = None
    partition: int | None = None

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message)
        self.__dict__.update(fields)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        code = cls.__dict__.get("code")
        if code is None:
            cls.name = cls.__name__
            return
        for key, value in _flags(code).items():
            setattr(cls, key, value)

    def __reduce__(self) -> tuple[Any, ...]:
        cause = self.__cause__
        if cause is not None and not isinstance(cause, KafkaError):
            cause = KafkaError(f"{type(cause).__name__}: {cause}")
        return _rebuild, (type(self), self.args, self.__dict__, cause)


def _rebuild(
    kind: type[KafkaError],
    args: tuple[Any, ...],
    fields: dict[str, Any],
    cause: BaseException | None,
) -> KafkaError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    error.__cause__ = cause
    return error


def _flags(code: int) -> dict[str, Any]:
    row = KAFKA_ERRORS.get(code, KAFKA_ERRORS[-1])
    return {
        "code": code,
        "name": row.name,
        "retriable": row.retriable,
        "refresh_metadata": row.refresh_metadata,
        "fatal": row.fatal_for_idempotent,
        "abortable": not row.fatal_for_idempotent,
    }


FastprodError = KafkaError


class ConfigError(KafkaError, ValueError):
    """A setting is missing, unknown, out of range or in conflict with another (ConfigException).

    Attributes:
        key: the setting, in the spelling the caller used; None if no single one is at fault.
    """

    key: str | None = None


class IllegalStateError(KafkaError):
    """The call is not allowed in the state the object is in."""


class ProducerClosedError(IllegalStateError):
    """`close` was called: the producer takes nothing more."""

    def __init__(self, message: str = "", **fields: Any) -> None:
        super().__init__(message or "the producer is closed; make a new one to send", **fields)


class ForkedFutureError(IllegalStateError):
    """A future made before `os.fork` was used in the child: only the parent learns its outcome."""

    made_in_pid: int
    asked_in_pid: int

    def __init__(self, *, made_in_pid: int, asked_in_pid: int) -> None:
        super().__init__(
            f"this future was made in process {made_in_pid} and asked in its child {asked_in_pid}; "
            f"only process {made_in_pid} learns whether the record was delivered: send again here, "
            f"or ask there",
            made_in_pid=made_in_pid,
            asked_in_pid=asked_in_pid,
        )


class SerializationError(KafkaError):
    """A key or a value could not be turned into bytes."""


class UndeliveredError(KafkaError):
    """`close` gave records up: they were queued or in flight when its time was over."""

    undelivered_count: int

    def __init__(self, undelivered_count: int, first_error: BaseException | None = None) -> None:
        why = f"; the first error was: {first_error}" if first_error is not None else ""
        super().__init__(
            f"{undelivered_count:,} record(s) were not delivered before close() ended{why}; "
            f"call flush() first, or give close() more time",
            undelivered_count=undelivered_count,
        )
        self.__cause__ = first_error

    @property
    def first_error(self) -> BaseException | None:
        """What the first of the records failed with; the same as `__cause__`."""
        return self.__cause__


class BulkError(KafkaError):
    """Some records of a `send_many` were not delivered; the others were.

    Attributes:
        failed_count: records not delivered.
        record_count: records sent.
        first_index: 0-based index of the first that failed; `__cause__` is its error.
    """

    failed_count: int
    record_count: int
    first_index: int

    def __init__(self, failed_count: int, record_count: int, first_index: int, why: str) -> None:
        super().__init__(
            f"{failed_count:,} of {record_count:,} record(s) of a send_many() were not delivered, "
            f"the first at index {first_index:,} ({why}): failures() of its future lists them",
            failed_count=failed_count,
            record_count=record_count,
            first_index=first_index,
        )


class ApiError(KafkaError):
    """A failure of one record or request: `send` reports it through the future (P-A.3.12)."""

    abortable = True


class RetriableError(ApiError):
    """A temporary failure: the same request can be sent again (KIP-1050)."""

    retriable = True


class RefreshRetriableError(RetriableError):
    """May pass once the leader or the coordinator has been looked up again (KIP-1050)."""


class TransactionAbortableError(ApiError):
    """The transaction has to be aborted; the producer stays usable (KIP-890, KIP-1050)."""

    code = 120


class TransactionAbortedError(ApiError):
    """The record was never sent: its transaction was aborted."""


class RecordCancelledError(KafkaError):
    """`cancel` took the record back before it left. Also a `concurrent.futures.CancelledError`."""


class RecordPurgedError(ApiError):
    """Given up by `purge`; `was_sent`: it had left, and may be written; else it cannot arrive."""

    was_sent: bool


class ApplicationRecoverableError(ApiError):
    """Close this producer and make a new one (KIP-1050)."""


class InvalidConfigurationError(ApiError):
    """Retrying does not help: client, broker or access rights are configured wrongly (KIP-1050)."""


class BrokerError(ApiError):
    """An error code without a class of its own; `code` and `name` tell which."""


class RetriableBrokerError(BrokerError, RetriableError):
    """A `BrokerError` that is a `RetriableError`."""


class RefreshRetriableBrokerError(BrokerError, RefreshRetriableError):
    """A `BrokerError` that is a `RefreshRetriableError`."""


class ApplicationRecoverableBrokerError(BrokerError, ApplicationRecoverableError):
    """A `BrokerError` that is an `ApplicationRecoverableError`."""


class InvalidConfigurationBrokerError(BrokerError, InvalidConfigurationError):
    """A `BrokerError` that is an `InvalidConfigurationError`."""


class KafkaTimeoutError(RetriableError, TimeoutError):
    """Something did not happen in time; the subclass and the message say what."""


class BufferExhaustedError(KafkaTimeoutError):
    """No buffer became free within max_block_ms. The record was not queued.

    Args:
        waited_ms: how long, in ms; 0: at once, by `try_send` or in a delivery callback, for which
            more than buffer_memory waits already.
        total_bytes: buffer_memory.
        waiters: other calls that wait.
        callback_bytes: bytes of acknowledged records whose delivery callbacks have not run.
    """

    waited_ms: float
    total_bytes: int
    waiters: int
    callback_bytes: int

    def __init__(
        self, *, waited_ms: float, total_bytes: int, waiters: int, callback_bytes: int = 0
    ) -> None:
        held = f"all {total_bytes:,} bytes of buffer_memory hold unacknowledged records and"
        slow, advice = "brokers", "send less"
        if callback_bytes > 0:
            held = (
                f"of {total_bytes:,} bytes of buffer_memory {callback_bytes:,} bytes wait for "
                f"callbacks, unacknowledged records hold the rest, and"
            )
            slow, advice = "delivery callbacks", "do less in them"
        super().__init__(
            f"no buffer within {waited_ms:,.0f} ms: {held} {waiters} other send() call(s) "
            f"wait; the {slow} are slower than the callers: raise buffer_memory or max_block_ms, "
            f"or {advice}",
            waited_ms=waited_ms,
            total_bytes=total_bytes,
            waiters=waiters,
            callback_bytes=callback_bytes,
        )


class MetadataTimeoutError(KafkaTimeoutError):
    """The topic, or its partition, was not found within max_block_ms (P-A.4.5).

    Args:
        topic: topic asked for.
        waited_ms: how long, in ms.
        partition: the partition asked for, if the topic is known and has fewer.
        partition_count: partitions the topic has, if known.
        reason: the last thing that went wrong, with the broker's name (DNS, refused, ...).
    """

    waited_ms: float
    partition_count: int | None
    reason: str

    def __init__(
        self,
        *,
        topic: str,
        waited_ms: float,
        partition: int | None = None,
        partition_count: int | None = None,
        reason: str = "",
    ) -> None:
        if partition_count is None:
            what = f"topic {topic!r} is not in the cluster's metadata"
            advice = "create the topic, or check its name and bootstrap_servers"
        else:
            what = f"topic {topic!r} has {partition_count} partition(s), none numbered {partition},"
            advice = f"partitions are numbered 0..{partition_count - 1}"
        because = f": {reason}" if reason else ""
        super().__init__(
            f"{what} after {waited_ms:,.0f} ms{because}; {advice}, or raise max_block_ms",
            topic=topic,
            waited_ms=waited_ms,
            partition=partition,
            partition_count=partition_count,
            reason=reason,
        )


class DeliveryTimeoutError(KafkaTimeoutError):
    """Records were not acknowledged within delivery_timeout_ms (KIP-91).

    Args:
        topic: topic of the batch.
        partition: partition of the batch.
        record_count: records in the batch.
        elapsed_ms: age of the batch, in ms.
        delivery_timeout_ms: the limit, in ms.
        attempts: how often the batch was sent; 0 means it cannot have been written.
        reason: the last thing that went wrong, with the broker's name.
    """

    record_count: int
    elapsed_ms: float
    delivery_timeout_ms: int
    attempts: int
    reason: str

    def __init__(
        self,
        *,
        topic: str,
        partition: int,
        record_count: int,
        elapsed_ms: float,
        delivery_timeout_ms: int,
        attempts: int,
        reason: str = "",
    ) -> None:
        sent = f"sent {attempts} time(s), perhaps written" if attempts else "never sent"
        because = f": {reason}" if reason else ""
        super().__init__(
            f"{record_count:,} record(s) for topic {topic!r}, partition {partition} were not "
            f"acknowledged after {elapsed_ms:,.0f} ms ({sent}){because}; the limit is "
            f"delivery_timeout_ms = {delivery_timeout_ms:,}: raise it, or see why the partition's "
            f"leader does not answer",
            topic=topic,
            partition=partition,
            record_count=record_count,
            elapsed_ms=elapsed_ms,
            delivery_timeout_ms=delivery_timeout_ms,
            attempts=attempts,
            reason=reason,
        )


class RecordDeadlineError(KafkaTimeoutError):
    """The record was not acknowledged by the `deadline` of its `send`; see `RecordPurgedError`."""

    deadline_ms: float
    was_sent: bool


class FlushTimeoutError(KafkaTimeoutError):
    """`flush` ran out of time; the records are still queued and may yet arrive.

    `undelivered_count` is 0 when only delivery callbacks have still to run.
    """

    undelivered_count: int
    waited_ms: float

    def __init__(self, *, undelivered_count: int, waited_ms: float) -> None:
        if undelivered_count > 0:
            what = (
                f"{undelivered_count:,} record(s) were still undelivered after {waited_ms:,.0f} ms "
                f"of flush(); they stay queued: flush again, or give it more time"
            )
        else:
            what = (
                f"every record is delivered or has failed, but not all delivery callbacks had run "
                f"after {waited_ms:,.0f} ms of flush(): look for a slow one, or give it more time"
            )
        super().__init__(what, undelivered_count=undelivered_count, waited_ms=waited_ms)


class RequestTimedOutError(KafkaTimeoutError):
    """A request got no answer within request_timeout_ms; its outcome is unknown."""

    code = 7


class RecordTooLargeError(ApiError):
    """A record exceeds a limit of ours or of the broker's."""

    code = 10
    size_bytes: int | None = None
    limit_bytes: int | None = None
    limit_name: str | None = None

    @classmethod
    def for_record(
        cls, *, topic: str, size_bytes: int, limit_bytes: int, limit_name: str
    ) -> RecordTooLargeError:
        """Build the error of P-A.3.7: `size_bytes` is the record's uncompressed upper bound."""
        return cls(
            f"a record for topic {topic!r} may take {size_bytes:,} bytes uncompressed, more than "
            f"{limit_name} = {limit_bytes:,}: raise {limit_name}, or send smaller records",
            topic=topic,
            size_bytes=size_bytes,
            limit_bytes=limit_bytes,
            limit_name=limit_name,
        )


class NetworkError(RefreshRetriableError, ConnectionError):
    """The connection to a broker broke; what was under way has an unknown outcome."""

    code = 13


class UnknownTopicOrPartitionError(RefreshRetriableError):
    """The broker does not have the topic or the partition."""

    code = 3


class NotEnoughReplicasError(RetriableError):
    """Too few replicas are in sync (codes 19 and 20)."""

    code = 19


class CorruptRecordError(RetriableError):
    """A batch failed its checksum or does not parse."""

    code = 2


class OutOfOrderSequenceError(ApiError):
    """The broker misses an earlier batch of this producer (codes 45 and 59)."""

    code = 45


class InvalidTimestampError(ApiError):
    """The record's timestamp is outside what the topic allows."""

    code = 32


class UnsupportedCompressionTypeError(ApiError):
    """The broker, or this machine, lacks the codec."""

    code = 76


class ProducerFencedError(ApplicationRecoverableError):
    """A newer producer with the same transactional_id took over."""

    code = 90


class InvalidTopicError(InvalidConfigurationError):
    """The topic's name is not valid, or the topic is internal."""

    code = 17


class InvalidRecordError(InvalidConfigurationError):
    """The broker refused this record (KIP-467)."""

    code = 87


class UnsupportedVersionError(InvalidConfigurationError):
    """Broker and client share no version of a request, or of a feature, that is needed."""

    code = 35


class AuthenticationError(InvalidConfigurationError):
    """The broker did not accept who we are, or we not who it is (SASL, TLS; codes 33, 34, 58)."""


class AuthorizationError(InvalidConfigurationError):
    """The broker's ACLs refuse the operation; codes 30, 53 and 65, and the subclasses'."""


class TopicAuthorizationError(AuthorizationError):
    """The broker's ACLs refuse the topic."""

    code = 29


class ClusterAuthorizationError(AuthorizationError):
    """The broker's ACLs refuse what concerns the whole cluster, as an idempotent producer does."""

    code = 31


_CLASS_OF_CODE: dict[int, type[KafkaError]] = {
    2: CorruptRecordError,
    3: UnknownTopicOrPartitionError,
    7: RequestTimedOutError,
    10: RecordTooLargeError,
    13: NetworkError,
    17: InvalidTopicError,
    **dict.fromkeys((19, 20), NotEnoughReplicasError),
    29: TopicAuthorizationError,
    **dict.fromkeys((30, 53, 65), AuthorizationError),
    31: ClusterAuthorizationError,
    32: InvalidTimestampError,
    **dict.fromkeys((33, 34, 58), AuthenticationError),
    35: UnsupportedVersionError,
    **dict.fromkeys((45, 59), OutOfOrderSequenceError),
    76: UnsupportedCompressionTypeError,
    87: InvalidRecordError,
    90: ProducerFencedError,
    120: TransactionAbortableError,
}
# Kafka's exceptions of these codes are RefreshRetriable without being InvalidMetadata: what has to
# be looked up again is the coordinator, not the topic's metadata.
_COORDINATOR_MOVED = frozenset({15, 16})
_APPLICATION_RECOVERABLE = frozenset({22, 25, 47, 49, 82})
_INVALID_CONFIGURATION = frozenset({18, 21, 38, 40, 43})


def error_class_for_code(code: int) -> type[KafkaError]:
    """Return the class that `error_for_code` uses for `code`."""
    row = KAFKA_ERRORS.get(code, KAFKA_ERRORS[-1])
    if code in _CLASS_OF_CODE:
        return _CLASS_OF_CODE[code]
    if row.refresh_metadata or code in _COORDINATOR_MOVED:
        return RefreshRetriableBrokerError
    if row.retriable:
        return RetriableBrokerError
    if code in _APPLICATION_RECOVERABLE:
        return ApplicationRecoverableBrokerError
    if code in _INVALID_CONFIGURATION:
        return InvalidConfigurationBrokerError
    return BrokerError


def error_for_code(
    code: int,
    *,
    topic: str | None = None,
    partition: int | None = None,
    message: str | None = None,
    **fields: Any,
) -> KafkaError:
    """Build the exception for an error code that a broker sent (P-F.4.4).

    Args:
        code: Kafka's error code, not 0.  A code this version does not know counts as
            UNKNOWN_SERVER_ERROR; `error.code` keeps the number.
        topic: topic concerned, if any.
        partition: partition concerned, if any.
        message: the broker's own message; it replaces the table's text.
        fields: further attributes.

    Returns:
        The error, not raised; its flags are those of `KAFKA_ERRORS`.

    Raises:
        ValueError: `code` is 0, which is no error.

    Threads: any.  Does not block.
    Source: Errors.forCode, Errors.exception(String).
    """
    if code == 0:
        raise ValueError("error code 0 (NONE) is not an error")
    row = KAFKA_ERRORS.get(code)
    if row is None:
        row = KAFKA_ERRORS[-1]
        text = message or f"{row.text} (error code {code} is newer than this version)"
    else:
        text = message or row.text
    given = {"topic": topic, "partition": partition}
    places = {name: place for name, place in given.items() if place is not None}
    where = f"{', '.join(f'{name} {place!r}' for name, place in places.items())}: "
    sentence = (where if places else "") + f"{row.name} ({code})" + (f": {text}" if text else "")
    return error_class_for_code(code)(sentence, **{**_flags(code), **places, **fields})

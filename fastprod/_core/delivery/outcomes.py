"""From a batch's outcome, as the engine stores it, to the error a caller sees (contract P-F.4)."""

from __future__ import annotations

from collections.abc import Mapping

from fastprod._core.delivery.result import (
    ERR_CANCELLED,
    ERR_DEADLINE,
    ERR_EXPIRED,
    ERR_NO_CODEC,
    ERR_NO_ZSTD,
    ERR_PURGED,
    ERR_TXN_ABORTED,
    WAIT_LEADER,
    WAIT_PRODUCER_ID,
)
from fastprod.error_codes import MESSAGE_TOO_LARGE
from fastprod.errors import (
    KAFKA_ERRORS,
    DeliveryTimeoutError,
    InvalidRecordError,
    KafkaError,
    RecordDeadlineError,
    RecordPurgedError,
    RecordTooLargeError,
    TransactionAbortedError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
    error_for_code,
)


def error_for_outcome(
    code: int,
    topic: str,
    partition: int,
    record_count: int,
    index: int,
    detail: int,
    limit: int,
    attempts: int,
    message: str | None,
    record_errors: Mapping[int, str | None],
    last_code: int = 0,
) -> KafkaError:
    """Build the error of record `index` of a failed batch.

    Args:
        code: Kafka's error code, or one of result.pxd.
        topic: topic of the batch.
        partition: its partition.
        record_count: records in the batch.
        index: 0-based place of the record in the batch.
        detail: a number of `code`'s own: ms since creation, bytes, a version.
        limit: the limit that `detail` met, if there is one.
        attempts: how often the batch was sent.
        message: the broker's text, or why brokers could not be reached.
        record_errors: texts by index, where the broker named single records (KIP-467).
        last_code: of an expired batch: Kafka's code of its latest attempt, or what it waited for;
            0: neither is known.

    Threads: any.  Does not block.
    """
    if code == ERR_EXPIRED:
        return DeliveryTimeoutError(
            topic=topic,
            partition=partition,
            record_count=record_count,
            elapsed_ms=detail,
            delivery_timeout_ms=limit,
            attempts=attempts,
            reason=message or _reason(last_code),
        )
    if code == ERR_DEADLINE:
        sent = "it was sent, and may be written" if attempts else "it was never sent"
        return RecordDeadlineError(
            f"the record for topic {topic!r}, partition {partition} was not acknowledged within "
            f"its deadline of {limit / 1000:,g} ms; {sent}",
            topic=topic,
            partition=partition,
            deadline_ms=limit / 1000,
            was_sent=attempts > 0,
        )
    if code == ERR_PURGED:
        sent = "sent, and may have been written" if attempts else "never sent"
        return RecordPurgedError(
            f"{record_count:,} record(s) for topic {topic!r}, partition {partition} were given up "
            f"by purge(); they were {sent}",
            topic=topic,
            partition=partition,
            was_sent=attempts > 0,
        )
    if code < -1:
        return _local_error(code, topic, partition, record_count, detail, message)
    if record_errors:
        return _record_error(code, topic, partition, index, message, record_errors)
    if code == MESSAGE_TOO_LARGE:
        return RecordTooLargeError(
            f"topic {topic!r}, partition {partition}: the broker refused a batch of "
            f"{record_count:,} record(s) and {detail:,} bytes as larger than the topic's "
            f"max.message.bytes: raise that limit, or send smaller records",
            topic=topic,
            partition=partition,
            size_bytes=detail,
            record_count=record_count,
        )
    return error_for_code(
        code, topic=topic, partition=partition, message=message, record_count=record_count
    )


def not_done_in_time(topic: str, timeout_s: float, is_delivering: bool) -> TimeoutError:
    """Build what waiting for a record raises when its time is over.

    Args:
        topic: topic of the record.
        timeout_s: how long was waited, in seconds.
        is_delivering: the outcome is known, and callbacks that hear of it first have not all run.
    """
    waited = f"{timeout_s * 1000:,.0f} ms"
    if is_delivering:
        return TimeoutError(
            f"the outcome of the record for topic {topic!r} is known, but a callback that "
            f"comes first (on_delivery) had not returned within {waited}: wait again, or see what "
            f"it waits for"
        )
    return TimeoutError(
        f"the record for topic {topic!r} was not acknowledged within {waited}; it may still "
        f"arrive: wait again, or look at delivery_timeout_ms"
    )


def _reason(last_code: int) -> str:
    """Why an expired batch had not been acknowledged."""
    if last_code == WAIT_LEADER:
        return "the partition has no known leader"
    if last_code == WAIT_PRODUCER_ID:
        return "no broker has given the producer id that enable_idempotence needs"
    row = KAFKA_ERRORS.get(last_code)
    if last_code == 0 or row is None:
        return ""
    return f"the latest attempt ended with {row.name} ({last_code}): {row.text}"


def _local_error(
    code: int, topic: str, partition: int, record_count: int, detail: int, message: str | None
) -> KafkaError:
    if code == ERR_CANCELLED:
        from fastprod._core.delivery.cancelled import RecordCancelledError  # noqa: PLC0415

        return RecordCancelledError(
            f"the record for topic {topic!r}, partition {partition} was cancelled before it left",
            topic=topic,
            partition=partition,
        )
    if code == ERR_TXN_ABORTED:
        because = f": {message}" if message else ""
        return TransactionAbortedError(
            f"{record_count:,} record(s) for topic {topic!r}, partition {partition} were not sent, "
            f"because their transaction is aborted{because}",
            topic=topic,
            partition=partition,
            record_count=record_count,
        )
    if code == ERR_NO_ZSTD:
        return UnsupportedVersionError(
            f"topic {topic!r}, partition {partition}: zstd needs Produce version 7, the broker has "
            f"{detail}: use another compression_type, or a broker of version 2.1 or later",
            topic=topic,
            partition=partition,
        )
    if code == ERR_NO_CODEC:
        return UnsupportedCompressionTypeError(
            f"topic {topic!r}, partition {partition}: compressing {record_count:,} record(s) with "
            f"codec {detail} failed: `fastprod doctor` shows the codecs of this machine",
            topic=topic,
            partition=partition,
        )
    return KafkaError(
        f"Producer is closed forcefully. {record_count:,} record(s) for topic {topic!r}, partition "
        f"{partition} were not delivered; some may have been written if they were under way",
        topic=topic,
        partition=partition,
        record_count=record_count,
    )


def _record_error(
    code: int,
    topic: str,
    partition: int,
    index: int,
    message: str | None,
    record_errors: Mapping[int, str | None],
) -> KafkaError:
    """P-F.4.5: the broker named the records at fault."""
    if index not in record_errors:
        return KafkaError(
            f"topic {topic!r}, partition {partition}: this record is part of a batch which had one "
            f"or more invalid records ({len(record_errors)}); it was not written: send it again",
            topic=topic,
            partition=partition,
        )
    text = record_errors[index] or message
    if len(record_errors) == 1:
        return error_for_code(code, topic=topic, partition=partition, message=text)
    return InvalidRecordError(
        f"topic {topic!r}, partition {partition}: {text or 'the broker refused this record'}",
        topic=topic,
        partition=partition,
    )

"""What it means for a transaction that records of it have failed (P-I.6.1)."""

from __future__ import annotations

from fastprod._core.delivery.result import ERR_DEADLINE, ERR_EXPIRED
from fastprod._core.engine.control_queue import ControlEvent
from fastprod.error_codes import INVALID_TXN_STATE, UNKNOWN_SERVER_ERROR
from fastprod.errors import KafkaError, TransactionAbortableError, error_for_code


def error_of_transaction(error: KafkaError) -> KafkaError:
    """The error of a transaction one of whose records ended with `error` (P-F.4.7).

    Something that might have passed was given up: who reads `retriable` must not send again inside
    of the transaction.
    """
    if not error.retriable and error.code != INVALID_TXN_STATE:
        return error
    given_up = TransactionAbortableError(f"records of the transaction were given up: {error}")
    given_up.__cause__ = error
    return given_up


def error_of_batch(event: ControlEvent) -> KafkaError:
    """The error of an ON_FAILED event; without a topic, of what nothing else is known."""
    if event.code == ERR_DEADLINE:
        return TransactionAbortableError(
            "a record of the transaction was not acknowledged by the deadline of its send: its "
            "future says which"
        )
    text = None if event.data is None else event.data.decode(errors="replace")
    count = max(event.item_count, 1)
    if event.code == ERR_EXPIRED:
        because = f": {text}" if text else ""
        return TransactionAbortableError(
            f"{count:,} record(s) for topic {event.topic!r}, partition {event.partition} were not "
            f"acknowledged within delivery_timeout_ms{because}",
            topic=event.topic,
            partition=event.partition,
        )
    if event.code < UNKNOWN_SERVER_ERROR:
        why = text or "their futures say why"
        if event.topic is None:
            return KafkaError(f"{count:,} record(s) of the transaction failed: {why}")
        return KafkaError(
            f"{count:,} record(s) for topic {event.topic!r}, partition {event.partition} failed: "
            f"{why}",
            topic=event.topic,
            partition=event.partition,
        )
    if event.topic is None:
        return error_for_code(event.code, message=text)
    return error_for_code(event.code, topic=event.topic, partition=event.partition, message=text)

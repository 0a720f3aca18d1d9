"""fastprod._core.delivery.outcomes: from a failed batch to the error that a caller sees."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from fastprod._core.delivery import result
from fastprod._core.delivery.outcomes import error_for_outcome
from fastprod.errors import (
    BrokerError,
    DeliveryTimeoutError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    NotEnoughReplicasError,
    RecordTooLargeError,
    TopicAuthorizationError,
    UnsupportedCompressionTypeError,
    UnsupportedVersionError,
)

INVALID_TIMESTAMP = 32
INVALID_RECORD = 87


def outcome(
    code: int,
    *,
    index: int = 0,
    detail: int = 0,
    limit: int = 0,
    attempts: int = 0,
    message: str | None = None,
    record_errors: Mapping[int, str | None] | None = None,
    last_code: int = 0,
) -> KafkaError:
    return error_for_outcome(
        code, "t", 3, 1_500, index, detail, limit, attempts, message, record_errors or {}, last_code
    )


def attributes(error: KafkaError, *names: str) -> tuple[Any, ...]:
    return tuple(getattr(error, name) for name in names)


def test_an_expired_batch_says_how_old_it_was_and_how_often_it_was_sent() -> None:
    """KIP-91; users must know whether the record can have been written."""
    error = outcome(
        result.ERR_EXPIRED, detail=120_034, limit=120_000, attempts=2, message="k1:9092 refused"
    )
    assert type(error) is DeliveryTimeoutError
    assert isinstance(error, TimeoutError)
    assert attributes(
        error, "topic", "partition", "record_count", "elapsed_ms", "delivery_timeout_ms"
    ) == ("t", 3, 1_500, 120_034, 120_000)
    assert attributes(error, "attempts", "reason") == (2, "k1:9092 refused")
    assert "1,500 record(s)" in str(error)
    assert "120,034 ms" in str(error)
    assert "sent 2 time(s), perhaps written" in str(error)
    assert "k1:9092 refused" in str(error)


def test_a_batch_that_was_never_sent_says_so() -> None:
    error = outcome(result.ERR_EXPIRED, detail=5, limit=4)
    assert "never sent" in str(error)
    assert attributes(error, "attempts", "reason") == (0, "")


@pytest.mark.parametrize(
    ("last_code", "words"),
    [
        (3, "the latest attempt ended with UNKNOWN_TOPIC_OR_PARTITION (3): "),
        (result.WAIT_LEADER, "the partition has no known leader"),
        (result.WAIT_PRODUCER_ID, "no broker has given the producer id"),
    ],
)
def test_a_batch_that_expired_says_what_its_latest_attempt_came_to(
    last_code: int, words: str
) -> None:
    """P-D.8.2."""
    error = outcome(result.ERR_EXPIRED, detail=5, limit=4, last_code=last_code)
    assert isinstance(error, DeliveryTimeoutError)
    assert error.reason.startswith(words)
    assert error.reason in str(error)
    told = outcome(result.ERR_EXPIRED, detail=5, limit=4, last_code=last_code, message="k1 refused")
    assert isinstance(told, DeliveryTimeoutError)
    assert told.reason == "k1 refused", "what keeps from the leader now comes first"


def test_a_batch_thrown_away_by_close_says_that_it_may_have_been_written() -> None:
    """P-A.9.4."""
    error = outcome(result.ERR_ABORTED)
    assert type(error) is KafkaError
    assert str(error).startswith("Producer is closed forcefully. 1,500 record(s) for topic 't'")
    assert attributes(error, "topic", "partition", "record_count", "retriable") == (
        "t",
        3,
        1_500,
        False,
    )


def test_zstd_for_an_old_broker_names_both_versions() -> None:
    """P-F.3.3."""
    error = outcome(result.ERR_NO_ZSTD, detail=5)
    assert type(error) is UnsupportedVersionError
    assert "Produce version 7, the broker has 5" in str(error)


def test_a_codec_that_failed_is_named() -> None:
    error = outcome(result.ERR_NO_CODEC, detail=4)
    assert type(error) is UnsupportedCompressionTypeError
    assert "codec 4" in str(error)
    assert attributes(error, "topic", "partition") == ("t", 3)


def test_a_batch_too_large_for_the_broker_names_its_size_and_the_topic_s_limit() -> None:
    error = outcome(10, detail=2_000_000, message="The request included a message larger than")
    assert type(error) is RecordTooLargeError
    assert attributes(error, "size_bytes", "record_count") == (2_000_000, 1_500)
    assert "2,000,000 bytes" in str(error)
    assert "max.message.bytes" in str(error)


@pytest.mark.parametrize(
    ("code", "kind", "retriable"),
    [
        (19, NotEnoughReplicasError, True),
        (29, TopicAuthorizationError, False),
        (44, BrokerError, False),
        (-1, BrokerError, False),
        (9_999, BrokerError, False),
    ],
)
def test_a_broker_s_code_becomes_its_class_with_the_broker_s_words(
    code: int, kind: type[KafkaError], retriable: bool
) -> None:
    """P-F.4.4; -1 is the broker's UNKNOWN_SERVER_ERROR, not an outcome of ours."""
    error = outcome(code, message="because")
    assert type(error) is kind
    assert str(error).endswith(": because")
    assert attributes(error, "code", "topic", "partition", "record_count", "retriable") == (
        code,
        "t",
        3,
        1_500,
        retriable,
    )


def test_a_record_that_the_broker_names_alone_fails_with_the_batch_s_class() -> None:
    """P-F.4.5: exactly one listed."""
    error = outcome(
        INVALID_TIMESTAMP, index=7, message="of the batch", record_errors={7: "of the record"}
    )
    assert type(error) is InvalidTimestampError
    assert str(error).endswith(": of the record")


def test_one_of_several_records_that_the_broker_names_is_an_invalid_record() -> None:
    """P-F.4.5: several listed, whatever the batch's code."""
    error = outcome(INVALID_TIMESTAMP, index=1, record_errors={1: "too old", 7: None})
    assert type(error) is InvalidRecordError
    assert "too old" in str(error)


@pytest.mark.parametrize(
    ("message", "expected"),
    [("of the batch", "of the batch"), (None, "the broker refused this record")],
)
def test_a_named_record_without_words_takes_the_batch_s(message: str | None, expected: str) -> None:
    error = outcome(INVALID_RECORD, index=7, message=message, record_errors={1: "x", 7: None})
    assert expected in str(error)


def test_a_record_that_the_broker_does_not_name_can_be_sent_again() -> None:
    """P-F.4.5: unlisted records fail with the plain error."""
    error = outcome(INVALID_RECORD, index=2, record_errors={1: "x", 7: None})
    assert type(error) is KafkaError
    assert "part of a batch which had one or more invalid records (2)" in str(error)
    assert "send it again" in str(error)


@pytest.mark.parametrize(
    "code",
    [result.ERR_EXPIRED, result.ERR_ABORTED, result.ERR_NO_CODEC, result.ERR_NO_ZSTD, 10, 19],
)
def test_every_outcome_survives_pickling(code: int) -> None:
    error = outcome(code, detail=7, limit=8, message="why")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.args, vars(copy)) == (type(error), error.args, vars(error))

"""fastprod.errors: the tree, the flags, the sentences, and the way through pickle."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Iterator

import pytest

from fastprod import errors
from fastprod.errors import KAFKA_ERRORS, KafkaError, error_class_for_code, error_for_code

TYPED: dict[str, KafkaError] = {
    "ForkedFutureError": errors.ForkedFutureError(made_in_pid=10, asked_in_pid=11),
    "UndeliveredError": errors.UndeliveredError(7, error_for_code(13, topic="t", partition=2)),
    "BulkError": errors.BulkError(2, 100_000, 99_998, why="topic 't': too large"),
    "BufferExhaustedError": errors.BufferExhaustedError(
        waited_ms=60_000.0, total_bytes=33_554_432, waiters=12
    ),
    "MetadataTimeoutError": errors.MetadataTimeoutError(
        topic="t", waited_ms=100.0, partition=9, partition_count=3, reason="broker 1: refused"
    ),
    "DeliveryTimeoutError": errors.DeliveryTimeoutError(
        topic="t",
        partition=0,
        record_count=3,
        elapsed_ms=120_004.0,
        delivery_timeout_ms=120_000,
        attempts=2,
        reason="broker 1 closed the connection",
    ),
    "FlushTimeoutError": errors.FlushTimeoutError(undelivered_count=1_234, waited_ms=500.0),
}


def every_class() -> Iterator[type[KafkaError]]:
    for _, kind in inspect.getmembers(errors, inspect.isclass):
        if issubclass(kind, KafkaError):
            yield kind


def sample(kind: type[KafkaError]) -> KafkaError:
    if kind.__name__ in TYPED:
        return TYPED[kind.__name__]
    return kind("what happened: 5 of 3", topic="orders", partition=4, size_bytes=5, limit_bytes=3)


CLASSES = sorted(set(every_class()), key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_error_survives_pickling_by_value(kind: type[KafkaError], protocol: int) -> None:
    error = sample(kind)
    twin = pickle.loads(pickle.dumps(error, protocol))
    assert type(twin) is kind
    assert twin.args == error.args
    assert str(twin) == str(error)
    assert twin.__dict__ == error.__dict__
    for flag in ("retriable", "refresh_metadata", "abortable", "fatal", "code", "name", "topic"):
        assert getattr(twin, flag) == getattr(error, flag)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_error_can_be_copied_raised_and_caught_as_kafka_error(kind: type[KafkaError]) -> None:
    twin = copy.copy(sample(kind))
    with pytest.raises(KafkaError) as caught:
        raise twin
    assert caught.value.__dict__ == sample(kind).__dict__
    assert caught.value.name


def test_the_cause_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(TYPED["UndeliveredError"]))
    assert isinstance(error, errors.UndeliveredError)
    assert isinstance(error.first_error, errors.NetworkError)
    assert error.first_error.partition == 2


def test_a_foreign_cause_survives_pickling_as_its_text() -> None:
    error = KafkaError("outer")
    error.__cause__ = OSError(111, "refused", object())
    cause = pickle.loads(pickle.dumps(error)).__cause__
    assert type(cause) is KafkaError
    assert "Error" in str(cause)
    assert "refused" in str(cause)


def test_errors_have_the_builtin_base_a_python_caller_expects() -> None:
    assert issubclass(errors.ConfigError, ValueError)
    assert issubclass(errors.KafkaTimeoutError, TimeoutError)
    assert issubclass(errors.NetworkError, ConnectionError)
    assert issubclass(errors.ProducerClosedError, errors.IllegalStateError)
    assert errors.FastprodError is KafkaError


@pytest.mark.parametrize(
    "kind",
    [
        errors.BufferExhaustedError,
        errors.MetadataTimeoutError,
        errors.DeliveryTimeoutError,
        errors.FlushTimeoutError,
        errors.RequestTimedOutError,
    ],
)
def test_every_timeout_is_a_retriable_kafka_timeout(kind: type[KafkaError]) -> None:
    assert issubclass(kind, errors.KafkaTimeoutError)
    assert kind.retriable
    assert not kind.fatal


def test_the_families_of_a_3_12_are_told_apart_by_class() -> None:
    """P-A.3.12: the ApiException family goes into the future, the rest is raised."""
    in_the_future = [
        errors.BufferExhaustedError,
        errors.MetadataTimeoutError,
        errors.RecordTooLargeError,
        errors.InvalidTopicError,
        errors.TopicAuthorizationError,
        errors.AuthenticationError,
        errors.UnsupportedVersionError,
        errors.UnknownTopicOrPartitionError,
    ]
    raised = [errors.SerializationError, errors.IllegalStateError, errors.ConfigError]
    assert all(issubclass(kind, errors.ApiError) for kind in in_the_future)
    assert not any(issubclass(kind, errors.ApiError) for kind in raised)


def test_messages_carry_numbers_limit_and_advice() -> None:
    texts = {name: str(error) for name, error in TYPED.items()}
    assert texts["BufferExhaustedError"] == (
        "no buffer within 60,000 ms: all 33,554,432 bytes of buffer_memory hold unacknowledged "
        "records and 12 other send() call(s) wait; the brokers are slower than the callers: "
        "raise buffer_memory or max_block_ms, or send less"
    )
    slow_callbacks = errors.BufferExhaustedError(
        waited_ms=300, total_bytes=1_048_576, waiters=0, callback_bytes=1_040_000
    )
    assert str(slow_callbacks) == (
        "no buffer within 300 ms: of 1,048,576 bytes of buffer_memory 1,040,000 bytes wait for "
        "callbacks, unacknowledged records hold the rest, and 0 other send() call(s) wait; the "
        "delivery callbacks are slower than the callers: raise buffer_memory or max_block_ms, or "
        "do less in them"
    )
    assert texts["MetadataTimeoutError"] == (
        "topic 't' has 3 partition(s), none numbered 9, after 100 ms: broker 1: refused; "
        "partitions are numbered 0..2, or raise max_block_ms"
    )
    assert texts["DeliveryTimeoutError"].startswith(
        "3 record(s) for topic 't', partition 0 were not acknowledged after 120,004 ms "
        "(sent 2 time(s), perhaps written): broker 1 closed the connection; the limit is "
        "delivery_timeout_ms = 120,000"
    )
    assert "1,234 record(s)" in texts["FlushTimeoutError"]
    assert "7 record(s) were not delivered" in texts["UndeliveredError"]
    assert "NETWORK_EXCEPTION (13)" in texts["UndeliveredError"]
    assert "the first at index 99,998 (topic 't': too large): failures()" in texts["BulkError"]
    assert "process 10" in texts["ForkedFutureError"]


def test_a_batch_that_was_never_sent_says_so() -> None:
    error = errors.DeliveryTimeoutError(
        topic="t", partition=0, record_count=1, elapsed_ms=1, delivery_timeout_ms=1, attempts=0
    )
    assert "(never sent)" in str(error)


def test_a_topic_that_is_not_there_is_told_apart_from_a_partition_that_is_not() -> None:
    error = errors.MetadataTimeoutError(topic="orders", waited_ms=60_000)
    assert "topic 'orders' is not in the cluster's metadata after 60,000 ms; create" in str(error)
    assert error.partition is None


def test_a_record_too_large_names_the_limit_it_met() -> None:
    error = errors.RecordTooLargeError.for_record(
        topic="t", size_bytes=2_000_000, limit_bytes=1_048_576, limit_name="max_request_size"
    )
    assert "2,000,000 bytes" in str(error)
    assert "max_request_size = 1,048,576" in str(error)
    assert (error.code, error.name, error.topic) == (10, "MESSAGE_TOO_LARGE", "t")
    assert vars(error)["limit_bytes"] == 1_048_576


def test_a_client_side_error_is_named_after_its_class() -> None:
    assert errors.SerializationError.name == "SerializationError"
    assert errors.SerializationError.code is None
    assert errors.BrokerError.name == "BrokerError"


@pytest.mark.parametrize("code", [code for code in KAFKA_ERRORS if code != 0])
def test_error_for_code_carries_the_rows_flags(code: int) -> None:
    row = KAFKA_ERRORS[code]
    error = error_for_code(code, topic="orders", partition=3, attempts=2)
    assert (error.code, error.name) == (code, row.name)
    assert (error.retriable, error.refresh_metadata) == (row.retriable, row.refresh_metadata)
    assert error.fatal is row.fatal_for_idempotent
    assert error.abortable is not error.fatal
    assert isinstance(error, errors.ApiError)
    assert isinstance(error, errors.RetriableError) is row.retriable
    assert (error.topic, error.partition, vars(error)["attempts"]) == ("orders", 3, 2)
    assert str(error).startswith(f"topic 'orders', partition 3: {row.name} ({code})")
    assert row.text in str(error)
    assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


def test_a_class_with_a_code_has_the_flags_before_it_is_raised() -> None:
    for kind in CLASSES:
        if kind.code is not None:
            row = KAFKA_ERRORS[kind.code]
            assert (kind.name, kind.retriable) == (row.name, row.retriable)
            assert (kind.refresh_metadata, kind.fatal) == row[2:4]
            assert error_class_for_code(kind.code) is kind


def test_the_brokers_own_message_replaces_ours() -> None:
    """P-F.4.4."""
    error = error_for_code(44, topic="t", message="retention must be 7 days")
    assert str(error) == "topic 't': POLICY_VIOLATION (44): retention must be 7 days"
    assert type(error) is errors.BrokerError
    assert str(error_for_code(36)) == "TOPIC_ALREADY_EXISTS (36)"


def test_an_unknown_code_counts_as_unknown_server_error_and_keeps_its_number() -> None:
    """P-F.4, last row."""
    error = error_for_code(999)
    assert (error.code, error.name, error.retriable) == (999, "UNKNOWN_SERVER_ERROR", False)
    assert "999" in str(error)
    assert type(error) is errors.BrokerError


def test_code_zero_is_no_error() -> None:
    with pytest.raises(ValueError, match="not an error"):
        error_for_code(0)


@pytest.mark.parametrize(
    ("group", "codes"),
    [
        (
            errors.RefreshRetriableError,
            {3, 5, 6, 9, 13, 15, 16, 56, 72, 74, 80, 83, 84, 100, 103},
        ),
        (errors.TransactionAbortableError, {120}),
        (errors.ApplicationRecoverableError, {22, 25, 47, 49, 82, 90}),
        (
            errors.InvalidConfigurationError,
            {17, 18, 21, 29, 30, 31, 33, 34, 35, 38, 40, 43, 53, 58, 65, 87},
        ),
        (errors.KafkaTimeoutError, {7}),
        (errors.AuthenticationError, {33, 34, 58}),
        (errors.AuthorizationError, {29, 30, 31, 53, 65}),
        (errors.OutOfOrderSequenceError, {45, 59}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_groups_hold_the_codes_that_kafkas_exceptions_do(
    group: type[KafkaError], codes: set[int]
) -> None:
    """P-F.4.6: the class tree of Apache Kafka 4.3.0."""
    members = {code for code in KAFKA_ERRORS if code and isinstance(error_for_code(code), group)}
    assert members == codes


def test_fatal_codes_are_those_of_the_contract() -> None:
    """P-F.4, column of the idempotent producer."""
    assert {c for c, row in KAFKA_ERRORS.items() if row.fatal_for_idempotent} == {
        31,
        35,
        49,
        53,
        90,
    }

"""fastprod.error_codes against the tables of other people's clients."""

from __future__ import annotations

import importlib
import inspect
import warnings
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from fastprod import error_codes
from fastprod.error_codes import KAFKA_ERRORS

with warnings.catch_warnings():
    # kafka-python reads its schemas by a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka_errors: Any = importlib.import_module("kafka.errors")

# kafka-python keeps names of Kafka 1.x, or has its own, for these.
OTHER_NAMES = {
    -1: "UNKNOWN",
    0: "NO_ERROR",
    6: "NOT_LEADER_FOR_PARTITION",
    10: "MESSAGE_SIZE_TOO_LARGE",
    17: "INVALID_TOPIC",
    39: "INVALID_REPLICATION_ASSIGNMENT",
}
# In Kafka 4.3.0 CorruptRecordException is a RetriableException; kafka-python says otherwise.
RETRIABLE_IN_KAFKA_ONLY = {2}
# In Kafka 4.3.0 ReplicaNotAvailable is an InvalidMetadataException and UnknownLeaderEpoch is not.
REFRESH_DIFFERS = {9, 75}


def kafka_python_errors() -> list[Any]:
    return [
        kind
        for _, kind in inspect.getmembers(kafka_errors, inspect.isclass)
        if issubclass(kind, kafka_errors.BrokerResponseError)
        and getattr(kind, "errno", None) is not None
    ]


def test_every_code_from_minus_one_on_is_there_in_order() -> None:
    assert list(KAFKA_ERRORS) == list(range(-1, 134))


@pytest.mark.parametrize("kind", kafka_python_errors(), ids=lambda kind: kind.__name__)
def test_rows_agree_with_kafka_python(kind: Any) -> None:
    row = KAFKA_ERRORS[kind.errno]
    assert kind.message == OTHER_NAMES.get(kind.errno, row.name)
    assert row.retriable == (kind.retriable or kind.errno in RETRIABLE_IN_KAFKA_ONLY)
    if kind.errno not in REFRESH_DIFFERS:
        assert row.refresh_metadata == kind.invalid_metadata


def test_kafka_python_knows_most_of_the_codes() -> None:
    assert len({kind.errno for kind in kafka_python_errors()}) >= 129


def test_rows_agree_with_kio_name_for_name() -> None:
    theirs = {code.value: (code.name.upper(), code.retriable) for code in ErrorCode}
    ours = {code: (row.name, row.retriable) for code, row in KAFKA_ERRORS.items()}
    assert ours == theirs


def test_only_retriable_errors_refresh_metadata() -> None:
    assert all(row.retriable for row in KAFKA_ERRORS.values() if row.refresh_metadata)


def test_codes_that_refresh_metadata_are_kafkas_invalid_metadata_exceptions() -> None:
    """P-F.4, column M, and Apache Kafka 4.3.0 for the rows the contract leaves out."""
    refreshing = {code for code, row in KAFKA_ERRORS.items() if row.refresh_metadata}
    assert refreshing == {3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103}


def test_each_named_code_has_the_name_that_kafka_gives_it() -> None:
    named = {name: value for name, value in vars(error_codes).items() if type(value) is int}
    assert len(named) > 30
    for name, value in named.items():
        assert KAFKA_ERRORS[value].name == name

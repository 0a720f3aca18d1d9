"""The error of who waited for a topic: Kafka's words, why, and what to do (P-A.4.5)."""

from __future__ import annotations

from fastprod.client.metadata.missing_topic import missing_topic_error
from fastprod.errors import KafkaError


def test_a_topic_that_is_not_there() -> None:
    cause = KafkaError("connection refused")
    error = missing_topic_error("t", 5, None, 200, cause, "a token is awaited")
    assert str(error).startswith("Topic t not present in metadata after 200 ms.")
    assert "The last problem was: connection refused; a token is awaited." in str(error)
    assert (error.partition, error.__cause__) == (None, cause)


def test_a_partition_that_is_not_there() -> None:
    error = missing_topic_error("t", 5, 3, 200, None, "")
    assert str(error) == (
        "Partition 5 of topic t with partition count 3 is not present in metadata after 200 ms. "
        "Use a partition from 0 to 2, or add partitions to the topic."
    )
    assert (error.partition, error.partition_count) == (5, 3)

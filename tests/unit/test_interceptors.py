"""fastprod.interceptors: the chain goes on whatever one of its members does (P-C.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest

from fastprod.config import ProducerConfig
from fastprod.errors import ConfigError, KafkaError
from fastprod.interceptors import ProducerInterceptor, ProducerInterceptors
from fastprod.records import (
    Headers,
    ProducerRecord,
    RecordMetadata,
    TopicPartition,
    failed_metadata,
)

RECORD = ProducerRecord("orders", "value", 1)
METADATA = RecordMetadata("orders", 0, 5, 6)
ERROR = KafkaError("did not work")


class Appending(ProducerInterceptor):
    """Appends its word to the value; can be told to fail."""

    def __init__(self, word: str, *, is_failing: bool = False) -> None:
        self.word = word
        self.is_failing = is_failing
        self.seen: list[tuple[Any, ...]] = []
        self.closed_count = 0

    def fail_if_told(self) -> None:
        if self.is_failing:
            raise RuntimeError(f"{self.word} failed")

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        self.fail_if_told()
        return dataclasses.replace(record, value=record.value + self.word)

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, exception: BaseException | None
    ) -> None:
        self.seen.append((metadata, exception))
        self.fail_if_told()

    def close(self) -> None:
        self.closed_count += 1
        self.fail_if_told()


class SeeingHeaders(ProducerInterceptor):
    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def on_acknowledgement(
        self,
        metadata: RecordMetadata | None,
        exception: BaseException | None,
        headers: Headers | None = None,
    ) -> None:
        self.seen.append((metadata, exception, headers))


class Configured(ProducerInterceptor):
    made: list[Configured]

    def __init__(self) -> None:
        self.client_id: str | None = None
        self.closed_count = 0
        type(self).made.append(self)

    def configure(self, config: Mapping[str, Any]) -> None:
        self.client_id = config["client.id"]

    def close(self) -> None:
        self.closed_count += 1


class FailingToConfigure(Configured):
    def configure(self, config: Mapping[str, Any]) -> None:
        raise RuntimeError("third")


@pytest.fixture(autouse=True)
def _forget_made() -> None:
    Configured.made = []


def chain(*given: Any) -> ProducerInterceptors:
    return ProducerInterceptors(given, ProducerConfig(bootstrap_servers="h:1").values())


def test_each_interceptor_gets_the_record_of_the_one_before() -> None:
    """P-C.1.1, P-L.36."""
    assert chain(Appending("One"), Appending("Two")).on_send(RECORD).value == "valueOneTwo"


def test_a_failing_interceptor_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """P-C.1.1, P-L.36."""
    failing = Appending("One", is_failing=True)
    assert chain(failing, Appending("Two")).on_send(RECORD).value == "valueTwo"
    assert "interceptor Appending failed in on_send for topic orders" in caplog.text
    assert "One failed" in caplog.text


def test_a_chain_that_fails_throughout_leaves_the_record_as_it_was() -> None:
    """P-L.36."""
    failing = [Appending("One", is_failing=True), Appending("Two", is_failing=True)]
    assert chain(*failing).on_send(RECORD) is RECORD


@pytest.mark.parametrize("result", [None, "record", ("orders", b"v")])
def test_a_result_that_is_no_record_counts_as_a_failure(
    result: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong:
        def on_send(self, record: ProducerRecord) -> Any:
            return result

    assert chain(Wrong(), Appending("Two")).on_send(RECORD).value == "valueTwo"
    assert "must return a ProducerRecord" in caplog.text


def test_an_interceptor_may_change_where_a_record_goes() -> None:
    """P-C.1.1."""

    class Redirecting:
        def on_send(self, record: ProducerRecord) -> ProducerRecord:
            record.headers.add("from", record.topic.encode())
            return dataclasses.replace(record, topic="audit", partition=3)

    sent = chain(Redirecting()).on_send(ProducerRecord("orders"))
    assert (sent.topic, sent.partition) == ("audit", 3)
    assert sent.headers.to_list() == [("from", b"orders")]


@pytest.mark.parametrize("exception", [None, ERROR])
def test_every_interceptor_is_told_the_outcome_although_one_fails(
    exception: BaseException | None, caplog: pytest.LogCaptureFixture
) -> None:
    """P-C.1.2, P-L.37."""
    first, second = Appending("One", is_failing=True), Appending("Two")
    chain(first, second).on_acknowledgement(METADATA, exception)
    assert first.seen == second.seen == [(METADATA, exception)]
    assert "interceptor Appending failed in on_acknowledgement" in caplog.text


@pytest.mark.parametrize(
    ("record", "topic_partition", "expected"),
    [
        (RECORD, TopicPartition("orders", 2), failed_metadata("orders", 2)),
        (RECORD, None, failed_metadata("orders")),
        (ProducerRecord("orders", partition=7), None, failed_metadata("orders", 7)),
        (None, TopicPartition("orders", 2), failed_metadata("orders", 2)),
        (None, None, None),
    ],
)
def test_a_failed_send_is_told_with_topic_and_partition_if_known(
    record: ProducerRecord | None,
    topic_partition: TopicPartition | None,
    expected: RecordMetadata | None,
) -> None:
    """P-C.1.3, P-A.2.5, P-L.20, P-L.21, P-L.37."""
    interceptor = Appending("One")
    chain(interceptor).on_send_error(record, topic_partition, ERROR)
    assert interceptor.seen == [(expected, ERROR)]


def test_the_form_with_headers_gets_them_read_only() -> None:
    """P-C.1.4."""
    interceptor, plain = SeeingHeaders(), Appending("One")
    headers = Headers([("a", b"1")])
    chain(interceptor, plain).on_acknowledgement(METADATA, None, headers)
    assert interceptor.seen == [(METADATA, None, headers)]
    assert headers.is_frozen
    assert plain.seen == [(METADATA, None)]


def test_the_form_with_headers_gets_them_of_a_record_that_failed() -> None:
    """P-C.1.4."""
    interceptor = SeeingHeaders()
    record = ProducerRecord("orders", headers=[("a", b"1")])
    interceptors = chain(interceptor)
    interceptors.on_send_error(record, None, ERROR)
    interceptors.on_send_error(None, None, ERROR)
    assert [seen[2].to_list() for seen in interceptor.seen] == [[("a", b"1")], []]
    assert all(seen[2].is_frozen for seen in interceptor.seen)


def test_classes_are_made_and_configured_with_the_generated_client_id() -> None:
    """P-C.1.5, P-A.1.2."""
    own = Configured()
    chain(Configured, own)
    assert len(Configured.made) == 2
    assert all(str(each.client_id).startswith("producer-") for each in Configured.made)


def test_a_failing_configure_closes_those_before_it() -> None:
    """P-C.1.5, P-L.8."""
    with pytest.raises(ConfigError, match=r"FailingToConfigure: its configure.* third"):
        chain(Configured, Configured, FailingToConfigure)
    assert [each.closed_count for each in Configured.made] == [1, 1, 0]


def test_every_interceptor_is_closed_once_although_one_fails(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P-L.9."""
    first, second = Appending("One", is_failing=True), Appending("Two")
    interceptors = chain(first, second)
    interceptors.close()
    interceptors.close()
    assert (first.closed_count, second.closed_count) == (1, 1)
    assert "interceptor Appending failed in close" in caplog.text


def test_an_interceptor_may_have_some_of_the_methods_only() -> None:
    class Silent:
        pass

    interceptors = chain(Silent(), ProducerInterceptor(), Appending("One"))
    assert len(interceptors) == 3
    assert interceptors.on_send(RECORD).value == "valueOne"
    interceptors.on_acknowledgement(METADATA, None)
    interceptors.close()


def test_an_empty_chain_is_false_and_passes_everything() -> None:
    interceptors = chain()
    assert not interceptors
    assert interceptors.on_send(RECORD) is RECORD

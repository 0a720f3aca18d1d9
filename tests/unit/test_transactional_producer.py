"""The calls of transactions as far as they need no broker (P-A.8, P-A.9.4)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from fastprod import KafkaProducer
from fastprod.errors import (
    ConfigError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosedError,
)

NOWHERE = "127.0.0.1:1"
WAIT_S = 30.0
CALLS: dict[str, Callable[[KafkaProducer], object]] = {
    "init_transactions": lambda producer: producer.init_transactions(0),
    "begin_transaction": KafkaProducer.begin_transaction,
    "send_offsets_to_transaction": lambda producer: producer.send_offsets_to_transaction({}, "g"),
    "commit_transaction": lambda producer: producer.commit_transaction(0),
    "abort_transaction": lambda producer: producer.abort_transaction(0),
    "transaction": lambda producer: producer.transaction().__enter__(),
}
EVERY_CALL = pytest.mark.parametrize("call", CALLS)


def new_producer(**settings: object) -> KafkaProducer:
    return KafkaProducer(bootstrap_servers=NOWHERE, transactional_id="ledger", **settings)


@EVERY_CALL
def test_a_producer_without_a_transactional_id_has_no_transactions(call: str) -> None:
    """P-A.8.1"""
    with (
        KafkaProducer(bootstrap_servers=NOWHERE) as producer,
        pytest.raises(IllegalStateError, match="transactional_id"),
    ):
        CALLS[call](producer)


@EVERY_CALL
def test_a_closed_producer_has_no_transactions(call: str) -> None:
    """P-A.9.8"""
    producer = new_producer()
    producer.close()
    with pytest.raises(ProducerClosedError):
        CALLS[call](producer)


@pytest.mark.parametrize("call", CALLS.keys() - {"init_transactions"})
def test_init_transactions_comes_first(call: str) -> None:
    """P-A.8.2, P-L.132"""
    with new_producer() as producer, pytest.raises(IllegalStateError, match="init_transactions"):
        CALLS[call](producer)


def test_records_before_a_transaction_are_refused_without_a_wait() -> None:
    """P-A.3.17: nobody asks for the topic's metadata first."""
    with new_producer() as producer:
        for send in (producer.send, producer.try_send):
            with pytest.raises(IllegalStateError, match="init_transactions"):
                send("t", b"x")
        with pytest.raises(IllegalStateError, match="init_transactions"):
            producer.send_many("t", [b"x"])
        with pytest.raises(IllegalStateError, match="init_transactions"):
            producer.append_columns(topic="t", values=[b"x"])
    with (
        new_producer(value_serializer=str.encode) as producer,
        pytest.raises(IllegalStateError, match="init_transactions"),
    ):
        producer.send("t", "x")


def test_a_wait_is_bounded_and_may_be_repeated() -> None:
    """P-I.8.2, P-A.8.7, P-L.26, P-L.27: by max_block_ms or the call's own time-out."""
    with new_producer(max_block_ms=10) as producer:
        for timeout in (None, 0, 0.01):
            with pytest.raises(
                KafkaTimeoutError, match=r"init_transactions\(\).*call it again"
            ) as caught:
                producer.init_transactions(timeout)
            assert not caught.value.abortable
        with pytest.raises(IllegalStateError, match=r"init_transactions\(\) has not ended"):
            producer.begin_transaction()
        with pytest.raises(ValueError, match="timeout"):
            producer.init_transactions(-1)


class Waiting:
    """A thread that waits in init_transactions, without an end, until the producer is closed."""

    def __init__(self, producer: KafkaProducer) -> None:
        self.failures: list[BaseException] = []
        self._producer = producer
        self._thread = threading.Thread(target=self._init)
        self._thread.start()
        manager = producer._network_client.transactions
        assert manager is not None
        deadline_s = time.monotonic() + WAIT_S
        while manager.pending_result is None:
            assert time.monotonic() < deadline_s
            self._thread.join(0.001)

    def _init(self) -> None:
        try:
            self._producer.init_transactions(2 * WAIT_S)
        except KafkaError as error:
            self.failures.append(error)

    def close(self) -> None:
        self._producer.close(0)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()


def test_close_ends_a_call_that_waits() -> None:
    """P-A.9.4, P-L.32 testCloseIsForcedOnPendingInitProducerId."""
    waiting = Waiting(new_producer())
    waiting.close()
    assert [type(error) for error in waiting.failures] == [ProducerClosedError]


def test_close_does_not_wait_for_an_init_that_has_timed_out() -> None:
    """P-A.9.3: while no broker answers it would wait for max_block_ms, for nothing."""
    producer = new_producer(max_block_ms=5_000)
    with pytest.raises(KafkaTimeoutError):
        producer.init_transactions(0.01)
    began_s = time.monotonic()
    producer.close()
    assert time.monotonic() - began_s < 4


@pytest.mark.parametrize("call", CALLS.keys() - {"init_transactions"})
def test_a_call_beside_one_that_waits_is_refused(call: str) -> None:
    """P-A.1.8: another thread is told which call has to end first, and spoils nothing."""
    producer = new_producer()
    waiting = Waiting(producer)
    try:
        with pytest.raises(IllegalStateError, match=r"init_transactions\(\) has not ended"):
            CALLS[call](producer)
        assert waiting.failures == []
    finally:
        waiting.close()


def test_a_transactional_id_turns_idempotence_on() -> None:
    """P-L.1 testOverwriteAcksAndRetriesForIdempotentProducers, P-B.2, P-B.7."""
    with new_producer() as producer:
        config = producer.config
        assert (config.enable_idempotence, config.acks) == (True, -1)
        assert (config.retries, config.client_id) == (2**31 - 1, "producer-ledger")
        assert config.transaction_timeout_ms == 60_000


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"acks": 1}, "acks"),
        ({"acks": 0}, "acks"),
        ({"retries": 0}, "retries"),
        ({"enable_idempotence": False}, "enable_idempotence"),
        ({"max_in_flight_requests_per_connection": 6}, "max_in_flight_requests_per_connection"),
        ({"transaction_timeout_ms": 0}, "transaction_timeout_ms"),
        ({"transactional_id": ""}, "transactional_id"),
    ],
)
def test_settings_that_transactions_do_not_go_with_are_refused(
    settings: dict[str, object], key: str
) -> None:
    """P-B.2, P-L.2 testAcksAndIdempotenceForIdempotentProducers."""
    with pytest.raises(ConfigError) as caught:
        KafkaProducer({"bootstrap_servers": NOWHERE, "transactional_id": "ledger", **settings})
    assert caught.value.key == key

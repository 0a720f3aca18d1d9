"""What the producer's calls that give records up promise without any broker."""

from __future__ import annotations

import pytest

from fastprod import KafkaProducer
from fastprod.errors import ProducerClosedError

NOWHERE = "127.0.0.1:1"


def test_nothing_is_there_to_be_purged() -> None:
    with KafkaProducer(bootstrap_servers=NOWHERE) as producer:
        assert producer.purge() == 0
        assert producer.purge(queued=False) == 0
        assert producer.purge(in_flight=True) == 0
    with pytest.raises(ProducerClosedError):
        producer.purge()


def test_a_deadline_ends_the_wait_for_brokers_that_are_not_there() -> None:
    with KafkaProducer(bootstrap_servers=NOWHERE, max_block_ms=600_000) as producer:
        future = producer.send("t", b"x", deadline=0.01)
        assert isinstance(future.exception(0), TimeoutError)

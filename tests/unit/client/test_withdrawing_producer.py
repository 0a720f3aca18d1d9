"""What the calls that give records up promise, with next to nothing of a broker."""

from __future__ import annotations

import queue
import threading
from typing import Any

import pytest

from fastprod import KafkaProducer
from fastprod.errors import ProducerClosedError, RecordDeadlineError
from support.peer.fixtures import PeerFactory

NOWHERE = "127.0.0.1:1"
BOUND_S = 30.0


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


def test_a_record_whose_deadline_nobody_keeps_is_not_sent(
    new_peer: PeerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sender has an error in place of a future; the next deadline is kept again."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if "deadlines" in thread.name:
            raise RuntimeError("can't start new thread")
        start(thread)

    peer = new_peer({"t": 1})
    told = queue.SimpleQueue[Any]()
    with KafkaProducer(bootstrap_servers=peer.bootstrap_servers, linger_ms=60_000) as producer:
        producer.warmup("t", timeout=BOUND_S)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(RuntimeError):
                producer.send("t", b"refused", deadline=BOUND_S)
        producer.send("t", b"late", deadline=0.01, on_delivery=lambda _, error: told.put(error))
        assert isinstance(told.get(timeout=BOUND_S), RecordDeadlineError)
        producer.send("t", b"sent")
    assert peer.values("t", 0) == [b"sent"]

"""Threads that lend the same values: each reference is given back once, whoever does it."""

from __future__ import annotations

import sys
import threading

from fastprod import KafkaProducer
from support.peer.fixtures import PeerFactory

BOUND_S = 60.0
THREADS = 4
RECORDS = 300
VALUES = 8
VALUE_BYTES = 50_000


def test_threads_that_send_the_same_large_values_give_back_what_they_borrowed(
    new_peer: PeerFactory,
) -> None:
    """Through memory for a few batches; some are taken back, some are waited for."""
    peer = new_peer({"t": THREADS}, check="crc", patience_s=BOUND_S)
    values = [bytes([number]) * VALUE_BYTES for number in range(VALUES)]
    before = [sys.getrefcount(value) for value in values]
    errors: list[BaseException] = []
    cancelled: list[int] = []
    with KafkaProducer(
        bootstrap_servers=peer.bootstrap_servers,
        buffer_memory=1 << 20,
        max_block_ms=int(BOUND_S * 1000),
    ) as producer:

        def fill(partition: int) -> None:
            try:
                for number in range(RECORDS):
                    value = values[(partition + number) % VALUES]
                    future = producer.send("t", value, partition=partition)
                    if number % 7 == 0:
                        future.result(BOUND_S)
                    elif number % 5 == 0 and future.cancel():
                        cancelled.append(number)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=fill, args=(number,)) for number in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_S)
        assert not any(thread.is_alive() for thread in threads)
        assert errors == []
        producer.flush(BOUND_S)
        acknowledged = producer._engine.counters()["records_acked"]
        assert acknowledged == THREADS * RECORDS - len(cancelled)
        peer.wait_until(
            lambda: (
                (counters := producer._engine.counters())["buffer_available_bytes"]
                == counters["buffer_total_bytes"]
                and counters["heap_bytes"] == 0
            ),
            BOUND_S,
            "the pool whole again",
        )
    assert [sys.getrefcount(value) for value in values] == before

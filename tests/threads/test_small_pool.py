"""Many threads, little memory (contract P-D.2, P-D.3; P-L.43)."""

from __future__ import annotations

import threading

import pytest

from fastprod import KafkaProducer
from support.peer.fixtures import PeerFactory

BOUND_S = 60.0
THREADS = 5
RECORDS = 10_000
PARTITIONS = 3


@pytest.mark.parametrize("compression_type", ["none", "lz4"])
def test_five_threads_fill_a_small_pool_and_everything_leaves(
    new_peer: PeerFactory, compression_type: str
) -> None:
    """P-L.43 testStressfulSituation: 50,000 records through memory for a few batches, each once,
    each thread's in order; all memory is back."""
    peer = new_peer({"t": PARTITIONS}, check="crc", patience_s=BOUND_S)
    errors: list[BaseException] = []
    with KafkaProducer(
        bootstrap_servers=peer.bootstrap_servers,
        buffer_memory=96 * 1024,
        batch_size=8_192,
        linger_ms=5,
        max_block_ms=int(BOUND_S * 1000),
        compression_type=compression_type,
    ) as producer:

        def fill(name: int) -> None:
            try:
                for number in range(RECORDS):
                    producer.send("t", b"%d.%d" % (name, number), partition=number % PARTITIONS)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=fill, args=(name,)) for name in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_S)
        assert not any(thread.is_alive() for thread in threads)
        assert errors == []
        producer.flush(BOUND_S)
        found = producer._engine.counters()
        assert found["records_acked"] == THREADS * RECORDS
        assert found["waiting_threads"] == 0
        peer.wait_until(
            lambda: (
                (counters := producer._engine.counters())["buffer_available_bytes"]
                == counters["buffer_total_bytes"]
            ),
            BOUND_S,
            "the pool whole again",
        )
    for partition in range(PARTITIONS):
        seen: dict[bytes, list[int]] = {}
        for value in peer.values("t", partition):
            name, number = (value or b"").split(b".")
            seen.setdefault(name, []).append(int(number))
        assert len(seen) == THREADS
        for numbers in seen.values():
            assert numbers == list(range(partition, RECORDS, PARTITIONS))

"""ProducerIds: none is given away twice, over threads and restarts."""

from __future__ import annotations

import threading

from fastprod.broker.cluster.producer_ids import BLOCK_SIZE, ProducerIds


def test_threads_never_get_the_same_id() -> None:
    """B-E4 InitProducerId."""
    ids = ProducerIds()
    taken: list[int] = []

    def take() -> None:
        taken.extend(ids.take() for _ in range(500))

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(2000))


def test_a_block_is_written_off_before_its_first_id_is_given_away() -> None:
    """B-E4 InitProducerId: also after a crash."""
    reserved: list[int] = []
    ids = ProducerIds(5000, reserved.append)
    assert reserved == []
    taken = [ids.take() for _ in range(BLOCK_SIZE + 1)]
    assert taken[0] == 5000
    assert reserved == [5000 + BLOCK_SIZE, 5000 + 2 * BLOCK_SIZE]
    # After a crash at any moment the next run starts above all that were given away.
    assert max(taken[:BLOCK_SIZE]) < reserved[0] <= taken[BLOCK_SIZE] < reserved[1]

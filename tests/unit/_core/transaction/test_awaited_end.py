"""AwaitedEnd: where a caller sleeps for the end of its transaction.

How answers to EndTxn come here: tests/faults/test_awaited_end.py.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

from fastprod._core.engine.engine import Engine
from fastprod.client.engine_settings import engine_settings
from fastprod.config import ProducerConfig

BOUND_S = 30.0
SOON_S = 0.01


def new_engine() -> Engine:
    settings = ProducerConfig(bootstrap_servers="b0:9092", transactional_id="ledger")
    return Engine(**engine_settings(settings))


def told(_token: int, _producer_id: int, _epoch: int) -> None:
    raise AssertionError("there is no answer")


def test_a_wait_ends_in_time() -> None:
    began_s = time.monotonic()
    new_engine().await_end(1, SOON_S, told)
    assert time.monotonic() - began_s >= SOON_S


def test_an_outcome_that_is_known_is_not_waited_for() -> None:
    engine = new_engine()
    engine.end_known(2)
    for token in (1, 2):
        engine.await_end(token, BOUND_S, told)
    began_s = time.monotonic()
    engine.await_end(3, SOON_S, told)
    assert time.monotonic() - began_s >= SOON_S


def test_all_who_wait_are_woken_by_an_outcome() -> None:
    engine = new_engine()
    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(engine.await_end, 1, BOUND_S, told) for _ in range(3)]
        time.sleep(SOON_S)
        began_s = time.monotonic()
        engine.end_known(1)
        for each in waiting:
            each.result(BOUND_S)
        assert time.monotonic() - began_s < BOUND_S / 2

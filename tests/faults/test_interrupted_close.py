"""Ctrl-C between any two steps of a close: a second one ends everything (P-A.9.7)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastprod.client.delivery_thread
import fastprod.deadline
import fastprod.producer
import fastprod.producer_plugins
from fastprod import KafkaProducer

NOWHERE = "127.0.0.1:1"
MOST_STEPS = 400
FILES = (
    fastprod.producer.__file__,
    fastprod.producer_plugins.__file__,
    fastprod.client.delivery_thread.__file__,
    fastprod.deadline.__file__,
)


class Interrupts:
    """Ctrl-C at the nth place in a close where Python looks for signals: into a function of
    Python's, out of one of C's."""

    def __init__(self, step: int) -> None:
        self._left = step

    def __enter__(self) -> Interrupts:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: Any, event: str, _what: Any) -> None:
        if event not in ("call", "c_return"):
            return
        if frame.f_code.co_filename not in FILES:
            return
        self._left -= 1
        if self._left == 0:
            raise KeyboardInterrupt

    @property
    def is_over(self) -> bool:
        return self._left > 0


def threads_of(client_id: str) -> list[threading.Thread]:
    return [each for each in threading.enumerate() if client_id in each.name]


def has_ended(producer: KafkaProducer) -> bool:
    for thread in threads_of(producer.config.client_id):
        thread.join(20)
    return (
        producer._engine.deliveries_closed
        and not threads_of(producer.config.client_id)
        and producer not in fastprod.producer._live
    )


class Plugin:
    """An interceptor that counts how often it is closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def each_step(act: Callable[[], object]) -> Iterator[int]:
    """Interrupt `act` at its first step, at its second, until it gets through."""
    for step in range(1, MOST_STEPS):
        interrupts = Interrupts(step)
        try:
            with interrupts:
                act()
        except KeyboardInterrupt:
            yield step
        if interrupts.is_over:
            return
    pytest.fail(f"more than {MOST_STEPS} steps")


@pytest.mark.parametrize("timeout", [0, 0.05])
def test_a_second_close_ends_what_an_interrupted_one_left(timeout: float | None) -> None:
    """Wherever Ctrl-C came; plug-ins are closed once."""
    made: list[tuple[KafkaProducer, Plugin]] = []

    def renew() -> None:
        plugin = Plugin()
        producer = KafkaProducer(bootstrap_servers=NOWHERE, interceptor_classes=[plugin])
        producer._start_delivery()
        made.append((producer, plugin))

    renew()
    steps = 0
    for _ in each_step(lambda: made[-1][0].close(timeout)):
        producer, plugin = made[-1]
        producer.close(timeout)
        assert has_ended(producer)
        assert plugin.closed == 1
        steps += 1
        renew()
    assert steps > 10
    assert has_ended(made[-1][0])


def test_an_interrupted_start_of_the_delivery_thread_is_made_up_for() -> None:
    """The next callback starts it, and close has nothing to stumble over."""
    producers = [KafkaProducer(bootstrap_servers=NOWHERE)]
    for _ in each_step(lambda: producers[-1]._start_delivery()):
        producer = producers[-1]
        producer._start_delivery()
        assert producer._delivery.is_alive()
        producers.append(KafkaProducer(bootstrap_servers=NOWHERE))
    for producer in producers:
        producer.close(0)
        assert has_ended(producer)

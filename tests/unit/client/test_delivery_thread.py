"""DeliveryThread: callbacks run on it, or on whoever ends it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fastprod.client.delivery_thread import DeliveryThread
from fastprod.log import Log

PATIENCE_S = 10.0


class Deliveries:
    """Has one callback."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.deliveries_closed = False
        self.callback: Callable[[], None] | None = callback
        self.ran_on: list[threading.Thread] = []

    def run_deliveries(self, timeout_s: float) -> None:
        callback, self.callback = self.callback, None
        if callback is not None:
            self.ran_on.append(threading.current_thread())
            callback()
            self.deliveries_closed = True


def test_it_starts_once_and_ends_with_the_last_callback() -> None:
    deliveries = Deliveries(lambda: None)
    delivery = DeliveryThread(deliveries, "c")
    delivery.start()
    delivery.start()
    delivery.end(None)
    assert not delivery.is_alive()
    assert [thread.name for thread in deliveries.ran_on] == ["kafka-producer-delivery | c"]


def test_it_outlasts_a_logging_handler_that_calls_sys_exit() -> None:
    class Leaving(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise SystemExit(1)

    logger, handler = logging.getLogger("fastprod.test.leaving"), Leaving()
    logger.addHandler(handler)
    deliveries = Deliveries(lambda: Log(logger.name).error("a callback failed"))
    try:
        delivery = DeliveryThread(deliveries, "c")
        delivery.start()
        delivery.end(None)
    finally:
        logger.removeHandler(handler)
    assert deliveries.deliveries_closed


def test_what_is_left_runs_here_if_it_never_started() -> None:
    deliveries = Deliveries(lambda: None)
    delivery = DeliveryThread(deliveries, "c")
    assert not delivery.is_alive()
    delivery.end(None)
    assert deliveries.ran_on == [threading.current_thread()]


def test_a_callback_does_not_wait_for_itself() -> None:
    ended = threading.Event()

    def end() -> None:
        assert delivery.is_current
        delivery.end(None)
        ended.set()

    delivery = DeliveryThread(Deliveries(end), "c")
    assert not delivery.is_current
    delivery.start()
    assert ended.wait(PATIENCE_S)
    delivery.end(None)
    assert not delivery.is_alive()

"""ProducerEvents: what the control thread tells reaches the half that sends."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from fastprod.client.producer_events import ProducerEvents
from fastprod.errors import KafkaError
from support.processes.between_lines import interrupted_in_each_line_of_threading

PATIENCE_S = 10.0


class Sending:
    """Notes what is told."""

    def __init__(self) -> None:
        self.told: list[object] = []
        self._engine: Any = SimpleNamespace(topic=lambda name: f"ref of {name}")

    def _detach(self) -> None:
        self.told.append("detached")

    def _take_records(self, takes: bool) -> None:
        self.told.append(takes)

    def _topic_known(self, ref: object) -> None:
        self.told.append(ref)

    def _topic_forgotten(self, name: str) -> None:
        self.told.append(f"{name} forgotten")


def test_topics_become_known_and_unknown() -> None:
    sending = Sending()
    ProducerEvents(sending).topics_changed(frozenset(["a"]), frozenset(["b"]))
    assert sending.told == ["ref of a", "b forgotten"]


def test_transactions_open_and_close_the_producer_for_records() -> None:
    sending = Sending()
    events = ProducerEvents(sending)
    events.sending_changed(True)
    events.sending_changed(False)
    assert sending.told == [True, False]


def test_a_failure_for_good_is_kept_and_stops_sending() -> None:
    sending = Sending()
    events = ProducerEvents(sending)
    assert events.fatal_error is None
    error = KafkaError("over")
    events.failed_for_good(error)
    assert events.fatal_error is error
    assert sending.told == ["detached"]


def test_a_change_of_the_connections_wakes_who_waits() -> None:
    events = ProducerEvents(Sending())
    with events.changed:
        threading.Thread(target=events.connections_changed).start()
        assert events.changed.wait(PATIENCE_S)


def test_ctrl_c_leaves_no_lock_behind() -> None:
    events = ProducerEvents(Sending())
    interrupted_in_each_line_of_threading(events.connections_changed, events.connections_changed)

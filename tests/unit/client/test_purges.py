"""Purges: each call gets its own answer, and none waits for an engine that has ended."""

from __future__ import annotations

import threading

from fastprod._core.delivery.result import ERR_PURGED
from fastprod._core.engine.control_queue import PURGE_IN_FLIGHT, PURGE_QUEUED
from fastprod.client.purges import Purges
from support.processes.between_lines import interrupted_in_each_line_of_threading

WAIT_S = 30.0


class Asked:
    """An engine that notes what it is asked for."""

    def __init__(self) -> None:
        self.commands: list[tuple[int, int, int]] = []
        self.is_over = False
        self.purges = Purges(self, lambda: self.is_over)

    def abort_pending(self, code: int, token: int = 0, purged: int = 0) -> None:
        self.commands.append((code, token, purged))
        if not self.is_over:
            self.purges.answered(token, token * 10)


def test_each_call_is_told_its_own_count() -> None:
    engine = Asked()
    assert engine.purges.purge(queued=True, in_flight=False) == 10
    assert engine.purges.purge(queued=False, in_flight=True) == 20
    assert engine.purges.purge(queued=True, in_flight=True) == 30
    assert engine.commands == [
        (ERR_PURGED, 1, PURGE_QUEUED),
        (ERR_PURGED, 2, PURGE_IN_FLIGHT),
        (ERR_PURGED, 3, PURGE_QUEUED | PURGE_IN_FLIGHT),
    ]
    assert engine.purges.purge(queued=False, in_flight=False) == 0
    assert len(engine.commands) == 3


def test_a_call_that_does_not_wait_is_told_when_it_is_answered() -> None:
    engine = Asked()
    engine.is_over = True  # so that it does not answer by itself
    purge = engine.purges.begin(queued=True, in_flight=False)
    assert not engine.purges.is_pending(purge)
    engine.is_over = False
    assert engine.purges.is_pending(purge)
    told: list[int | None] = []
    purge.listeners.add(lambda: told.append(purge.record_count))
    engine.purges.answered(1, 7)
    assert told == [7]
    assert not engine.purges.is_pending(purge)


def test_nobody_waits_for_an_engine_that_has_ended() -> None:
    engine = Asked()
    engine.is_over = True
    found: list[int] = []
    waiting = threading.Thread(
        target=lambda: found.append(engine.purges.purge(queued=True, in_flight=True))
    )
    waiting.start()
    waiting.join(WAIT_S)
    assert found == [0]


def test_ctrl_c_leaves_no_lock_behind() -> None:
    def call() -> None:
        engine.purges.purge(queued=True, in_flight=False)

    engine = Asked()
    interrupted_in_each_line_of_threading(call, call)

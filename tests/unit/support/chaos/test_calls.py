"""Calls: what takes longer than its bound is found, even if it never ends."""

from __future__ import annotations

import threading
import time

import pytest

from support.chaos import calls as module
from support.chaos.calls import Calls


def test_what_keeps_its_bound_is_no_violation() -> None:
    with Calls() as calls, calls.bounded("a send", 5.0):
        pass
    assert calls.violations == []
    assert set(calls.longest_s) == {"send"}


def test_a_call_that_hangs_is_found_while_it_does(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "GRACE_S", 0.0)
    goes_on = threading.Event()
    with Calls() as calls, calls.bounded("a flush", 0.01):
        deadline_s = time.monotonic() + 20
        while not calls.violations and time.monotonic() < deadline_s:
            goes_on.wait(0.01)
    assert calls.violations == ["a flush hangs"]

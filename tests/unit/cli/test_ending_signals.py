"""fastprod.cli.ending_signals: what SIGTERM and SIGHUP do to a command."""

from __future__ import annotations

import signal
import threading

import pytest

from fastprod.cli.ending_signals import ended_like_ctrl_c, ending_signals


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_raises_what_ctrl_c_raises_and_the_handler_is_put_back(
    number: signal.Signals,
) -> None:
    def by_default(*_: object) -> None:
        """Not the real one, which would end the tests."""

    before = signal.signal(number, by_default)
    try:
        with pytest.raises(KeyboardInterrupt), ended_like_ctrl_c():
            signal.raise_signal(number)
        assert signal.getsignal(number) is by_default
    finally:
        signal.signal(number, before)


def test_what_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert signal.SIGHUP not in ending_signals()
        with ended_like_ctrl_c():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_another_thread_changes_nothing() -> None:
    found: list[object] = []

    def look() -> None:
        with ended_like_ctrl_c():
            found.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join(60)
    assert found == [signal.getsignal(signal.SIGTERM)]

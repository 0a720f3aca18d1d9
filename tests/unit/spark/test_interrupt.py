"""fastprod.spark.interrupt: Ctrl-C where it is waited for."""

from __future__ import annotations

import signal

import pytest

from fastprod.spark.interrupt import Interrupt


def test_ctrl_c_is_raised_by_the_next_wait_and_the_handler_is_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupt() as interrupt:
        interrupt.wait(0)
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            interrupt.wait(10)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_is_raised_at_once() -> None:
    with Interrupt(), pytest.raises(KeyboardInterrupt):  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)


def test_signals_that_do_what_ctrl_c_does_are_waited_for_too_and_no_others() -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    hangup = signal.getsignal(signal.SIGHUP)
    try:
        with Interrupt() as interrupt:
            signal.raise_signal(signal.SIGTERM)
            assert signal.getsignal(signal.SIGHUP) is hangup
            with pytest.raises(KeyboardInterrupt):
                interrupt.wait(10)
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGTERM, before)

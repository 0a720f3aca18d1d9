"""Interrupt: Ctrl-C as a flag, because an exception during a call to Java breaks its connection."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupt:
    """In its `with`, Ctrl-C is noted and raised by `wait`; a second Ctrl-C is raised at once.

    So are SIGTERM and SIGHUP, if the caller has them do what Ctrl-C does.

    Threads: the main one; in another it changes nothing, as only the main one gets signals.
    """

    def __init__(self) -> None:
        self._noted = threading.Event()
        self._kept: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._kept = {
                number: signal.signal(number, self._note)
                for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
                if number is signal.SIGINT or signal.getsignal(number) is signal.default_int_handler
            }
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._kept.items():
            signal.signal(number, handler)
        self._kept = {}

    def wait(self, seconds: float) -> None:
        """Wait so many seconds.

        Raises:
            KeyboardInterrupt: Ctrl-C came meanwhile, or since the last call.
        """
        if self._noted.wait(seconds):
            raise KeyboardInterrupt

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._noted.is_set():
            raise KeyboardInterrupt
        self._noted.set()

"""Interrupt: Ctrl-C as a flag, because an exception during a call to Java breaks its connection."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupt:
    """In its `with`, Ctrl-C is noted and raised by `wait`; a second Ctrl-C is raised at once.

    Threads: the main one; in another it changes nothing, as only the main one gets signals.
    """

    def __init__(self) -> None:
        self._noted = threading.Event()
        self._kept: Callable[[int, FrameType | None], Any] | int | None = None
        self._is_main = False

    def __enter__(self) -> Self:
        self._is_main = threading.current_thread() is threading.main_thread()
        if self._is_main:
            self._kept = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._is_main:
            signal.signal(signal.SIGINT, self._kept)

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

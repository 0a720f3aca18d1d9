"""WakePipe: ends the sleep of a thread that waits for descriptors."""

from __future__ import annotations

import contextlib
import os
import threading


class WakePipe:
    """A pipe that is readable after `wake`.  Close it when done.

    One thread waits for `fileno` and calls `drain`; any may call `wake`, also after `close`.

    Raises:
        OSError: no descriptor is left.
    """

    def __init__(self) -> None:
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        # A descriptor must not be closed, and used by somebody else, while it is written to.
        self._lock = threading.Lock()
        self._closed = False

    def fileno(self) -> int:
        """What to wait for."""
        return self._read_end

    def wake(self) -> None:
        """Make it readable; does not block."""
        with self._lock:
            if not self._closed:
                # A full pipe is readable enough.
                with contextlib.suppress(BlockingIOError):
                    os.write(self._write_end, b"\0")

    def drain(self) -> None:
        """Make it unreadable again."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_end, 4096):
                pass

    def close(self) -> None:
        """Give the descriptors back.  May be repeated."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            os.close(self._read_end)
            os.close(self._write_end)

    def abandon(self) -> None:
        """In the child of a fork: as `close`, whoever held the lock."""
        if self._closed:
            return
        self._closed = True
        os.close(self._read_end)
        os.close(self._write_end)

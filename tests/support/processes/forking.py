"""What the scripts of the fork tests share: children that report, and the descriptors they hold."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.processes import leak_guard

BOUND_S = 30.0
POLL_S = 0.005


class Child:
    """A forked child that runs `work()` and sends what it returns back, as JSON.

    Args:
        work: runs in the child, which then ends without running exit handlers.
        ends: how the child ends after that; default `os._exit`.
    """

    def __init__(self, work: Callable[[], Any], ends: Callable[[int], object] = os._exit) -> None:
        self._read_fd, write_fd = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._read_fd)
            ends(_report(work, write_fd))
        os.close(write_fd)

    def result(self) -> Any:
        """Wait for the child's end, by force after BOUND_S; what it returned."""
        with os.fdopen(self._read_fd) as pipe:
            os.set_blocking(self._read_fd, True)
            code = wait_for(self.pid)
            text = pipe.read()
        if code != 0:
            raise RuntimeError(f"child {self.pid} ended with {code}: {text}")
        return json.loads(text)


def _report(work: Callable[[], Any], write_fd: int) -> int:
    code = 0
    try:
        text = json.dumps(work())
    except BaseException:
        text = traceback.format_exc()
        code = 1
    os.write(write_fd, text.encode())
    os.close(write_fd)
    sys.stdout.flush()
    return code


def wait_for(pid: int) -> int:
    """The exit code of a child, minus the signal that killed it; SIGABRT after BOUND_S."""
    deadline_s = time.monotonic() + BOUND_S
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline_s:
            os.kill(pid, signal.SIGABRT)
            deadline_s += BOUND_S
        time.sleep(POLL_S)


def sockets() -> list[str]:
    """Sockets, eventfds and epoll sets of this process, by number and, for sockets, inode."""
    return sorted(leak_guard.descriptors())


def inodes() -> list[str]:
    """The sockets alone, so that those of two processes can be compared."""
    return sorted(each.split()[1] for each in sockets() if "socket:" in each)


def signal_when_asleep(number: int) -> None:
    """Have the main thread get a signal, in a while, when it sleeps: not when it wants a CPU."""
    stat = Path(f"/proc/self/task/{os.getpid()}/stat")

    def watch() -> None:
        sleeps = 0
        while sleeps < 5:
            time.sleep(0.01)
            state = stat.read_text().rsplit(")", 1)[1].split()[0]
            sleeps = sleeps + 1 if state == "S" else 0
        signal.pthread_kill(threading.main_thread().ident or 0, number)

    threading.Thread(target=watch, daemon=True).start()

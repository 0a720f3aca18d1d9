"""A test leaves behind no thread, socket, eventfd or epoll set that was not there before it."""

from __future__ import annotations

import gc
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

# What a test closed may need a moment to go: threads of other clients, for one.
PATIENCE_S = 20.0
POLL_S = 0.02
COLLECT_S = 1.0  # to look at every object after each test takes minutes in all
# Listings of threads until one is whole; as a rule the first one is.
_LISTINGS = 100
_TASKS = Path("/proc/self/task")
_STATUS = Path("/proc/self/status")
_DESCRIPTORS = Path("/dev/fd")  # on Linux links that tell what is open


def threads() -> dict[int, str]:
    """Every thread of this process by its kernel id: Python's name, or the kernel's."""
    names = {each.native_id: each.name for each in threading.enumerate() if each.native_id}
    if not _TASKS.exists():
        return names
    found = {}
    for number in _thread_numbers():
        try:
            kernel_name = (_TASKS / str(number) / "comm").read_text().strip()
        except OSError:
            continue  # it has just ended
        found[number] = f"{names.get(number, 'native')} [{kernel_name}]"
    return found


def _thread_numbers() -> list[int]:
    """Every thread's kernel id.

    If the thread that Linux is at ends just then, its list ends there too, without those that were
    started later: so it counts only if it has as many as there were before it.
    """
    for _ in range(_LISTINGS):
        count = _thread_count()
        found = [int(task.name) for task in _TASKS.iterdir()]
        if len(found) >= count:
            break
    return found


def _thread_count() -> int:
    lines = _STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Threads:"))


def descriptors() -> dict[str, str]:
    """Sockets, eventfds and epoll sets of this process: which one, and what it is."""
    found = {}
    for path in list(_DESCRIPTORS.iterdir()):
        number = int(path.name)
        try:
            is_socket = stat.S_ISSOCK(os.fstat(number).st_mode)
            target = str(path.readlink()) if path.is_symlink() else ""
            address = _address(number) if is_socket else ""
        except OSError:
            continue  # the folder's own, or closed just now
        if is_socket:
            found[f"{number} {target}"] = f"socket {address}"
        elif target in ("anon_inode:[eventfd]", "anon_inode:[eventpoll]"):
            found[f"{number} {target}"] = target
    return found


def _address(number: int) -> str:
    copied = os.dup(number)
    try:
        copy = socket.socket(fileno=copied)
    except OSError:
        os.close(copied)
        raise
    try:
        here = copy.getsockname()
        try:
            return f"{here} to {copy.getpeername()}"
        except OSError:
            return f"{here}"
    except OSError as error:
        return f"of unknown address ({error})"
    finally:
        copy.close()


class Census:
    """What there is now; `left_over` tells what has come since."""

    def __init__(self) -> None:
        self._threads = threads()
        self._descriptors = descriptors()

    def left_over(self) -> list[str]:
        """Each thread and descriptor that was not there, with its name or address."""
        here, now = threads(), descriptors()
        found = [f"thread {each}: {here[each]}" for each in here.keys() - self._threads.keys()]
        found += [
            f"descriptor {each}: {now[each]}" for each in now.keys() - self._descriptors.keys()
        ]
        return sorted(found)

    def wait_until_nothing_is_left(self, patience_s: float = PATIENCE_S) -> list[str]:
        """What is still left over after `patience_s`."""
        now_s = time.monotonic()
        deadline_s, collect_s = now_s + patience_s, now_s
        while (found := self.left_over()) and now_s < deadline_s:
            if now_s >= collect_s:
                gc.collect()  # cycles may hold it, some of them until a thread has ended
                collect_s = now_s + COLLECT_S
            else:
                time.sleep(POLL_S)
            now_s = time.monotonic()
        return found


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After each test: no more threads, sockets, eventfds and epoll sets than before."""
    before = Census()
    yield
    left = before.wait_until_nothing_is_left()
    assert not left, "the test left behind: " + "; ".join(left)

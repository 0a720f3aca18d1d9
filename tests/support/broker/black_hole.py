"""Brokers that never answer: a port that only listens, and a mock cluster that is stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

POLL_S = 0.001


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """`with black_hole() as bootstrap_servers`: connections succeed, requests vanish."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        host, port = listening.getsockname()
        yield f"{host}:{port}"


def stands_still(pid: int) -> bool:
    """Has every thread of a process stopped? The signal takes a moment to reach each of them."""
    tasks = Path(f"/proc/{pid}/task")
    if not tasks.exists():
        return True
    states = [(task / "stat").read_text().rsplit(")", 1)[1].split()[0] for task in tasks.iterdir()]
    return set(states) == {"T"}


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """`with frozen(mock_cluster.pid)`: that process stands still, its connections stay open."""
    os.kill(pid, signal.SIGSTOP)
    while not stands_still(pid):
        time.sleep(POLL_S)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)

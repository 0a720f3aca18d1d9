"""A system that gives no more threads, as under a limit of processes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def no_thread(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    """Threads with this in their names cannot be started meanwhile; nor can the block pass over it.

    Args:
        monkeypatch: pytest's.
        name: part of the name; others start as ever.
    """
    start = threading.Thread.start
    refused: list[str] = []

    def refuse(thread: threading.Thread) -> None:
        if name in thread.name:
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        yield
    assert refused, f"no thread {name!r} was asked for"

"""Deadlines of records: who is failed when, and what is kept meanwhile."""

from __future__ import annotations

import threading
import time
import weakref
from typing import Any, cast

import pytest

from fastprod._core.delivery.future import RecordFuture
from fastprod.client.deadline_thread import DeadlineThread
from fastprod.errors import KafkaError
from support.broker.sockets import until

WAIT_S = 30.0
FAR_NS = 3_600_000_000_000


class Record:
    """A future that notes when it was failed."""

    def __init__(self, name: str, failed: list[str], *, is_done: bool = False) -> None:
        self._name, self._failed, self._is_done = name, failed, is_done

    def done(self) -> bool:
        return self._is_done

    def _miss_deadline(self, limit_us: int) -> KafkaError | None:
        if self._is_done:
            return None
        self._is_done = True
        self._failed.append(self._name)
        return KafkaError(f"{self._name} {limit_us}")


class Slow(Record):
    """Keeps the thread until it is let go, while others are added."""

    def __init__(self, name: str, failed: list[str]) -> None:
        super().__init__(name, failed)
        self.entered, self.goes_on = threading.Event(), threading.Event()

    def _miss_deadline(self, limit_us: int) -> KafkaError | None:
        self.entered.set()
        assert self.goes_on.wait(WAIT_S)
        return super()._miss_deadline(limit_us)


class Owner:
    """Is told of the failed ones."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.told = threading.Semaphore(0)

    def missed(self, error: KafkaError) -> None:
        self.errors.append(str(error))
        self.told.release()


def add(thread: DeadlineThread, record: Record, due_ns: int, limit_us: int = 1) -> None:
    thread.add(cast(RecordFuture, record), due_ns, limit_us)


def test_the_earliest_is_failed_first_whenever_it_was_added() -> None:
    owner, failed = Owner(), cast(list[str], [])
    thread = DeadlineThread("c", weakref.WeakMethod(owner.missed))
    now_ns = time.monotonic_ns()
    first = Slow("first", failed)
    add(thread, first, now_ns)
    assert first.entered.wait(WAIT_S)
    add(thread, Record("far", failed), now_ns + FAR_NS)
    add(thread, Record("later", failed), now_ns + 60_000_000, 60_000)
    add(thread, Record("soon", failed), now_ns + 30_000_000, 30_000)
    add(thread, Record("done", failed, is_done=True), now_ns + 1)
    first.goes_on.set()
    for _ in range(3):
        assert owner.told.acquire(timeout=WAIT_S)
    assert failed == ["first", "soon", "later"]
    assert owner.errors == ["first 1", "soon 30000", "later 60000"]
    assert time.monotonic_ns() >= now_ns + 60_000_000
    thread.end()
    add(thread, Record("too late", failed), now_ns)
    assert failed == ["first", "soon", "later"]


def test_an_earlier_deadline_is_not_slept_past() -> None:
    owner, failed = Owner(), cast(list[str], [])
    thread = DeadlineThread("c", weakref.WeakMethod(owner.missed))
    add(thread, Record("far", failed), time.monotonic_ns() + FAR_NS)
    time.sleep(0.02)  # it sleeps until then, most likely: nothing depends on it
    add(thread, Record("soon", failed), time.monotonic_ns())
    assert owner.told.acquire(timeout=WAIT_S)
    assert failed == ["soon"]
    thread.end()


def test_what_is_done_is_not_kept_for_ever() -> None:
    owner, failed = Owner(), cast(list[str], [])
    thread = DeadlineThread("c", weakref.WeakMethod(owner.missed))
    due_ns = time.monotonic_ns() + FAR_NS
    pending = Record("pending", failed)
    is_kept = weakref.ref(pending)
    add(thread, pending, due_ns)
    del pending
    records: list[Any] = []
    for number in range(5_000):
        record = Record(f"{number}", failed, is_done=True)
        records.append(weakref.ref(record))
        add(thread, record, due_ns + number)
    assert sum(each() is not None for each in records) < 2_500
    assert is_kept() is not None
    thread.end()
    assert failed == []


def test_a_record_that_cannot_be_failed_keeps_no_other_from_it(caplog: Any) -> None:
    class Broken(Record):
        def _miss_deadline(self, limit_us: int) -> KafkaError | None:
            raise MemoryError("none left")

    owner, failed = Owner(), cast(list[str], [])
    thread = DeadlineThread("c", weakref.WeakMethod(owner.missed))
    now_ns = time.monotonic_ns()
    add(thread, Broken("broken", failed), now_ns)
    add(thread, Record("fine", failed), now_ns + 1)
    assert owner.told.acquire(timeout=WAIT_S)
    assert failed == ["fine"]
    until(lambda: "could not be failed at its deadline" in caplog.text)
    thread.end()


def test_where_the_system_gave_no_thread_the_next_record_asks_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    owner, failed = Owner(), list[str]()
    thread = DeadlineThread("client", weakref.WeakMethod(owner.missed))
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError):
            add(thread, Record("without", failed), time.monotonic_ns())
    add(thread, Record("with", failed), time.monotonic_ns())
    assert owner.told.acquire(timeout=WAIT_S)
    assert failed == ["with"]
    thread.end()

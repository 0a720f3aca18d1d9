"""Listeners: who is told of changes."""

from __future__ import annotations

from fastprod.client.listeners import Listeners


def test_each_is_told_until_it_is_removed() -> None:
    listeners = Listeners()
    calls: list[str] = []
    first, second = (lambda: calls.append("first")), (lambda: calls.append("second"))
    listeners.tell()
    listeners.add(first)
    listeners.add(second)
    listeners.tell()
    listeners.remove(first)
    listeners.remove(first)
    listeners.tell()
    assert calls == ["first", "second", "second"]


def test_one_may_remove_itself_while_it_is_told() -> None:
    listeners = Listeners()
    calls: list[int] = []

    def once() -> None:
        calls.append(1)
        listeners.remove(once)

    listeners.add(once)
    listeners.add(lambda: calls.append(2))
    listeners.tell()
    listeners.tell()
    assert calls == [1, 2, 2]

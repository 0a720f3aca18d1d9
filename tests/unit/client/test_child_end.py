"""ChildEnd: what is called at the end of a child of multiprocessing, and of no other process."""

from __future__ import annotations

import multiprocessing.process
import multiprocessing.util
from typing import Any

import pytest

from fastprod.client.child_end import ChildEnd


def watched(end: ChildEnd) -> list[Any]:
    """What multiprocessing is to call, since it is watched twice."""
    registry: dict[Any, Any] = vars(multiprocessing.util)["_finalizer_registry"]
    before = set(registry)
    end.watch()
    end.watch()
    return [registry[key] for key in registry.keys() - before]


def test_a_process_that_multiprocessing_did_not_start_is_not_watched() -> None:
    assert watched(ChildEnd(lambda: None)) == []


def test_a_child_calls_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    monkeypatch.setattr(multiprocessing.process, "_parent_process", object())
    (finalizer,) = watched(ChildEnd(lambda: calls.append(1)))
    finalizer()
    finalizer()
    assert calls == [1]

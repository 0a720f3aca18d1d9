"""Faults on demand: the verbs of `broker.faults`, and what interceptors may return."""

from __future__ import annotations

from fastprod.broker.faults.hooks import Close, Drop, Park

__all__ = ["Close", "Drop", "Park"]

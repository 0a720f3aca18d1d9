"""Faults on demand: what interceptors can answer with; the verbs are `broker.faults`."""

from __future__ import annotations

from fastprod.broker.faults.hooks import Close, Drop, Park

__all__ = ["Close", "Drop", "Park"]

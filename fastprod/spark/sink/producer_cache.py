"""The producers of a worker process, one for each configuration, kept from task to task.

Spark uses a worker for one task after the other, and ends it without notice: each task
flushes before its end, so that a producer never holds records that nobody waits for.

A worker may go on for days, with other settings than before once a password was changed: the
producer with the old ones, which no task asks for any more, would log in once a second and be
refused.
"""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from typing import Final, NamedTuple

from fastprod.errors import KafkaError
from fastprod.producer import KafkaProducer

Settings = tuple[tuple[str, str], ...]
"""A producer's settings by Kafka's dotted names, sorted: the key of the cache."""

MOST_PRODUCERS: Final = 4
MOST_IDLE_S: Final = 60.0
"""As long as Spark keeps a worker that has no task."""


class _Kept(NamedTuple):
    """A producer, and when a task has asked for it."""

    producer: KafkaProducer
    asked_s: float


_producers: OrderedDict[Settings, _Kept] = OrderedDict()


def producer_for(settings: Settings) -> KafkaProducer:
    """Return this process's producer with these settings; make it if there is none.

    Others that no task has asked for within `MOST_IDLE_S` are closed, and of more than
    `MOST_PRODUCERS` the one that was asked for longest ago.

    Raises:
        ConfigError, KafkaError: as `KafkaProducer`.

    Threads: one at a time, as Spark runs tasks.  Blocks only for DNS.
    """
    now_s = time.monotonic()
    kept = _producers.pop(settings, None)
    producer = KafkaProducer(dict(settings)) if kept is None else kept.producer
    _producers[settings] = _Kept(producer, now_s)
    while len(_producers) > MOST_PRODUCERS or now_s - _oldest().asked_s > MOST_IDLE_S:
        _throw_away(_producers.popitem(last=False)[1].producer)
    return producer


def drop(settings: Settings) -> None:
    """Close the producer with these settings at once: what it holds belongs to a failed task."""
    kept = _producers.pop(settings, None)
    if kept is not None:
        _throw_away(kept.producer)


def close_all() -> None:
    """Close every producer of this process at once."""
    while _producers:
        _throw_away(_producers.popitem()[1].producer)


def _oldest() -> _Kept:
    return next(iter(_producers.values()))


def _throw_away(producer: KafkaProducer) -> None:
    # close(0) raises for discarded records; the task's own error has been raised already.
    with contextlib.suppress(KafkaError):
        producer.close(0)

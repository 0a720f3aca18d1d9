"""The producers of a worker process, one for each configuration, kept from task to task.

Spark uses a worker for one task after the other, and ends it without notice: each task
flushes before its end, so that a producer never holds records that nobody waits for.
"""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from typing import Final

from fastprod.errors import KafkaError
from fastprod.producer import KafkaProducer

Settings = tuple[tuple[str, str], ...]
"""A producer's settings by Kafka's dotted names, sorted: the key of the cache."""

MOST_PRODUCERS: Final = 4

_producers: OrderedDict[Settings, KafkaProducer] = OrderedDict()


def producer_for(settings: Settings) -> KafkaProducer:
    """Return this process's producer with these settings; make it if there is none.

    With more than `MOST_PRODUCERS` the one that was used longest ago is closed.

    Raises:
        ConfigError, KafkaError: as `KafkaProducer`.

    Threads: one at a time, as Spark runs tasks.  Blocks only for DNS.
    """
    producer = _producers.pop(settings, None)
    if producer is None:
        producer = KafkaProducer(dict(settings))
    _producers[settings] = producer
    while len(_producers) > MOST_PRODUCERS:
        _throw_away(_producers.popitem(last=False)[1])
    return producer


def drop(settings: Settings) -> None:
    """Close the producer with these settings at once: what it holds belongs to a failed task."""
    producer = _producers.pop(settings, None)
    if producer is not None:
        _throw_away(producer)


def close_all() -> None:
    """Close every producer of this process at once."""
    while _producers:
        _throw_away(_producers.popitem()[1])


def _throw_away(producer: KafkaProducer) -> None:
    # close(0) raises for discarded records; the task's own error has been raised already.
    with contextlib.suppress(KafkaError):
        producer.close(0)

"""Way: a way to send records, whose cost is compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from bench.values import make_values

TOPIC = "turns"
_HEADERS = [("trace", b"0af7651916cd43dd"), ("tenant", b"42")]
_KEYS = [b"key-%05d" % number for number in range(5000)]
_BULK = {"linger_ms": 5, "batch_size": 1_000_000, "buffer_memory": 64 << 20}

Send = Callable[[], object]
"""Sends the records of one turn; who calls it flushes."""


@dataclasses.dataclass(frozen=True)
class Way:
    """One way.

    Args:
        meaning: what one turn sends, and how.
        count: records of a turn, which take some ten milliseconds.
        prepare: makes, for a producer and so many values, what sends them all.
        values: their kind, as `make_values` takes it.
        settings: of the producer, beside acks=1.
    """

    meaning: str
    count: int
    prepare: Callable[[Any, Sequence[bytes]], Send]
    values: str = "text-100"
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)

    def sending(self, producer: Any) -> Send:
        """What sends one turn's records."""
        few = make_values(self.values)
        return self.prepare(producer, [few[i % len(few)] for i in range(self.count)])


def _plain(producer: Any, values: Sequence[bytes]) -> Send:
    send = producer.send

    def turn() -> None:
        for value in values:
            send(TOPIC, value)

    return turn


def _partition(producer: Any, values: Sequence[bytes]) -> Send:
    send = producer.send

    def turn() -> None:
        for value in values:
            send(TOPIC, value, partition=0)

    return turn


def _keys(producer: Any, values: Sequence[bytes]) -> Send:
    send, pairs = producer.send, list(zip(values, _keys_of(values), strict=True))

    def turn() -> None:
        for value, key in pairs:
            send(TOPIC, value, key)

    return turn


def _headers(producer: Any, values: Sequence[bytes]) -> Send:
    send = producer.send

    def turn() -> None:
        for value in values:
            send(TOPIC, value, headers=_HEADERS)

    return turn


def _callbacks(producer: Any, values: Sequence[bytes]) -> Send:
    send = producer.send

    def turn() -> None:
        for value in values:
            send(TOPIC, value, on_delivery=_delivered)

    return turn


def _delivered(metadata: object, error: object) -> None:
    pass


def _list(producer: Any, values: Sequence[bytes]) -> Send:
    return lambda: producer.send_many(TOPIC, values)


def _list_keys(producer: Any, values: Sequence[bytes]) -> Send:
    keys = _keys_of(values)
    return lambda: producer.send_many(TOPIC, values, keys)


def _columns(producer: Any, values: Sequence[bytes]) -> Send:
    column = pa.array(values, pa.binary())
    return lambda: producer.send_many(TOPIC, column)


def _columns_keys(producer: Any, values: Sequence[bytes]) -> Send:
    column, keys = pa.array(values, pa.binary()), pa.array(_keys_of(values), pa.binary())
    return lambda: producer.send_many(TOPIC, column, keys)


def _keys_of(values: Sequence[bytes]) -> list[bytes]:
    return [_KEYS[i % len(_KEYS)] for i in range(len(values))]


WAYS = {
    "send": Way("send() of 100 B to a partition", 60_000, _partition),
    "send.unkeyed": Way("send() of 100 B", 60_000, _plain),
    "send.keys": Way("send() of 100 B with one of 5,000 keys", 50_000, _keys),
    "send.headers": Way("send() of 100 B with two headers", 50_000, _headers),
    "send.callbacks": Way("send() of 100 B with a callback", 30_000, _callbacks),
    "send.1kB": Way("send() of 1,000 B to a partition", 20_000, _partition, "text-1000"),
    "send.16kB_batches": Way(
        "send() of 100 B, 16 kB batches", 50_000, _partition, settings={"batch_size": 16_384}
    ),
    "list": Way("send_many() of a list", 200_000, _list, settings=_BULK),
    "list.keys": Way("send_many() of lists, with keys", 150_000, _list_keys, settings=_BULK),
    "columns": Way("send_many() of a column", 200_000, _columns, settings=_BULK),
    "columns.keys": Way("send_many() of two columns", 150_000, _columns_keys, settings=_BULK),
    "list.lz4": Way(
        "send_many() of a list of JSON lines, lz4",
        50_000,
        _list,
        "json-lines",
        {**_BULK, "compression_type": "lz4"},
    ),
    "list.zstd": Way(
        "send_many() of a list of JSON lines, zstd",
        30_000,
        _list,
        "json-lines",
        {**_BULK, "compression_type": "zstd"},
    ),
}
"""By name."""

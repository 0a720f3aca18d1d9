"""Users extend the producers: what they put around a call is there once, whatever it is given."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

from fastprod import KafkaProducer
from fastprod.aio import AsyncProducer, AsyncRecordFuture
from support.engine.quick_producer import WAIT_S
from support.peer.scripted_peer import Peer


class Marking(KafkaProducer):
    def send(self, topic: Any, value: Any = None, *rest: Any, **more: Any) -> Any:
        return super().send(topic, b"<%b>" % value, *rest, **more)

    def send_many(self, topic: Any, values: Any, *rest: Any, **more: Any) -> Any:
        return super().send_many(topic, values, *rest, **(more | {"headers": [(("many", b""),)]}))

    def append_columns(self, *columns: Any, **more: Any) -> Any:
        return super().append_columns(*columns, **(more | {"headers": [(("columns", b""),)]}))


class AsyncMarking(AsyncProducer):
    async def send(self, topic: Any, value: Any = None, *rest: Any, **more: Any) -> Any:
        return await super().send(topic, b"<%b>" % value, *rest, **more)

    def send_nowait(
        self, topic: Any, value: Any = None, *rest: Any, **more: Any
    ) -> AsyncRecordFuture:
        return super().send_nowait(topic, b"<%b>" % value, *rest, **more)


DEADLINES = pytest.mark.parametrize("deadline", [None, WAIT_S])


@DEADLINES
def test_a_value_is_changed_once(peer: Peer, deadline: float | None) -> None:
    with Marking(bootstrap_servers=peer.bootstrap_servers) as producer:
        producer.send("t", b"x", partition=0, deadline=deadline).result(WAIT_S)
    assert peer.values("t", 0) == [b"<x>"]


@DEADLINES
def test_a_value_is_changed_once_in_an_event_loop(peer: Peer, deadline: float | None) -> None:
    async def main() -> None:
        async with AsyncMarking(bootstrap_servers=peer.bootstrap_servers) as producer:
            await producer.send("t", b"x", partition=0, deadline=deadline)
            future = producer.send_nowait("t", b"y", partition=0, deadline=deadline)
            await asyncio.wait_for(future, WAIT_S)

    asyncio.run(main())
    assert peer.values("t", 0) == [b"<x>", b"<y>"]


@pytest.mark.parametrize("values", [[b"x"], np.array([b"x"])], ids=["list", "numpy"])
def test_a_bulk_is_given_once(peer: Peer, values: Any) -> None:
    with Marking(bootstrap_servers=peer.bootstrap_servers) as producer:
        producer.send_many("t", values, partitions=[0]).result(WAIT_S)
    (batch,) = peer.batches("t", 0)
    assert [record.headers for record in batch.records] == [(("many", b""),)]

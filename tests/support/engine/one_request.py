"""OneRequest: batches of several partitions in one request, and answers in any order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from fastprod._core.delivery.future import RecordFuture
from fastprod.protocol.api_keys import PRODUCE
from support.engine.sender_steps import Steps, partition_answer
from support.oracle import kio_codec

BY_NAME: Final = 12
BY_ID: Final = 13
"""Version of Produce from which topics go by id."""

Place = tuple[str, int]
"""Topic and partition."""


def topic_id(topic: str) -> bytes:
    """The id of each topic here."""
    return hashlib.md5(topic.encode(), usedforsecurity=False).digest()


def response(version: int, answers: Sequence[tuple[Place, int]]) -> bytes:
    """An answer with a base offset for each place, in this order, behind its correlation id."""
    topics = [
        {
            **({"topic_id": topic_id(topic)} if version >= BY_ID else {"name": topic}),
            "partition_responses": [partition_answer(index, base_offset=base_offset)],
        }
        for (topic, index), base_offset in answers
    ]
    message = {"responses": topics, "throttle_time": 0}
    return kio_codec.encode_response(PRODUCE, version, 0, message)[8:]


class OneRequest:
    """A record for each of these places, in one request.

    Attributes:
        futures: by place.
        told: places whose callbacks have run, in that order.
    """

    def __init__(self, version: int, places: Sequence[Place]) -> None:
        self.version = version
        self.sender = Steps(version=version, enable_idempotence=False, buffer_memory=16 << 20)
        for topic in {topic for topic, _ in places}:
            count = 1 + max(index for name, index in places if name == topic)
            self.sender.engine.set_topic(topic, topic_id(topic), [(0, 0, 0)] * count)
        self.sender.door.obey()
        self.told: list[Place] = []
        self.futures = {place: self._send(*place) for place in places}
        self.handle = self.sender.drain()

    def _send(self, topic: str, index: int) -> RecordFuture:
        future = self.sender.door.append(
            topic, b"v", None, index, 1, on_delivery=lambda *_: self.told.append((topic, index))
        )
        assert future is not None, "the pool is exhausted"
        return future

    def answer(self, answers: Sequence[tuple[Place, int]]) -> int:
        """Answer it; how many of its places were looked at."""
        before = self.sender.counters()["places_compared"]
        assert self.take(response(self.version, answers))
        return self.sender.counters()["places_compared"] - before

    def take(self, payload: bytes) -> bool:
        """Answer it with these bytes; False: they are not believed, and the connection is lost."""
        is_believed = self.sender.door.answer(self.handle, payload)
        self.sender.engine.run_deliveries(0)
        return is_believed

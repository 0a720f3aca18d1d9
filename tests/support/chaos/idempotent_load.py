"""IdempotentLoad: one producer without transactions; every record has an outcome in time."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from contextlib import AbstractContextManager

from fastprod import KafkaProducer, RecordFuture
from fastprod.errors import DeliveryTimeoutError, KafkaError, KafkaTimeoutError
from support.chaos.calls import GRACE_S, Calls
from support.chaos.journal import Journal, Told
from support.chaos.plan import LoadPlan

_BURST_S = 0.05


class IdempotentLoad:
    """Sends until told to stop, then flushes and closes.

    Args:
        plan: what, and how.
        bootstrap_servers: by the proxy.
        topic: exists.
        partitions: of the topic.
        calls: has the bounds.
    """

    def __init__(
        self, plan: LoadPlan, bootstrap_servers: str, topic: str, partitions: int, calls: Calls
    ) -> None:
        self.plan = plan
        self.journal = Journal(plan.name)
        self._servers = bootstrap_servers
        self._topic = topic
        self._partitions = partitions
        self._calls = calls
        self._chance = random.Random(plan.seed)
        self._waiting: deque[tuple[bytes, float, RecordFuture]] = deque()
        self._number = 0
        self._delivery_s = plan.settings["delivery_timeout_ms"] / 1000
        self._block_s = plan.settings["max_block_ms"] / 1000

    def run(self, over: threading.Event) -> None:
        """For a thread of its own; what it raises is a violation."""
        try:
            with KafkaProducer(
                {**self.plan.settings, "client_id": self.plan.name},
                bootstrap_servers=self._servers,
            ) as producer:
                self._send_all(producer, over)
        except BaseException as error:
            self.journal.wrong(f"ended by {error!r}")

    def _send_all(self, producer: KafkaProducer, over: threading.Event) -> None:
        burst = max(1, round(self.plan.records_per_s * _BURST_S))
        while not over.wait(_BURST_S):
            for _ in range(self._chance.randrange(2 * burst)):
                self._send(producer)
            self._collect()
        with self._call("flush", self._delivery_s):
            producer.flush(self._delivery_s)
        with self._call("close", self._delivery_s):
            producer.close(self._delivery_s)
        self._collect()
        if self._waiting:
            self.journal.wrong(f"{len(self._waiting)} records have no outcome after close()")

    def _send(self, producer: KafkaProducer) -> None:
        self._number += 1
        value = new_value(self.plan, self._number, self._chance)
        partition = self._chance.choice((None, self._chance.randrange(self._partitions)))
        try:
            with self._call("send", self._block_s):
                future = producer.send(self._topic, value, partition=partition)
        except KafkaTimeoutError:
            self.journal.count("not sent in time")
            return
        self._waiting.append((value, time.monotonic(), future))

    def _collect(self) -> None:
        """Take the outcomes that there are, in order; each must come in time."""
        while self._waiting:
            value, began_s, future = self._waiting[0]
            if not future.done():
                age_s = time.monotonic() - began_s
                if age_s > self._delivery_s + GRACE_S:
                    self.journal.wrong(f"{value[:40]!r} has no outcome after {age_s:.1f} s")
                    self._waiting.popleft()
                    continue
                return
            self._waiting.popleft()
            self._note(value, future)

    def _note(self, value: bytes, future: RecordFuture) -> None:
        error = future.exception(0)
        if error is None:
            told = future.result(0)
            self.journal.there.append(Told(value, told.partition, told.offset))
            self.journal.count("acknowledged")
            return
        self.journal.perhaps.add(value)
        self.journal.count(f"failed: {type(error).__name__}")
        if not isinstance(error, DeliveryTimeoutError) or self._delivery_s > 30:
            fatal = isinstance(error, KafkaError) and error.fatal
            self.journal.wrong(f"{value[:40]!r} failed{' for good' * fatal}: {error!r}")

    def _call(self, name: str, bound_s: float) -> AbstractContextManager[None]:
        return self._calls.bounded(f"{self.plan.name} {name}", bound_s)


def new_value(plan: LoadPlan, number: int, chance: random.Random) -> bytes:
    """A value that nobody else sends: load, number, and some bytes."""
    head = b"%s %08d " % (plan.name.encode(), number)
    return head + chance.randbytes(chance.randrange(plan.value_bytes + 1))

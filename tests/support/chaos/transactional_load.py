"""TransactionalLoad: one transactional producer after the other, by the one loop that is right."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable

from fastprod import KafkaProducer, RecordFuture
from fastprod.errors import KafkaError, KafkaTimeoutError, ProducerFencedError
from support.chaos.calls import Calls
from support.chaos.idempotent_load import new_value
from support.chaos.journal import Journal, Told
from support.chaos.plan import LoadPlan

CALL_S = 5.0
END_S = 60.0
TRANSACTION_S = 60.0
_MOST_RECORDS = 40

Sent = list[tuple[bytes, RecordFuture]]


class TransactionalLoad:
    """Transaction after transaction until told to stop; some are aborted, some handed over.

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
        self.group = f"group of {plan.name}"
        self.committed_position = 0
        self._servers = bootstrap_servers
        self._topic = topic
        self._partitions = partitions
        self._calls = calls
        self._chance = random.Random(plan.seed)
        self._number = 0
        self._block_s = plan.settings["max_block_ms"] / 1000

    def run(self, over: threading.Event) -> None:
        """For a thread of its own; what it raises is a violation."""
        try:
            with contextlib.ExitStack() as opened:
                producer = self._producer(opened)
                while not over.wait(self._chance.uniform(0, 0.05)):
                    began_s = time.monotonic()
                    if self._chance.random() < 0.04:
                        producer = self._hand_over(producer, opened)
                    else:
                        self._transaction(producer)
                    took_s = time.monotonic() - began_s
                    if took_s > TRANSACTION_S:
                        self.journal.wrong(f"a transaction took {took_s:.1f} s")
                with self._call("close", CALL_S + self._block_s):
                    producer.close(CALL_S)
        except BaseException as error:
            self.journal.wrong(f"ended by {error!r}")

    def _producer(self, opened: contextlib.ExitStack) -> KafkaProducer:
        producer = KafkaProducer(
            {
                **self.plan.settings,
                "client_id": self.plan.name,
                "transactional_id": f"id of {self.plan.name}",
                "transaction_timeout_ms": int(TRANSACTION_S * 1000),
            },
            bootstrap_servers=self._servers,
        )
        opened.callback(producer.close, 0)
        self._again("init_transactions", producer.init_transactions)
        return producer

    def _again(self, name: str, call: Callable[[float], None]) -> None:
        """Call until it does not time out; that it is told to is in its text."""
        until_s = time.monotonic() + END_S
        while True:
            try:
                with self._call(name, CALL_S):
                    call(CALL_S)
                return
            except KafkaTimeoutError as error:
                self.journal.count(f"{name} in several calls")
                if error.abortable or error.fatal:
                    raise
                if time.monotonic() > until_s:
                    self.journal.wrong(f"{name} did not end within {END_S:.0f} s: {error}")
                    raise

    def _transaction(self, producer: KafkaProducer) -> None:
        sent: Sent = []
        try:
            producer.begin_transaction()
            self._fill(producer, sent)
            if self._chance.random() < 0.2:
                self._abort(producer, sent)
                return
            position = self._send_offsets(producer)
            self._again("commit_transaction", producer.commit_transaction)
        except KafkaError as error:
            self._failed(producer, sent, error)
            return
        self.committed_position = position or self.committed_position
        self._committed(sent)

    def _failed(self, producer: KafkaProducer, sent: Sent, error: KafkaError) -> None:
        self.journal.count(f"aborted for {type(error).__name__}")
        if error.fatal:
            self.journal.wrong(f"fatal: {error!r}")
            self.journal.all_or_none.append([value for value, _ in sent])
            raise error
        self._abort(producer, sent)

    def _fill(self, producer: KafkaProducer, sent: Sent) -> None:
        for _ in range(self._chance.randrange(_MOST_RECORDS)):
            self._number += 1
            value = new_value(self.plan, self._number, self._chance)
            partition = self._chance.choice((None, self._chance.randrange(self._partitions)))
            with self._call("send", self._block_s):
                future = producer.send(self._topic, value, partition=partition)
            sent.append((value, future))
            if self._chance.random() < 0.02:
                time.sleep(self._chance.uniform(0, 0.2))

    def _send_offsets(self, producer: KafkaProducer) -> int | None:
        if self._chance.random() < 0.5:
            return None
        position = self.committed_position + self._chance.randrange(1, 100)
        offsets = {(self._topic, 0): position}
        self._again(
            "send_offsets_to_transaction",
            lambda timeout: producer.send_offsets_to_transaction(offsets, self.group, timeout),
        )
        return position

    def _abort(self, producer: KafkaProducer, sent: Sent) -> None:
        self._again("abort_transaction", producer.abort_transaction)
        self.journal.count("aborted")
        self.journal.absent.update(value for value, _ in sent)

    def _committed(self, sent: Sent) -> None:
        self.journal.count("committed")
        for value, future in sent:
            error = future.exception(0) if future.done() else "no outcome"
            if error is not None:
                self.journal.wrong(f"committed, and {value[:40]!r} has {error!r}")
                continue
            told = future.result(0)
            self.journal.there.append(Told(value, told.partition, told.offset))

    def _hand_over(self, old: KafkaProducer, opened: contextlib.ExitStack) -> KafkaProducer:
        """Another producer takes the id in the middle of a transaction; the old one is fenced."""
        sent: Sent = []
        try:
            old.begin_transaction()
            self._fill(old, sent)
        except KafkaError as error:
            self._failed(old, sent, error)
            return old
        new = self._producer(opened)
        self.journal.absent.update(value for value, _ in sent)
        if not sent:
            old.send(self._topic, b"%s 0 zombie" % self.plan.name.encode())
        try:
            self._again("commit_transaction", old.commit_transaction)
            self.journal.wrong("a fenced producer has committed")
        except KafkaError as error:
            # The first thing that it is told may be about a record of the transaction.
            self.journal.count(f"fenced by {type(error).__name__}")
            if not error.fatal:
                self._is_fenced(old)
        with self._call("close", CALL_S + self._block_s):
            old.close(0)
        return new

    def _is_fenced(self, old: KafkaProducer) -> None:
        try:
            self._again("abort_transaction", old.abort_transaction)
        except ProducerFencedError:
            return
        except KafkaError as error:
            self.journal.wrong(f"a zombie was told {error!r}")
            return
        self.journal.wrong("a fenced producer has aborted")

    def _call(self, name: str, bound_s: float) -> contextlib.AbstractContextManager[None]:
        return self._calls.bounded(f"{self.plan.name} {name}", bound_s)

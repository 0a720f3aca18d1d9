"""TransactionalLoad: one transactional producer after the other, by the one loop that is right."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable

from fastprod import KafkaProducer, RecordFuture
from fastprod.error_codes import INVALID_TXN_STATE
from fastprod.errors import KafkaError, KafkaTimeoutError, ProducerFencedError
from support.chaos.calls import Calls
from support.chaos.idempotent_load import new_value
from support.chaos.journal import Journal, Told
from support.chaos.plan import LoadPlan

CALL_S = 5.0
END_S = 60.0
ABORT = "abort_transaction"
DAWDLE_BELOW_S = 10.0
_MOST_RECORDS = 40

Sent = list[tuple[bytes, RecordFuture]]


class FencedByProtocol(Exception):
    """What Kafka's protocol makes fatal has happened: another producer goes on."""


class TransactionalLoad:
    """Transaction after transaction until told to stop; some are aborted, some handed over.

    Args:
        plan: what, and how.
        bootstrap_servers: by the proxy.
        topic: exists.
        partitions: of the topic.
        calls: has the bounds.
        unanswered_inits: how often the load has asked for a producer id or epoch and had no answer.

    Attributes:
        transactional_id: of its producers.
        group: whose offsets are committed with the records.
        positions: where that may be: its last position that was committed, and those after it
            whose end nobody was told.
    """

    def __init__(
        self,
        plan: LoadPlan,
        bootstrap_servers: str,
        topic: str,
        partitions: int,
        calls: Calls,
        unanswered_inits: Callable[[], int],
    ) -> None:
        self.plan = plan
        self.journal = Journal(plan.name)
        self.transactional_id = f"id of {plan.name}"
        self.group = f"group of {plan.name}"
        self.positions = [0]
        self._unanswered_inits = unanswered_inits
        self._forgiven = 0
        self._time_out_s = plan.settings["transaction_timeout_ms"] / 1000
        self._servers = bootstrap_servers
        self._topic = topic
        self._partitions = partitions
        self._calls = calls
        self._chance = random.Random(plan.seed)
        self._number = 0
        self._last_position = 0
        self._last_time_out = "no call timed out"
        self._block_s = plan.settings["max_block_ms"] / 1000

    def run(self, over: threading.Event) -> None:
        """For a thread of its own; what it raises is a violation."""
        try:
            with contextlib.ExitStack() as opened:
                producer = self.open(opened)
                while not over.wait(self._chance.uniform(0, 0.05)):
                    try:
                        producer = self._next(producer, opened)
                    except FencedByProtocol:
                        with self._call("close", self._block_s):
                            producer.close(0)
                        producer = self.open(opened)
                with self._call("close", CALL_S + self._block_s):
                    producer.close(CALL_S)
        except BaseException as error:
            self.journal.wrong(f"ended by {error!r}")

    def _next(self, producer: KafkaProducer, opened: contextlib.ExitStack) -> KafkaProducer:
        """One transaction; the producer for the next."""
        began_s = time.monotonic()
        if self._chance.random() < 0.04:
            producer = self._hand_over(producer, opened)
        else:
            self.transact(
                producer,
                aborts=self._chance.random() < 0.2,
                has_offsets=self._chance.random() < 0.5,
            )
        took_s = time.monotonic() - began_s
        if took_s > END_S:
            self.journal.wrong(f"a transaction took {took_s:.1f} s; {self._last_time_out}")
        return producer

    def open(self, opened: contextlib.ExitStack) -> KafkaProducer:
        """A producer that is ready for transactions; closed with `opened`."""
        producer = KafkaProducer(
            {
                **self.plan.settings,
                "client_id": self.plan.name,
                "transactional_id": self.transactional_id,
            },
            bootstrap_servers=self._servers,
        )
        opened.callback(producer.close, 0)
        self._again("init_transactions", producer.init_transactions)
        return producer

    def _again(self, name: str, call: Callable[[float], None]) -> None:
        """Call until it does not time out; or abort then, where that is possible, half of the time.

        Raises:
            KafkaError: what the call raises, and a time-out that is for the caller to abort after.
        """
        until_s = time.monotonic() + END_S
        while True:
            try:
                with self._call(name, CALL_S):
                    call(CALL_S)
                return
            except KafkaTimeoutError as error:
                self._last_time_out = str(error)
                self.journal.count(f"{name} in several calls")
                if error.abortable and name != ABORT and self._chance.random() < 0.5:
                    raise
                if time.monotonic() > until_s:
                    self.journal.wrong(f"{name} did not end within {END_S:.0f} s: {error}")
                    raise

    def transact(
        self, producer: KafkaProducer, *, aborts: bool, has_offsets: bool, least: int = 0
    ) -> bool:
        """One transaction of `least` or more records, in the journal; whether it was committed.

        Raises:
            FencedByProtocol: it is not the producer's fault that it has failed for good.
            KafkaError: it is; the journal has the violation.
        """
        began_s = time.monotonic()
        sent: Sent = []
        position = None
        is_ending = False
        try:
            producer.begin_transaction()
            self._fill(producer, sent, least)
            if has_offsets:
                position = self._send_offsets(producer)
            if aborts:
                self._abort(producer, sent)
                return False
            is_ending = True
            self._again("commit_transaction", producer.commit_transaction)
        except KafkaError as error:
            # What a fatal error has left of it may be there only if a commit was asked for.
            try:
                self._failed(producer, sent, error)
            except KafkaError as last:
                values = [value for value, _ in sent]
                if is_ending:
                    self.journal.unknown(values)
                    self.positions += [] if position is None else [position]
                else:
                    self.journal.aborted(values)
                self._judge_fatal(last, time.monotonic() - began_s)
            return False
        if position is not None:
            self.positions = [position]
        self._committed(sent)
        return True

    def _failed(self, producer: KafkaProducer, sent: Sent, error: KafkaError) -> None:
        """Abort after an error, if that is possible; else it is raised."""
        self.journal.count(f"aborted for {type(error).__name__}")
        if error.fatal:
            raise error
        self._abort(producer, sent)

    def _judge_fatal(self, error: KafkaError, age_s: float) -> None:
        """Kafka's protocol allows it in two cases; in all others it is a violation.

        The coordinator has aborted a transaction that was open for too long. Or a request for a
        producer id or epoch, whose answer did not come, has been sent again, and was done late: to
        the coordinator it was a newer producer's.
        """
        is_fenced = isinstance(error, ProducerFencedError)
        if age_s >= self._time_out_s and (is_fenced or error.code == INVALID_TXN_STATE):
            self.journal.count("fenced by its time-out")
            raise FencedByProtocol
        if is_fenced and self._unanswered_inits() > self._forgiven:
            self._forgiven += 1
            self.journal.count("fenced by its own lost request")
            raise FencedByProtocol
        self.journal.wrong(f"fatal after {age_s:.1f} s: {error!r}")
        raise error

    def _fill(self, producer: KafkaProducer, sent: Sent, least: int = 0) -> None:
        for _ in range(self._chance.randrange(least, _MOST_RECORDS)):
            self._number += 1
            value = new_value(self.plan, self._number, self._chance)
            partition = self._chance.choice((None, self._chance.randrange(self._partitions)))
            with self._call("send", self._block_s):
                future = producer.send(self._topic, value, partition=partition)
            sent.append((value, future))
            if self._chance.random() < 0.02:
                time.sleep(self._chance.uniform(0, 0.2))
        if self._time_out_s < DAWDLE_BELOW_S and self._chance.random() < 0.05:
            time.sleep(self._time_out_s * 1.2)

    def _send_offsets(self, producer: KafkaProducer) -> int:
        # None comes twice, so that one that was aborted is known if it is found.
        self._last_position += self._chance.randrange(1, 100)
        position = self._last_position
        offsets = {(self._topic, 0): position}
        self._again(
            "send_offsets_to_transaction",
            lambda timeout: producer.send_offsets_to_transaction(offsets, self.group, timeout),
        )
        return position

    def _abort(self, producer: KafkaProducer, sent: Sent) -> None:
        self._again(ABORT, producer.abort_transaction)
        self.journal.count("aborted")
        self.journal.aborted([value for value, _ in sent])

    def _committed(self, sent: Sent) -> None:
        self.journal.count("committed")
        committed = []
        for value, future in sent:
            error = future.exception(0) if future.done() else "no outcome"
            if error is not None:
                self.journal.wrong(f"committed, and {value[:40]!r} has {error!r}")
                continue
            told = future.result(0)
            committed.append(Told(value, told.partition, told.offset))
        self.journal.committed(committed)

    def _hand_over(self, old: KafkaProducer, opened: contextlib.ExitStack) -> KafkaProducer:
        """Another producer takes the id in the middle of a transaction; the old one is fenced."""
        began_s = time.monotonic()
        sent: Sent = []
        try:
            old.begin_transaction()
            self._fill(old, sent)
        except KafkaError as error:
            try:
                self._failed(old, sent, error)
            except KafkaError as last:
                self.journal.aborted([value for value, _ in sent])
                self._judge_fatal(last, time.monotonic() - began_s)
            return old
        new = self.open(opened)
        # One more, so that there is something to commit; else no broker would be asked.
        self._number += 1
        late = b"%s %08d late" % (self.plan.name.encode(), self._number)
        self.journal.aborted([*(value for value, _ in sent), late])
        try:
            old.send(self._topic, late)
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
            self._again(ABORT, old.abort_transaction)
        except ProducerFencedError:
            return
        except KafkaError as error:
            self.journal.wrong(f"a zombie was told {error!r}")
            return
        self.journal.wrong("a fenced producer has aborted")

    def _call(self, name: str, bound_s: float) -> contextlib.AbstractContextManager[None]:
        return self._calls.bounded(f"{self.plan.name} {name}", bound_s)

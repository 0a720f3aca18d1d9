"""A sender taken step by step, brokers that are a model, and the network between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fastprod._core.delivery.future import RecordFuture
from fastprod._core.delivery.result import ERR_PURGED
from fastprod._core.engine.control_queue import PURGE_IN_FLIGHT, PURGE_QUEUED, EventKind
from fastprod.errors import (
    KafkaError,
    RecordCancelledError,
    RecordDeadlineError,
    RecordPurgedError,
)
from support.engine.sender_steps import (
    SentBatch,
    Steps,
    outcome,
    partition_answer,
    produce_response,
)
from support.oracle.idempotent_broker import NONE, PartitionModel

NOT_LEADER: Final = 6
REQUEST_TIMED_OUT: Final = 7
MESSAGE_TOO_LARGE: Final = 10
NETWORK_EXCEPTION: Final = 13
DUPLICATE_SEQUENCE: Final = 46
INVALID_RECORD: Final = 87
FOR_GOOD: Final = frozenset({MESSAGE_TOO_LARGE, INVALID_RECORD})
APPENDED_AND_REFUSED: Final = frozenset({7, 20})
"""Codes that a broker may send although it has the batch."""
LARGEST_INT: Final = 2**31 - 1
QUIET_ROUNDS: Final = 2000
LONGEST_BACKOFF_MS: Final = 1000
DELIVERY_TIMEOUT_MS: Final = 120_000


@dataclass
class Flight:
    """A request on its way; `response` is made when the broker handles it."""

    handle: int
    batches: list[SentBatch]
    response: bytes | None = None


@dataclass
class Sent:
    """A record and what may excuse its failure."""

    value: bytes
    future: RecordFuture
    deadline_ms: float
    excuse: str | None = None
    is_cancelled: bool = False


@dataclass
class Fault:
    """What the broker does wrong with one request: `code` for `partition`, or for all."""

    code: int
    partition: int | None = None
    appends: bool = False


@dataclass
class World:
    """THREADS: one. Every method is a step; `settle` is the last."""

    partitions: int = 1
    slots: int = 1
    takes_any_first: bool = True
    largest_batch: int = 1000
    config: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.models = [
            PartitionModel(self.takes_any_first, index % self.slots)
            for index in range(self.partitions)
        ]
        settings = {"delivery_timeout_ms": DELIVERY_TIMEOUT_MS, "batch_size": 400, **self.config}
        self.steps = Steps([(model.leader, 0) for model in self.models], **settings)
        for slot in range(self.slots):
            self.steps.door.connect(slot, self.steps.version)
        self.wires: list[list[Flight]] = [[] for _ in range(self.slots)]
        self.sent: list[list[Sent]] = [[] for _ in range(self.partitions)]
        self.left: set[bytes | None] = set()
        self.next_id = 5000
        self.most = self.steps.config.max_in_flight_requests_per_connection

    # Steps of the client.

    def send(self, partition: int, count: int = 1) -> None:
        """Append records; those for which memory is missing are not sent."""
        for _ in range(count):
            records = self.sent[partition]
            value = b"%d.%d" % (partition, len(records))
            future = self.steps.door.append(self.steps.topic, value, None, partition, 1)
            if future is None:
                return
            batch = self.steps.queue(partition)[-1]  # it may be older than the record
            deadline_ms = batch["created_ms"] + self.steps.config.delivery_timeout_ms
            records.append(Sent(value, future, deadline_ms))

    def burst(self, partition: int, slot: int, count: int) -> None:
        """Records that leave in a request each, as far as they may."""
        for _ in range(count):
            self.send(partition)
            self.drain(slot)

    def drain(self, slot: int) -> bool:
        """One turn of the I/O thread for one node."""
        self.obey_events()
        self.steps.door.expire()
        self.excuse_expired()
        if len(self.wires[slot]) >= self.most or not self.steps.door.ready(slot)[0]:
            return False
        handle = self.steps.door.drain(slot)
        if handle is None:
            return False
        self.wires[slot].append(Flight(handle, self.steps.sent(handle)))
        self.left.update(self.steps.values(handle))
        return True

    def cancel(self, partition: int, back: int) -> None:
        """Take back the record that so many were sent after, if it has not left."""
        records = self.sent[partition]
        if back >= len(records):
            return
        each = records[-1 - back]
        may_be = each.value not in self.left and (each.is_cancelled or not each.future.done())
        assert each.future.cancel() is may_be
        assert each.future.cancelled() is may_be
        each.is_cancelled = may_be

    def miss(self, partition: int, back: int) -> None:
        """The deadline of the record is over that so many were sent after."""
        records = self.sent[partition]
        if back >= len(records):
            return
        each = records[-1 - back]
        was_done = each.future.done()
        error = each.future._miss_deadline(1)
        assert (error is None) is was_done
        if error is not None:
            assert isinstance(error, RecordDeadlineError)
            assert error.was_sent is (each.value in self.left)
            each.excuse = "late"

    def purge(self, purged: int) -> None:
        """What has left, has not, or both, is given up."""
        self.obey_events()
        pending = [each for records in self.sent for each in records if not each.future.done()]
        self.steps.engine.abort_pending(ERR_PURGED, 1, purged)
        self.steps.door.obey()
        (event,) = self.steps.events(EventKind.ON_PURGED)
        count = 0
        for each in pending:
            was_sent = each.value in self.left
            if purged & (PURGE_IN_FLIGHT if was_sent else PURGE_QUEUED):
                error = each.future.exception(0)
                assert isinstance(error, RecordPurgedError)
                assert error.was_sent is was_sent
                each.excuse = "purged"
                count += 1
            else:
                assert not each.future.done()
        assert event.item_count >= count  # those whose deadline is over are still in their batches

    def obey_events(self) -> None:
        """The control thread: a producer id for who asks."""
        if self.steps.events(EventKind.ON_PRODUCER_ID_WANTED):
            self.next_id += 1
            self.steps.engine.set_producer_id(self.next_id, 0)
            self.steps.door.obey()

    def tell(self) -> None:
        """Metadata arrives."""
        self.steps.lead([(model.leader, model.leader_epoch) for model in self.models])

    def pass_time(self, ms: float) -> None:
        self.steps.pass_time(ms)

    def excuse_expired(self) -> None:
        """What is over its time may fail."""
        for records in self.sent:
            for each in records:
                if each.deadline_ms <= self.steps.door.now_ms:
                    each.excuse = each.excuse or "expired"

    # Steps of the brokers.

    def process(self, slot: int, fault: Fault | None = None) -> bool:
        """The broker handles the oldest request that it has not handled."""
        flight = next((each for each in self.wires[slot] if each.response is None), None)
        if flight is None:
            return False
        arrived = self.steps.sent(flight.handle)
        assert arrived == flight.batches, "the bytes changed under way"
        told = []
        self.excuse_expired()
        for batch in arrived:
            model = self.models[batch.partition]
            fields = self._handle(slot, batch, model, fault)
            told.append(partition_answer(batch.partition, **fields))
        flight.response = produce_response(self.steps.version, {self.steps.topic: told})
        return True

    def _handle(
        self, slot: int, batch: SentBatch, model: PartitionModel, fault: Fault | None
    ) -> dict[str, Any]:
        if model.leader != slot:
            return {"error_code": NOT_LEADER}
        code = NONE
        if fault is not None and fault.partition in (None, batch.partition):
            code = fault.code
        values = [value or b"" for value in batch.values]
        is_known = model.has(batch.producer_id, batch.epoch, batch.sequence, len(values))
        if len(values) > self.largest_batch and not is_known:
            return {"error_code": MESSAGE_TOO_LARGE}
        if code in FOR_GOOD:
            if is_known:
                code = NONE  # it was good once
            elif code != MESSAGE_TOO_LARGE or len(values) == 1:
                self._excuse(batch, "refused")
        if code != NONE and code != DUPLICATE_SEQUENCE and not (fault and fault.appends):
            return {"error_code": code}
        found, base_offset = model.append(batch.producer_id, batch.epoch, batch.sequence, values)
        if found != NONE:
            return {"error_code": found}
        if code == DUPLICATE_SEQUENCE:
            return {"error_code": code}
        return {"error_code": code, "base_offset": -1 if code else base_offset}

    def _excuse(self, batch: SentBatch, excuse: str) -> None:
        values = set(batch.values)
        for each in self.sent[batch.partition]:
            if each.value in values:
                each.excuse = excuse

    def move(self, partition: int, slot: int) -> None:
        """A new leader, of which the client does not know yet."""
        self.models[partition].leader = slot
        self.models[partition].leader_epoch += 1

    # Steps of the network.

    def deliver(self, slot: int) -> bool:
        """The client gets the oldest response."""
        response = self.wires[slot][0].response if self.wires[slot] else None
        if response is None:
            return False
        assert self.steps.door.answer(self.wires[slot].pop(0).handle, response)
        return True

    def lose(self, slot: int, processed: int, code: int = NETWORK_EXCEPTION) -> None:
        """The connection ends; the broker had handled some more of its requests by then."""
        for _ in range(processed):
            self.process(slot)
        self.excuse_expired()
        for flight in reversed(self.wires[slot]):
            self.steps.door.fail(flight.handle, code)
        self.wires[slot].clear()

    # The end.

    def settle(self) -> None:
        """Nothing goes wrong any more: everything is done after a bounded number of rounds."""
        self.tell()
        self.rest()
        self.check()

    def rest(self) -> None:
        """Go on without faults until everything is done."""
        for _ in range(QUIET_ROUNDS):
            if self.is_done():
                return
            steps = 0
            for slot in range(self.slots):
                for step in (self.drain, self.process, self.deliver):
                    while step(slot):
                        steps += 1
            if steps == 0:
                self.pass_time(LONGEST_BACKOFF_MS)

    def is_done(self) -> bool:
        """Memory counts: a batch goes out again also if its records have missed their deadlines."""
        all_are_done = all(each.future.done() for records in self.sent for each in records)
        return all_are_done and not any(self.wires) and self.steps.memory_is_back()

    def check(self) -> None:
        """Order, no loss of what was acknowledged, no duplicates, all memory back."""
        for model, records in zip(self.models, self.sent, strict=True):
            place = {value: index for index, value in enumerate(model.log)}
            numbers = [int(value.split(b".")[1]) for value in model.log]
            if self.steps.config.enable_idempotence:
                assert len(place) == len(model.log), f"duplicates: {model.log}"
                assert numbers == sorted(numbers), f"out of order: {model.log}"
            for each in records:
                found = outcome(each.future)
                assert found is not None, f"{each.value!r} is not done"
                if each.is_cancelled:
                    assert isinstance(found, RecordCancelledError)
                    assert each.value not in place, f"{each.value!r} left all the same"
                elif isinstance(found, RecordDeadlineError | RecordPurgedError):
                    assert found.was_sent or each.value not in place
                elif isinstance(found, KafkaError):
                    can_give_up = self.steps.config.retries < LARGEST_INT
                    assert each.excuse is not None or can_give_up, f"{each.value!r} failed: {found}"
                else:
                    assert each.value in place, f"{each.value!r} was lost"
                    if found.offset >= 0 and self.steps.config.enable_idempotence:
                        assert found.offset == place[each.value]
        assert self.steps.memory_is_back(), self.steps.counters()

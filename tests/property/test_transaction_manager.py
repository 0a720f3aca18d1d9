"""TransactionManager under calls, answers and failures in any order (P-I.1, P-I.2.5, P-I.3.2)."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod.client.transactions.request_handler import TxnRequestHandler
from fastprod.client.transactions.transaction_state import TransactionState as State
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.errors import KafkaError
from fastprod.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from fastprod.protocol.messages.init_producer_id import InitProducerIdResponse
from fastprod.protocol.messages.transaction.add_offsets_to_txn import AddOffsetsToTxnResponse
from fastprod.protocol.messages.transaction.end_txn import EndTxnResponse
from fastprod.records import TopicPartition
from support.engine.transaction_world import (
    GROUP,
    PRODUCER_ID,
    TRANSACTIONAL_ID,
    World,
    added,
    committed,
)
from support.processes.scale import examples

PASSING = (0, 0, 0, 14, 15, 16, 51)
ABORTABLE = (120,)
BATCH_CODES = (10, 45, 47, -1001)


class Machine(RuleBasedStateMachine):
    """A caller who obeys, brokers that answer, and records that fail now and then."""

    @initialize(level=st.sampled_from([1, 2]))
    def start(self, level: int) -> None:
        self.world = World(level)
        self.result: TransactionalRequestResult | None = None
        self.states = [self.world.manager.state]
        self.has_records = False
        self.epochs: list[int] = []
        self.is_drained = True

    def call(self, name: str) -> None:
        """Call; what is illegal must change nothing."""
        manager = self.world.manager
        before = manager.state
        try:
            found: Any = getattr(manager, name)()
        except KafkaError:
            assert manager.state is before
            return
        if isinstance(found, TransactionalRequestResult):
            assert self.result in (None, found) or self.result.is_acked
            if found is not self.result:
                self.is_drained = name not in ("begin_commit", "begin_abort")
            self.result = found
        elif name == "begin_transaction":
            self.has_records = False

    @rule(
        name=st.sampled_from(
            ["initialize_transactions", "begin_transaction", "begin_commit", "begin_abort"]
        )
    )
    def any_call(self, name: str) -> None:
        self.call(name)

    @rule(partition=st.integers(0, 2))
    def records_come(self, partition: int) -> None:
        try:
            self.world.manager.fail_if_not_ready_for_send()
        except KafkaError:
            return
        self.has_records = True
        if not self.world.is_v2:
            self.world.manager.partition_joined(TopicPartition("t", partition))

    @rule()
    def offsets_come(self) -> None:
        try:
            self.world.manager.send_offsets({("in", 0): 1}, GROUP)
        except KafkaError:
            return

    @rule(code=st.sampled_from(BATCH_CODES))
    def records_fail(self, code: int) -> None:
        if self.has_records and not (self.is_drained and self.world.manager.state.is_completing):
            self.world.manager.batch_failed(
                ControlEvent(EventKind.ON_FAILED, topic="t", code=code, item_count=1)
            )

    @rule()
    def every_record_has_its_outcome(self) -> None:
        if not self.is_drained:
            self.is_drained = True
            self.world.drained(int(self.has_records))

    @rule(code=st.sampled_from(PASSING + ABORTABLE))
    def a_broker_answers(self, code: int) -> None:
        handler = self.world.manager.next_request()
        if handler is not None:
            self.reply(handler, code)

    @rule()
    def a_connection_is_lost(self) -> None:
        handler = self.world.manager.next_request()
        if handler is not None:
            self.world.manager.sent(handler)
            self.world.manager.lost(handler)

    @rule()
    def the_caller_sees_the_outcome(self) -> None:
        if self.result is not None and self.result.is_completed:
            error = self.result.error
            assert error is None or error.abortable
            with contextlib.suppress(KafkaError):
                self.result.acknowledge()

    def reply(self, handler: TxnRequestHandler, code: int) -> None:
        world = self.world
        name = handler.api.name
        if handler.is_end_txn:
            assert self.is_drained, "EndTxn before every record had its outcome (P-I.3.2)"
        if name == "EndTxn" and code == 120 and not handler.committed:  # type: ignore[attr-defined]
            code = 0
        message = world.message(handler)
        world.manager.sent(handler)
        has_id = code == 0
        answer: Any
        if name == "FindCoordinator":
            one = Coordinator(key=TRANSACTIONAL_ID, node_id=1, host="b", port=1, error_code=code)
            answer = FindCoordinatorResponse(coordinators=[one])
        elif name == "InitProducerId":
            epoch = max(message.producer_epoch, -1) + 1
            answer = InitProducerIdResponse(
                error_code=code,
                producer_id=PRODUCER_ID if has_id else -1,
                producer_epoch=epoch if has_id else -1,
            )
        elif name == "AddPartitionsToTxn":
            partitions = handler.partitions  # type: ignore[attr-defined]
            answer = added(code, *partitions)
        elif name == "AddOffsetsToTxn":
            answer = AddOffsetsToTxnResponse(error_code=code)
        elif name == "TxnOffsetCommit":
            answer = committed(**{"in": code})
        else:
            has_id = has_id and world.version(handler) >= 5
            answer = EndTxnResponse(
                error_code=code,
                producer_id=PRODUCER_ID if has_id else -1,
                producer_epoch=message.producer_epoch + 1 if has_id else -1,
            )
        world.answer(handler, answer)

    @invariant()
    def states_follow_each_other_legally(self) -> None:
        """P-I.1.1: nothing poisons the manager."""
        manager = self.world.manager
        assert manager.state is not State.FATAL_ERROR, manager._last_error
        self.states.append(manager.state)

    @invariant()
    def records_are_welcome_in_a_transaction_only(self) -> None:
        is_open = bool(self.world.gate) and self.world.gate[-1]
        assert is_open == (self.world.manager.state is State.IN_TRANSACTION)

    @invariant()
    def epochs_only_go_up(self) -> None:
        self.epochs.append(self.world.manager.producer_id_and_epoch[1])
        assert self.epochs == sorted(self.epochs)

    def teardown(self) -> None:
        """Whatever has happened: brokers that answer bring every call to its end."""
        if not hasattr(self, "world"):
            return
        for _ in range(50):
            self.every_record_has_its_outcome()
            handler = self.world.manager.next_request()
            if handler is None:
                break
            self.reply(handler, 0)
        assert self.result is None or self.result.is_completed
        self.the_caller_sees_the_outcome()  # else the next call only tells that one (P-I.2.5)
        if self.world.manager.can_abort:
            self.result = None
            self.call("begin_abort")
            for _ in range(50):
                self.every_record_has_its_outcome()
                handler = self.world.manager.next_request()
                if handler is None:
                    break
                self.reply(handler, 0)
            assert self.world.manager.state is State.READY


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=examples(150), stateful_step_count=40)

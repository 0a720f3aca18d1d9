"""TransactionManager: order of calls, states, errors, both protocols (P-I).

Requests are answered by the test; whom they go to is test_transaction_requests.py's.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from fastprod._core.delivery.result import ERR_ABORTED, ERR_EXPIRED, ERR_TXN_ABORTED
from fastprod._core.engine.control_queue import ControlEvent, EventKind
from fastprod.client.transactions.transaction_manager import TransactionManager
from fastprod.client.transactions.transaction_state import TransactionState as State
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.errors import (
    IllegalStateError,
    KafkaError,
    OutOfOrderSequenceError,
    ProducerFencedError,
    RecordTooLargeError,
    TransactionAbortableError,
)
from fastprod.records import TopicPartition
from support.engine.transaction_world import (
    GROUP,
    PRODUCER_ID,
    TRANSACTIONAL_ID,
    World,
    added,
    committed,
    error_of,
    features,
)
from support.processes.between_lines import interrupted

OUT_OF_ORDER = 45
INVALID_PRODUCER_EPOCH = 47
INVALID_TXN_STATE = 48
NOT_AUTHORIZED = 53
TOPIC_NOT_AUTHORIZED = 29
UNKNOWN_PRODUCER_ID = 59
PRODUCER_FENCED = 90
TO_BE_ABORTED = 120
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)

BOTH = pytest.mark.parametrize("level", [1, 2], ids=["before KIP-890", "KIP-890"])


def failed_batch(code: int) -> ControlEvent:
    return ControlEvent(EventKind.ON_FAILED, topic="t", partition=0, code=code, item_count=1)


CALLS: dict[str, Callable[[TransactionManager], Any]] = {
    "init_transactions": TransactionManager.initialize_transactions,
    "begin_transaction": TransactionManager.begin_transaction,
    "send_offsets_to_transaction": lambda manager: manager.send_offsets({T0: 1}, GROUP),
    "commit_transaction": TransactionManager.begin_commit,
    "abort_transaction": TransactionManager.begin_abort,
    "send": TransactionManager.fail_if_not_ready_for_send,
}


# Order of calls.


def in_state(state: State) -> World:
    """A world whose manager is there, and no call is waited for."""
    world = World()
    if state is State.UNINITIALIZED:
        return world
    world.ready()
    if state is State.READY:
        return world
    world.begin()
    if state is State.IN_TRANSACTION:
        return world
    error = KafkaError("gone")
    if state is State.ABORTABLE_ERROR:
        world.manager.transition_to_abortable_error(error)
    else:
        assert state is State.FATAL_ERROR
        world.manager.transition_to_fatal_error(error)
    return world


LEGAL = {
    State.UNINITIALIZED: {"init_transactions"},
    State.READY: {"begin_transaction"},
    State.IN_TRANSACTION: {
        "send",
        "send_offsets_to_transaction",
        "commit_transaction",
        "abort_transaction",
    },
    State.ABORTABLE_ERROR: {"abort_transaction"},
    State.FATAL_ERROR: set[str](),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("state", LEGAL, ids=lambda state: state.name)
def test_a_call_is_legal_or_says_what_is_wrong(state: State, call: str) -> None:
    """P-A.1.8, P-A.8.2, P-A.8.3, P-A.8.4, P-A.8.5, P-A.8.6, P-A.8.9, P-I.1.1, P-A.3.17, P-L.132."""
    world = in_state(state)
    if call in LEGAL[state]:
        CALLS[call](world.manager)
        return
    with pytest.raises(KafkaError) as caught:
        CALLS[call](world.manager)
    assert world.manager.state is state, "an illegal call changes nothing"
    assert isinstance(caught.value, IllegalStateError) == (not state.is_error)
    if state.is_error:
        assert "gone" in str(caught.value)
        assert caught.value.fatal == (state is State.FATAL_ERROR)
        assert caught.value.abortable == (state is State.ABORTABLE_ERROR)
        assert not caught.value.retriable
    elif not (state is State.READY and call == "init_transactions"):
        assert state.value in str(caught.value)
        assert call in str(caught.value)


@BOTH
def test_a_basic_transaction(level: int) -> None:
    """P-I.4, P-L.139 testBasicTransaction: the order of requests under both protocols."""
    world = World(level)
    result = world.manager.initialize_transactions()
    init = world.take("InitProducerId")
    message = world.message(init)
    assert message.transactional_id == TRANSACTIONAL_ID
    assert (message.transaction_timeout_ms, message.producer_id) == (60_000, -1)
    world.manager.line.enqueue(init)
    world.init_answer()
    result.acknowledge()
    assert world.engine.take("set_producer_id") == [(PRODUCER_ID, 0)]
    world.manager.begin_transaction()
    assert world.engine.take("begin_transaction") == [(level == 2, None)]
    assert world.gate == [True]
    world.join()
    assert world.engine.take("add_partition") == ([] if level == 2 else [("t", 0)])
    offsets = world.manager.send_offsets({T0: 7}, GROUP)
    assert offsets is not None
    if level == 1:
        world.offsets_answer()
        assert not offsets.is_completed
    commit = world.take("TxnOffsetCommit")
    assert world.version(commit) == (5 if level == 2 else 4)
    world.answer(commit, committed(t=0))
    offsets.acknowledge()
    ending = world.manager.begin_commit()
    assert world.gate == [True, False]
    assert world.engine.take("end_transaction") == [(1,)]
    assert world.manager.next_request() is None, "not before every record has its outcome"
    world.drained()
    world.end_answer()
    ending.acknowledge()
    assert world.manager.state is State.READY
    assert world.manager.producer_id_and_epoch == (PRODUCER_ID, level - 1)
    assert world.engine.take("set_producer_id") == ([(PRODUCER_ID, 1)] if level == 2 else [])


@BOTH
@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction"])
def test_a_transaction_without_records_ends_without_a_request(level: int, call: str) -> None:
    """P-I.2.2"""
    world = World(level)
    world.begin()
    result = CALLS[call](world.manager)
    world.drained(partitions=0)
    assert world.manager.next_request() is None
    result.acknowledge()
    assert world.manager.state is State.READY


def test_a_partition_is_added_once() -> None:
    """P-I.2.1, P-L.133 testMaybeAddPartitionToTransaction; one request for all that are new."""
    world = World(1)
    world.begin()
    for partition in (T0, T1, T0):
        world.manager.partition_joined(partition)
    request = world.take("AddPartitionsToTxn")
    assert world.version(request) == 3
    (topic,) = world.message(request).v3_and_below_topics
    assert (topic.name, topic.partitions) == ("t", [0, 1])
    world.answer(request, added(0, T0, T1))
    assert world.manager.next_request() is None
    assert sorted(world.engine.take("add_partition")) == [("t", 0), ("t", 1)]


# Calls whose wait ended (P-I.2.5).


@BOTH
@pytest.mark.parametrize("call", ["commit_transaction", "abort_transaction"])
def test_a_call_that_timed_out_goes_on_waiting_for_the_same(level: int, call: str) -> None:
    """P-A.8.7, P-L.147 testRetryCommitTransactionAfterTimeout and its like."""
    world = World(level)
    world.begin()
    world.join()
    result = CALLS[call](world.manager)
    assert CALLS[call](world.manager) is result
    for other in CALLS.keys() - {call}:
        with pytest.raises(IllegalStateError, match=rf"{call}\(\) has not ended"):
            CALLS[other](world.manager)
    world.drained()
    world.end_answer()
    assert CALLS[call](world.manager) is result, "although the answer came in between (P-L.26)"
    result.acknowledge()
    world.manager.begin_transaction()


def test_init_that_timed_out_goes_on_waiting_for_the_same() -> None:
    """P-A.8.2, P-L.26 testInitTransactionTimeout, P-L.27."""
    world = World()
    result = world.manager.initialize_transactions()
    with pytest.raises(IllegalStateError, match=r"init_transactions\(\) has not ended"):
        world.manager.begin_transaction()
    assert world.manager.initialize_transactions() is result
    world.init_answer()
    assert world.manager.initialize_transactions() is result
    result.acknowledge()
    with pytest.raises(IllegalStateError, match="already"):
        world.manager.initialize_transactions()


@BOTH
@pytest.mark.parametrize("call", ["init_transactions", "commit_transaction", "abort_transaction"])
def test_a_call_that_ctrl_c_interrupted_anywhere_can_be_made_again(level: int, call: str) -> None:
    """P-A.8.7: whichever line it was, as if the wait alone had been interrupted."""
    for line in itertools.count(1):
        world = World(level)
        if call != "init_transactions":
            world.begin()
            world.join()
        again = functools.partial(CALLS[call], world.manager)
        is_whole = interrupted(again, "/client/transactions/", line)
        result = again()
        if call == "init_transactions":
            world.init_answer()
        else:
            world.drained()
            world.end_answer()
        assert result.is_completed, line
        result.acknowledge()
        assert world.manager.next_request() is None, line
        world.begin()
        world.join()
        world.drained()
        if is_whole:
            assert line > 10
            break


def test_close_ends_calls_that_wait() -> None:
    """P-A.9.4, P-L.32"""
    world = World()
    result = world.manager.initialize_transactions()
    world.manager.close(IllegalStateError("closed"))
    with pytest.raises(IllegalStateError, match="closed"):
        result.acknowledge()


# Failed records.


@BOTH
@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ERR_EXPIRED, TransactionAbortableError),
        (INVALID_PRODUCER_EPOCH, KafkaError),
        (INVALID_TXN_STATE, TransactionAbortableError),
        (OUT_OF_ORDER, OutOfOrderSequenceError),
        (6, TransactionAbortableError),
        (10, RecordTooLargeError),
    ],
)
def test_a_failed_record_makes_the_commit_fail(
    level: int, code: int, kind: type[KafkaError]
) -> None:
    """P-I.6.6, P-I.3.3, P-I.6.4, P-F.4.7, P-L.128, P-L.151, P-L.157."""
    world = World(level)
    world.begin()
    world.join()
    result = world.manager.begin_commit()
    world.engine.commands.clear()
    world.manager.batch_failed(failed_batch(code))
    assert len(world.engine.take("abort_undrained")) == 1, "what has not left fails now (P-L.145)"
    assert not result.is_completed, "records are still under way"
    world.drained(code=code)
    assert world.manager.next_request() is None, "no EndTxn"
    error = error_of(result)
    assert isinstance(error, kind)
    assert (error.abortable, error.fatal, error.retriable) == (True, False, False)
    with pytest.raises(kind):
        result.acknowledge()
    assert world.manager.state is State.ABORTABLE_ERROR
    recover(world)


def recover(world: World) -> None:
    """Abort, and the next transaction is committed under a new epoch (P-I.6.2, P-I.6.4)."""
    _, epoch = world.manager.producer_id_and_epoch
    result = world.manager.begin_abort()
    world.drained()
    world.end_answer()
    if not world.is_v2:
        assert world.manager.state is State.INITIALIZING
        bump = world.take("InitProducerId")
        message = world.message(bump)
        assert (message.producer_id, message.producer_epoch) == (PRODUCER_ID, epoch)
        world.manager.line.enqueue(bump)
        world.init_answer(epoch=epoch + 1)
    result.acknowledge()
    assert world.manager.state is State.READY
    assert world.manager.producer_id_and_epoch == (PRODUCER_ID, epoch + 1)
    world.begin()
    world.join()
    result = world.manager.begin_commit()
    world.drained()
    world.end_answer()
    result.acknowledge()


@BOTH
def test_a_failed_record_makes_every_call_but_abort_fail(level: int) -> None:
    """P-I.1.2, P-A.3.17, P-L.132, P-L.160 testBumpTransactionalEpochOnAbortableError."""
    world = World(level)
    world.begin()
    world.join()
    world.manager.batch_failed(failed_batch(10))
    assert world.gate[-1] is False
    for call in CALLS.keys() - {"abort_transaction", "begin_transaction"}:
        with pytest.raises(KafkaError, match="abort it") as caught:
            CALLS[call](world.manager)
        assert caught.value.abortable
        assert isinstance(caught.value.__cause__, RecordTooLargeError)
    recover(world)


@BOTH
def test_a_record_that_failed_in_send_makes_the_commit_fail(level: int) -> None:
    """P-A.3.12, P-L.29 testCommitTransactionWithRecordTooLargeException: nothing was added."""
    world = World(level)
    world.begin()
    refused = RecordTooLargeError("large")
    world.manager.record_refused(refused)
    with pytest.raises(KafkaError, match="large"):
        world.manager.begin_commit()
    assert not refused.fatal
    result = world.manager.begin_abort()
    world.drained(partitions=0)
    if level == 1:
        assert world.manager.next_request() is not None, "the epoch goes up all the same"
        world.init_answer(epoch=1)
    assert world.manager.next_request() is None, "no EndTxn: nothing is at the brokers (P-L.146)"
    result.acknowledge()


@BOTH
def test_what_fails_while_aborting_changes_nothing(level: int) -> None:
    """P-I.1.3, P-L.151 testAbortableErrorWhileAbortInProgress; the next one has a new epoch."""
    world = World(level)
    world.begin()
    world.join()
    result = world.manager.begin_abort()
    world.manager.batch_failed(failed_batch(ERR_TXN_ABORTED))
    world.manager.batch_failed(failed_batch(ERR_EXPIRED))
    assert world.manager.state is State.ABORTING_TRANSACTION
    world.drained(code=ERR_EXPIRED)
    world.end_answer()
    if level == 1:
        world.init_answer(epoch=1)
    result.acknowledge()
    assert world.manager.producer_id_and_epoch == (PRODUCER_ID, 1)


def test_an_abort_without_errors_keeps_the_epoch_of_the_old_protocol() -> None:
    """P-I.6.2"""
    world = World(1)
    world.begin()
    world.join()
    result = world.manager.begin_abort()
    world.manager.batch_failed(failed_batch(ERR_TXN_ABORTED))
    world.drained(code=ERR_TXN_ABORTED)
    world.end_answer()
    result.acknowledge()
    assert world.manager.producer_id_and_epoch == (PRODUCER_ID, 0)


def test_records_given_up_by_close_are_no_error_of_the_transaction() -> None:
    world = World()
    world.begin()
    world.manager.batch_failed(failed_batch(ERR_ABORTED))
    assert world.manager.state is State.IN_TRANSACTION


def test_a_failure_of_which_there_was_no_memory_to_tell_is_noticed_at_the_end() -> None:
    world = World()
    world.begin()
    result = world.manager.begin_commit()
    world.drained(code=ERR_EXPIRED)
    assert world.manager.next_request() is None
    assert isinstance(error_of(result), TransactionAbortableError)


def test_an_old_coordinator_makes_lost_records_fatal() -> None:
    """P-I.8.3, P-L.157: it gives no new epoch (before Kafka 2.5)."""
    world = World(1)
    world.begin()
    world.join()
    world.manager.can_bump_epoch = False
    world.manager.batch_failed(failed_batch(ERR_EXPIRED))
    assert world.manager.state is State.FATAL_ERROR
    assert len(world.fatal) == 1


@pytest.mark.parametrize("code", [31, 35, 49, NOT_AUTHORIZED, PRODUCER_FENCED])
def test_what_is_fatal_to_a_batch_is_fatal(code: int) -> None:
    """P-F.4"""
    world = World()
    world.begin()
    world.manager.batch_failed(failed_batch(code))
    assert world.manager.state is State.FATAL_ERROR


# Errors of requests.


@BOTH
@pytest.mark.parametrize("code", [INVALID_PRODUCER_EPOCH, PRODUCER_FENCED])
def test_who_is_fenced_hears_it_from_every_call(level: int, code: int) -> None:
    """P-I.6, P-L.149 testProducerFencedExceptionInEndTxn and its like; P-I.1.4, P-I.1.5."""
    world = World(level)
    world.begin()
    world.join()
    result = world.manager.begin_commit()
    world.drained()
    world.end_answer(code)
    with pytest.raises(ProducerFencedError) as caught:
        result.acknowledge()
    assert caught.value.fatal
    assert not caught.value.abortable
    assert world.engine.take("fail") == [(PRODUCER_FENCED,)]
    assert isinstance(world.fatal[0], ProducerFencedError)
    for call in CALLS.values():
        with pytest.raises(ProducerFencedError):
            call(world.manager)


def test_an_init_that_is_not_authorized_may_be_tried_again() -> None:
    """P-I.6, P-L.28 testClusterAuthorizationFailure, P-L.144."""
    world = World()
    for code in (NOT_AUTHORIZED, 31):
        result = world.manager.initialize_transactions()
        world.init_answer(code)
        with pytest.raises(KafkaError) as caught:
            result.acknowledge()
        assert (caught.value.code, caught.value.fatal) == (code, False)
        assert world.manager.state is State.UNINITIALIZED
    world.ready()


def test_a_topic_that_is_not_authorized_is_named() -> None:
    """P-I.6, P-L.145 testTopicAuthorizationFailureInAddPartitions, P-I.6.5, P-L.154."""
    world = World(1)
    world.begin()
    world.manager.partition_joined(TopicPartition("secret", 0))
    result = world.manager.begin_commit()
    request = world.take("AddPartitionsToTxn")
    world.answer(request, added(TOPIC_NOT_AUTHORIZED, TopicPartition("secret", 0)))
    world.drained()
    assert world.manager.next_request() is None
    assert "secret" in str(error_of(result))
    with pytest.raises(KafkaError):
        result.acknowledge()
    abort = world.manager.begin_abort()
    world.drained()
    assert world.manager.next_request() is None, "no partition was added: no EndTxn"
    abort.acknowledge()


def test_partitions_that_come_to_an_abort_are_not_added() -> None:
    """P-L.153 testCancelUnsentAddPartitionsAndProduceOnAbort."""
    world = World(1)
    world.begin()
    world.manager.partition_joined(T0)
    result = world.manager.begin_abort()
    world.manager.partition_joined(T1)
    assert len(world.engine.take("abort_undrained")) == 1
    world.drained(code=ERR_TXN_ABORTED)
    assert world.manager.next_request() is None
    result.acknowledge()


@BOTH
def test_an_unknown_producer_id_of_a_coordinator(level: int) -> None:
    """P-I.6, P-I.7.7: to be aborted where a new epoch can be had."""
    for can_bump in (True, False):
        world = World(level)
        world.begin()
        world.join()
        world.manager.can_bump_epoch = can_bump
        result = world.manager.begin_commit()
        world.drained()
        world.end_answer(UNKNOWN_PRODUCER_ID)
        assert error_of(result).code == UNKNOWN_PRODUCER_ID
        is_fatal = level == 1 and not can_bump
        assert world.manager.state is (State.FATAL_ERROR if is_fatal else State.ABORTABLE_ERROR)


def test_a_new_epoch_that_did_not_come_is_asked_for_again() -> None:
    """P-I.6.2: the transaction before it failed, and under the old epoch nothing fits any more."""
    world = World(1)
    world.begin()
    world.join()
    world.manager.batch_failed(failed_batch(10))
    result = world.manager.begin_abort()
    world.drained()
    world.end_answer()
    world.init_answer(TO_BE_ABORTED)
    with pytest.raises(TransactionAbortableError):
        result.acknowledge()
    result = world.manager.begin_abort()
    world.drained(partitions=0)
    world.init_answer(epoch=1)
    result.acknowledge()
    assert world.manager.producer_id_and_epoch == (PRODUCER_ID, 1)


def test_an_illegal_transition_of_our_own_is_fatal() -> None:
    """P-I.1.1, P-L.162 testBackgroundInvalidStateTransitionIsFatal."""
    world = World()
    world.ready()
    with pytest.raises(IllegalStateError):
        world.manager.initialized(TransactionalRequestResult("init"), is_epoch_bump=True)
    assert world.manager.state is State.FATAL_ERROR
    with pytest.raises(IllegalStateError):
        world.manager.begin_transaction()


# The protocol (P-I.7).


def test_the_protocol_changes_between_transactions_only() -> None:
    """P-I.7.1-3, P-L.140 testTransactionManagerEnablesV2: up, with a bump by the client."""
    world = World(1)
    world.begin()
    world.join()
    world.manager.learn_features(features(2, epoch=2))
    result = world.manager.begin_commit()
    world.drained()
    end = world.take("EndTxn")
    assert world.version(end) == 4
    world.manager.line.enqueue(end)
    world.end_answer()
    world.init_answer(epoch=1)
    result.acknowledge()
    world.engine.commands.clear()
    world.is_v2 = True
    world.begin()
    assert world.engine.take("begin_transaction") == [(True, None)]


def test_the_protocol_goes_back_without_a_bump() -> None:
    """P-I.7.1, P-I.7.4; news that are older than what is known change nothing (P-G.5.5)."""
    world = World(2)
    world.manager.learn_features(features(1, epoch=0))
    world.begin()
    world.join()
    world.manager.learn_features(features(1, epoch=5))
    result = world.manager.begin_commit()
    world.drained()
    world.end_answer()
    result.acknowledge()
    world.engine.commands.clear()
    world.begin()
    assert world.engine.take("begin_transaction") == [(False, None)]


def test_an_end_of_another_transaction_is_not_this_ones() -> None:
    """P-I.3.2"""
    world = World()
    world.begin()
    world.manager.begin_commit()
    world.manager.drained(0, 1, 0)
    assert world.manager.next_request() is None

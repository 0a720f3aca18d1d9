"""Transactions against scripted coordinators, before KIP-890 and with it (P-A.8, P-I)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from fastprod import KafkaProducer
from fastprod.errors import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    RecordTooLargeError,
    TransactionAbortableError,
    TransactionAbortedError,
)
from fastprod.protocol.api_keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    API_NAMES,
    END_TXN,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    PRODUCE,
    TXN_OFFSET_COMMIT,
)
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerClusterFactory, PeerFactory
from support.peer.script import Rule
from support.peer.stage import Stage

LEVELS = pytest.mark.parametrize("level", [1, 2], ids=["before KIP-890", "KIP-890"])
V1_ONLY = (ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN)
REQUESTS = (
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    ADD_PARTITIONS_TO_TXN,
    ADD_OFFSETS_TO_TXN,
    TXN_OFFSET_COMMIT,
    END_TXN,
)
LEVELS_AND_REQUESTS = pytest.mark.parametrize(
    ("level", "api_key"),
    [
        pytest.param(level, api_key, id=f"{API_NAMES[api_key]}-v{level}")
        for level in (1, 2)
        for api_key in REQUESTS
        if level == 1 or api_key not in V1_ONLY
    ],
)
GROUP = "readers"
COORDINATOR_LOADING = 14
COORDINATOR_NOT_AVAILABLE = 15
NOT_COORDINATOR = 16
NOT_LEADER = 6
INVALID_PRODUCER_EPOCH = 47
CONCURRENT_TRANSACTIONS = 51
PRODUCER_FENCED = 90


@contextmanager
def transactional(brokers: Stage, **settings: object) -> Iterator[KafkaProducer]:
    """A producer that is ready for transactions."""
    with quick_producer(
        brokers, **{"transactional_id": "ledger", "linger_ms": 0, **settings}
    ) as producer:
        producer.init_transactions(WAIT_S)
        yield producer


def features(level: int) -> dict[str, int]:
    return {"transaction.version": level}


def whole_transaction(producer: KafkaProducer, value: bytes = b"x") -> None:
    """Records in three partitions and offsets, committed."""
    producer.begin_transaction()
    for partition in range(3):
        producer.send("t", value, partition=partition)
    producer.send_offsets_to_transaction({("in", 0): 5, ("in", 1): 6}, GROUP, WAIT_S)
    producer.commit_transaction(WAIT_S)


def init_and_commit(producer: KafkaProducer) -> None:
    producer.init_transactions(WAIT_S)
    whole_transaction(producer)


def committed(stage: Stage) -> list[list[bytes | None]]:
    return [
        [record.value for record in stage.log("t", partition, committed=True)]
        for partition in range(3)
    ]


@LEVELS
def test_a_transaction_is_committed_by_kafkas_requests(new_peer: PeerFactory, level: int) -> None:
    """P-I.4, P-I.7.5, P-J.2.4, P-F.3.3, P-A.3.10, P-L.23, P-L.30, P-L.139."""
    peer = new_peer({"t": 3}, features=features(level))
    with transactional(peer) as producer:
        whole_transaction(producer, b"a")
        producer.begin_transaction()
        producer.send("t", b"b", partition=0).result(WAIT_S)
        producer.abort_transaction(WAIT_S)
        whole_transaction(producer, b"c")
    assert committed(peer) == [[b"a", b"c"]] * 3
    assert peer.values("t", 0) == [b"a", b"b", b"c"]
    assert [ended.committed for ended in peer.ended_transactions] == [True, False, True]
    produced = {request.version for request in peer.requests(PRODUCE)}
    assert all((version >= 12) == (level == 2) for version in produced)
    for request in peer.requests(PRODUCE):
        assert request.message.transactional_id == "ledger"
    keys = {request.api_key for request in peer.requests()}
    assert keys.isdisjoint(V1_ONLY) == (level == 2)
    last = 5 if level == 2 else 4
    for api_key in (END_TXN, TXN_OFFSET_COMMIT):
        assert {request.version for request in peer.requests(api_key)} == {last}
    epochs = [ended.producer_epoch for ended in peer.ended_transactions]
    assert epochs == ([0, 1, 2] if level == 2 else [0, 0, 0])
    (inits, batches) = peer.requests(INIT_PRODUCER_ID), peer.batches()
    assert len(inits) == 1
    assert all(batch.header.is_transactional for batch in batches)


def test_the_old_protocol_holds_records_back_until_their_partition_was_added(
    new_peer: PeerFactory,
) -> None:
    """P-I.2.3, P-L.156 testNoDrainWhenPartitionsPending."""
    peer = new_peer({"t": 1}, features=features(1))
    with transactional(peer) as producer:
        peer.on(ADD_PARTITIONS_TO_TXN).hold()
        producer.begin_transaction()
        future = producer.send("t", b"x")
        peer.wait_until_held()
        assert peer.requests(PRODUCE) == []
        peer.release()
        future.result(WAIT_S)
        producer.commit_transaction(WAIT_S)


FAULTS: dict[str, Callable[[Rule], Rule]] = {
    "closed": lambda rule: rule.close(),
    "cut": lambda rule: rule.truncate(9),
    "silent": lambda rule: rule.silence(),
    "loading": lambda rule: rule.error(COORDINATOR_LOADING),
    "not available": lambda rule: rule.error(COORDINATOR_NOT_AVAILABLE),
    "moved": lambda rule: rule.error(NOT_COORDINATOR),
    "concurrent": lambda rule: rule.error(CONCURRENT_TRANSACTIONS),
    "timed out": lambda rule: rule.error(7),
}


@LEVELS_AND_REQUESTS
@pytest.mark.parametrize("fault", FAULTS)
def test_what_passes_does_no_harm(
    new_peer: PeerFactory, level: int, api_key: int, fault: str
) -> None:
    """P-I.3.6, P-I.6, P-L.141, P-L.148: at each request, twice."""
    peer = new_peer({"t": 3}, features=features(level))
    FAULTS[fault](peer.on(api_key)).times(2)
    with transactional(peer, request_timeout_ms=200, delivery_timeout_ms=20_000) as producer:
        whole_transaction(producer, b"a")
        whole_transaction(producer, b"b")
    assert committed(peer) == [[b"a", b"b"]] * 3


@LEVELS
@pytest.mark.parametrize("api_key", [INIT_PRODUCER_ID, TXN_OFFSET_COMMIT, END_TXN])
def test_who_is_fenced_hears_it_from_every_later_call(
    new_peer: PeerFactory, level: int, api_key: int
) -> None:
    """P-I.6, P-A.8.9, P-L.149: where it is noticed, and then everywhere."""
    peer = new_peer({"t": 3}, features=features(level))
    with quick_producer(peer, transactional_id="ledger", linger_ms=0) as producer:
        peer.on(api_key).error(PRODUCER_FENCED)
        with pytest.raises(ProducerFencedError) as caught:
            init_and_commit(producer)
        assert caught.value.fatal
        for call in (
            producer.begin_transaction,
            producer.commit_transaction,
            producer.abort_transaction,
            lambda: producer.send("t", b"x"),
            lambda: producer.send_many("t", [b"x"]),
        ):
            with pytest.raises(ProducerFencedError):
                call()
    assert committed(peer) == [[]] * 3


def test_what_failed_with_the_producer_was_not_given_up_by_its_close(new_peer: PeerFactory) -> None:
    """P-I.6, P-A.9: however soon after the error it comes."""
    peer = new_peer({"t": 3}, features=features(2))
    for number in range(30):
        producer = quick_producer(peer, transactional_id=f"ledger {number}", linger_ms=60_000)
        try:
            producer.init_transactions(WAIT_S)
            producer.begin_transaction()
            future = producer.send("t", b"x")
            peer.on(TXN_OFFSET_COMMIT).error(PRODUCER_FENCED)
            with pytest.raises(ProducerFencedError):
                producer.send_offsets_to_transaction({("t", 0): 1}, "group", WAIT_S)
        finally:
            producer.close(0)
        error = future.exception(WAIT_S)
        assert isinstance(error, KafkaError)
        assert error.code == PRODUCER_FENCED


@LEVELS
@pytest.mark.parametrize("code", [INVALID_PRODUCER_EPOCH, 10, 48, 87])
def test_a_record_that_fails_makes_the_commit_fail_and_an_abort_heals(
    new_peer: PeerFactory, level: int, code: int
) -> None:
    """P-I.6.1, P-I.6.6, P-L.128, P-L.150 testInvalidProducerEpochFromProduce, P-L.160."""
    peer = new_peer({"t": 3}, features=features(level))
    with transactional(peer) as producer:
        peer.on(PRODUCE).for_partition("t", 1).error(code)
        producer.begin_transaction()
        good = producer.send("t", b"a", partition=0)
        bad = producer.send("t", b"a", partition=1)
        with pytest.raises(KafkaError) as caught:
            producer.commit_transaction(WAIT_S)
        assert (caught.value.abortable, caught.value.fatal) == (True, False)
        assert good.exception(WAIT_S) is None
        assert bad.exception(WAIT_S) is not None
        with pytest.raises(KafkaError) as refused:
            producer.send("t", b"b")
        assert (refused.value.abortable, refused.value.fatal) == (True, False)
        producer.abort_transaction(WAIT_S)
        whole_transaction(producer, b"c")
    assert committed(peer) == [[b"c"]] * 3
    assert [ended.committed for ended in peer.ended_transactions] == [False, True]
    assert peer.ended_transactions[1].producer_epoch == 1, "a new epoch after an error"


@LEVELS
def test_a_record_that_expires_makes_the_commit_fail(new_peer: PeerFactory, level: int) -> None:
    """P-I.8.3, P-F.4.7, P-L.157 testTransitionToAbortableErrorOnBatchExpiry."""
    peer = new_peer({"t": 3}, features=features(level))
    with transactional(
        peer, request_timeout_ms=200, delivery_timeout_ms=2_000, retry_backoff_ms=10
    ) as producer:
        rule = peer.on(PRODUCE).error(NOT_LEADER).always()
        producer.begin_transaction()
        future = producer.send("t", b"a", partition=0)
        with pytest.raises(TransactionAbortableError):
            producer.commit_transaction(WAIT_S)
        assert future.exception(WAIT_S) is not None
        rule.cancel()
        producer.abort_transaction(WAIT_S)
        whole_transaction(producer, b"c")
    assert committed(peer) == [[b"c"]] * 3


@LEVELS
def test_a_record_that_send_refuses_makes_the_commit_fail(
    new_peer: PeerFactory, level: int
) -> None:
    """P-A.3.12, P-L.29 testCommitTransactionWithRecordTooLargeException; rows of a bulk, too."""
    peer = new_peer({"t": 3}, features=features(level))
    with transactional(peer, max_request_size=1_000) as producer:
        for send in (
            lambda: producer.send("t", bytes(2_000)),
            lambda: producer.send_many("t", [b"x", bytes(2_000)]),
            lambda: producer.append_columns(topic="t", values=[b"x", bytes(2_000)]),
        ):
            producer.begin_transaction()
            producer.send("t", b"good", partition=2)
            send()
            with pytest.raises(KafkaError) as caught:
                producer.commit_transaction(WAIT_S)
            assert isinstance(caught.value.__cause__, RecordTooLargeError)
            producer.abort_transaction(WAIT_S)
        whole_transaction(producer, b"c")
    assert committed(peer) == [[b"c"]] * 3


@LEVELS
def test_records_that_never_left_fail_at_an_abort(new_peer: PeerFactory, level: int) -> None:
    """P-A.8.6, P-L.124 testTransactionAbortedExceptionOnAbortWithoutError."""
    peer = new_peer({"t": 3}, features=features(level))
    with transactional(peer, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        producer.begin_transaction()
        future = producer.send("t", b"a", partition=0)
        producer.abort_transaction(WAIT_S)
        assert isinstance(future.exception(WAIT_S), TransactionAbortedError)
        whole_transaction(producer, b"c")
    assert peer.values("t", 0) == [b"c"]


@LEVELS
def test_a_commit_waits_for_every_record(new_peer: PeerFactory, level: int) -> None:
    """P-A.8.5, P-L.122, P-L.123 testAwaitPendingRecordsBeforeCommittingTransaction, P-L.152."""
    peer = new_peer({"t": 3}, features=features(level))
    with transactional(peer, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        producer.begin_transaction()
        futures = [producer.send("t", b"a", partition=partition) for partition in range(3)]
        peer.on(PRODUCE).hold()
        with pytest.raises(KafkaTimeoutError, match=r"commit_transaction\(\)") as caught:
            producer.commit_transaction(0.05)
        assert (caught.value.retriable, caught.value.abortable) == (True, False)
        peer.wait_until_held()
        assert peer.requests(END_TXN) == []
        with pytest.raises(IllegalStateError, match=r"commit_transaction\(\) has not ended"):
            producer.abort_transaction(WAIT_S)
        peer.release()
        producer.commit_transaction(WAIT_S)
        assert all(future.done() for future in futures)
    assert committed(peer) == [[b"a"]] * 3


@LEVELS
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_call_that_timed_out_goes_on_waiting_for_the_same(
    new_peer: PeerFactory, level: int, is_commit: bool
) -> None:
    """P-A.8.7, P-L.147: EndTxn is sent once."""
    peer = new_peer({"t": 3}, features=features(level))
    with transactional(peer) as producer:
        call = producer.commit_transaction if is_commit else producer.abort_transaction
        peer.on(END_TXN).hold()
        producer.begin_transaction()
        producer.send("t", b"a", partition=0).result(WAIT_S)
        with pytest.raises(KafkaTimeoutError):
            call(0.05)
        peer.wait_until_held()
        with pytest.raises(KafkaTimeoutError, match="EndTxn has no answer yet") as caught:
            call(0.05)
        assert caught.value.abortable is not is_commit
        peer.release()
        call(WAIT_S)
        assert len(peer.requests(END_TXN)) == 1
        whole_transaction(producer, b"c")


def test_init_that_timed_out_goes_on(new_peer: PeerFactory) -> None:
    """P-A.8.2, P-L.26 testInitTransactionsResponseAfterTimeout."""
    peer = new_peer({"t": 3}, features=features(2))
    peer.on(INIT_PRODUCER_ID).hold()
    with quick_producer(peer, transactional_id="ledger") as producer:
        with pytest.raises(KafkaTimeoutError):
            producer.init_transactions(0.05)
        peer.wait_until_held()
        peer.release()
        producer.init_transactions(WAIT_S)
        assert len(peer.requests(INIT_PRODUCER_ID)) == 1
        whole_transaction(producer)


@LEVELS
def test_an_older_producer_is_fenced(new_peer: PeerFactory, level: int) -> None:
    """P-A.8.2: the brokers know the newer epoch."""
    peer = new_peer({"t": 3}, features=features(level))
    with transactional(peer) as old:
        old.begin_transaction()
        old.send("t", b"old", partition=0).result(WAIT_S)
        with transactional(peer) as new:
            new.begin_transaction()
            new.send("t", b"new", partition=0).result(WAIT_S)
            peer.on(END_TXN).when(lambda request: request.message.producer_epoch == 0).error(
                PRODUCER_FENCED
            ).always()
            with pytest.raises(KafkaError):
                old.send("t", b"zombie", partition=0).result(WAIT_S)
            with pytest.raises(ProducerFencedError):
                old.abort_transaction(WAIT_S)
            new.commit_transaction(WAIT_S)
    assert b"zombie" not in peer.values("t", 0)


@LEVELS
def test_a_coordinator_that_moves_is_followed(
    new_peer_cluster: PeerClusterFactory, level: int
) -> None:
    """P-I.3.4, P-L.141 testLookupCoordinatorOnNotCoordinatorError: between any two requests."""
    cluster = new_peer_cluster(3, {"t": 3}, features=features(level))
    with transactional(cluster) as producer:
        for turn in range(4):
            to = cluster.nodes[turn % 3].node_id
            cluster.move_coordinator(to)
            for peer in cluster.nodes:
                if peer.node_id != to:
                    peer.on(END_TXN).error(NOT_COORDINATOR).always()
            whole_transaction(producer, b"%d" % turn)
            cluster.clear_script()
    assert committed(cluster) == [[b"0", b"1", b"2", b"3"]] * 3


@LEVELS
def test_close_aborts_what_is_open(new_peer: PeerFactory, level: int) -> None:
    """P-A.9.3, P-F.1.1, P-L.121 testIncompleteTransactionAbortOnShutdown."""
    peer = new_peer({"t": 3}, features=features(level))
    with transactional(peer) as producer:
        producer.begin_transaction()
        producer.send("t", b"a", partition=0).result(WAIT_S)
    assert [ended.committed for ended in peer.ended_transactions] == [False]


@LEVELS
def test_close_lets_a_commit_go_on(new_peer: PeerFactory, level: int) -> None:
    """P-A.9.3, P-L.121 testTransactionalRequestsSentOnShutdown."""
    peer = new_peer({"t": 3}, features=features(level))

    def release_once_closing() -> None:
        peer.wait_until(lambda: producer.closed)
        peer.wait_until_held()
        peer.release()

    with transactional(peer) as producer:
        producer.begin_transaction()
        producer.send("t", b"a", partition=0)
        peer.on(END_TXN).hold()
        with pytest.raises(KafkaTimeoutError):
            producer.commit_transaction(0)
        releasing = threading.Thread(target=release_once_closing)
        releasing.start()
    releasing.join(WAIT_S)
    assert [ended.committed for ended in peer.ended_transactions] == [True]


def test_close_without_time_leaves_it_to_the_brokers(new_peer: PeerFactory) -> None:
    """P-A.9.4, P-L.121 testForceShutdownWithIncompleteTransaction."""
    peer = new_peer({"t": 3}, features=features(2))
    with transactional(peer) as producer:
        producer.begin_transaction()
        producer.send("t", b"a", partition=0).result(WAIT_S)
        producer.close(0)
    assert peer.ended_transactions == []


def test_close_waits_for_an_abort_that_timed_out_once_more(new_peer: PeerFactory) -> None:
    """P-A.9.3, P-I.8.2: for max_block_ms, and not twice as long."""
    peer = new_peer({"t": 1}, features=features(2))
    with transactional(peer, max_block_ms=2_000) as producer:
        producer.begin_transaction()
        producer.send("t", b"a").result(WAIT_S)
        peer.on(END_TXN).hold().always()
        with pytest.raises(KafkaTimeoutError):
            producer.abort_transaction(0.05)
        began_s = time.monotonic()
        producer.close()
        assert 1.9 < time.monotonic() - began_s < 3.9


def send_and_fail(producer: KafkaProducer, timeout: float | None = None) -> None:
    with producer.transaction(timeout):
        producer.send("t", b"b", partition=0).result(WAIT_S)
        raise ZeroDivisionError


@LEVELS
def test_a_with_block_commits_or_aborts(new_peer: PeerFactory, level: int) -> None:
    """A with block is one transaction."""
    peer = new_peer({"t": 3}, features=features(level))
    with transactional(peer) as producer:
        with producer.transaction() as same:
            assert same is producer
            producer.send("t", b"a", partition=0)
        with pytest.raises(ZeroDivisionError):
            send_and_fail(producer)
        peer.on(PRODUCE).error(10)
        with pytest.raises(RecordTooLargeError), producer.transaction():
            producer.send("t", b"c", partition=0)
        with producer.transaction():
            producer.send("t", b"d", partition=0)
    assert committed(peer)[0] == [b"a", b"d"]
    assert [ended.committed for ended in peer.ended_transactions] == [True, False, False, True]


def test_an_abort_that_took_too_long_comes_before_the_next_with_block(
    new_peer: PeerFactory,
) -> None:
    """P-A.8.7: nobody else would wait for it."""
    peer = new_peer({"t": 1}, features=features(2))
    with transactional(peer) as producer:
        peer.on(END_TXN).hold()
        with pytest.raises(ZeroDivisionError) as caught:
            send_and_fail(producer, 0.05)
        assert "was not aborted" in caught.value.__notes__[0]
        with pytest.raises(KafkaTimeoutError), producer.transaction(0.05):
            pytest.fail("the abort is still under way")
        peer.release()
        with producer.transaction(WAIT_S):
            producer.send("t", b"c")
    assert [each.value for each in peer.log("t", 0, committed=True)] == [b"c"]
    assert [ended.committed for ended in peer.ended_transactions] == [False, True]


@LEVELS
def test_a_batch_that_is_split_stays_in_its_transaction(new_peer: PeerFactory, level: int) -> None:
    """P-L.115 testTransactionalSplitBatchAndSend."""
    peer = new_peer({"t": 1}, features=features(level), max_message_bytes=2_000)
    values = [b"%03d" % number + bytes(400) for number in range(8)]
    with transactional(peer, linger_ms=50) as producer:
        producer.begin_transaction()
        for value in values:
            producer.send("t", value, partition=0)
        producer.commit_transaction(WAIT_S)
    assert [record.value for record in peer.log("t", 0, committed=True)] == values
    assert len(peer.batches("t", 0)) > 2


def test_bulks_are_part_of_the_transaction(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 1}, features=features(2))
    with transactional(peer) as producer:
        producer.begin_transaction()
        producer.send_many("t", [b"a", b"b"])
        producer.append_columns(topic="t", values=[b"c", b"d"])
        producer.commit_transaction(WAIT_S)
    assert [each.value for each in peer.log("t", 0, committed=True)] == [b"a", b"b", b"c", b"d"]


def test_the_times_of_the_calls_are_measured(new_peer: PeerFactory) -> None:
    """P-L.25, P-K"""
    peer = new_peer({"t": 3}, features=features(2))
    with transactional(peer) as producer:
        whole_transaction(producer)
        producer.begin_transaction()
        producer.abort_transaction(WAIT_S)
        found = producer.metrics()["producer-metrics"]
        for call in ("init", "begin", "send-offsets", "commit", "abort"):
            assert found[f"txn-{call}-time-ns-total"] > 0


def test_a_broker_without_transactions_says_so(new_peer: PeerFactory) -> None:
    """P-L.142 testUnsupportedFindCoordinator."""
    peer = new_peer({"t": 3}, versions={FIND_COORDINATOR: None})
    with (
        quick_producer(peer, transactional_id="ledger") as producer,
        pytest.raises(KafkaError, match="FindCoordinator"),
    ):
        producer.init_transactions(WAIT_S)


@LEVELS
def test_close_aborts_a_transaction_whose_commit_fails_meanwhile(
    new_peer: PeerFactory, level: int
) -> None:
    """P-A.9.3: else readers of committed records would wait for its time-out at the brokers."""
    peer = new_peer({"t": 1}, features=features(level))
    limits = {"request_timeout_ms": 500, "delivery_timeout_ms": 1_000}
    with transactional(peer, **limits) as producer:
        peer.on(PRODUCE).hold().always()
        producer.begin_transaction()
        producer.send("t", b"x")
        with pytest.raises(KafkaTimeoutError):
            producer.commit_transaction(0.01)
    # More than once, if an answer was late: the request is sent again then.
    assert {ended.committed for ended in peer.ended_transactions} == {False}


@pytest.mark.parametrize("is_committed", [True, False], ids=["commit", "abort"])
def test_callbacks_have_run_when_a_transaction_has_ended(
    new_peer: PeerFactory, is_committed: bool
) -> None:
    """P-A.8.10: and its futures are done."""
    peer = new_peer({"t": 1}, features=features(2))
    seen: list[object] = []

    def slow(*outcome: object) -> None:
        time.sleep(0.05)
        seen.append(outcome)

    with transactional(peer) as producer:
        producer.begin_transaction()
        future = producer.send("t", b"x", on_delivery=slow)
        (producer.commit_transaction if is_committed else producer.abort_transaction)(WAIT_S)
        assert len(seen) == 1
        assert future.done()


def test_a_callback_may_commit(new_peer: PeerFactory) -> None:
    """P-A.8.10: it does not wait for itself."""
    peer = new_peer({"t": 1}, features=features(2))
    ended: list[float] = []

    with transactional(peer) as producer:

        def commit(*_: object) -> None:
            began_s = time.monotonic()
            producer.commit_transaction(WAIT_S)
            ended.append(time.monotonic() - began_s)

        producer.begin_transaction()
        producer.send("t", b"x", on_delivery=commit).result(WAIT_S)
    assert len(ended) == 1
    assert ended[0] < WAIT_S

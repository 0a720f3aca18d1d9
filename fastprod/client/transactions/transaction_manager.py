"""TransactionManager: the state of a transactional producer, and its requests in line (P-I)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from fastprod._core.delivery.result import ERR_ABORTED, ERR_DEADLINE, ERR_TXN_ABORTED
from fastprod._core.engine.control_queue import ControlEvent
from fastprod.client.connections.api_versions import ApiVersions
from fastprod.client.fork_lock import fork_lock
from fastprod.client.transactions.end_result import EndResult
from fastprod.client.transactions.ending_question import LastEnd
from fastprod.client.transactions.failed_batch import error_of_batch, error_of_transaction
from fastprod.client.transactions.group_offsets import group_metadata_of, offsets_of
from fastprod.client.transactions.pending_call import PendingCall
from fastprod.client.transactions.producer_id_handlers import (
    EndTxnHandler,
    FindCoordinatorHandler,
    InitProducerIdHandler,
)
from fastprod.client.transactions.request_handler import TxnRequestHandler
from fastprod.client.transactions.request_line import RequestLine
from fastprod.client.transactions.transaction_content_handlers import (
    AddOffsetsToTxnHandler,
    AddPartitionsToTxnHandler,
    TxnOffsetCommitHandler,
)
from fastprod.client.transactions.transaction_engine import TransactionEngine
from fastprod.client.transactions.transaction_state import TransactionState
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.error_codes import INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, UNKNOWN_SERVER_ERROR
from fastprod.errors import IllegalStateError, KafkaError, TransactionAbortedError
from fastprod.log import Log
from fastprod.records import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

_LOG = Log(__name__)

_FEATURE: Final = "transaction.version"
_V2_FROM: Final = 2
_NO_PRODUCER_ID: Final = (-1, -1)


class TransactionManager:
    """States, errors and requests of one transactional producer.

    The calls of the API change the state and put requests in line; the control thread sends them
    (`transaction_requests.py`) and tells what came of them. Which partitions have records, and
    whether all of these have their outcome, the engine tells by events.

    Args:
        transactional_id: of the producer.
        transaction_timeout_ms: after which the coordinator aborts a transaction by itself.
        retry_backoff_ms: before a request is sent again.
        engine: the native side.
        wake: makes the control thread look at the requests in line.
        open_gate: ``open_gate(True)`` when `send` takes records, ``(False)`` when it does not.
        on_fatal: told why the producer can do nothing any more.
        clock_ms: the control thread's.
        is_refused: whether a broker refuses the user, as far as is known. Any thread.

    Attributes:
        transactional_id, transaction_timeout_ms, retry_backoff_ms: as given.
        producer_id_and_epoch: (-1, -1) before the first.
        can_bump_epoch: the coordinator gives the next epoch on demand (KIP-360).
        line: the requests that wait.
        end_token: of the latest commit or abort.
        last_end: what is known of the last transaction's.

    Threads: the calls of the API from any, the rest from the control thread.
    Source: TransactionManager.
    """

    def __init__(
        self,
        transactional_id: str,
        transaction_timeout_ms: int,
        retry_backoff_ms: int,
        engine: TransactionEngine,
        *,
        wake: Callable[[], None],
        open_gate: Callable[[bool], None],
        on_fatal: Callable[[KafkaError], None],
        clock_ms: Callable[[], int],
        is_refused: Callable[[], bool],
    ) -> None:
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.retry_backoff_ms = retry_backoff_ms
        self.producer_id_and_epoch = _NO_PRODUCER_ID
        self.can_bump_epoch = True
        self._engine = engine
        self._wake = wake
        self._open_gate = open_gate
        self._on_fatal = on_fatal
        self._lock = fork_lock()  # a signal handler may call while its own thread has it
        self._state = TransactionState.UNINITIALIZED
        self._last_error: KafkaError | None = None
        self._pending = PendingCall(is_refused)
        self.line = RequestLine(self, self._lock, clock_ms, wake)
        self._new_partitions: set[TopicPartition] = set()
        self._added_partitions: set[TopicPartition] = set()
        self._is_started = False
        self._is_v2 = False  # of the next transaction
        self._transaction_is_v2 = False
        self._level = 0
        self._features_epoch = -1
        self._level_epoch = -1
        self._needs_epoch_bump = False
        self.last_end = LastEnd(clock_ms)
        self.end_token = 0
        self._end_handler: EndTxnHandler | None = None
        self._is_drained = True

    # The calls of the API.

    def initialize_transactions(self) -> TransactionalRequestResult:
        """Get the producer id and epoch, which fences older producers (P-A.8.2)."""

        def go() -> TransactionalRequestResult:
            result = TransactionalRequestResult("init_transactions")
            self.line.enqueue(InitProducerIdHandler(self, result, is_epoch_bump=False))
            return result

        return self._once("init_transactions", TransactionState.INITIALIZING, go)

    def begin_transaction(self) -> None:
        """What is sent from now on belongs to a new transaction (P-A.8.3).

        Raises:
            IllegalStateError: not now, and why.
            KafkaError: the producer has failed.
        """
        with self._lock:
            self._pending.fail_if_any("begin_transaction")
            self._fail_if_error()
            self._change("begin_transaction", TransactionState.IN_TRANSACTION)
            self._transaction_is_v2 = self._is_v2
            # Before KIP-890 AddPartitionsToTxn finds it out.
            question = self.last_end.question_now() if self._is_v2 else None
            self._engine.begin_transaction(self._transaction_is_v2, question)
            self._open_gate(True)

    def send_offsets(self, offsets: Any, group_metadata: Any) -> TransactionalRequestResult | None:
        """Commit a group's offsets with the transaction (P-A.8.4).

        Returns:
            None: there is no offset, and nothing to wait for.

        Raises:
            IllegalStateError, KafkaError: as `begin_transaction`.
            TypeError, ValueError: the offsets or the group are none.
        """
        group = group_metadata_of(group_metadata)
        found = offsets_of(offsets)
        with self._lock:
            self._pending.fail_if_any("send_offsets_to_transaction")
            self._fail_if_error()
            if self._state is not TransactionState.IN_TRANSACTION:
                raise self._illegal("send_offsets_to_transaction")
            if not found:
                return None
            result = TransactionalRequestResult("send_offsets_to_transaction")
            if self._transaction_is_v2:
                self.offsets_added(result, found, group)
            else:
                self.line.enqueue(AddOffsetsToTxnHandler(self, result, found, group))
            return result

    def begin_commit(self) -> TransactionalRequestResult:
        """Send what is queued, then commit (P-A.8.5)."""

        def go() -> TransactionalRequestResult:
            return self._begin_completing("commit_transaction", committed=True)

        return self._once("commit_transaction", TransactionState.COMMITTING_TRANSACTION, go)

    def begin_abort(self) -> TransactionalRequestResult:
        """Fail what has not left, wait for the rest, then abort (P-A.8.6)."""
        with self._lock:
            error = self._last_error

            def go() -> TransactionalRequestResult:
                self._new_partitions.clear()
                self._abort_undrained(error)
                return self._begin_completing("abort_transaction", committed=False)

            return self._once("abort_transaction", TransactionState.ABORTING_TRANSACTION, go)

    @property
    def state(self) -> TransactionState:
        """Where the producer is."""
        return self._state

    @property
    def can_abort(self) -> bool:
        """Whether `begin_abort` would begin, or go on."""
        with self._lock:
            if self._pending.target is not None:
                return self._pending.target is TransactionState.ABORTING_TRANSACTION
            return self._state in (
                TransactionState.IN_TRANSACTION,
                TransactionState.ABORTABLE_ERROR,
            )

    @property
    def has_abort_left(self) -> bool:
        """Whether an abort was begun whose outcome nobody has seen."""
        with self._lock:
            return self._pending.target is TransactionState.ABORTING_TRANSACTION

    @property
    def pending_result(self) -> TransactionalRequestResult | None:
        """Of the call whose outcome nobody has seen yet."""
        with self._lock:
            return self._pending.result

    def fail_if_not_ready_for_send(self) -> None:
        """Refuse a record outside of a transaction (P-A.3.17).

        Raises:
            IllegalStateError: none is open, or a call has to be repeated first.
            KafkaError: the transaction, or the producer, has failed.
        """
        with self._lock:
            self._fail_if_error()
            self._pending.fail_if_any("send")
            if self._state is not TransactionState.IN_TRANSACTION:
                raise self._illegal("send")

    def record_refused(self, error: KafkaError) -> None:
        """A record failed in `send` already: the transaction cannot be committed (P-A.3.12)."""
        with self._lock:
            if self._state is TransactionState.IN_TRANSACTION:
                self._maybe_transition_to_error(copy.copy(error))

    def close(self, error: KafkaError) -> None:
        """End every call that waits with `error` (P-A.9.4)."""
        with self._lock:
            self.line.fail_all(error)
            self._pending.fail(error)

    def _once(
        self, operation: str, target: TransactionState, go: Callable[[], TransactionalRequestResult]
    ) -> TransactionalRequestResult:
        """P-I.2.5: a call whose wait ended goes on waiting for the same result."""
        with self._lock:
            result = self._pending.result
            if result is not None and self._pending.target is target:
                return result
            self._pending.fail_if_any(operation)
            is_abort_of_error = (
                target is TransactionState.ABORTING_TRANSACTION
                and self._state is TransactionState.ABORTABLE_ERROR
            )
            if not is_abort_of_error:
                self._fail_if_error()
            before = self._state
            try:
                self._change(operation, target)
                return self._pending.begun(go(), target)
            except BaseException:
                has_begun = self._state is target and before is not target
                if has_begun and self._pending.result is None:
                    # A signal's handler has raised: what has begun goes on for the same call again.
                    self.line.remove_begun()
                    self._pending.begun(go(), target)
                raise

    def _fail_if_error(self) -> None:
        """P-I.1.5"""
        if not self._state.is_error:
            return
        error = self._last_error
        assert error is not None
        if isinstance(error, IllegalStateError) or error.code in (
            PRODUCER_FENCED,
            INVALID_PRODUCER_EPOCH,
        ):
            raise copy.copy(error)
        raise KafkaError(
            f"{self._state.value}: {error}",
            code=error.code,
            fatal=error.fatal,
            abortable=error.abortable,
        ) from error

    def _illegal(self, operation: str) -> IllegalStateError:
        if operation == "init_transactions" and self._state is TransactionState.READY:
            return IllegalStateError("init_transactions() has been called already")
        return IllegalStateError(f"{operation}() is not possible: {self._state.value}")

    def _change(self, operation: str, target: TransactionState) -> None:
        """A transition that a caller asked for; an illegal one changes nothing (P-I.1.1)."""
        if not self._state.may_become(target):
            raise self._illegal(operation)
        self._state = target
        self._last_error = None

    def _begin_completing(self, operation: str, *, committed: bool) -> TransactionalRequestResult:
        self._open_gate(False)
        self._is_drained = False
        self.end_token += 1
        self._engine.end_transaction(self.end_token)
        result = EndResult(operation, self._engine, self.end_token, self.end_answered)
        is_v2 = self._transaction_is_v2
        # Behind the choice for this transaction: it ends as it began (P-I.7.2).
        self._update_protocol(is_first=False)
        self._end_handler = EndTxnHandler(self, result, committed=committed, is_v2=is_v2)
        self.line.enqueue(self._end_handler)
        return result

    def end_answered(self, token: int, producer_id: int, epoch: int) -> None:
        """EndTxn was done (KIP-890), says the caller who waits; the control thread says it, too."""
        with self._lock:
            handler = self._end_handler
            if handler is None or not self._awaits(token) or self._needs_epoch_bump:
                return
            if self._state is TransactionState.COMMITTING_TRANSACTION:
                self._is_drained = self._is_started = True
                self.producer_id_arrived(producer_id, epoch)
                self.complete_transaction(handler.result)

    def _awaits(self, token: int) -> bool:
        """Whether this end is the latest, and has no outcome yet."""
        handler = self._end_handler
        return token == self.end_token and not (handler and handler.result.is_completed)

    # What the engine tells.

    def partition_joined(self, partition: TopicPartition) -> None:
        """It has its first records of the transaction (P-I.2.1)."""
        with self._lock:
            if self._state in (
                TransactionState.IN_TRANSACTION,
                TransactionState.COMMITTING_TRANSACTION,
            ):
                self._new_partitions.add(partition)

    def batch_failed(self, event: ControlEvent) -> None:
        """Records of the transaction have failed for good (P-I.6.1, P-F.4.7)."""
        if event.code not in (ERR_TXN_ABORTED, ERR_ABORTED):
            with self._lock:
                if self._state.is_ongoing:
                    self._maybe_transition_to_error(error_of_batch(event), is_batch=True)

    def drained(self, token: int, partition_count: int, code: int) -> None:
        """Every record of the transaction has its outcome; `code`: of the first that failed."""
        with self._lock:
            if not self._awaits(token):
                return
            self._is_drained = True
            if self._transaction_is_v2 and partition_count > 0:
                self._is_started = True
            if code != 0 and self._state is TransactionState.COMMITTING_TRANSACTION:
                # A record was too late, whose batch is acknowledged; or there was no memory to tell
                # of records.
                error = error_of_batch(ControlEvent(0, code=code))
                self._maybe_transition_to_error(error, is_batch=code != ERR_DEADLINE)

    def fatal_error(self, error: KafkaError) -> None:
        """The engine has failed for good."""
        self.transition_to_fatal_error(copy.copy(error))

    def learn_features(self, versions: ApiVersions) -> None:
        """A broker said what the cluster has agreed on (P-G.5.5)."""
        with self._lock:
            if versions.features_epoch > self._features_epoch:
                self._features_epoch = versions.features_epoch
                self._level = versions.features.get(_FEATURE, 0)

    def _update_protocol(self, *, is_first: bool) -> None:
        """P-I.7.2, P-I.7.3"""
        if self._level_epoch >= self._features_epoch:
            return
        self._level_epoch = self._features_epoch
        was_v2, self._is_v2 = self._is_v2, self._level >= _V2_FROM
        if self._is_v2 and not was_v2 and not is_first:
            self._needs_epoch_bump = True

    # Requests in line.

    def next_request(self) -> TxnRequestHandler | None:
        """The request that is to go next; `sent` takes it out of the line."""
        with self._lock:
            if self._new_partitions and not self._state.is_error:
                self.line.enqueue(AddPartitionsToTxnHandler(self, self._new_partitions))
                self._new_partitions = set()
            for waiting in self.line.all():
                self._drop_if_useless(waiting)
            handler = self.line.first()
            if handler is None or (handler.is_end_txn and not self._is_drained):
                return None
            if handler.is_end_txn and not self._is_started:
                self.line.remove(handler)
                self.complete_transaction(handler.result)  # nobody knows of it (P-I.2.2)
                return self.line.first()
            return handler

    def early_end(self) -> tuple[TxnRequestHandler, int] | None:
        """EndTxn of a commit that waits for its records alone, and the token of that wait; before
        KIP-890 the line may come to have requests that go before it."""
        with self._lock:
            handler = self.line.first()
            is_commit = self._state is TransactionState.COMMITTING_TRANSACTION
            if handler is None or not handler.is_end_txn or self._is_drained or not is_commit:
                return None
            return (handler, self.end_token) if self._transaction_is_v2 else None

    def _drop_if_useless(self, handler: TxnRequestHandler) -> None:
        """Fail it if it will not be sent, wherever it stands in line: who is in front may wait for
        a broker for long."""
        if handler.is_end_txn and not self._is_drained:
            return
        error = self._last_error if self._must_fail(handler) else None
        if error is None and self._is_needless(handler):
            error = TransactionAbortedError("the transaction was aborted before it")
        if error is not None:
            self.line.remove(handler)
            handler.fail(error)

    def _must_fail(self, handler: TxnRequestHandler) -> bool:
        """P-I.3.3"""
        is_harmless = isinstance(handler, FindCoordinatorHandler)
        is_abortable = self._state is TransactionState.ABORTABLE_ERROR
        return self._state.is_error and not (is_harmless and is_abortable)

    def _is_needless(self, handler: TxnRequestHandler) -> bool:
        """P-I.3.8"""
        is_aborting = self._state is TransactionState.ABORTING_TRANSACTION
        return is_aborting and not handler.is_needed_to_abort

    def sent(self, handler: TxnRequestHandler) -> None:
        """It is on its way."""
        with self._lock:
            self.line.remove(handler)

    def lost(self, handler: TxnRequestHandler) -> None:
        """The connection ended before the answer."""
        with self._lock:
            handler.is_uncertain = True
            if handler.is_of_transaction and not self._transaction_is_v2 and self.can_bump_epoch:
                self._needs_epoch_bump = True  # it may be done late, in the next one (P-I.6.7)
            handler.lost()

    def answered(self, handler: TxnRequestHandler, answer: Any, version: int) -> None:
        """The answer came."""
        with self._lock:
            if handler.is_end_txn and handler.result.is_completed:
                return  # a caller was told first
            if self._state is TransactionState.FATAL_ERROR:
                assert self._last_error is not None
                handler.fail(self._last_error)
            else:
                handler.answered(answer, version)

    def unsupported(self, handler: TxnRequestHandler, error: KafkaError) -> None:
        """The broker is too old for the request (P-I.3.6)."""
        with self._lock:
            handler.fatal_error(error)

    # What answers mean.

    @property
    def has_added_partitions(self) -> bool:
        """Whether the transaction has partitions already."""
        return bool(self._added_partitions)

    def partitions_added(self, partitions: Collection[TopicPartition]) -> None:
        """They are part of the transaction: their records may go."""
        self._is_started = True
        self._added_partitions.update(partitions)
        for topic, partition in partitions:
            self._engine.add_partition(topic, partition)

    def offsets_added(
        self,
        result: TransactionalRequestResult,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group: ConsumerGroupMetadata,
    ) -> None:
        """The group is part of the transaction, or will be by this: its offsets may go."""
        self._is_started = True
        self.line.enqueue(
            TxnOffsetCommitHandler(self, result, offsets, group, is_v2=self._transaction_is_v2)
        )

    def producer_id_arrived(self, producer_id: int, epoch: int) -> None:
        """Of the next transaction; each partition's sequence starts at 0 (P-I.7.6)."""
        self.producer_id_and_epoch = producer_id, epoch
        self._engine.set_producer_id(producer_id, epoch)

    def initialized(self, result: TransactionalRequestResult, *, is_epoch_bump: bool) -> None:
        """InitProducerId succeeded."""
        if not is_epoch_bump:
            self._update_protocol(is_first=True)
        self._needs_epoch_bump = False
        self._transition(TransactionState.READY)
        result.done()

    def initialization_refused(self, error: KafkaError, result: TransactionalRequestResult) -> None:
        """Not authorized, or not let in: init_transactions may be called again (P-I.6)."""
        with self._lock:
            self._mark(error, fatal=False)
            error.abortable = False
            self.line.fail_all(error)
            self._transition(TransactionState.ABORTABLE_ERROR, error)
            self._transition(TransactionState.UNINITIALIZED)
            result.fail(error)

    def complete_transaction(self, result: TransactionalRequestResult) -> None:
        """The transaction has ended, or was none; perhaps the next one needs a new epoch."""
        needs_epoch_bump = self._needs_epoch_bump or self.producer_id_and_epoch == _NO_PRODUCER_ID
        target = TransactionState.INITIALIZING if needs_epoch_bump else TransactionState.READY
        if self._state is TransactionState.COMMITTING_TRANSACTION:
            result.is_settled = True  # what fails from here on undoes nothing (P-I.6.8)
        if self._state is not target:  # else a caller was interrupted here (end_answered)
            self._transition(target)
        if self._is_started:
            self.last_end.told()
        self._is_started = False
        self._new_partitions.clear()
        self._added_partitions.clear()
        if needs_epoch_bump:
            self.line.enqueue(InitProducerIdHandler(self, result, is_epoch_bump=True))
        else:
            result.done()

    # Errors.

    def abortable_error_if_possible(self, error: KafkaError) -> None:
        """P-I.7.7: fatal where nobody would give a new epoch after it."""
        if self.can_bump_epoch or self._transaction_is_v2:
            self._needs_epoch_bump = not self._transaction_is_v2
            self.transition_to_abortable_error(error)
        else:
            self.transition_to_fatal_error(error)

    def _maybe_transition_to_error(self, error: KafkaError, *, is_batch: bool = False) -> None:
        """P-F.4, its column of transactions."""
        if error.fatal:
            self.transition_to_fatal_error(error)
            return
        error = error_of_transaction(error)
        if not self._transaction_is_v2:
            if is_batch and not self.can_bump_epoch:
                # Nobody knows whether they were written, and nobody gives a new epoch (KIP-360).
                self.transition_to_fatal_error(error)
                return
            self._needs_epoch_bump = self._needs_epoch_bump or self.can_bump_epoch
        self.transition_to_abortable_error(error)

    def transition_to_abortable_error(self, error: KafkaError) -> None:
        """What has not left fails with it at once; the call that is under way, too."""
        with self._lock:
            if self._state is TransactionState.ABORTING_TRANSACTION:
                _LOG.debug("ignored, for the transaction is being aborted: %s", error)
                return
            if self._state is TransactionState.FATAL_ERROR:
                return
            self._mark(error, fatal=False)
            is_first = self._state is not TransactionState.ABORTABLE_ERROR
            self._transition(TransactionState.ABORTABLE_ERROR, error)
            self._open_gate(False)
            if is_first:
                _LOG.warning("the transaction is to be aborted: %s", error)
                self._abort_undrained(error)

    def transition_to_fatal_error(self, error: KafkaError) -> None:
        """Every later call fails."""
        with self._lock:
            if self._state is TransactionState.FATAL_ERROR:
                return
            self._mark(error, fatal=True)
            self._state = TransactionState.FATAL_ERROR
            self._last_error = error
            _LOG.error("the transactional producer has failed: %s", error)
            self._open_gate(False)
            # What is queued fails with it, too, also if who hears of it closes the producer then.
            self._engine.set_producer_id_error(str(error))
            self._engine.fail(UNKNOWN_SERVER_ERROR if error.code is None else error.code)
            self._pending.fail(error)
            self._on_fatal(error)

    def _transition(self, target: TransactionState, error: KafkaError | None = None) -> None:
        """A transition of our own; an illegal one is a mistake of ours, and fatal (P-I.1.1)."""
        if not self._state.may_become(target):
            wrong = IllegalStateError(f"{self._state.name} cannot become {target.name}")
            self.transition_to_fatal_error(wrong)
            raise wrong
        self._state = target
        self._last_error = error

    @staticmethod
    def _mark(error: KafkaError, *, fatal: bool) -> None:
        error.fatal, error.abortable, error.retriable = fatal, not fatal, False

    def _abort_undrained(self, error: KafkaError | None) -> None:
        self._engine.abort_undrained(ERR_TXN_ABORTED, str(error or ""))

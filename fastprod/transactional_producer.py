"""TransactionalProducer: the calls of KafkaProducer that begin and end transactions."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Self

from fastprod._core.producer.bulk_producer import BulkProducer
from fastprod.client.transactions.end_result import EndResult
from fastprod.deadline import checked_timeout, slice_s
from fastprod.errors import (
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosedError,
)
from fastprod.log import Log

if TYPE_CHECKING:
    from fastprod.client.delivery_thread import DeliveryThread
    from fastprod.client.metrics.metrics import ProducerMetrics
    from fastprod.client.network_client import NetworkClient
    from fastprod.client.transactions.transaction_manager import TransactionManager
    from fastprod.client.transactions.transactional_result import TransactionalRequestResult
    from fastprod.config import ProducerConfig

_log = Log("fastprod.producer")


class TransactionalProducer(BulkProducer):
    """The part of `KafkaProducer` that is about transactions; not for use by itself.

    A producer with `transactional_id` belongs to one thread at a time, as far as these calls go.
    """

    _config: ProducerConfig
    _delivery: DeliveryThread
    _metrics: ProducerMetrics
    _network_client: NetworkClient

    def init_transactions(self, timeout: float | None = None) -> None:
        """Get ready for transactions: once, before the first.

        It ends what an older producer with the same `transactional_id` has left open, and fences
        that producer: whatever it tries from now on fails with ProducerFencedError.

        Args:
            timeout: seconds, 0 or more; default: max_block_ms.

        Raises:
            KafkaTimeoutError: not in time; the same call again goes on waiting.
            AuthenticationError: a broker does not let us in; it may be called again.
            IllegalStateError: it was called already, or there is no `transactional_id`.
            ProducerClosedError: `close` was called.
            KafkaError: the brokers refuse it. Where `fatal` is not set it may be called again.
            TypeError, ValueError: a timeout that is no number, or negative.

        Blocks: up to `timeout`; Ctrl-C gets through.  Threads: any.
        Source: KafkaProducer.initTransactions; contract P-A.8.2.
        """
        manager = self._transactions()
        timeout = checked_timeout(timeout)
        with self._metrics.timed("txn-init"):
            self._await_result(manager.initialize_transactions(), timeout)

    def begin_transaction(self) -> None:
        """Begin a transaction: records sent from now on, by any thread, belong to it.

        Raises:
            IllegalStateError: not now; the message says which call comes first.
            ProducerClosedError: `close` was called.
            KafkaError: the producer has failed for good, and why.

        Never blocks.  Threads: any.  Source: KafkaProducer.beginTransaction; contract P-A.8.3.
        """
        manager = self._transactions()
        with self._metrics.timed("txn-begin"):
            manager.begin_transaction()

    def send_offsets_to_transaction(
        self, offsets: Any, group_metadata: Any, timeout: float | None = None
    ) -> None:
        """Commit a consumer group's offsets together with the transaction's records (KIP-447).

        Args:
            offsets: of the next record to read, by partition: a mapping from `TopicPartition` to a
                number or an `OffsetAndMetadata`, or confluent-kafka's list of `TopicPartition`.
            group_metadata: what the consumer says about its group (`ConsumerGroupMetadata`, or that
                of another client), or the group's id. With more than the id brokers refuse a member
                that its group has gone on without.
            timeout: seconds, 0 or more; default: max_block_ms.

        Raises:
            IllegalStateError: no transaction is open.
            KafkaTimeoutError: not in time; call it again, or abort.
            ProducerClosedError: `close` was called.
            KafkaError: it failed; `abortable` or `fatal` say what is left to do.
            TypeError, ValueError: the offsets or the group are none; a negative timeout.

        Blocks: up to `timeout`; Ctrl-C gets through.  Without offsets it returns at once.
        Threads: any.  Source: KafkaProducer.sendOffsetsToTransaction; contract P-A.8.4.
        """
        manager = self._transactions()
        timeout = checked_timeout(timeout)
        with self._metrics.timed("txn-send-offsets"):
            result = manager.send_offsets(offsets, group_metadata)
            if result is not None:
                self._await_result(result, timeout)

    def commit_transaction(self, timeout: float | None = None) -> None:
        """Send what is queued, wait for every record, and commit.

        When it returns, the callbacks of the records have run, unless that takes longer than
        `timeout`, or it is called in a callback.

        Args:
            timeout: seconds, 0 or more; default: max_block_ms.

        Raises:
            KafkaTimeoutError: not in time; the same call again goes on waiting. Nothing else but
                `close` is possible before: it is not `abortable`.
            IllegalStateError: no transaction is open.
            ProducerClosedError: `close` was called.
            KafkaError: a record of the transaction failed, or the brokers refuse it, and nothing is
                committed. `abortable`: abort_transaction() makes the producer usable again;
                `fatal`: close it. Where the answer to an EndTxn was lost before a fatal error, such
                as by a broker's crash, nobody knows: readers of committed records may see it.
            TypeError, ValueError: a timeout that is no number, or negative.

        Blocks: up to `timeout`; Ctrl-C gets through.  Threads: any.
        Source: KafkaProducer.commitTransaction; contract P-A.8.5.
        """
        manager = self._transactions()
        timeout = checked_timeout(timeout)
        with self._metrics.timed("txn-commit"):
            self._await_end(manager.begin_commit(), timeout)

    def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort: records that have not left fail, those that have are not for readers of committed
        records.

        Args:
            timeout: seconds, 0 or more; default: max_block_ms.

        Raises:
            KafkaTimeoutError: not in time; the same call again goes on waiting. Nothing else but
                `close` is possible before.
            IllegalStateError: no transaction is open.
            ProducerClosedError: `close` was called.
            KafkaError: the producer has failed for good, and why.
            TypeError, ValueError: a timeout that is no number, or negative.

        Futures of records that never left have a TransactionAbortedError.

        Blocks: up to `timeout`, for what is in flight, too; Ctrl-C gets through.  Threads: any.
        Source: KafkaProducer.abortTransaction; contract P-A.8.6.
        """
        manager = self._transactions()
        timeout = checked_timeout(timeout)
        with self._metrics.timed("txn-abort"):
            self._await_end(manager.begin_abort(), timeout)

    @contextlib.contextmanager
    def transaction(self, timeout: float | None = None) -> Iterator[Self]:
        """One transaction around a with block: committed at its end, aborted if it raises.

        An abort that an earlier block has left under way, since it took too long, comes first.

        Args:
            timeout: seconds for the commit, and for each abort; default: max_block_ms.

        Yields:
            This producer.

        Raises:
            KafkaError: as begin_transaction() and commit_transaction(). When a commit has failed,
                the transaction is aborted if it can be, and the error raised all the same: after
                one that is `abortable` the block may be run again. A commit that timed out is
                neither: call commit_transaction() again, or close.

        What the block raises comes out of it; a note says so if the abort failed.

        Blocks: as begin_transaction(), commit_transaction() and abort_transaction().  Threads: any.
        Source: fastprod's own.
        """
        if self._transactions().has_abort_left:
            self.abort_transaction(timeout)
        self.begin_transaction()
        try:
            yield self
            self.commit_transaction(timeout)
        except BaseException as error:
            if not self.closed and self._transactions().can_abort:
                try:
                    self.abort_transaction(timeout)
                except KafkaError as failure:
                    error.add_note(f"The transaction was not aborted: {failure}")
            raise

    def _transactions(self) -> TransactionManager:
        self._require_open()
        manager = self._network_client.transactions
        if manager is None:
            raise IllegalStateError("transactions need the setting transactional_id")
        return manager

    def _require_open(self) -> None:
        raise NotImplementedError

    def _await_end(self, result: TransactionalRequestResult, timeout: float | None) -> None:
        """Wait for the end of a transaction, and then for callbacks, which other threads run."""
        deadline_s = time.monotonic() + self._longest_s(timeout)
        self._await_outcome(result, timeout)
        if result.error is None and not self._delivery.is_current:
            # If a signal's handler raises here, the same call again tells of the outcome.
            self._engine.flush(max(0.0, deadline_s - time.monotonic()))
        result.acknowledge()

    def _longest_s(self, timeout: float | None) -> float:
        return self._config.max_block_ms / 1000 if timeout is None else timeout

    def _await_result(self, result: TransactionalRequestResult, timeout: float | None) -> None:
        self._await_outcome(result, timeout)
        result.acknowledge()

    def _await_outcome(self, result: TransactionalRequestResult, timeout: float | None) -> None:
        longest_s = self._longest_s(timeout)
        deadline_s = time.monotonic() + min(longest_s, threading.TIMEOUT_MAX)
        engine = self._engine
        while not result.wait(slice_s(deadline_s)):
            if engine.abandoned:
                raise ProducerClosedError(
                    f"a signal handler forked during {result.operation}(): the transaction is the "
                    f"parent's, and goes on there; this is the child"
                )
            if time.monotonic() >= deadline_s:
                raise self._late_result(result, longest_s)

    def _late_result(
        self, result: TransactionalRequestResult, longest_s: float
    ) -> KafkaTimeoutError:
        why = self._network_client.why_no_coordinator()
        because = f": {why}" if why else ""
        manager = self._network_client.transactions
        return KafkaTimeoutError(
            f"{result.operation}() did not end within {longest_s * 1000:,.0f} ms{because}; "
            f"call it again to go on waiting, or raise max_block_ms",
            abortable=manager is not None and manager.can_abort,
        )

    # What the compiled half calls.

    def _refused_record(self, error: BaseException) -> None:
        """A record failed before it was queued: its transaction cannot be committed."""
        manager = self._network_client.transactions
        if manager is not None:
            if not isinstance(error, KafkaError):
                error = KafkaError(f"a record was refused: {error}")
            manager.record_refused(error)

    # What `close` calls.

    def _end_transaction(self, deadline_s: float | None) -> None:
        """Wait for the end of a transaction that is ending, and abort one that is open (P-A.9.3).

        Blocks: until the deadline, and up to max_block_ms.
        """
        manager = self._network_client.transactions
        if manager is None or self._network_client.join(0):
            return
        try:
            result = manager.pending_result
            # Nobody needs what init_transactions() waits for any more.
            if isinstance(result, EndResult) and not result.is_settled:
                self._await_pending(manager, result, deadline_s)
            if manager.can_abort:
                self._await_result(manager.begin_abort(), _left_s(deadline_s))
        except KafkaError as error:
            _log.warning("close() did not see the end of a transaction: %s", error)

    def _await_pending(
        self,
        manager: TransactionManager,
        result: TransactionalRequestResult,
        deadline_s: float | None,
    ) -> None:
        try:
            self._await_result(result, _left_s(deadline_s))
        except KafkaError:
            # Else a commit has failed, and nothing is committed. No abort is waited for twice.
            if manager.has_abort_left or not manager.can_abort:
                raise


def _left_s(deadline_s: float | None) -> float | None:
    return None if deadline_s is None else max(0.0, deadline_s - time.monotonic())

"""AsyncTransactions: the calls of AsyncProducer that begin and end transactions."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any, Self

from fastprod._core.producer.flush_turn import FlushTurn
from fastprod.aio.bulk_thread import BulkThread
from fastprod.aio.deadline import within
from fastprod.aio.thread_signal import ThreadSignal
from fastprod.client.transactions.transactional_result import TransactionalRequestResult
from fastprod.deadline import checked_timeout
from fastprod.errors import KafkaError
from fastprod.producer import KafkaProducer


class AsyncTransactions:
    """The part of `AsyncProducer` that is about transactions; not for use by itself.

    Each call does what the method of the same name of `KafkaProducer` does, and raises what that
    raises; where that blocks, this awaits. A producer with `transactional_id` belongs to one task
    at a time, as far as these calls go. A call that is cancelled goes on in the background: the
    same call again waits for its end. Records of a `send` or `send_many` that still waits when the
    transaction ends belong to no later one: the call fails with IllegalStateError, if it was not
    cancelled.
    """

    _producer: KafkaProducer
    _bulk_thread: BulkThread

    async def init_transactions(self, timeout: float | None = None) -> None:
        """Get ready for transactions: once, before the first.

        Args:
            timeout: seconds, 0 or more; default: max_block_ms.

        Raises as `KafkaProducer.init_transactions`.  Awaits the coordinator.
        Source: KafkaProducer.initTransactions; contract P-A.8.2.
        """
        manager = self._producer._transactions()
        timeout = checked_timeout(timeout)
        with self._producer._metrics.timed("txn-init"):
            await self._end_of(manager.initialize_transactions(), timeout)

    async def begin_transaction(self) -> None:
        """Begin a transaction: records sent from now on, by any task, belong to it.

        Raises as `KafkaProducer.begin_transaction`.  Never waits.
        Source: KafkaProducer.beginTransaction; contract P-A.8.3.
        """
        self._producer.begin_transaction()

    async def send_offsets_to_transaction(
        self, offsets: Any, group_metadata: Any, timeout: float | None = None
    ) -> None:
        """Commit a consumer group's offsets together with the transaction's records (KIP-447).

        Args:
            offsets: as for `KafkaProducer.send_offsets_to_transaction`.
            group_metadata: as there.
            timeout: seconds, 0 or more; default: max_block_ms.

        Raises as `KafkaProducer.send_offsets_to_transaction`.  Awaits the coordinators.
        Source: KafkaProducer.sendOffsetsToTransaction; contract P-A.8.4.
        """
        manager = self._producer._transactions()
        timeout = checked_timeout(timeout)
        with self._producer._metrics.timed("txn-send-offsets"):
            result = manager.send_offsets(offsets, group_metadata)
            if result is not None:
                await self._end_of(result, timeout)

    async def commit_transaction(self, timeout: float | None = None) -> None:
        """Send what is queued, await every record, and commit.

        Args:
            timeout: seconds, 0 or more; default: max_block_ms.

        Raises as `KafkaProducer.commit_transaction`.  Awaits records and the coordinator.
        Source: KafkaProducer.commitTransaction; contract P-A.8.5.
        """
        manager = self._producer._transactions()
        timeout = checked_timeout(timeout)
        with self._producer._metrics.timed("txn-commit"):
            await self._end_with_callbacks(manager.begin_commit(), timeout)

    async def abort_transaction(self, timeout: float | None = None) -> None:
        """Abort: records that have not left fail, those that have are not for readers of committed
        records.

        Args:
            timeout: seconds, 0 or more; default: max_block_ms.

        Raises as `KafkaProducer.abort_transaction`.  Awaits what is in flight and the coordinator.
        Source: KafkaProducer.abortTransaction; contract P-A.8.6.
        """
        manager = self._producer._transactions()
        timeout = checked_timeout(timeout)
        with self._producer._metrics.timed("txn-abort"):
            await self._end_with_callbacks(manager.begin_abort(), timeout)

    @contextlib.asynccontextmanager
    async def transaction(self, timeout: float | None = None) -> AsyncIterator[Self]:
        """One transaction around an async with block: committed at its end, aborted if it raises
        or is cancelled.

        An abort that an earlier block has left under way, since it took too long or was cancelled
        itself, comes first. A commit that was cancelled does not: what became of it the caller is
        to learn from commit_transaction().

        Args:
            timeout: seconds for the commit, and for each abort; default: max_block_ms.

        Yields:
            This producer.

        Raises as `KafkaProducer.transaction`. What the block raises comes out of it; a note says
        so if the abort failed.  Source: fastprod's own.
        """
        if self._producer._transactions().has_abort_left:
            await self.abort_transaction(timeout)
        await self.begin_transaction()
        try:
            yield self
            await self.commit_transaction(timeout)
        except BaseException as error:
            if not self._producer.closed and self._producer._transactions().can_abort:
                try:
                    await self.abort_transaction(timeout)
                except KafkaError as failure:
                    error.add_note(f"The transaction was not aborted: {failure}")
            raise

    async def _end_of(self, result: TransactionalRequestResult, timeout: float | None) -> None:
        await self._completion(result, self._producer._longest_s(timeout))
        result.acknowledge()

    async def _completion(self, result: TransactionalRequestResult, longest_s: float) -> None:
        deadline_s = time.monotonic() + longest_s
        with ThreadSignal(result.listeners) as signal:
            while not result.is_completed:
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    raise self._producer._late_result(result, longest_s)
                await signal.wait(left_s)

    async def _end_with_callbacks(
        self, result: TransactionalRequestResult, timeout: float | None
    ) -> None:
        """The end of a transaction, of the bulk calls that nobody waits for any more, whose rows
        would belong to the next one, and then of the interceptors' calls, which another thread
        makes."""
        longest_s = self._producer._longest_s(timeout)
        deadline_s = time.monotonic() + longest_s
        self._bulk_thread.call_off()
        await self._completion(result, longest_s)
        if not await self._bulk_thread.idle(max(0.0, deadline_s - time.monotonic())):
            raise self._producer._late_result(result, longest_s)
        if result.error is None:  # if this is cancelled, the same call again tells of it
            await within(FlushTurn(self._producer._engine), max(0.0, deadline_s - time.monotonic()))
        result.acknowledge()

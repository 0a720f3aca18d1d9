"""CleanedTransactions: which batches belong to aborted transactions, and which markers may go.

A marker stays until all records of its transaction are gone: without it they would count.

Source: CleanedTransactionMetadata of Apache Kafka; contract B-C4.6.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from fastprod._core.records.record_reader import RecordBatch
from fastprod.broker.log.transaction_index import AbortedTxn


class CleanedTransactions:
    """What was seen of transactions on the way through a log, oldest batch first. One thread.

    Args:
        aborted: those that were aborted in the part of the log that is cleaned.

    Attributes:
        kept: those of them whose markers stay.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        self._coming = [(each.first_offset, each) for each in aborted]
        heapq.heapify(self._coming)
        # By producer id, with whether a batch of it was seen.
        self._aborted: dict[int, tuple[AbortedTxn, bool]] = {}
        self._committed: set[int] = set()
        self.kept: list[AbortedTxn] = []

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Whether a batch of data belongs to an aborted transaction."""
        self._pass_by(batch.next_offset - 1)
        if not batch.is_transactional:
            return False
        producer_id = batch.producer_id
        if producer_id in self._aborted:
            self._aborted[producer_id] = self._aborted[producer_id][0], True
            return True
        self._committed.add(producer_id)
        return False

    def is_done_with(self, batch: RecordBatch) -> bool:
        """Whether no batch is left of the transaction that a marker ends."""
        self._pass_by(batch.next_offset - 1)
        if not batch.record_count:
            # It is a header that was kept for what it says of its producer.
            return True
        producer_id = batch.producer_id
        aborted, was_seen = self._aborted.pop(producer_id, (None, False))
        if aborted is not None:
            if was_seen:
                self.kept.append(aborted)
            return not was_seen
        if producer_id in self._committed:
            self._committed.remove(producer_id)
            return False
        return True

    def _pass_by(self, offset: int) -> None:
        while self._coming and self._coming[0][0] <= offset:
            _, transaction = heapq.heappop(self._coming)
            self._aborted.setdefault(transaction.producer_id, (transaction, False))

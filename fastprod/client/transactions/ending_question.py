"""EndingQuestion: what is asked before the records of the next transaction go (P-I.7.8)."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from fastprod.protocol.field_types import Output, write_uvarint
from fastprod.protocol.messages.transaction import describe_transactions
from fastprod.protocol.messages.transaction.describe_transactions import (
    DescribeTransactionsRequest,
)

VERSION: Final = 0
"""The one whose answer the I/O thread knows."""


_ENDING_MS: Final = 100
"""So long after EndTxn the end may not be in all partitions yet."""


class EndingQuestion(NamedTuple):
    """DescribeTransactions, and how its answer reads while a transaction is being ended.

    Attributes:
        slot: the engine's number for the coordinator.
        frame: the request.
        head: what an answer has behind its throttle time, up to the state.
        state: the state's name in it, while the transaction has not ended.
    """

    slot: int
    frame: bytes
    head: bytes
    state: bytes


class LastEnd:
    """How the last transaction with EndTxn ended, for the one that follows.

    Args:
        clock_ms: the control thread's.

    Attributes:
        question: whether it is still being ended; None: nobody can be asked.
        is_followed: the one before it was followed within `_ENDING_MS`: this one may be, too.

    Used by calls of the API under the manager's lock; `question` is the control thread's.
    """

    def __init__(self, clock_ms: Callable[[], int]) -> None:
        self.question: EndingQuestion | None = None
        self.is_followed = False
        self._clock_ms = clock_ms
        self._told_ms: int | None = None

    def told(self) -> None:
        """EndTxn has its answer."""
        self._told_ms = self._clock_ms()

    def question_now(self) -> EndingQuestion | None:
        """For a transaction that begins now: None if the brokers cannot have to write the end of
        the last one first."""
        told_ms = self._told_ms
        self.is_followed = told_ms is not None and self._clock_ms() - told_ms < _ENDING_MS
        return self.question if self.is_followed else None


@functools.lru_cache(maxsize=8)
def ending_question(
    slot: int, client_id: str, transactional_id: str, *, committed: bool
) -> EndingQuestion:
    """The question about a transaction that is being committed, or aborted.

    Kept, for a producer asks the same one behind every transaction.
    """
    message = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    frame = describe_transactions.API.request_frame(VERSION, 0, client_id, message)
    # An array of one: no error, the id, the state.
    head = _compact_count(1) + struct.pack(">h", 0) + _compact_text(transactional_id)
    state = _compact_text("PrepareCommit" if committed else "PrepareAbort")
    return EndingQuestion(slot, frame, head, state)


def _compact_count(count: int) -> bytes:
    out = Output()
    write_uvarint(out, count + 1)
    return bytes(out)


def _compact_text(text: str) -> bytes:
    data = text.encode()
    return _compact_count(len(data)) + data

"""DelayedProduce: an append with acks=all that waits for the replicas in sync (B-D1)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.server.apis.call import Call
from fastprod.broker.threads.purgatory import DelayedOperation, DelayedOperationPurgatory
from fastprod.error_codes import NONE, REQUEST_TIMED_OUT

_TIMED_OUT_TEXT = "not all replicas in sync have the records yet; they may still get them"


class Unreplicated(NamedTuple):
    """A batch that not all replicas in sync have.

    Attributes:
        partition: where it was appended.
        leader_epoch: of the leader that did.
        end_offset: after its last record.
        fail: called with a code and a text: has the partition answered with an error.
    """

    partition: Partition
    leader_epoch: int
    end_offset: int
    fail: Callable[[int, str | None], None]


def answer_when_replicated(
    purgatory: DelayedOperationPurgatory,
    call: Call[Any],
    waiting: list[Unreplicated],
    timeout_ms: int,
    answer: Callable[[], None],
) -> None:
    """Have a call answered when all replicas in sync have what was appended; see `DelayedProduce`.

    Nothing is answered if the connection is closed before.
    """
    operation = DelayedProduce(call.node_id, waiting, timeout_ms, answer, call.failed)
    connection = call.request.connection
    purgatory.complete_or_watch(operation, (*operation.partitions, connection))
    if not connection.is_open:
        # It was closed while the request was being parked.
        purgatory.withdraw(operation)


class DelayedProduce(DelayedOperation):
    """Answers when each batch is replicated, or cannot be any more, or at its time-out.

    Args:
        node_id: node that was asked.
        waiting: the batches.
        timeout_ms: of the request.
        answer: called once, when the answers are complete.
        failed: called in place of it if that raises.
    """

    __slots__ = ("_answer", "_failed", "_node_id", "_waiting")

    def __init__(
        self,
        node_id: int,
        waiting: list[Unreplicated],
        timeout_ms: int,
        answer: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        super().__init__(max(timeout_ms, 0))
        self._node_id = node_id
        self._waiting = waiting
        self._answer: Callable[[], None] | None = answer
        self._failed: Callable[[Exception], None] | None = failed

    @property
    def partitions(self) -> list[Partition]:
        """The keys it is parked by."""
        return list(dict.fromkeys(each.partition for each in self._waiting))

    def _code_of(self, each: Unreplicated) -> int | None:
        partition, epoch, end_offset, _ = each
        return partition.error_of_append(self._node_id, epoch, end_offset)

    def try_complete(self, key: Hashable | None = None) -> bool:
        """Answer if nothing is to be waited for."""
        if self.is_completed:
            return False
        waiting = self._waiting
        if isinstance(key, Partition) and len(waiting) > 1:
            # Most others are not there yet either: look at that one first.
            changed = [each for each in waiting if each.partition is key]
            if any(self._code_of(each) is None for each in changed):
                return False
        return all(self._code_of(each) is not None for each in waiting) and self.force_complete()

    def on_complete(self) -> None:
        """Answer with what has become of each batch."""
        answer, failed = self._answer, self._failed
        assert answer is not None
        assert failed is not None
        try:
            for each in self._waiting:
                code = self._code_of(each)
                if code is None:
                    each.fail(REQUEST_TIMED_OUT, _TIMED_OUT_TEXT)
                elif code != NONE:
                    each.fail(code, None)
            answer()
        except Exception as error:
            # The completing thread serves another client: this one must get the error all the same.
            failed(error)
        finally:
            self.on_withdrawn()

    def on_withdrawn(self) -> None:
        """Drop all references: the timer keeps this object until its deadline."""
        self._answer, self._failed, self._waiting = None, None, []

"""What a broker does with idempotent batches, small and obvious (contract P-F.5.3)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NONE: Final = 0
OUT_OF_ORDER: Final = 45
INVALID_PRODUCER_EPOCH: Final = 47
REMEMBERED: Final = 5
SEQUENCES: Final = 2**31


class Remembered(NamedTuple):
    """One batch in the window of duplicates."""

    first: int
    last: int
    offset: int


@dataclass
class ProducerState:
    """What a partition knows of one producer id."""

    epoch: int
    batches: deque[Remembered] = field(default_factory=lambda: deque(maxlen=REMEMBERED))


@dataclass
class PartitionModel:
    """One partition: its leader and its log.

    `takes_any_first`: an unknown producer may begin with any sequence, as at Apache Kafka; else
    only with 0.
    """

    takes_any_first: bool
    leader: int
    leader_epoch: int = 0
    log: list[bytes] = field(default_factory=list)
    producers: dict[int, ProducerState] = field(default_factory=dict)

    def append(
        self, producer_id: int, epoch: int, sequence: int, values: list[bytes]
    ) -> tuple[int, int]:
        """(error code, base offset); a duplicate has the offset of the first time."""
        if producer_id < 0:
            return self._add(values)
        last = (sequence + len(values) - 1) % SEQUENCES
        state = self.producers.get(producer_id)
        if state is None:
            if sequence != 0 and not self.takes_any_first:
                return OUT_OF_ORDER, -1
            state = ProducerState(epoch)
        elif epoch < state.epoch:
            return INVALID_PRODUCER_EPOCH, -1
        elif epoch > state.epoch:
            if sequence != 0:
                return OUT_OF_ORDER, -1
            state = ProducerState(epoch)
        else:
            for each in state.batches:
                if (each.first, each.last) == (sequence, last):
                    return NONE, each.offset
            if sequence != (state.batches[-1].last + 1) % SEQUENCES:
                return OUT_OF_ORDER, -1
        code, offset = self._add(values)
        state.batches.append(Remembered(sequence, last, offset))
        self.producers[producer_id] = state
        return code, offset

    def has(self, producer_id: int, epoch: int, sequence: int, count: int) -> bool:
        """Whether this very batch is in the window of duplicates."""
        state = self.producers.get(producer_id)
        last = (sequence + count - 1) % SEQUENCES
        return (
            state is not None
            and state.epoch == epoch
            and any((each.first, each.last) == (sequence, last) for each in state.batches)
        )

    def _add(self, values: list[bytes]) -> tuple[int, int]:
        self.log.extend(values)
        return NONE, len(self.log) - len(values)

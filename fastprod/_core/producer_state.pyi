"""What Python sees of `producer_state`; the bookkeeping is native (see producer_state.pxd)."""

from typing import final

def next_sequence_for_test(sequence: int, count: int) -> int:
    """Return the sequence number `count` records later (F.5.2)."""

def previous_sequence_for_test(sequence: int, count: int) -> int:
    """Return the sequence number `count` records earlier (F.5.2)."""

@final
class ProducerStateForTest:
    """An idempotent producer with one partition; batches have numbers. Threads: one at a time."""

    def __init__(
        self, producer_id: int = 4000, producer_epoch: int = 0, next_sequence: int = 0
    ) -> None:
        """Start at `next_sequence`; everything before it is acknowledged."""
    def drain(self, name: int, count: int = 1) -> bool:
        """Send a batch, again if it was sent before; False: not now (D.7.4).

        Args:
            name: a new name makes a new batch.
            count: its records.
        """
    def acked(self, name: int, base_offset: int = -1) -> None:
        """The broker has it."""
    def answered(self, name: int) -> None:
        """Its request is over, and it will be sent again."""
    def can_retry(self, name: int, code: int, log_start_offset: int = -1) -> bool:
        """Tell whether this error may be retried (F.5.5, F.5.6); its request is still under way."""
    def failed(self, name: int) -> None:
        """The broker refused it for good; its request is over."""
    def expired(self, name: int) -> None:
        """It is given up without an answer; a request of it stays under way."""
    def settle(self) -> None:
        """Look again at what is unresolved."""
    def set_producer_id(self, producer_id: int, producer_epoch: int) -> None:
        """The producer id that was asked for has come."""
    def sequence(self, name: int) -> tuple[int, int, int]:
        """Return producer id, epoch and base sequence of a batch."""
    def flights(self) -> list[int]:
        """Return the batches in flight in sequence order."""
    @property
    def state(self) -> dict[str, int]:
        """Return producer_id and producer_epoch of the producer; next_sequence,
        last_acked_sequence, last_acked_offset, has_unresolved and needs_bump of the partition;
        epoch_bumps and ids_asked_for so far."""

"""Doors to requests: in flight, their sequences, their bytes, and batches that are split."""

from collections.abc import Sequence
from typing import Any, final

from fastprod._core.testing.records_doors import BatchForTest

def next_correlation_id_for_test(correlation_id: int) -> int:
    """Return the id after this one (P-G.2.3)."""

def forbid_growth_for_test(after: int) -> None:
    """Let memory for a request's batches run out after so many allocations; -1: no longer."""

@final
class InFlightForTest:
    """The in-flight requests of one connection, named by integers. Threads: one at a time."""

    def __init__(self) -> None: ...
    def add(self, name: int, is_produce: bool = True, is_written: bool = False) -> None:
        """Add the newest request."""
    def pop(self) -> int | None:
        """Remove the oldest; None: there is none."""
    def pop_newest(self) -> int | None:
        """Remove the newest; None: there is none."""
    def write_newest(self) -> None:
        """Say that every byte of the newest is in the socket; there must be one."""
    def can_send(self, most: int) -> bool:
        """Tell whether another may be sent when `most` may be in flight (P-G.2.1)."""
    @property
    def counts(self) -> tuple[int, int]:
        """All requests, and those that are Produce."""

def next_sequence_for_test(sequence: int, count: int) -> int:
    """Return the sequence number `count` records later (P-F.5.2)."""

@final
class ProducerStateForTest:
    """An idempotent producer with one partition; batches have numbers. Threads: one at a time."""

    def __init__(
        self, producer_id: int = 4000, producer_epoch: int = 0, next_sequence: int = 0
    ) -> None:
        """Start at `next_sequence`; everything before it is acknowledged."""
    def drain(self, name: int, count: int = 1) -> bool:
        """Send a batch, again if it was sent before; False: not now (P-D.7.4).

        Args:
            name: a new name makes a new batch.
            count: its records.
        """
    def acked(self, name: int, base_offset: int = -1) -> None:
        """The broker has it."""
    def answered(self, name: int) -> None:
        """Its request is over, and it will be sent again."""
    def can_retry(self, name: int, code: int, log_start_offset: int = -1) -> bool:
        """Tell whether this error may be retried (P-F.5.5, P-F.5.6); its request is still under
        way.
        """
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

def encode_request_for_test(
    version: int,
    correlation_id: int,
    client_id: bytes,
    acks: int,
    timeout_ms: int,
    topics: Sequence[tuple[bytes, bytes]],
    parts: Sequence[tuple[int, int, BatchForTest]],
    times: int = 1,
) -> bytes:
    """Return the whole frame of one Produce request, size prefix included.

    Args:
        version: 3..13.
        correlation_id: int32.
        client_id: UTF-8.
        acks: -1, 0 or 1.
        timeout_ms: int32.
        topics: (name, 16-byte id).
        parts: (number of the topic, partition, sealed batch with the state of its last `header`),
            in any order; a partition once.
        times: encode so often into one request, as a reused one is.

    Raises:
        AssertionError: it was larger than the room made for it, or counted wrongly.
    """

def decode_response_for_test(
    payload: bytes, version: int
) -> tuple[list[dict[str, Any]], int, dict[int, tuple[str, int]]]:
    """Parse what is behind the correlation id of a Produce response.

    Returns:
        (partitions in the order of the response, throttle time in ms, (host, port) of the nodes
        that are somebody's leader hint). A partition has topic (name or 16-byte id), index,
        error_code, base_offset, log_append_ms, log_start_offset, record_errors (texts by index),
        message, leader (id, epoch).

    Raises:
        ValueError: it does not parse.
    """

@final
class SplitsForTest:
    """A partition with one batch in flight, and what splitting makes of it. Threads: one."""

    def __init__(
        self, parent: BatchForTest, batch_bytes: int, created_ns: int = 0, sequence: int = -1
    ) -> None:
        """Put `parent` in flight.

        Args:
            parent: a batch, sealed or not.
            batch_bytes: batch.size.
            created_ns: when it was opened.
            sequence: its base sequence; -1: it has none.
        """
    def split(self, place: int = 0) -> int:
        """Split one batch in flight, and seal what became of it.

        Args:
            place: in sequence order, from 0.

        Returns:
            The number of children.

        Raises:
            MemoryError: there was none left; nothing has changed.
            ValueError: the batch does not parse; nothing has changed.
        """
    def flights(self) -> list[dict[str, Any]]:
        """Return the batches in flight in sequence order: data (with its header), created_ns,
        last_attempt_ns, attempts, was_split, is_closed, plain_bytes (uncompressed, with its
        header) and result_sequence."""
    def place_of(self, index: int) -> tuple[int, int]:
        """Return the place of the batch that has record `index` of the parent, and its index."""
    @property
    def counters(self) -> dict[str, int]:
        """Return heap_bytes (out now), pool_free_bytes and incomplete (results on the list)."""

"""A Python door to the sender's steps, for tests alone."""

from collections.abc import Callable
from typing import Any, final

from fastprod._core.delivery.future import RecordFuture
from fastprod._core.engine.control_queue import ControlEvent
from fastprod._core.engine.engine import Engine

@final
class SenderDoor:
    """The sender of an engine that was not started, one step at a time, on the test's clock.

    Requests have handles, in the order of their drains. Threads: one.
    """

    now_ms: float
    """The engine's time: batches are created at it, and every step sees it."""

    def __init__(self, engine: Engine, now_ms: float = 1000) -> None: ...

    # Callers.

    def append(
        self,
        topic: str,
        value: bytes,
        key: bytes | None = None,
        partition: int = -1,
        timestamp_ms: int = 1,
        headers: bytes | None = None,
        waited_for_bytes: int = 0,
        looks: bool = True,
        on_delivery: Callable[[Any, Any], object] | None = None,
    ) -> RecordFuture | None:
        """Append a record; None: the pool is exhausted.

        Args:
            topic: one that `set_topic` was called for.
            value: its value.
            key: its key; it does not choose the partition.
            partition: -1: the sticky one.
            timestamp_ms: its time.
            headers: encoded, their count first.
            waited_for_bytes: memory that the caller waited for, taken from the pool now.
            looks: False: the I/O thread is busy, and takes no notice yet.
            on_delivery: called as that of `send`; only the append has told the future its result.
        """
    @property
    def need_bytes(self) -> int:
        """What the last append that got None would have had to wait for."""
    def set_flushing(self, count: int) -> None:
        """So many flushes are under way."""
    def pretend_waiting(self, future: RecordFuture, count: int) -> None:
        """As if so many threads more, or fewer, waited for the batch of a record."""
    @property
    def gathering(self) -> int:
        """How many records the next request still waits for."""
    @property
    def kicks(self) -> int:
        """How often the I/O thread was woken, or told to look again."""
    def hold_memory(self, size_bytes: int) -> None:
        """Take this much of the pool out of use, in place of what was held before."""
    def wait_in_line(self, size_bytes: int) -> bool:
        """Somebody waits for memory; False: it was there, and nobody does."""
    def leave_line(self) -> None:
        """Nobody waits any longer."""

    # The I/O thread's steps.

    def obey(self) -> None:
        """Carry out the commands given to the engine."""
    def connect(self, slot: int, produce_version: int = 12) -> None:
        """Pretend that the node in `slot` is connected and ready."""
    def connect_socket(self, slot: int, fd: int) -> None:
        """The node in `slot` is at the other end of a socket, which is the engine's from now on."""
    def connect_spare(self, slot: int, home: int, fd: int) -> None:
        """As `connect_socket`, for a spare connection to the node in `home` that may be swapped."""
    def poll(self, max_idle_ns: int = -1) -> None:
        """Take in what the sockets brought, without a wait; close the connection that is idle for
        the longest time if that is longer than `max_idle_ns` >= 0."""
    def disconnect(self, slot: int) -> None:
        """End the connection to the node in `slot`."""
    def serve(self, slot: int) -> int:
        """A node's part of one turn; returns how many requests it got."""
    def ready(self, slot: int) -> tuple[bool, float | None]:
        """Tell whether the node is to get a request now, and in how many ms it may be."""
    def drain(self, slot: int) -> int | None:
        """Return the handle of a request with what goes to the node now."""
    def batches(self, handle: int) -> list[dict[str, Any]]:
        """Return what is in a request, in the order of its frame."""
    def frame(self, handle: int) -> bytes:
        """Return the request's bytes as they are in memory now, size prefix included."""
    def answer(self, handle: int, payload: bytes) -> bool:
        """Give a request its response; False: it does not parse, and the connection is lost.

        Args:
            handle: the request's; it is over.
            payload: the response from behind its correlation id on.
        """
    def fail(self, handle: int, code: int = 13) -> None:
        """End a request: its connection was lost (13), or its time is over (7)."""
    def sent_without_answer(self, handle: int) -> None:
        """End a request with acks=0: it has left."""
    def expire(self) -> float | None:
        """Fail what is too old, if it is time to look; returns ms to the next look."""
    def abort(self, code: int) -> None:
        """Fail everything queued and in flight with a Kafka code."""
    def throw_away(self) -> None:
        """Do what the I/O thread does at its end: abort everything, requests under way too."""
    def sleep_ms(self, kick_count: int) -> float:
        """Return how long the I/O thread sleeps if so many kicks come while it has its last look.

        There is nothing else to do for a minute.
        """
    def place_without_key(self, topic: str) -> int:
        """Somebody sends a record without a key: returns its partition."""
    def update_load(self) -> None:
        """Make the load tables of the adaptive partitioner."""
    def stamp(self, slot: int, ready_ms: float, drained_ms: float) -> None:
        """Set when the node last had data, and when it last took any (P-C.5.7)."""

    # What there is.

    def queue(self, topic: str, partition: int) -> list[dict[str, Any]]:
        """Return the batches waiting in a partition, the first to go first."""
    def in_flight(self, topic: str, partition: int) -> list[dict[str, Any]]:
        """Return a partition's batches that were drained and are not complete, by sequence."""
    def partition_state(self, topic: str, partition: int) -> dict[str, Any]:
        """Return what the I/O thread keeps of a partition (accumulator.pxd)."""
    def set_next_sequence(self, topic: str, partition: int, sequence: int) -> None:
        """Put an idle partition at a sequence; what is before it is acknowledged."""
    def mute(self, topic: str, partition: int, muted: bool) -> None:
        """Let nothing of a partition go, or let it go again (P-F.3.5)."""
    def sticky_partition(self, topic: str) -> int:
        """Return the partition that records without one get; -1: none was chosen."""
    def load_table(self, topic: str) -> dict[int, int]:
        """Return weights by partition as the adaptive partitioner has them; {}: all alike."""
    def ratio_estimate(self, topic: str) -> float:
        """Return compressed by plain size as the topic expects it (P-E.7.5)."""
    def events(self) -> list[ControlEvent]:
        """Take the events for the control thread so far."""
    @property
    def producer_epoch(self) -> int:
        """The producer's epoch; -1: none."""

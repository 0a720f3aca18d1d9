"""What Python sees of `future`; see future.pxd for what a future is made of."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Self, final

from fastprod.errors import KafkaError
from fastprod.records import RecordMetadata

@final
class RecordFuture:
    """The delivery of one record, as `KafkaProducer.send` returns it.

    It has the methods of `concurrent.futures.Future` that make sense here, those of kafka-python's
    future, and no `set_result`. It takes 72 bytes; dropping it loses nothing.

    A record whose batch has callbacks is done after they have run, so that a waiting thread and a
    callback never see the opposite order.

    Threads: any.  After `os.fork` every method but `cancel` and `cancelled` raises
    ForkedFutureError in the child: only the parent learns the outcome.
    Source: KafkaProducer.send; contract A.3.13.
    """

    def __init__(self) -> None:
        """Raise TypeError: a future comes from `send`."""
    def done(self) -> bool:
        """Tell whether the outcome is known and the batch's callbacks have run; never blocks.

        Raises:
            ForkedFutureError: asked in the child of a fork.
        """
    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Return where the record is.

        Its batch leaves at once, whatever linger_ms says.

        Args:
            timeout: seconds, 0 or more; None: as long as it takes, which delivery_timeout_ms
                bounds.

        Raises:
            KafkaError: the record was not delivered, and why; the error itself, not wrapped.
            TimeoutError: not done in time; the record may still arrive.
            ForkedFutureError: asked in the child of a fork.

        Blocks: up to `timeout`, without the GIL; Ctrl-C gets through within 50 ms.
        """
    def get(self, timeout: float | None = None) -> RecordMetadata:
        """Return where the record is: `result` by kafka-python's name."""
    def exception(self, timeout: float | None = None) -> KafkaError | None:
        """Return why the record was not delivered; None if it was.

        Raises:
            TimeoutError: not done in time.
            ForkedFutureError: asked in the child of a fork.

        Blocks: as `result`.
        """
    def succeeded(self) -> bool:
        """Tell whether the record is done and delivered; never blocks."""
    def failed(self) -> bool:
        """Tell whether the record is done and was not delivered; never blocks."""
    def running(self) -> bool:
        """Tell whether the record is not done; never blocks."""
    def cancel(self) -> Literal[False]:
        """Return False: a record cannot be taken back."""
    def cancelled(self) -> Literal[False]:
        """Return False."""
    def add_callback(self, function: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Call ``function(*args, metadata, **kwargs)`` if the record is delivered.

        Args:
            function: called once, on the delivery thread; here and now if the record is done.
                What it raises is logged.
            args: go before the `RecordMetadata`.
            kwargs: go after it.

        Returns:
            This future, as kafka-python's.

        Raises:
            TypeError: `function` cannot be called.
            ForkedFutureError: asked in the child of a fork.
        """
    def add_errback(self, function: Callable[..., object], *args: Any, **kwargs: Any) -> Self:
        """Call ``function(*args, error, **kwargs)`` if the record is not delivered.

        As `add_callback` in everything else.
        """
    def add_done_callback(self, function: Callable[[RecordFuture], object]) -> None:
        """Call ``function(future)`` once the outcome is known.

        On the delivery thread; here and now if the record is done. What it raises is logged.

        Raises:
            TypeError: `function` cannot be called.
            ForkedFutureError: asked in the child of a fork.
        """

def sorted_for_test(indexes: Sequence[int]) -> tuple[list[int], int]:
    """Return in which order callbacks attached to these records run, and the comparisons made."""

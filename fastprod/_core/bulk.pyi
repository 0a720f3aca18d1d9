"""What Python sees of `bulk`; see bulk.pxd for how records find their batches."""

from collections.abc import Callable
from typing import Literal

from fastprod.errors import BulkError, KafkaError
from fastprod.records import BulkMetadata, FailedRow

class BulkFuture:
    """The delivery of all records of one `KafkaProducer.send_many` or `append_columns`.

    It takes 16 bytes a record and one reference a batch. ``len(future)`` is the number of records.
    Records are named by their index in the columns that were sent, from 0.

    Threads: any.  After `os.fork` every method but `cancel` raises ForkedFutureError in the child.
    Source: contract A.3.13, for many records.
    """

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    @property
    def topic(self) -> str | None:
        """The topic's name; None if the records go to several."""
    def done(self) -> bool:
        """Tell whether all records are done; never blocks."""
    def result(self, timeout: float | None = None) -> BulkMetadata:
        """Return where the records are.

        Their batches leave at once, whatever linger_ms says.

        Args:
            timeout: seconds, 0 or more; None: as long as it takes, which delivery_timeout_ms
                bounds.

        Raises:
            BulkError: some were not delivered, the others were; `failures` lists them.
            TimeoutError: not all were done in time; they may still arrive.

        Blocks: up to `timeout`, without the GIL; Ctrl-C gets through within 50 ms.
        """
    def get(self, timeout: float | None = None) -> BulkMetadata:
        """Return where the records are: `result` by kafka-python's name."""
    def exception(self, timeout: float | None = None) -> BulkError | None:
        """Return a `BulkError` if some records were not delivered, else None.

        Raises:
            TimeoutError: not all were done in time.

        Blocks: as `result`.
        """
    def failures(self, timeout: float | None = None) -> list[tuple[int, KafkaError]]:
        """Return (index, error) of each record that was not delivered, by index.

        Raises:
            TimeoutError: not all were done in time.

        Blocks: as `result`.
        """
    def failed_rows(self, timeout: float | None = None) -> list[FailedRow]:
        """Return index, topic, sizes and cause of each record that was not delivered, by index.

        Raises:
            TimeoutError: not all were done in time.

        Blocks: as `result`.
        """
    def delivered(self, timeout: float | None = None) -> BulkMetadata:
        """Return where those records are that were delivered; `result` that spares the others.

        Raises:
            TimeoutError: not all were done in time.

        Blocks: as `result`.
        """
    def cancel(self) -> Literal[False]:
        """Return False: records cannot be taken back."""
    def add_done_callback(self, function: Callable[[BulkFuture], object]) -> None:
        """Call ``function(future)`` once all records are done.

        On the delivery thread; here and now if they are done. What it raises is logged.

        Raises:
            TypeError: `function` cannot be called.
        """

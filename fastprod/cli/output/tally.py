"""DeliveryTally: how many records were delivered and how many not, and why not."""

from __future__ import annotations

import threading

from fastprod.records import RecordMetadata


class DeliveryTally:
    """An `on_delivery` for every record.

    Attributes:
        delivered_count: records that are acknowledged.
        first_error: why the first of the others was not; None if there is none.

    Threads: any; the sending thread reports what failed in `send`, the producer's delivery thread
    the rest.
    """

    def __init__(self) -> None:
        self.delivered_count = 0
        self.first_error: str | None = None
        self._failed_count = 0
        self._lock = threading.Lock()

    @property
    def failed_count(self) -> int:
        """Records that are not delivered and will not be."""
        return self._failed_count

    def __call__(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        if error is None:
            # Only the delivery thread comes here: no lock for every record.
            self.delivered_count += 1
        else:
            self.refuse(str(error))

    def refuse(self, reason: str) -> None:
        """Count one record that was not even sent."""
        with self._lock:
            self._failed_count += 1
            self.first_error = self.first_error or reason

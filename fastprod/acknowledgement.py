"""Acknowledgement: one record's outcome, told to its interceptors and its callback in order."""

from __future__ import annotations

import threading
from typing import Any

from fastprod.interceptors import ProducerInterceptors
from fastprod.records import ProducerRecord, RecordMetadata


class Acknowledgement:
    """The delivery callback of a record with interceptors.

    An acknowledged or failed batch tells the interceptors first (A.3.16); a failure inside `send`,
    which the sending thread itself reports, tells the user's callback first (A.3.12).
    """

    __slots__ = ("_callback", "_interceptors", "_record", "_sending_thread", "is_in_send")

    def __init__(
        self, interceptors: ProducerInterceptors, callback: Any, record: ProducerRecord
    ) -> None:
        self._interceptors = interceptors
        self._callback = callback
        self._record = record
        self._sending_thread = threading.get_ident()
        self.is_in_send = True

    def __call__(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        failed_in_send = self.is_in_send and threading.get_ident() == self._sending_thread
        try:
            if failed_in_send and self._callback is not None:
                self._callback(metadata, error)
        finally:
            self._interceptors.on_acknowledgement(metadata, error, self._record.headers)
        if not failed_in_send and self._callback is not None:
            self._callback(metadata, error)

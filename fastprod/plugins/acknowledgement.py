"""Acknowledgement: one record's outcome, told to its interceptors and its callback in order."""

from __future__ import annotations

import threading
from typing import Any

from fastprod.interceptors import ProducerInterceptors
from fastprod.records import Headers, RecordMetadata


class Acknowledgement:
    """The delivery callback of a record with interceptors.

    An acknowledged or failed batch tells the interceptors first (P-A.3.16); a failure inside
    `send`, which the sending thread itself reports, tells the user's callback first (P-A.3.12).  Of
    the record it keeps the headers only, which the interceptors are told.
    """

    __slots__ = ("_callback", "_headers", "_interceptors", "_sending_thread", "is_in_send")

    def __init__(self, interceptors: ProducerInterceptors, callback: Any, headers: Headers) -> None:
        self._interceptors = interceptors
        self._callback = callback
        self._headers = headers
        self._sending_thread = threading.get_ident()
        self.is_in_send = True

    def __call__(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        failed_in_send = self.is_in_send and threading.get_ident() == self._sending_thread
        try:
            if failed_in_send and self._callback is not None:
                self._callback(metadata, error)
        finally:
            self._interceptors.on_acknowledgement(metadata, error, self._headers)
        if not failed_in_send and self._callback is not None:
            self._callback(metadata, error)

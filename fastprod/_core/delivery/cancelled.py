"""RecordCancelledError and BulkError as `concurrent.futures` knows what was cancelled.

A module of its own, imported with the first record that is cancelled: that package takes long.
"""

from __future__ import annotations

from concurrent.futures import CancelledError

import fastprod.errors


class RecordCancelledError(fastprod.errors.RecordCancelledError, CancelledError):
    """What the future of a record that was taken back raises."""


class BulkCancelledError(fastprod.errors.BulkError, CancelledError):
    """What the future of a bulk raises all of whose records were taken back."""

"""RecordCancelledError as `concurrent.futures` knows it."""

from __future__ import annotations

import concurrent.futures
import pickle

import pytest

from fastprod import errors
from support.engine.sender_steps import Steps


def test_the_error_is_ours_and_that_of_concurrent_futures() -> None:
    future = Steps().send()
    future.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result()
    with pytest.raises(errors.RecordCancelledError) as caught:
        future.result()
    error = caught.value
    assert (error.topic, error.partition, error.name) == ("t", 0, "RecordCancelledError")
    assert (error.retriable, error.abortable, error.fatal) == (False, False, False)
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), copy.topic) == (type(error), str(error), "t")

"""fastprod.plugins.acknowledgement: the order of interceptors and the user's callback."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from fastprod.errors import KafkaError
from fastprod.interceptors import ProducerInterceptors
from fastprod.plugins.acknowledgement import Acknowledgement
from fastprod.records import Headers, ProducerRecord, RecordMetadata

METADATA = RecordMetadata("t", 0, 5)
ERROR = KafkaError("no")


class Recorder:
    """An interceptor and a callback that write down who was told what."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def on_acknowledgement(
        self, metadata: RecordMetadata | None, error: BaseException | None, headers: Headers
    ) -> None:
        self.told.append(("interceptor", metadata, error, headers.to_list(), headers.is_frozen))

    def callback(self, metadata: RecordMetadata, error: BaseException | None) -> None:
        self.told.append(("callback", metadata, error))


def in_another_thread(function: Callable[..., Any], *args: Any) -> None:
    thread = threading.Thread(target=function, args=args)
    thread.start()
    thread.join()


def acknowledgement(recorder: Recorder, callback: Callable[..., Any] | None) -> Acknowledgement:
    record = ProducerRecord("t", b"v", headers=[("h", b"1")])
    return Acknowledgement(ProducerInterceptors([recorder], {}), callback, record.headers)


@pytest.mark.parametrize("error", [None, ERROR])
def test_a_completed_batch_tells_the_interceptors_first(error: KafkaError | None) -> None:
    """P-A.3.16; the headers are read-only by then (P-C.1.4)."""
    recorder = Recorder()
    in_another_thread(acknowledgement(recorder, recorder.callback), METADATA, error)
    assert recorder.told == [
        ("interceptor", METADATA, error, [("h", b"1")], True),
        ("callback", METADATA, error),
    ]


def test_a_failure_inside_send_tells_the_callback_first() -> None:
    """P-A.3.12, first row."""
    recorder = Recorder()
    acknowledgement(recorder, recorder.callback)(METADATA, ERROR)
    assert [told[0] for told in recorder.told] == ["callback", "interceptor"]


def test_interceptors_are_told_without_a_callback() -> None:
    for call in (
        lambda acknowledged: acknowledged(METADATA, ERROR),
        lambda acknowledged: in_another_thread(acknowledged, METADATA, None),
    ):
        recorder = Recorder()
        call(acknowledgement(recorder, None))
        assert [told[0] for told in recorder.told] == ["interceptor"]


def test_a_callback_that_fails_inside_send_does_not_silence_the_interceptors() -> None:
    """P-C.1.2: on_acknowledgement is called once per record."""
    recorder = Recorder()

    def callback(metadata: RecordMetadata, error: BaseException | None) -> None:
        raise RuntimeError("callback")

    with pytest.raises(RuntimeError, match="callback"):
        acknowledgement(recorder, callback)(METADATA, ERROR)
    assert [told[0] for told in recorder.told] == ["interceptor"]

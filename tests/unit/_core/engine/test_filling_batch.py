"""Adaptive linger: an answer does not cut off a batch that is soon full (docs/design/engine.md)."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod._core.delivery.future import RecordFuture
from support.engine.sender_steps import Steps

RECORD = b"x" * 100
RECORDS = 200
BATCH_BYTES = RECORDS * (len(RECORD) + 8)
PACE = 256
"""Bytes a microsecond at which a batch is waited for."""
SOON_MS = 0.01


def behind_a_request(count: int, value: bytes, apart_ms: float) -> tuple[Steps, list[RecordFuture]]:
    """A batch of so many records, begun while a request was in flight, which is answered now."""
    sender = Steps(linger_ms=None, is_known=True)
    sender.send(b"first")
    under_way = sender.drain()
    futures = [sender.send(value) for _ in range(count)]
    assert not sender.door.ready(0)[0]
    sender.pass_time(apart_ms)
    sender.succeed(under_way)
    return sender, futures


def test_it_goes_when_it_has_fallen_behind_the_pace() -> None:
    """P-D.5.2 as DESIGN.md has it."""
    sender, _ = behind_a_request(RECORDS, RECORD, SOON_MS)
    is_ready, delay_ms = sender.door.ready(0)
    assert not is_ready
    assert delay_ms is not None
    assert delay_ms + SOON_MS == pytest.approx(BATCH_BYTES / PACE / 1000, rel=0.03)
    sender.pass_time(delay_ms - 0.001)
    assert not sender.door.ready(0)[0]
    sender.pass_time(0.001)
    assert sender.values(sender.drain()) == [RECORD] * RECORDS


def test_records_that_come_meanwhile_make_it_wait_longer_until_it_is_full() -> None:
    sender, _ = behind_a_request(RECORDS, RECORD, SOON_MS)
    before_ms = sender.door.ready(0)[1]
    sender.send(RECORD)
    after_ms = sender.door.ready(0)[1]
    assert before_ms is not None
    assert after_ms is not None
    assert before_ms < after_ms
    while not sender.queue()[0]["is_full"]:
        sender.send(RECORD)
    assert sender.door.ready(0)[0]


@pytest.mark.parametrize(
    ("count", "value", "apart_ms"),
    [(RECORDS, RECORD, 0.2), (15, RECORD * 20, 0.001), (1, RECORD * 1000, 0.001)],
    ids=["slow", "few", "one large"],
)
def test_one_that_is_not_soon_full_goes_with_the_answer(
    count: int, value: bytes, apart_ms: float
) -> None:
    sender, _ = behind_a_request(count, value, apart_ms)
    assert sender.values(sender.drain()) == [value] * count


def test_with_nothing_in_flight_nothing_is_waited_for() -> None:
    """Also not after an earlier request behind which records gathered."""
    sender, _ = behind_a_request(RECORDS, RECORD, 5)
    sender.succeed(sender.drain())
    sender.pass_time(5)
    for _ in range(RECORDS):
        sender.send(RECORD)
    assert sender.values(sender.drain()) == [RECORD] * RECORDS


@pytest.mark.parametrize("linger_ms", [0, 5])
def test_a_linger_that_was_asked_for_is_kept(linger_ms: int) -> None:
    sender = Steps(is_known=True, linger_ms=linger_ms)
    for _ in range(RECORDS):
        sender.send(RECORD)
    sender.pass_time(linger_ms)
    assert sender.values(sender.drain()) == [RECORD] * RECORDS


def flush(sender: Steps, _: Any) -> None:
    sender.door.set_flushing(1)


def run_short_of_memory(sender: Steps, _: Any) -> None:
    assert sender.door.wait_in_line(sender.counters()["buffer_total_bytes"])


def wait_for_one(_: Any, futures: list[RecordFuture]) -> None:
    with pytest.raises(TimeoutError):
        futures[-1].result(0)


@pytest.mark.parametrize("press", [flush, run_short_of_memory, wait_for_one])
def test_it_goes_at_once_when_somebody_is_held_up(press: Any) -> None:
    sender, futures = behind_a_request(RECORDS, RECORD, SOON_MS)
    assert not sender.door.ready(0)[0]
    press(sender, futures)
    assert sender.values(sender.drain()) == [RECORD] * RECORDS


def is_waited_for(sender: Steps, under_way: int) -> bool:
    """Let a batch gather behind a request that is answered then."""
    for _ in range(RECORDS // 5):
        sender.send(RECORD)
    assert not sender.door.ready(0)[0]
    sender.pass_time(SOON_MS)
    sender.succeed(under_way)
    return not sender.door.ready(0)[0]


def fall_behind(sender: Steps) -> int:
    """Let the batch that is waited for fall behind, and go."""
    sender.pass_time(1)
    return sender.drain()


def test_where_none_gets_full_fewer_and_fewer_are_waited_for() -> None:
    """As with tasks that all wait for the batch before they send again."""
    sender = Steps(linger_ms=None, is_known=True)
    sender.send(b"first")
    under_way = sender.drain()
    left_alone = []
    for _ in range(12):
        count = 0
        while not is_waited_for(sender, under_way):
            under_way = sender.drain()
            count += 1
        left_alone.append(count)
        under_way = fall_behind(sender)
    assert left_alone == [0, *(2**missed for missed in range(1, 11)), 1024]


def test_one_that_gets_full_has_the_next_waited_for() -> None:
    sender = Steps(linger_ms=None, is_known=True)
    sender.send(b"first")
    under_way = sender.drain()
    assert is_waited_for(sender, under_way)
    under_way = fall_behind(sender)
    while not is_waited_for(sender, under_way):
        under_way = sender.drain()
    while not sender.queue()[0]["is_full"]:
        sender.send(RECORD)
    assert is_waited_for(sender, sender.drain())
    under_way = fall_behind(sender)
    for _ in range(2):  # as after the first that fell behind
        assert not is_waited_for(sender, under_way)
        under_way = sender.drain()
    assert is_waited_for(sender, under_way)


def test_none_is_waited_for_longer_than_two_milliseconds() -> None:
    """A `batch_size` of megabytes, or compression, takes longer to fill at this pace."""
    sender = Steps(linger_ms=None, is_known=True, batch_size=4_000_000)
    sender.send(b"first")
    under_way = sender.drain()
    for _ in range(1000):
        sender.send(RECORD * 10)
    assert not sender.door.ready(0)[0]
    sender.succeed(under_way)
    is_ready, delay_ms = sender.door.ready(0)
    assert (is_ready, delay_ms) == (False, 2)
    sender.pass_time(2)
    assert len(sender.values(sender.drain())) == 1000


def test_of_two_that_linger_none_is_waited_for() -> None:
    """What several have to gather is told in `GATHER_NS`."""
    sender = Steps([(0, 0), (0, 0)], linger_ms=None, is_known=True)
    sender.send(b"first", 0)
    under_way = sender.drain()
    for _ in range(RECORDS):
        sender.send(RECORD, 0)
        sender.send(RECORD, 1)
    assert not sender.door.ready(0)[0]
    sender.succeed(under_way)
    assert sender.values(sender.drain()) == [RECORD] * (2 * RECORDS)

"""Records at a pace: who sends what, and which times are told."""

from __future__ import annotations

import time

import pytest

from bench.peers import fastprod_paced


class Sender:
    def __init__(self) -> None:
        self.sent: list[list[bytes]] = []

    def send(self, values: list[bytes]) -> None:
        self.sent.append(values)


def test_senders_take_turns_and_go_through_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = senders = [Sender(), Sender()]
    slept: list[float] = []
    now_s = iter([100.0, 100.0, 100.25, 101.5])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now_s))
    monkeypatch.setattr(time, "sleep", slept.append)
    fastprod_paced._send_in_slots(senders, [b"a", b"b", b"c"], 2, 3, 0.5)  # type: ignore[arg-type]
    assert first.sent == [[b"a", b"b"], [b"b", b"c"]]
    assert second.sent == [[b"c", b"a"]]
    assert slept == [0.25], "who is late does not sleep"


@pytest.mark.parametrize("count", [100, 5_000, 123_456])
def test_fewer_times_tell_the_same_quantiles(count: int) -> None:
    thinned = fastprod_paced._thinned([float(each) for each in reversed(range(count))])
    assert len(thinned) <= 10_000
    assert thinned[int(len(thinned) * 0.99)] == pytest.approx(0.99 * count, rel=0.001)

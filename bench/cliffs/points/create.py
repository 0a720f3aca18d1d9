"""Topics that come into being because one Metadata request names them all."""

from __future__ import annotations

import tempfile
import threading
import zlib
from pathlib import Path

from bench.cliffs.measured_broker import MeasuredBroker
from bench.cliffs.point import CliffPoint
from bench.cliffs.raw import RawConnection
from bench.cliffs.side import Figures, Side, WrongResult
from bench.cliffs.stopwatch import Stopwatch

_PAUSE_S = 0.005
_JOIN_S = 330.0


class _Neighbour:
    """Another connection that asks again and again; `longest_s` is what it waited at most."""

    def __init__(self, address: str) -> None:
        self._connection = RawConnection(address)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self.longest_s = self._connection.answer_s()

    def __enter__(self) -> _Neighbour:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(_JOIN_S)
        self._connection.__exit__()

    def _ask(self) -> None:
        while not self._ended.wait(_PAUSE_S):
            self.longest_s = max(self.longest_s, self._connection.answer_s())


def _measure(side: Side, topics: int, log: Path, *options: str) -> Figures:
    # In no order, as users name them.
    names = [f"topic-{zlib.crc32(b'%d' % number):08x}" for number in range(topics)]
    with (
        MeasuredBroker(side, log, *options) as broker,
        RawConnection(broker.address) as connection,
    ):
        with Stopwatch(broker.pid) as watch, _Neighbour(broker.address) as neighbour:
            connection.ask_topics(names)
        there = connection.ask_topics(None)
        if set(there) != set(names) or any(there.values()):
            raise WrongResult(f"{len(there)} topics are there, or some with errors")
    return {**watch.figures(), "neighbour_waits_s": neighbour.longest_s}


def _in_memory(side: Side, topics: int) -> Figures:
    with tempfile.TemporaryDirectory(prefix="fastprod-cliffs-") as folder:
        return _measure(side, topics, Path(folder) / "log")


def _on_disk(side: Side, topics: int) -> Figures:
    with tempfile.TemporaryDirectory(prefix="fastprod-cliffs-") as folder:
        data = Path(folder) / "data"
        figures = _measure(side, topics, Path(folder) / "log", "--data-dir", str(data))
        made = len(list(data.glob("topic-*-0")))
        if made != topics:
            raise WrongResult(f"{made} partitions have folders")
        return figures


POINTS = [
    CliffPoint(
        "create.memory.3000",
        "one Metadata request makes 3,000 topics in memory; the broker, and how long a neighbour's "
        "ApiVersions waits at most",
        _in_memory,
        3000,
    ),
    CliffPoint(
        "create.disk.1200",
        "one Metadata request makes 1,200 topics with a data folder; the same",
        _on_disk,
        1200,
    ),
]

"""bench.turns: two checkouts that send in turns, and the row that comes of it."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.cliffs.side import Side, WrongResult
from bench.turns import client, run
from bench.turns.contestant import Contestant
from bench.turns.way import TOPIC, WAYS
from mock_cluster import MockCluster

ROOT = Path(__file__).resolve().parents[4]


def test_a_row_has_medians_of_both_and_the_quartiles_of_their_ratios() -> None:
    this = [(1.0, 10.0), (2.0, 10.0), (6.0, 10.0), (4.0, 10.0), (5.0, 10.0)]
    other = [(2.0, 20.0)] * 5
    cells = [cell.strip() for cell in run.line("send", this, other).split("|")]
    assert cells == [
        "send",
        *("4.000", "2.000", "2.000 (1.000 to 2.500)"),
        *("10.000", "20.000", "0.500 (0.500 to 0.500)"),
    ]


@pytest.mark.parametrize("name", WAYS)
def test_a_way_sends_as_many_records_as_it_says(name: str) -> None:
    class Counter:
        """In place of a producer."""

        records = 0

        def send(self, topic: str, value: bytes, *_: object, **__: object) -> None:
            assert topic == TOPIC
            self.records += 1

        def send_many(
            self, topic: str, values: list[bytes], keys: list[bytes] | None = None
        ) -> None:
            assert topic == TOPIC
            assert keys is None or len(keys) == len(values)
            self.records += len(values)

    counter = Counter()
    WAYS[name].sending(counter)()
    assert counter.records == WAYS[name].count


def test_both_sides_send_each_turn() -> None:
    sides = [Side("this", ROOT), Side("other", ROOT)]
    with MockCluster() as cluster:
        found = run.take_turns("send.1kB", sides, 2, cluster.bootstrap_servers)
    assert [len(turns) for turns in found] == [2, 2]
    assert all(cpu_us > 0 and wall_us > 0 for turns in found for cpu_us, wall_us in turns)


def test_a_client_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(WrongResult, match="send, other: the client failed"):
        run.take_turns("send", [Side("other", tmp_path)], 1, "127.0.0.1:1")


def test_a_client_that_ends_between_two_turns_is_told() -> None:
    class Ending(Side):
        def command(self, module: str, *arguments: str) -> list[str]:
            return [sys.executable, "-c", "print('ready')"]

    with Contestant(Ending("other", ROOT), "send", "127.0.0.1:1") as contestant:
        contestant._process.wait(10)
        with pytest.raises(WrongResult, match="send, other: the client failed"):
            contestant.turn()


def test_a_turn_whose_records_are_not_all_acknowledged_has_no_figures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def forgetful(**_: Any) -> Any:
        """A producer that has sent nothing by its own count."""
        future = SimpleNamespace(result=lambda timeout: None)
        return SimpleNamespace(
            send=lambda *_, **__: future,
            flush=lambda: None,
            _engine=SimpleNamespace(counters=lambda: {"records_acked": 1}),
        )

    monkeypatch.setattr(client, "KafkaProducer", forgetful)
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    with pytest.raises(SystemExit, match="1 records are acknowledged, not 20,001"):
        client.main(["127.0.0.1:1", "send.1kB"])
    assert capsys.readouterr().out == "ready\n"

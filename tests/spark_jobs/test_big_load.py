"""Large loads: progress is told, interruptions lose no row."""

from __future__ import annotations

import itertools
import json
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conftest import TopicFactory
from kafka_cluster import KafkaCluster
from support.processes.process_tree import below
from support.processes.scale import scaled
from support.records.readers import end_offsets, stream_with_confluent
from support.spark.load_run import LoadRun, NumberedFiles

SEED = 20_261_121
MB = 1_000_000
SMALL_LOAD, FULL_LOAD = 50_000, 5_000_000
FULL_STOPS = 12
STEP_S = 400.0
READ_S = 600.0
INTERRUPTED = 130


class Loads:
    """Runs of one job until it is done, most of them interrupted.

    Args:
        files: what is loaded.
        cluster: where to.
        topic: of it.
        state: folder of the manifest.
    """

    def __init__(
        self, files: NumberedFiles, cluster: KafkaCluster, topic: str, state: Path
    ) -> None:
        self._files = files
        self._servers = cluster.bootstrap_servers
        self._topic = topic
        self._state = state
        self.summary_path = state / "summary"
        # How many runs had each split to do, by its number.
        self.tries: Counter[int] = Counter()
        self.told: list[str] = []

    def start(self, rate_mb: float) -> LoadRun:
        """Run the command."""
        return LoadRun(
            *(str(self._files.folder), "--topic", self._topic, "--master", "local[2]"),
            *("--bootstrap-servers", self._servers, "--partitions", "50"),
            *("--max-mb-per-second", str(rate_mb), "--progress", "json"),
            *("--job-id", "job", "--state-dir", str(self._state)),
            *("--summary", str(self.summary_path)),
        )

    def splits(self) -> list[range]:
        """The rows of each split of the manifest; none: there is no manifest yet."""
        path = self._state / "job" / "manifest.json"
        if not path.exists():
            return []
        return [self._files.rows_of(*each[:4]) for each in json.loads(path.read_text())["splits"]]

    def done(self) -> set[int]:
        """The splits that are marked."""
        folder = self._state / "job" / "done"
        return {int(path.name) for path in folder.glob("*") if path.name.isdigit()}

    def written(self) -> int:
        """How many records the topic has."""
        return sum(end_offsets(self._servers, self._topic).values())

    def stopped(self, run: LoadRun, number: signal.Signals, rows: int, delay_s: float) -> None:
        """Let a run write so many rows, and wait so long, then end it by a signal."""
        done_before, written = self.done(), self.written()
        deadline_s = time.monotonic() + STEP_S
        while run.is_running and rows and self.written() < written + rows:
            assert time.monotonic() < deadline_s, run.output()
            time.sleep(0.05)
        time.sleep(delay_s)
        was_running, wrote = run.is_running, self.written() - written
        code = run.end(number, STEP_S)
        for split in range(len(self.splits())):
            self.tries[split] += split not in done_before
        done = self.done()
        assert done >= done_before
        self.told.append(f"{number.name} after {wrote:,} records, {len(done)} splits done")
        if was_running and number == signal.SIGINT and wrote:
            assert code in (0, INTERRUPTED), run.output()
            if code:
                assert "run it again with --job-id job" in run.output()

    def completed(self, run: LoadRun) -> list[dict[str, Any]]:
        """Let a run do the rest; return the progress that it told."""
        done_before = self.done()
        code = run.end(None, READ_S)
        assert code == 0, run.output()
        for split in range(len(self.splits())):
            self.tries[split] += split not in done_before
        return run.progress()


@pytest.mark.parametrize(
    ("rows", "stops"),
    [
        pytest.param(SMALL_LOAD, 2, marks=pytest.mark.slow),
        pytest.param(
            scaled(FULL_LOAD, at_least=SMALL_LOAD),
            FULL_STOPS,
            marks=[pytest.mark.long, pytest.mark.timeout(3_000)],
        ),
    ],
)
def test_a_load_that_is_interrupted_and_run_again_sends_each_row(
    rows: int, stops: int, kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """What is there twice belongs to a split that was not marked when a run was ended."""
    chosen = random.Random(SEED + stops)
    files = NumberedFiles(tmp_path / "input", 5, 10, rows // 50)
    files.write()
    name = topic(kafka, partitions=4)
    loads = Loads(files, kafka, name, tmp_path / "state")
    loads.summary_path.parent.mkdir()
    for stop in range(stops):
        number = signal.SIGKILL if stop % 2 else signal.SIGINT
        # Every fifth is ended while it starts.
        moment = chosen.randrange(rows // (stops + 1)) if stop % 5 != 4 else 0
        with loads.start(rows * 100 / MB / 8) as run:
            loads.stopped(run, number, moment, chosen.uniform(0, 0.5 if moment else 8))
    with loads.start(0) as run:
        progress = loads.completed(run)
    summary = json.loads(loads.summary_path.read_text())
    assert summary["rows"] + summary["rows_of_earlier_runs"] == files.row_count
    assert all(one["rows"] <= other["rows"] for one, other in itertools.pairwise(progress))
    copies = bytearray(files.row_count)
    for record in stream_with_confluent(kafka.bootstrap_servers, name, timeout_s=READ_S):
        copies[int((record.value or b"")[:9])] += 1
    assert 0 not in copies, f"row {copies.index(0)} is missing"
    for split, rows_of_split in enumerate(loads.splits()):
        most = max(copies[rows_of_split.start : rows_of_split.stop])
        assert most <= loads.tries[split], rows_of_split
    repeated = files.row_count - copies.count(1)
    print(
        f"{files.row_count:,} rows, {repeated:,} of them repeated, "
        f"{sum(copies) - files.row_count:,} records too many; {'; '.join(loads.told)}"
    )


@pytest.mark.parametrize("presses", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_ctrl_c_while_java_starts_leaves_nothing_behind(
    presses: int, kafka: KafkaCluster, topic: TopicFactory, tmp_path: Path
) -> None:
    """The first waits until Spark can be stopped; a second one does not."""
    files = NumberedFiles(tmp_path / "input", 1, 1, 10)
    files.write()
    name = topic(kafka)
    servers = ("--bootstrap-servers", kafka.bootstrap_servers)
    with LoadRun(str(files.folder), "--topic", name, "--master", "local[1]", *servers) as run:
        deadline_s = time.monotonic() + STEP_S
        while not below(run.pid):
            assert time.monotonic() < deadline_s, run.output()
            time.sleep(0.01)
        for _ in range(presses - 1):
            run.interrupt()
            # Two of a kind that come at once are one.
            time.sleep(0.1)
        assert run.end(signal.SIGINT, STEP_S) == INTERRUPTED, run.output()
    assert end_offsets(kafka.bootstrap_servers, name) == {0: 0}

"""TaskReport and the summary of a commit's."""

from __future__ import annotations

import json
import pickle

from fastprod.records import OffsetRange
from fastprod.spark.sink.task_report import OffsetSpan, TaskReport, summary


def report(partition: int, *ranges: OffsetRange) -> TaskReport:
    made = TaskReport(
        spark_partition=partition,
        attempt=0,
        rows=5,
        bytes=50,
        seconds=1.5,
        began_unix_s=1_000.0 + partition,
    )
    made.add_ranges(each._replace(topic="t") for each in ranges)
    return made


def test_ranges_become_the_span_of_each_partition() -> None:
    made = report(0, OffsetRange(1, 10, 5), OffsetRange(0, 3, 1), OffsetRange(1, 2, 2))
    assert made.offsets == {"t": {1: OffsetSpan(2, 14), 0: OffsetSpan(3, 3)}}
    assert pickle.loads(pickle.dumps(made)) == made


def test_unknown_offsets_are_left_out() -> None:
    assert report(0, OffsetRange(1, -1, 5)).offsets == {}


def test_a_summary_adds_up_and_leaves_out_failed_tasks() -> None:
    told = summary([report(0, OffsetRange(0, 0, 5)), None, report(2, OffsetRange(0, 5, 5))])
    assert (told["rows"], told["bytes"], told["seconds"]) == (10, 100, 3.5)
    assert told["offsets"] == {"t": {"0": [0, 9]}}
    assert [each["spark_partition"] for each in told["tasks"]] == [0, 2]
    assert json.loads(json.dumps(told)) == told


def test_tasks_without_rows_have_no_part_in_the_seconds() -> None:
    assert summary([report(0), TaskReport(spark_partition=1, attempt=0)])["seconds"] == 1.5


def test_a_summary_of_nothing_is_zero() -> None:
    assert (summary([])["rows"], summary([])["seconds"]) == (0, 0.0)

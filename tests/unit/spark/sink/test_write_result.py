"""fastprod.spark.sink.write_result: figures of commits, added up."""

from __future__ import annotations

import json

from fastprod.spark.sink.write_result import WriteResult, added_up


def test_figures_are_added_and_offsets_widened() -> None:
    one = WriteResult(2, 20, {"t": {0: (5, 6)}}, 1, 0.5, 30, 7).as_json()
    two = WriteResult(3, 30, {"t": {0: (1, 2), 1: (0, 0)}, "u": {0: (9, 9)}}, 0, 0.5).as_json()
    total = added_up([{**each, "retried_rows": each["retries"]} for each in (one, two)])
    offsets = {"t": {0: (1, 6), 1: (0, 0)}, "u": {0: (9, 9)}}
    assert total == WriteResult(5, 50, offsets, 1, 1.0, 30, 7, batches=2)


def test_two_results_are_one_and_json_holds_it() -> None:
    one = WriteResult(2, 20, {"t": {0: (5, 6)}}, 1, 0.5, 30, 7, batches=1)
    two = WriteResult(3, 30, {"t": {0: (1, 2), 1: (0, 0)}}, 0, 0.25, 31, 0, batches=2)
    both = one + two
    assert both == WriteResult(5, 50, {"t": {0: (1, 6), 1: (0, 0)}}, 1, 0.75, 61, 7, batches=3)
    assert WriteResult.from_json(json.loads(json.dumps(both.as_json()))) == both


def test_nothing_is_nothing() -> None:
    assert added_up([]) == WriteResult()
    assert WriteResult().as_json()["offsets"] == {}

"""fastprod.spark.data_source: what needs no session."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pyspark.sql.types import LongType, StructType

from fastprod.spark.data_source import FastprodDataSource
from fastprod.spark.task_report import TaskReport
from fastprod.spark.value_format.column_types import FormatError

SCHEMA = StructType().add("a", LongType(), nullable=False)
RUNNER = "pyspark.sql.worker.python_streaming_sink_runner"


def test_a_batch_that_is_written_is_committed_whatever_can_be_asked_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, damaged = tmp_path / "report", tmp_path / "total"
    damaged.write_text("{")
    source = FastprodDataSource(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "kafka.max.block.ms": "100",
            "topic": "t",
            "value.format": "protobuf",
            "protobuf.descriptor": str(tmp_path / "gone"),
            "protobuf.message": "M",
            "fastprod.report.path": str(path),
            "fastprod.total.path": str(damaged),
            "fastprod.tune.worker": "false",
        }
    )
    with pytest.raises(FormatError, match="cannot read"):
        source.streamWriter(SCHEMA, overwrite=False)
    monkeypatch.setitem(sys.modules, RUNNER, sys.modules[__name__])
    source.streamWriter(SCHEMA, overwrite=False).commit([TaskReport(0, 0, rows=3)], 7)
    told = json.loads(path.read_text())
    assert (told["batch_id"], told["rows"]) == (7, 3)
    assert damaged.read_text() == "{"

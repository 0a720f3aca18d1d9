"""fastprod.spark.jobs.stream_job: what SOURCE stands for."""

from __future__ import annotations

from pathlib import Path

import pytest

from fastprod.load.input_files import InputError
from fastprod.spark.jobs.stream_job import stream_source


@pytest.mark.parametrize("kind", [None, "csv"])
def test_a_folder_of_tabbed_files_is_read_by_tabs(tmp_path: Path, kind: str | None) -> None:
    (tmp_path / "a.tsv").write_text("key\tvalue\n1\tx\n")
    source = stream_source(str(tmp_path), kind, {}, None, "")
    assert (source.kind, source.options["sep"]) == ("csv", "\t")


def test_an_empty_folder_needs_a_format(tmp_path: Path) -> None:
    assert stream_source(str(tmp_path), "csv", {}, None, "").options.get("sep") is None
    with pytest.raises(InputError, match="a folder that is empty needs --format"):
        stream_source(str(tmp_path), None, {}, None, "")

"""Arguments of `write` and `write_stream` that are of another kind than most."""

from __future__ import annotations

import enum
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame

from fastprod.errors import ConfigError
from fastprod.spark.sink import api


class Level(int, enum.Enum):
    """Of whose members `str` makes their names."""

    HIGH = 9


class Folders(str, enum.Enum):  # noqa: UP042
    """Likewise."""

    STREAM = "kept/stream"


@pytest.mark.parametrize(
    ("value", "text"),
    [(Level.HIGH, "9"), (Folders.STREAM, "kept/stream"), (np.float64(0.5), "0.5"), (True, "true")],
    ids=["a number", "a text", "a fraction of numpy's", "a bool"],
)
def test_an_option_that_is_more_than_its_value_is_its_value(value: Any, text: str) -> None:
    given = api._options(
        "h:1", None, "at_least_once", {"linger.ms": value}, {"fastprod.validate": value}, ""
    )
    assert given["fastprod.validate"] == given["kafka.linger.ms"] == text


@pytest.mark.parametrize("name", ["kafka", "options"])
def test_settings_that_are_no_mapping_are_refused_by_name(name: str) -> None:
    wrong: Any = [("linger.ms", "5")]
    kafka, options = (wrong, None) if name == "kafka" else (None, wrong)
    with pytest.raises(ConfigError, match=f"{name} must be a mapping, not list"):
        api._options("h:1", None, "at_least_once", kafka, options, "")


def test_a_checkpoint_is_the_text_of_a_folder() -> None:
    assert api._folder(Folders.STREAM) == api._folder(Path("kept/stream")) == "kept/stream"
    for wrong in ("", None, 5, b"kept/stream"):
        with pytest.raises(ConfigError, match="checkpoint must be the path of a folder"):
            api._folder(wrong)


class Remote(DataFrame):
    """As those of Spark Connect: a DataFrame without a Java object."""

    def __new__(cls) -> Remote:
        return object.__new__(cls)


class Pandas:
    """As those of pandas-on-Spark."""

    def to_spark(self) -> None:
        """What turns it into Spark's."""


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (Remote(), r"df is of Spark Connect.*df\.write\.format\(\"fastprod\"\)"),
        (Pandas(), r"not .*\.Pandas: give df\.to_spark\(\)$"),
        (
            importlib.import_module("pandas").DataFrame(),
            r"not pandas\..*DataFrame: give spark\.createDataFrame\(df\)$",
        ),
        ([{"value": "v"}], r"df must be a DataFrame of Spark, not builtins\.list$"),
    ],
    ids=["Spark Connect", "pandas-on-Spark", "pandas", "a list"],
)
def test_what_is_no_frame_of_this_process_is_refused(frame: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        api.write(frame, bootstrap_servers="h:1", topic="t")
    with pytest.raises(ConfigError, match=told):
        api.write_stream(frame, bootstrap_servers="h:1", checkpoint="c", topic="t")

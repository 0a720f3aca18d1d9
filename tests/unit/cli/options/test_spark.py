"""fastprod.cli.options.spark: settings of a session, SQL, and what the sink takes."""

from __future__ import annotations

from typing import Any

import click
import pytest

from fastprod.cli.options.client_settings import ClientSettings
from fastprod.cli.options.spark import SparkOptions, sink_settings, spark_options


@click.command()
@spark_options
def command(spark: SparkOptions, **given: Any) -> tuple[SparkOptions, dict[str, Any]]:
    return spark, given


def parsed(*words: str) -> SparkOptions:
    spark, given = command(list(words), standalone_mode=False)
    assert given == {"value_format": "raw"}
    assert isinstance(spark, SparkOptions)
    return spark


def test_settings_packages_and_jars_are_sparks_settings() -> None:
    spark = parsed("--conf", "a.b=c=d", "--packages", "g:n:1", "--master", "local[2]", "-v")
    assert spark.settings == {"a.b": "c=d", "spark.jars.packages": "g:n:1"}
    assert (spark.master, spark.is_verbose) == ("local[2]", True)
    assert parsed("--jars", "x.jar").settings == {"spark.jars": "x.jar"}


def test_a_setting_without_a_value_is_refused() -> None:
    with pytest.raises(click.UsageError, match="--conf: value 1"):
        parsed("--conf", "a")


def test_a_whole_query_goes_without_its_parts() -> None:
    spark = parsed("--select", "a", "--schema", "a int")
    assert spark.query == {"select": "a", "where": None, "sql": None}
    assert spark.schema == "a int"
    for part in ("--select", "--where"):
        with pytest.raises(click.UsageError, match="--sql is a whole query"):
            parsed("--sql", "select 1", part, "a")


def test_settings_that_the_sink_does_not_take_are_refused() -> None:
    pairs = ["linger.ms=5"]
    assert sink_settings(ClientSettings("d", "b:1", properties=pairs)) == {
        "bootstrap.servers": "b:1",
        "client.id": "d",
        "linger.ms": "5",
    }
    pairs.append("key.serializer=builtins:str")
    with pytest.raises(click.UsageError, match=r"'key\.serializer' is not supported as keys are"):
        sink_settings(ClientSettings("d", "b:1", properties=pairs))

"""fastprod.cli.spark_options: settings of a session."""

from __future__ import annotations

import click
import pytest

from fastprod.cli.spark_options import check_sink_settings, query, session_settings


def test_settings_packages_and_jars_are_sparks_settings() -> None:
    given = {"conf": ("a.b=c=d",), "packages": "g:n:1", "jars": None}
    assert session_settings(given) == {"a.b": "c=d", "spark.jars.packages": "g:n:1"}
    assert session_settings({"conf": (), "packages": None, "jars": "x.jar"}) == {
        "spark.jars": "x.jar"
    }


def test_a_setting_without_a_value_is_refused() -> None:
    with pytest.raises(click.UsageError, match="--conf: value 1"):
        session_settings({"conf": ("a",), "packages": None, "jars": None})


def test_a_whole_query_goes_without_its_parts() -> None:
    assert query({"select": "a", "where": None, "sql": None, "topic": "t"}) == {
        "select": "a",
        "where": None,
        "sql": None,
    }
    for part in ("select", "where"):
        with pytest.raises(click.UsageError, match="--sql is a whole query"):
            query({"select": None, "where": None, "sql": "select 1", part: "a"})


def test_settings_that_the_sink_does_not_take_are_refused() -> None:
    settings = {"bootstrap.servers": "b:1", "linger.ms": "5"}
    check_sink_settings(settings)
    with pytest.raises(click.UsageError, match=r"'key\.serializer' is not supported as keys are"):
        check_sink_settings({**settings, "key.serializer": "a:B"})

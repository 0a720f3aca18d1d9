"""A command's work in a Spark session, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fastprod.cli.options.spark import SparkOptions
from fastprod.cli.output.load_ending import LoadEnding
from fastprod.cli.output.spark_failure import spark_failure
from fastprod.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_in_spark(
    app_name: str,
    options: SparkOptions,
    work: Callable[[SparkSession], None],
    has_sent: Callable[[], bool] = lambda: False,
) -> LoadEnding:
    """Start Spark, do `work` in its session, and tell how that ended.

    Args:
        app_name: what Spark's lists show.
        options: where Spark runs, and its settings.
        work: called once with the session.
        has_sent: called when Spark refuses `work`, or an input is wrong; True: there are records in
            Kafka already, so that the caller has to report their number.

    Raises:
        click.UsageError: Spark did not start, or refused the work before a record was sent.

    Blocks: until the work has ended; some 3 s while Java starts.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415
    from pyspark.errors import PySparkException  # noqa: PLC0415

    from fastprod.load.input_files import InputError  # noqa: PLC0415
    from fastprod.spark.session import SessionFailed, job_session, log_file  # noqa: PLC0415

    with log_file() as log:
        try:
            with job_session(
                app_name,
                master=options.master,
                settings=options.settings,
                log_path=None if options.is_verbose else Path(log.name),
            ) as session:
                work(session)
        except (InputError, ConfigError, SessionFailed) as error:
            if not has_sent():
                raise click.UsageError(str(error)) from error
            return LoadEnding("failed", str(error))
        except KeyboardInterrupt:
            return LoadEnding("interrupted")
        except (PySparkException, Py4JError, ConnectionError) as error:
            told = spark_failure(error)
            if isinstance(told, click.UsageError) and not has_sent():
                raise told from error
            return LoadEnding("failed", told.message)
    return LoadEnding()

"""SparkSession for the commands: quiet, and with the settings that the sink needs."""

from __future__ import annotations

import codecs
import contextlib
import locale
import logging
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from fastprod.errors import ConfigError
from fastprod.spark.interrupt import Interrupt

SETTINGS: Final = {
    # A task costs 5 ms instead of 50.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.python.udf.pipelined.enabled": "false",
    "spark.sql.execution.arrow.compression.codec": "none",
    # Fits the caches of JVM and worker: 0.7 of the time that batches of 10 MB take, at 1 kB a row.
    "spark.sql.execution.arrow.maxBytesPerBatch": "1m",
    # Two copies of a task would write its rows twice.
    "spark.speculation": "false",
    # The names of folders, such as key=007, stay text.
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Settings of our sessions; set them in a cluster's own sessions, too."""

_TASK_FAILURES: Final = "spark.task.maxFailures"
_SHELL: Final = b"pyspark-shell"
"""An argument of PySpark's command, whatever else is in PYSPARK_SUBMIT_ARGS."""

_EXEC_S: Final = 1.0
"""How long a child may be a copy of this process, on a busy machine, until it is PySpark's."""

_LOOK_S: Final = 0.01

_CODEC: Final = "spark.sql.execution.arrow.compression.codec"
_SQL_LOGGER: Final = "SQLQueryContextLogger"
_TAIL_LINES: Final = 5


class SessionFailed(RuntimeError):
    """Spark did not start; the message says why."""


def check_settings(settings: Mapping[str, str]) -> None:
    """Refuse settings that make a write wrong, or a thousand times slower.

    Args:
        settings: of a session; those that are missing have Spark's defaults.

    Raises:
        ConfigError: which, and what to set instead.
    """
    if settings.get(_CODEC, "none").strip().lower() == "lz4":
        raise ConfigError(
            f"{_CODEC} = lz4: Spark packs Arrow with it in Java, some 3,000 rows a second; set it "
            f"to none",
            key=_CODEC,
        )
    if settings.get("spark.speculation", "false").strip().lower() == "true":
        raise ConfigError(
            "spark.speculation = true: a second copy of a task writes its rows twice; set it to "
            "false",
            key="spark.speculation",
        )


def check_session(spark: SparkSession) -> None:
    """Refuse a session by its settings; see `check_settings`.

    Raises:
        ConfigError: which, and what to set instead.
    """
    codec = spark.conf.get(_CODEC, "none") or "none"
    speculates = spark.sparkContext.getConf().get("spark.speculation", "false") or "false"
    check_settings({_CODEC: codec, "spark.speculation": speculates})


def default_master(settings: Mapping[str, str]) -> str:
    """All cores of this machine, where a task that fails is tried as often as on a cluster.

    Spark's plain ``local[*]`` ends the job when a task fails once, whatever the setting says.

    Args:
        settings: of a session; ``spark.task.maxFailures`` is 4 if it is missing, Spark's default.
    """
    return f"local[*,{settings.get(_TASK_FAILURES, '4')}]"


@contextlib.contextmanager
def job_session(
    app_name: str,
    *,
    master: str | None = None,
    settings: Mapping[str, str] | None = None,
    log_path: Path | None = None,
) -> Iterator[SparkSession]:
    """The session of this process, or else one of our own, which ends with the block.

    Args:
        app_name: what Spark's lists show.
        master: such as ``local[2]`` or ``spark://host:7077``; None: `default_master`.
        settings: take precedence over `SETTINGS`.
        log_path: file that gets what Spark's processes write to stdout and stderr; None: this
            process's own.

    Raises:
        ConfigError: a setting is refused.
        SessionFailed: Spark does not start.
        KeyboardInterrupt: Ctrl-C came while Spark started; a second one does not wait for that.

    Blocks: some 3 s while Java starts.  Threads: the main one; the handler of SIGINT, which PySpark
    replaces, is put back.
    """
    merged = {**SETTINGS, **(settings or {})}
    check_settings(merged)
    running = SparkSession.getActiveSession()
    if running is not None:
        check_session(running)
        with _quiet(log_path is not None):
            yield running
        return
    master = master or default_master(merged)
    # An exception during imports can be lost; one while Java starts would leave Java behind.
    interrupt = Interrupt()
    with interrupt, _environment(master), _no_orphan():
        spark = _started(app_name, master, merged, log_path)
    try:
        interrupt.wait(0)
        with _quiet(log_path is not None):
            yield spark
    finally:
        # If Java is gone there is nothing to stop; the last call has reported that.
        with _redirected(log_path), contextlib.suppress(Py4JNetworkError, ConnectionError):
            spark.stop()


def _started(
    app_name: str, master: str, settings: Mapping[str, str], log_path: Path | None
) -> SparkSession:
    builder = SparkSession.Builder().master(master).appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    if master.startswith("local"):
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
        # Spark's default, 200, is for clusters: each is a task, in a stream in every micro-batch.
        shuffles = settings.get("spark.sql.shuffle.partitions", str(max(2, os.cpu_count() or 2)))
        builder = builder.config("spark.sql.shuffle.partitions", shuffles)
    try:
        with _redirected(log_path):
            spark = builder.getOrCreate()
    except (PySparkRuntimeError, OSError) as error:
        raise SessionFailed(f"Spark does not start: {reason(error, log_path)}") from error
    except Exception as error:
        # Raised by the JVM while it makes its context: a wrong master, a package not found.
        raise SessionFailed(f"Spark does not start: {first_line(str(error))}") from error
    if log_path is not None:
        spark.sparkContext.setLogLevel("ERROR")
    return spark


@contextlib.contextmanager
def _quiet(is_quiet: bool) -> Iterator[None]:
    """Keep PySpark from logging to stderr the errors of SQL that it raises as well."""
    logger = logging.getLogger(_SQL_LOGGER)
    kept = logger.disabled
    logger.disabled = kept or is_quiet
    try:
        yield
    finally:
        logger.disabled = kept


def first_line(text: str) -> str:
    """The line that says what happened, of a long text of Java or Python."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in lines:
        if not line.startswith(("An error occurred while calling", "JVM stacktrace")):
            return re.sub(r"^: ", "", line)
    return text.strip()


def reason(error: Exception, log_path: Path | None) -> str:
    """Why Java did not start: the error, and the last lines of the log without stack traces."""
    told = first_line(str(error))
    if log_path is not None:
        with contextlib.suppress(OSError):
            lines = map(str.strip, log_path.read_text(errors="replace").splitlines())
            said = [line for line in lines if line and not line.startswith("at ")]
            told += ": " + " / ".join(said[-_TAIL_LINES:])
    return told


@contextlib.contextmanager
def _environment(master: str) -> Iterator[None]:
    """Let Java understand names of files; local workers run this Python, with this fastprod."""
    changed = {}
    if codecs.lookup(locale.getencoding()).name == "ascii":
        # Of the locale C: in a folder Java passes over files whose names are not ASCII.
        changed["LC_ALL"] = "C.UTF-8"
    if master.startswith("local"):
        root = str(Path(__file__).parents[2])
        paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        changed |= {
            "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
        }
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _no_orphan() -> Iterator[None]:
    """End a Java whose start was given up: it would wait for an answer for ever."""
    before = _children()
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:
            _end_java(before)
        raise


def _end_java(before: set[int]) -> None:
    """Kill what PySpark has started, and no child of another thread's; `before`: not these.

    Blocks: at most _EXEC_S, while a new child is still a copy of this process and may become Java.
    """
    deadline = time.monotonic() + _EXEC_S
    may_come = True
    while may_come and time.monotonic() < deadline:
        may_come = False
        for pid in _children() - before:
            command = _command(str(pid))
            if _SHELL in command.split(b"\0"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            may_come |= command in (b"", _command("self"))
        time.sleep(_LOOK_S if may_come else 0)


def _children() -> set[int]:
    """Child processes of this one that have not ended; none where there is no /proc."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent = (process / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if int(parent) == os.getpid() and state != b"Z":
                found.add(int(process.name))
    return found


def _command(process: str) -> bytes:
    """Its arguments, each with a zero byte behind it; none while it begins another program."""
    with contextlib.suppress(OSError):
        return (Path("/proc") / process / "cmdline").read_bytes()
    return b""


@contextlib.contextmanager
def _redirected(log_path: Path | None) -> Iterator[None]:
    """In its `with`, stdout and stderr are the log: Java inherits them."""
    if log_path is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept: list[tuple[int, int]] = [(each, os.dup(each)) for each in (1, 2)]
    try:
        log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            for number, _ in kept:
                os.dup2(log, number)
        finally:
            os.close(log)
        yield
    finally:
        for number, copy in kept:
            os.dup2(copy, number)
            os.close(copy)


def log_file() -> Any:
    """A temporary file for `job_session`'s log, removed when it is closed."""
    return tempfile.NamedTemporaryFile(prefix="fastprod-spark-", suffix=".log")

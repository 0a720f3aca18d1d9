"""write, write_stream and progress: the functions of `fastprod.spark`."""

from __future__ import annotations

import contextlib
import logging
import operator
import os
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.streaming.query import StreamingQuery

from fastprod.errors import ConfigError
from fastprod.security.secret import plain_text
from fastprod.spark.hidden_options import hiding
from fastprod.spark.session import check_session
from fastprod.spark.sink.commit_total import CommitTotal
from fastprod.spark.sink.data_source import CONTINUOUS
from fastprod.spark.sink.options import sink_options
from fastprod.spark.sink.write_result import WriteResult

_log = logging.getLogger("fastprod.spark")

GUARANTEES: Final = ("at_least_once",)
TOTAL_PATH: Final = "fastprod.total.path"
UNDER_WAY: Final = {"fastprod.validate": "false", "fastprod.under.way": "true"}
OUTPUT_MODES: Final = ("append", "update", "complete")


def write(
    df: DataFrame,
    *,
    bootstrap_servers: str | Sequence[str],
    topic: str | None = None,
    guarantee: str = "at_least_once",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> WriteResult:
    """Write the rows of a DataFrame to Kafka, from Spark's Python workers.

    Args:
        df: with the columns `value` and, if wanted, `key`, `topic`, `partition`, `headers` and
            `timestamp`, as for ``format("kafka")``.
        bootstrap_servers: host:port, several with commas or as a list.
        topic: of all rows; None: each row's column `topic`.
        guarantee: "at_least_once": a task that fails and is repeated writes its rows again.
        kafka: further settings of the producer by Kafka's names, dots or underscores: text,
            numbers, bools or lists of text; None: not given.
        options: further options of the sink, such as ``{"header.origin": "nightly"}``; their names
            are taken in lower case. Values of headers are in none of Spark's plans.

    Returns:
        Rows, bytes, offsets, retries, seconds. All are 0, with a warning in the log
        "fastprod.spark", if the driver's temporary folder is full or has lost the file with the
        numbers: the rows are written all the same.

    Raises:
        ConfigError: an argument, such as a DataFrame of Spark Connect, or a setting of the session
            that is wrong for this.
        pyspark.errors.AnalysisException: a column, the topic, or the cluster.
        pyspark.errors.PythonException: a row cannot be written; what was sent before stays.
        py4j.protocol.Py4JJavaError: a task failed otherwise, as with its process; likewise.

    Blocks: until Kafka has acknowledged every row.  Threads: any.
    """
    _enter(df)
    commits = CommitTotal()
    try:
        given = _options(bootstrap_servers, topic, guarantee, kafka, options, str(commits.path))
        df.write.format("fastprod").mode("append").options(**given).save()
        committed = commits.read()
        if committed is None:
            _log.warning(
                "the rows are written, but how many is not known: %s has no figures",
                commits.path,
            )
            return WriteResult()
        return committed.total
    finally:
        commits.close()


def write_stream(
    df: DataFrame,
    *,
    bootstrap_servers: str | Sequence[str],
    checkpoint: str | os.PathLike[str],
    topic: str | None = None,
    output_mode: str = "append",
    trigger: Mapping[str, Any] | None = None,
    query_name: str | None = None,
    guarantee: str = "at_least_once",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> StreamingQuery:
    """Start a query that writes a stream to Kafka; `progress` tells how far it is.

    Output mode "update", which Spark denies to sinks in Python, goes by way of foreachBatch: each
    micro-batch is a `write` of the rows that changed.

    Args:
        df: a streaming DataFrame with the columns of `write`.
        bootstrap_servers: host:port, several with commas or as a list.
        checkpoint: folder where Spark keeps how far the query is.
        topic: of all rows; None: each row's column `topic`.
        output_mode: "append", "update" or "complete".
        trigger: as for ``writeStream.trigger``, such as ``{"processingTime": "5 seconds"}``; None:
            one micro-batch after the other.  "continuous" is refused.
        query_name: what Spark's lists show.
        guarantee: "at_least_once": a micro-batch that is repeated writes its rows again.
        kafka: further settings of the producer by Kafka's names, dots or underscores: text,
            numbers, bools or lists of text; None: not given.
        options: further options of the sink; their names are taken in lower case.

    Returns:
        The query, running.

    Raises:
        ConfigError: an argument, or a setting of the session that is wrong for this.
        pyspark.errors.AnalysisException: the query cannot be started.

    Blocks: some 10 s at the first use of a session.  Threads: any.
    """
    _enter(df)
    if output_mode not in OUTPUT_MODES:
        raise ConfigError(
            f"output_mode = {output_mode!r}: must be one of {', '.join(OUTPUT_MODES)}",
            key="output_mode",
            value=output_mode,
        )
    if (trigger or {}).get("continuous") is not None:
        raise ConfigError(CONTINUOUS, key="trigger")
    folder = _folder(checkpoint)
    stream = df.writeStream.outputMode(plain_text(output_mode)).option("checkpointLocation", folder)
    if trigger is not None:
        stream = stream.trigger(**trigger)
    if query_name is not None:
        stream = stream.queryName(query_name)
    following = _Following()
    if output_mode == "update":
        # A wrong option is told now, not by the first micro-batch.
        sink_options(_options(bootstrap_servers, topic, guarantee, kafka, options, ""))

        def write_batch(batch: DataFrame, number: int) -> None:
            has_written = following.batch_id is not None
            result = write(
                batch,
                bootstrap_servers=bootstrap_servers,
                topic=topic,
                guarantee=guarantee,
                kafka=kafka,
                options=_unchecked(options) if has_written else options,
            )
            following.add(result, number)

        query = stream.foreachBatch(write_batch).start()
    else:
        following.commits = CommitTotal()
        weakref.finalize(following, following.commits.close)
        total_path = str(following.commits.path)
        given = _options(bootstrap_servers, topic, guarantee, kafka, options, total_path)
        query = stream.format("fastprod").options(**given).start()
    _forget_ended()
    following.follow(query)
    _queries[query.runId] = following
    return query


@dataclass(frozen=True)
class StreamProgress:
    """How far a stream is.

    Attributes:
        total: what this run of the query has written since `write_stream`.
        batch_id: number of the last micro-batch that was committed; None: none yet.
        rows_per_second: since the last call of `progress`, or the start.
        bytes_per_second: of keys and values, likewise.
        is_active: whether the query runs.
    """

    total: WriteResult
    batch_id: int | None
    rows_per_second: float
    bytes_per_second: float
    is_active: bool


def progress(query: StreamingQuery) -> StreamProgress:
    """Return what a query of `write_stream` has written so far.

    Args:
        query: what `write_stream` returned, running or ended.

    Raises:
        ConfigError: the query was not started by `write_stream` in this process.

    Does not block.  Threads: one at a time for a query.
    """
    following = _queries.get(query.runId)
    if following is None:
        raise ConfigError(
            f"query {query.id}, run {query.runId}, was not started by "
            f"fastprod.spark.write_stream in this process"
        )
    told = following.progress(query.isActive)
    if not told.is_active:
        following.end()
    return told


@dataclass(eq=False)
class _Following:
    """What is known of one run of a query."""

    commits: CommitTotal | None = None
    total: WriteResult = field(default_factory=WriteResult)
    batch_id: int | None = None
    _told: WriteResult = field(default_factory=WriteResult)
    _told_s: float = field(default_factory=time.monotonic)
    # What the caller has: only who holds it can ask again when the query has ended.
    _given: weakref.ref[StreamingQuery] | None = None
    _own: StreamingQuery | None = None

    def follow(self, query: StreamingQuery) -> None:
        """Take in the query, as it has started."""
        self._given = weakref.ref(query)
        self._own = StreamingQuery(query._jsq)

    def is_over(self) -> bool:
        """Whether the query has ended, and nobody holds it any more."""
        own = self._own  # another thread may end it meanwhile
        if own is not None:
            with contextlib.suppress(Py4JError, ConnectionError):  # Java may be gone
                if own.isActive:
                    return False
            self._own = None
        return self._given is None or self._given() is None

    def add(self, result: WriteResult, number: int) -> None:
        """Take in a micro-batch."""
        self.total += result
        self.batch_id = number

    def progress(self, is_active: bool) -> StreamProgress:
        """Read what is committed."""
        committed = None if self.commits is None else self.commits.read()
        if committed is not None:
            self.total, self.batch_id = committed
        now_s = time.monotonic()
        since_s = max(now_s - self._told_s, 1e-9)
        told = StreamProgress(
            total=self.total,
            batch_id=self.batch_id,
            rows_per_second=(self.total.rows - self._told.rows) / since_s,
            bytes_per_second=(self.total.bytes - self._told.bytes) / since_s,
            is_active=is_active,
        )
        self._told, self._told_s = self.total, now_s
        return told

    def end(self) -> None:
        """Remove the file; the figures stay."""
        self._own = None
        if self.commits is not None:
            self.commits.close()
            self.commits = None


_queries: dict[Any, _Following] = {}


def _forget_ended() -> None:
    """Forget the queries that are over: each would keep a file, and its plan in Java."""
    for run_id, following in list(_queries.items()):
        if following.is_over():
            _queries.pop(run_id, None)
            following.end()


def _enter(df: DataFrame) -> None:
    """Check the DataFrame and its session, and make that the one of this thread.

    Spark looks for data sources in Python in the session of Java's thread; each thread of Python
    has its own, and only that which made the session knows it.

    Raises:
        ConfigError: it is another library's, or of Spark Connect; or the session is wrong for this.
    """
    _check_frame(df)
    spark = df.sparkSession
    check_session(spark)
    java = spark.sparkContext._jvm
    assert java is not None
    java.SparkSession.setActiveSession(spark._jsparkSession)


def _check_frame(df: object) -> None:
    if isinstance(df, ClassicDataFrame):
        return
    if isinstance(df, DataFrame):
        raise ConfigError(
            "df is of Spark Connect, whose client has no Java process, as this function needs: "
            'give df.write.format("fastprod").mode("append") the options kafka.bootstrap.servers '
            "and topic, and save(); a stream likewise; fastprod has to be installed on the server",
            key="df",
        )
    kind = type(df)
    advice = ""
    if hasattr(df, "to_spark"):
        advice = ": give df.to_spark()"
    elif kind.__module__.partition(".")[0] == "pandas":
        advice = ": give spark.createDataFrame(df)"
    raise ConfigError(
        f"df must be a DataFrame of Spark, not {kind.__module__}.{kind.__qualname__}{advice}",
        key="df",
    )


def _options(
    bootstrap_servers: str | Sequence[str],
    topic: str | None,
    guarantee: str,
    kafka: Mapping[str, object] | None,
    options: Mapping[str, str] | None,
    total_path: str,
) -> dict[str, Any]:
    if guarantee not in GUARANTEES:
        raise ConfigError(
            f"guarantee = {guarantee!r}: must be one of {', '.join(GUARANTEES)} in this version",
            key="guarantee",
            value=guarantee,
        )
    for argument, mapping in (("kafka", kafka), ("options", options)):
        if mapping is not None and not isinstance(mapping, Mapping):
            raise ConfigError(
                f"{argument} must be a mapping, not {type(mapping).__name__}", key=argument
            )
    given: dict[str, str] = {}

    def put(name: str, value: object) -> None:
        if value is not None:
            _put(given, name, _text(name, value))

    for name, value in (options or {}).items():
        if name.lower() == TOTAL_PATH:
            raise ConfigError(
                f"{TOTAL_PATH} is what this function learns its numbers by; leave it out",
                key=TOTAL_PATH,
            )
        put(name, value)
    for name, setting in (kafka or {}).items():
        put(f"kafka.{name}", setting)
    put("kafka.bootstrap.servers", bootstrap_servers)
    put("guarantee", guarantee)
    put("topic", topic)
    if total_path:
        given[TOTAL_PATH] = total_path
    return hiding(given)


def _unchecked(options: Mapping[str, str] | None) -> dict[str, str]:
    """The options, for a cluster that was there: an outage now is for the tasks to wait out."""
    others = {name: each for name, each in (options or {}).items() if name.lower() not in UNDER_WAY}
    return {**others, **UNDER_WAY}


def _folder(checkpoint: object) -> str:
    """The text of `checkpoint`; of a text that is more than that Spark makes something else.

    Raises:
        ConfigError: it is no path.
    """
    name = os.fspath(checkpoint) if isinstance(checkpoint, str | os.PathLike) else None
    if not isinstance(name, str) or not name:
        raise ConfigError(
            f"checkpoint must be the path of a folder, not {checkpoint!r:.100}", key="checkpoint"
        )
    return plain_text(name)


def _put(given: dict[str, str], name: str, text: str) -> None:
    """Add an option by the name that Spark makes of it, which is in lower case.

    Raises:
        ConfigError: it is there already, with another value.
    """
    key = name.lower()
    if key.startswith("kafka."):
        key = key.replace("_", ".")
    if given.setdefault(key, text) != text:
        raise ConfigError(f"{key} is given twice, with different values; leave one out", key=key)


def _text(name: str, value: object) -> str:
    """A setting as an option of Spark's, which is text; no message shows the value.

    Raises:
        ConfigError: it has no text that means the same.
    """
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(operator.index(value))  # of an Enum's member str makes its name
    if isinstance(value, float):
        return repr(float(value))
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return ",".join(map(plain_text, value))
    raise ConfigError(
        f"{name} must be a str, a number, a bool or a list of str, not {type(value).__name__}: "
        f"Spark carries settings to its workers as text",
        key=name,
    )

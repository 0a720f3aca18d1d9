"""A web server's log goes into two Kafka topics with Spark: requests, and figures for each minute.

The log files are in `FOLDER/logs`, in the combined log format of Apache and nginx:

    fastprod broker --port 9092 --topic requests:3 --topic per-minute:3 &
    python examples/web_log.py FOLDER --bootstrap-servers localhost:9092

It needs Java 17 and `pip install "fastprod[spark]"`. The program ends when all files are read. Run
again, it reads only the files that are new.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from fastprod.spark import progress, write_stream

LINE: Final = r'^(\S+) \S+ \S+ \[(.+?)\] "(\S+) (\S+) \S+" (\d{3}) (\d+|-) "[^"]*" "([^"]*)"$'
FIELDS: Final = ("client", "time", "method", "url", "status", "bytes", "agent")
TEAMS: Final = [("cart", "shop"), ("items", "shop"), ("login", "accounts"), ("help", "support")]
JSON: Final = {"value.format": "json", "json.timezone": "UTC"}


def parsed(lines: DataFrame) -> DataFrame:
    """One row for each request; lines of another format are left out."""
    columns = {name: F.regexp_extract("value", LINE, n) for n, name in enumerate(FIELDS, start=1)}
    return lines.where(F.col("value").rlike(LINE)).select(
        columns["client"].alias("client"),
        F.to_timestamp(columns["time"], "dd/MMM/yyyy:HH:mm:ss Z").alias("time"),
        columns["method"].alias("method"),
        F.substring_index(columns["url"], "?", 1).alias("path"),
        columns["status"].cast("int").alias("status"),
        F.regexp_replace(columns["bytes"], "-", "0").cast("long").alias("bytes"),
        columns["agent"].alias("agent"),
    )


def enriched(requests: DataFrame) -> DataFrame:
    """Adds the team that owns the page, whether a bot asked, and whether the server failed."""
    teams = requests.sparkSession.createDataFrame(TEAMS, "section string, team string")
    sections = requests.withColumn("section", F.split_part("path", F.lit("/"), F.lit(2)))
    return (
        sections.join(F.broadcast(teams), "section", "left")
        .fillna("web", ["team"])
        .withColumn("is_bot", F.lower("agent").contains("bot"))
        .withColumn("is_error", F.col("status") >= 500)
        .drop("agent")
    )


def per_minute(requests: DataFrame) -> DataFrame:
    """Each team's figures for each minute; a line that is more than an hour late is not counted."""
    minute = F.window("time", "1 minute").start.alias("minute")
    return (
        requests.withWatermark("time", "1 hour")
        .groupBy(minute, "team")
        .agg(
            F.count("*").alias("requests"),
            F.count_if("is_error").alias("errors"),
            F.sum("bytes").alias("bytes"),
        )
    )


def start(
    spark: SparkSession,
    folder: Path,
    servers: str,
    topics: tuple[str, str] = ("requests", "per-minute"),
) -> list[StreamingQuery]:
    """Start both streams over the files that are in `folder`/logs now.

    Args:
        spark: the session.
        folder: also gets the checkpoints; started again, the streams go on where they ended.
        servers: the cluster's bootstrap servers, host:port.
        topics: the topic of the requests, keyed by client, and the topic of the figures, keyed by
            team and minute (in seconds since 1970).

    Returns:
        The two running queries.
    """
    lines = spark.readStream.option("maxFilesPerTrigger", 2).text(str(folder / "logs"))
    requests = enriched(parsed(lines))
    events = requests.withColumns({"key": F.col("client"), "timestamp": F.col("time")})
    seconds = F.unix_seconds("minute")
    figures = per_minute(requests).withColumn("key", F.concat_ws(" ", "team", seconds))
    return [
        write_stream(
            rows,
            topic=topic,
            bootstrap_servers=servers,
            checkpoint=str(folder / f"checkpoint-{topic}"),
            output_mode=mode,
            trigger={"availableNow": True},
            options=JSON,
        )
        for rows, topic, mode in zip((events, figures), topics, ("append", "update"), strict=True)
    ]


def session() -> SparkSession:
    """Spark on all cores of this machine, with the settings that suit the sink."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().master("local[*]").appName("web log")
    builder = builder.config("spark.python.unix.domain.socket.enabled", "true")
    builder = builder.config("spark.sql.execution.arrow.maxBytesPerBatch", "1m")
    return builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()


def main() -> None:
    """Run both streams to the end of the files, and print how much each wrote."""
    parser = argparse.ArgumentParser(description="A web server's log into two Kafka topics.")
    add = parser.add_argument
    add("folder", type=Path, help="the log files are in FOLDER/logs, the checkpoints in FOLDER")
    add("--bootstrap-servers", default="localhost:9092", help="default: %(default)s")
    add("--requests-topic", default="requests", help="one record for each request")
    add("--figures-topic", default="per-minute", help="one record for each team and minute")
    given = parser.parse_args()
    if not (given.folder / "logs").is_dir():
        parser.error(f"there is no folder {given.folder / 'logs'}")
    topics = (given.requests_topic, given.figures_topic)
    spark = session()
    try:
        queries = start(spark, given.folder, given.bootstrap_servers, topics)
        for topic, query in zip(topics, queries, strict=True):
            query.awaitTermination()
            print(f"{topic}: {progress(query).total.rows} records")
    finally:
        spark.stop()


if __name__ == "__main__":
    main()

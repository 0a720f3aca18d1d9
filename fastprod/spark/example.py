"""The example: a web server's log becomes two topics, requests and figures a minute.

`fastprod demo --spark` runs it, and the README prints it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from fastprod.spark.api import write_stream

LINE: Final = r'^(\S+) \S+ \S+ \[(.+?)\] "(\S+) (\S+) \S+" (\d{3}) (\d+|-) "[^"]*" "([^"]*)"$'
FIELDS: Final = ("client", "time", "method", "url", "status", "bytes", "agent")
TEAMS: Final = [("cart", "shop"), ("items", "shop"), ("login", "accounts"), ("help", "support")]
JSON: Final = {"value.format": "json", "json.timezone": "UTC"}


def parsed(lines: DataFrame) -> DataFrame:
    """A row a request; lines of another form are left out."""
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
    """With the team whose page it was, and whether a person asked and got an answer."""
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
    """Each team's figures, minute by minute; late lines count for an hour."""
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
        folder: checkpoints go here too: started again, the streams take up where they were.
        servers: the cluster, host:port.
        topics: of the requests, keyed by client, and of the figures, keyed by team and minute
            (in seconds since 1970).

    Returns:
        The two queries, running.
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

"""A Spark driver of its own that writes numbered rows by our sink; tests kill it, or its children.

The only argument is a JSON object: see `job.JobPlan`.  A row's value is `<Spark partition>
<number> <filler>`.  A stream reads what is in `<folder>/input` now, a file a micro-batch.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from fastprod.spark.session import job_session

_STREAM_S = 600


def main(plan: dict[str, Any]) -> None:
    """Write, and say so on standard output."""
    local = f"{plan['folder']}/spark"
    java = f"-Djava.io.tmpdir={local} {plan['java']}"
    settings = {
        "spark.local.dir": local,
        "spark.sql.warehouse.dir": f"{local}/warehouse",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "512m",
        "spark.driver.extraJavaOptions": java,
        "spark.executor.extraJavaOptions": java,
        **plan["settings"],
    }
    with job_session("fastprod-tests", master=plan["master"], settings=settings) as spark:
        spark.sparkContext.setLogLevel("ERROR")
        print("session is up", flush=True)
        if plan["file_count"]:
            _stream(spark, plan)
        else:
            _batch(spark, plan)
        print("all is written", flush=True)


def _batch(spark: SparkSession, plan: dict[str, Any]) -> None:
    rows = spark.range(0, plan["row_count"], 1, plan["partition_count"])
    writer = _with_value(rows.selectExpr("string(id) number"), plan).write.format("fastprod")
    writer.mode("append").options(**plan["options"]).save()


def _stream(spark: SparkSession, plan: dict[str, Any]) -> None:
    rows = spark.readStream.option("maxFilesPerTrigger", 1).text(f"{plan['folder']}/input")
    writer = _with_value(rows.selectExpr("value number"), plan).writeStream.format("fastprod")
    writer = writer.options(**plan["options"]).trigger(availableNow=True)
    query = writer.option("checkpointLocation", f"{plan['folder']}/checkpoint").start()
    if not query.awaitTermination(_STREAM_S):
        raise TimeoutError("the query did not end")


def _with_value(rows: DataFrame, plan: dict[str, Any]) -> DataFrame:
    filler = "x" * plan["filler_bytes"]
    return rows.selectExpr(f"concat_ws(' ', spark_partition_id(), number, '{filler}') value")


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))

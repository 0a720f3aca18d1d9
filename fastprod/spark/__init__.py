"""Writes DataFrames and streams to Kafka from Spark's Python workers, without a connector jar.

``df.write.format("fastprod").mode("append").option("kafka.bootstrap.servers", ...)`` needs no
registration: Spark finds `pyspark_fastprod`.  Columns, options and messages are those of
``format("kafka")``; `fastprod.spark.sink.options` has what is added.  `write`, `write_stream` and
`progress` do the same and give numbers back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fastprod.spark.sink.api import StreamProgress as StreamProgress
    from fastprod.spark.sink.api import progress as progress
    from fastprod.spark.sink.api import write as write
    from fastprod.spark.sink.api import write_stream as write_stream
    from fastprod.spark.sink.write_result import WriteResult as WriteResult

__all__ = ["StreamProgress", "WriteResult", "progress", "write", "write_stream"]


def __getattr__(name: str) -> Any:
    # Modules of the package that need no PySpark pass through here too.
    if name in __all__:
        from fastprod.spark.sink import api  # noqa: PLC0415

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

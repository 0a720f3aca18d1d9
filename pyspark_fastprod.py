"""Spark's look-up name: it scans the modules `pyspark_*` for a `DefaultSource`."""

from __future__ import annotations

from fastprod.spark.sink.data_source import FastprodDataSource as DefaultSource

__all__ = ["DefaultSource"]

"""tasks_at_once: how many tasks share the limit of a job."""

from __future__ import annotations

import time
from typing import Final

from pyspark.sql import SparkSession

_LOOK_S: Final = 0.5
_LOOKS: Final = 20


def tasks_at_once(spark: SparkSession) -> int:
    """How many tasks the session's executors run at the same time; at least one.

    It is not ``defaultParallelism``: users set that by ``spark.default.parallelism``, and on a
    cluster it is 2 until executors have come.

    Blocks: until the first executor is there, and 0.5 s, or while others come up to 10 s.  Those
    that come later are not counted.
    """
    spark.range(0, 1, 1, 1).count()
    found = _now(spark)
    for _ in range(_LOOKS):
        known = found
        time.sleep(_LOOK_S)
        found = _now(spark)
        if found == known:
            break
    return max(1, found)


def _now(spark: SparkSession) -> int:
    context = spark.sparkContext._jsc.sc()
    profile = context.resourceProfileManager().defaultResourceProfile()
    return int(context.maxNumConcurrentTasks(profile))

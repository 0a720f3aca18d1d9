"""DescribeLogDirs, key 35 (KIP-113, KIP-827, KIP-1066)."""

from __future__ import annotations

from typing import NamedTuple

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import DESCRIBE_LOG_DIRS
from fastprod.protocol.schema import (
    BOOL,
    INT16,
    INT32,
    INT64,
    STRING,
    Array,
    field,
    message,
    tuple_message,
)


@message
class DescribableLogDirTopic:
    """Partitions of a topic whose logs are asked about."""

    topic: str = field(STRING)
    partitions: list[int] = field(Array(INT32))


@message
class DescribeLogDirsRequest:
    """The partitions; None: all."""

    topics: list[DescribableLogDirTopic] | None = field(
        Array(DescribableLogDirTopic), nullable="0+"
    )


@tuple_message
class DescribeLogDirsPartition(NamedTuple):
    """The log of one partition. A tuple: there are thousands of them."""

    partition_index: int = field(INT32)
    partition_size: int = field(INT64)
    offset_lag: int = field(INT64)
    is_future_key: bool = field(BOOL)


@message
class DescribeLogDirsTopic:
    """The logs of one topic."""

    name: str = field(STRING)
    partitions: list[DescribeLogDirsPartition] = field(Array(DescribeLogDirsPartition))


@message
class DescribeLogDirsResult:
    """A folder of logs; its volume's size is -1 where it is not known."""

    error_code: int = field(INT16)
    log_dir: str = field(STRING)
    topics: list[DescribeLogDirsTopic] = field(Array(DescribeLogDirsTopic))
    total_bytes: int = field(INT64, "4+", default=-1)
    usable_bytes: int = field(INT64, "4+", default=-1)
    is_cordoned: bool = field(BOOL, "5+", default=False)


@message
class DescribeLogDirsResponse:
    """The folders of a node; without any before version 3: it may not be told."""

    throttle_time_ms: int = field(INT32)
    error_code: int = field(INT16, "3+")
    results: list[DescribeLogDirsResult] = field(Array(DescribeLogDirsResult))


API = Api(
    DESCRIBE_LOG_DIRS,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    versions=(1, 5),
    flexible_from=2,
)

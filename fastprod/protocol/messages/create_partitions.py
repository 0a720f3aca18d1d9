"""CreatePartitions, key 37."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import CREATE_PARTITIONS
from fastprod.protocol.schema import BOOL, INT16, INT32, STRING, Array, field, message


@message
class CreatePartitionsAssignment:
    """The nodes of one new partition, the preferred leader first."""

    broker_ids: list[int] = field(Array(INT32))


@message
class CreatePartitionsTopic:
    """A topic, and how many partitions it is to have."""

    name: str = field(STRING)
    count: int = field(INT32)
    assignments: list[CreatePartitionsAssignment] | None = field(
        Array(CreatePartitionsAssignment), nullable="0+"
    )


@message
class CreatePartitionsRequest:
    """Topics that get more partitions."""

    topics: list[CreatePartitionsTopic] = field(Array(CreatePartitionsTopic))
    timeout_ms: int = field(INT32)
    validate_only: bool = field(BOOL)


@message
class CreatePartitionsTopicResult:
    """What became of one topic."""

    name: str = field(STRING)
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, nullable="0+", default=None)


@message
class CreatePartitionsResponse:
    """What became of each topic."""

    throttle_time_ms: int = field(INT32)
    results: list[CreatePartitionsTopicResult] = field(Array(CreatePartitionsTopicResult))


API = Api(
    CREATE_PARTITIONS,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    versions=(0, 3),
    flexible_from=2,
)

"""DeleteTopics, key 20."""

from __future__ import annotations

from fastprod.protocol.api import Api
from fastprod.protocol.api_keys import DELETE_TOPICS
from fastprod.protocol.schema import INT16, INT32, STRING, UUID, Array, field, message


@message
class DeleteTopicState:
    """A topic to delete: by name, or by id with no name."""

    name: str | None = field(STRING, "6+", nullable="6+", default=None)
    topic_id: bytes = field(UUID, "6+")


@message
class DeleteTopicsRequest:
    """Topics to delete: names, from version 6 on names or ids."""

    topics: list[DeleteTopicState] = field(Array(DeleteTopicState), "6+")
    topic_names: list[str] = field(Array(STRING), "0-5")
    timeout_ms: int = field(INT32)


@message
class DeletableTopicResult:
    """What became of one topic."""

    name: str | None = field(STRING, nullable="6+")
    topic_id: bytes = field(UUID, "6+")
    error_code: int = field(INT16)
    error_message: str | None = field(STRING, "5+", nullable="5+", default=None)


@message
class DeleteTopicsResponse:
    """What became of every topic."""

    throttle_time_ms: int = field(INT32, "1+")
    responses: list[DeletableTopicResult] = field(Array(DeletableTopicResult))


API = Api(
    DELETE_TOPICS, DeleteTopicsRequest, DeleteTopicsResponse, versions=(1, 6), flexible_from=4
)

"""The metadata request, and what a client may believe of its answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fastprod.protocol.messages.metadata import (
    API,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)

NO_LEADER: Final = -1
"""Leader id of a partition without a leader."""

NO_EPOCH: Final = -1
"""Leader epoch of a partition whose epoch is unknown."""

NO_TOPIC_ID: Final = bytes(16)
"""Topic id of brokers that have none (Metadata below version 10)."""

_FIRST_EPOCH_VERSION: Final = 7
_RELIABLE_EPOCHS_FROM: Final = 9


def metadata_request(
    version: int,
    correlation_id: int,
    client_id: str | None,
    topics: Iterable[str] | None,
    allow_auto_topic_creation: bool = True,
) -> bytes:
    """The whole Metadata request frame, size prefix included. Any thread; does not block.

    Args:
        version: 4 to 13.
        correlation_id: int32.
        client_id: client id, or None.
        topics: names to ask for; empty asks for no topic, None for every topic (P-J.3.1).
        allow_auto_topic_creation: let the broker create topics it does not have; default true.

    Raises:
        UnsupportedVersionError: no such version.
        SchemaError: a text longer than Kafka's strings.

    Source: contract P-H.2.8, P-J.3.2, P-J.4.
    """
    wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
    message = MetadataRequest(topics=wanted, allow_auto_topic_creation=allow_auto_topic_creation)
    return API.request_frame(version, correlation_id, client_id, message)


def read_metadata(version: int, payload: bytes) -> MetadataResponse:
    """Decode a Metadata response without its size prefix. Any thread; does not block.

    Below version 9 brokers could send stale leader epochs: they are left out (contract P-H.4.1).

    Raises:
        UnsupportedVersionError: no such version.
        SchemaError: the frame is not what its version promises (P-J.1.5).
    """
    _, message = API.read_response(version, payload)
    if _FIRST_EPOCH_VERSION <= version < _RELIABLE_EPOCHS_FROM:
        for topic in message.topics:
            topic.partitions = [
                partition._replace(leader_epoch=NO_EPOCH) for partition in topic.partitions
            ]
    return message

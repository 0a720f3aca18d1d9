"""Answers with the errors of faults: for some partitions of a request, or a time-out for all.

Each partition has its own error (B-D1.1): the others of the request are handled as usual.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from fastprod.broker.api_table import APIS, ApiTable
from fastprod.broker.faults.target import Place
from fastprod.broker.network.request import Request, RequestHeader, SizedBuffer
from fastprod.protocol.api_keys import FETCH, LIST_OFFSETS, METADATA, PRODUCE
from fastprod.protocol.messages.fetch import PartitionData
from fastprod.protocol.messages.list_offsets import ListOffsetsPartitionResponse
from fastprod.protocol.messages.metadata import MetadataResponseTopic
from fastprod.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

REASON: Final = "a fault that was asked for"

REFUSABLE: Final = (PRODUCE, FETCH, LIST_OFFSETS, METADATA)
"""APIs that can fail for some topics or partitions and be done for the others."""

_CORRELATION_ID_BYTES: Final = 4
# Not pinned: pinning does not change how a message is written.
_table: Final = ApiTable()

Refused = Mapping[Place, int]
Names = Mapping[bytes, str]


def withhold(api_key: int, message: Any, refused: Refused) -> None:
    """Keep the handler from doing what will be refused, and from waiting for it."""
    if api_key == PRODUCE:
        for topic in message.topic_data:
            for data in topic.partition_data:
                if (topic.name, data.index) in refused:
                    data.records = None
    elif api_key == FETCH:
        # Errors complete a fetch at once (B-G4.7).
        message.max_wait_ms = 0


def refuse_places(
    header: RequestHeader,
    parts: Sequence[SizedBuffer],
    refused: Refused,
    names: Names = MappingProxyType({}),
) -> Sequence[SizedBuffer]:
    """Put errors into an answer.

    Args:
        header: of the request.
        parts: the answer without them.
        refused: place -> error code.
        names: of the topics that the answer has ids of alone.

    Returns:
        The answer with them.
    """
    api = APIS[header.api_key]
    start = _CORRELATION_ID_BYTES + api.has_flexible_response_header(header.version)
    response = api.response.decode(header.version, memoryview(b"".join(parts)), start)
    _REFUSE[header.api_key](response, refused, names)
    return _table.encode_response(header, response)


def refuse_everywhere(
    request: Request, message: ProduceRequest, code: int
) -> Sequence[SizedBuffer]:
    """Return an answer to a Produce request with `code` for every partition."""
    topics = [
        TopicProduceResponse(
            name=topic.name,
            topic_id=topic.topic_id,
            partition_responses=[
                _refused_append(each.index, code) for each in topic.partition_data
            ],
        )
        for topic in message.topic_data
    ]
    return _table.encode_response(request.header, ProduceResponse(responses=topics))


def _refused_append(index: int, code: int) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index, error_code=code, base_offset=-1, error_message=REASON
    )


def _refuse_produce(response: Any, refused: Refused, names: Names) -> None:
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id)
        for at, each in enumerate(topic.partition_responses):
            code = refused.get((name, each.index))
            if code is not None:
                topic.partition_responses[at] = _refused_append(each.index, code)


def _refuse_fetch(response: Any, refused: Refused, names: Names) -> None:
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id)
        for at, each in enumerate(topic.partitions):
            index = each.partition_index
            code = refused.get((name, index))
            if code is not None:
                topic.partitions[at] = PartitionData(
                    partition_index=index,
                    error_code=code,
                    high_watermark=-1,
                    aborted_transactions=None,
                    records=b"",
                )


def _refuse_list_offsets(response: Any, refused: Refused, names: Names) -> None:
    for topic in response.topics:
        for at, each in enumerate(topic.partitions):
            index = each.partition_index
            code = refused.get((topic.name, index))
            if code is not None:
                topic.partitions[at] = ListOffsetsPartitionResponse(
                    partition_index=index, error_code=code
                )


def _refuse_metadata(response: Any, refused: Refused, names: Names) -> None:
    for at, topic in enumerate(response.topics):
        code = refused.get((topic.name, None))
        if code is not None:
            response.topics[at] = MetadataResponseTopic(
                error_code=code, name=topic.name, topic_id=topic.topic_id
            )


_REFUSE: Final[Mapping[int, Callable[[Any, Refused, Names], None]]] = {
    PRODUCE: _refuse_produce,
    FETCH: _refuse_fetch,
    LIST_OFFSETS: _refuse_list_offsets,
    METADATA: _refuse_metadata,
}

"""Errors for some partitions of an answer, and for all (B-D1.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from fastprod.broker.api_table import APIS, SERVICES, ApiTable
from fastprod.broker.faults.refusals import REASON, refuse_everywhere, refuse_places, withhold
from fastprod.broker.network.request import SizedBuffer
from fastprod.protocol.api_keys import FETCH, LIST_OFFSETS, METADATA, PRODUCE
from fastprod.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from fastprod.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from fastprod.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from fastprod.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from support.broker.fault_requests import Outlet
from support.broker.world import batch_of, fetch_request, produce_request

NOT_LEADER = 6


def versions_of(api_key: int) -> list[int]:
    served = SERVICES[api_key].served
    return list(range(served.first, served.last + 1))


def decode(api_key: int, version: int, parts: Sequence[SizedBuffer]) -> Any:
    api = APIS[api_key]
    start = 4 + api.has_flexible_response_header(version)
    return api.response.decode(version, memoryview(b"".join(parts)), start)


def refused(api: str, version: int, response: Any, place: tuple[str, int | None]) -> Any:
    """(before, after) NOT_LEADER is put into a place of an answer."""
    header = Outlet().request(api, version).header
    parts = ApiTable().encode_response(header, response)
    changed = refuse_places(header, parts, {place: NOT_LEADER}, {bytes(16): "t"})
    assert b"".join(changed)[:4] == b"".join(parts)[:4]
    return decode(header.api_key, version, parts), decode(header.api_key, version, changed)


@pytest.mark.parametrize("version", versions_of(PRODUCE))
def test_one_partition_of_a_produce_answer_fails(version: int) -> None:
    answer = ProduceResponse(
        responses=[
            TopicProduceResponse(
                name="t",
                partition_responses=[
                    PartitionProduceResponse(index=index, error_code=0, base_offset=5)
                    for index in (0, 1)
                ],
            )
        ]
    )
    before, after = refused("Produce", version, answer, ("t", 1))
    kept, failed = after.responses[0].partition_responses
    assert kept == before.responses[0].partition_responses[0]
    assert (failed.index, failed.error_code, failed.base_offset) == (1, NOT_LEADER, -1)
    assert failed.error_message == (REASON if version >= 8 else None)


@pytest.mark.parametrize("version", versions_of(FETCH))
def test_one_partition_of_a_fetch_answer_fails(version: int) -> None:
    """B-B1.2: without records, not with null; the others keep theirs."""
    answer = FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic="t",
                partitions=[
                    PartitionData(
                        partition_index=index,
                        error_code=0,
                        high_watermark=9,
                        aborted_transactions=None,
                        records=[b"rec", b"ords"],
                    )
                    for index in (0, 1)
                ],
            )
        ]
    )
    before, after = refused("Fetch", version, answer, ("t", 0))
    failed, kept = after.responses[0].partitions
    assert kept == before.responses[0].partitions[1]
    assert bytes(kept.records) == b"records"
    assert (failed.partition_index, failed.error_code, failed.high_watermark) == (0, NOT_LEADER, -1)
    assert bytes(failed.records) == b""


@pytest.mark.parametrize("version", versions_of(LIST_OFFSETS))
def test_one_partition_of_a_list_offsets_answer_fails(version: int) -> None:
    answer = ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=name,
                partitions=[
                    ListOffsetsPartitionResponse(
                        partition_index=0, error_code=0, timestamp=1, offset=2
                    )
                ],
            )
            for name in ("t", "u")
        ]
    )
    before, after = refused("ListOffsets", version, answer, ("t", 0))
    assert after.topics[1] == before.topics[1]
    (failed,) = after.topics[0].partitions
    assert (failed.error_code, failed.offset, failed.timestamp) == (NOT_LEADER, -1, -1)


@pytest.mark.parametrize("version", versions_of(METADATA))
def test_one_topic_of_a_metadata_answer_fails(version: int) -> None:
    partition = MetadataResponsePartition(
        error_code=0,
        partition_index=0,
        leader_id=0,
        replica_nodes=(0,),
        isr_nodes=(0,),
        offline_replicas=(),
    )
    topics = [
        MetadataResponseTopic(error_code=0, name=name, topic_id=bytes(16), partitions=[partition])
        for name in ("t", "u")
    ]
    answer = MetadataResponse(brokers=[], cluster_id="c", controller_id=0, topics=topics)
    before, after = refused("Metadata", version, answer, ("u", None))
    assert after.topics[0] == before.topics[0]
    assert (after.topics[1].name, after.topics[1].error_code) == ("u", NOT_LEADER)
    assert after.topics[1].partitions == []


@pytest.mark.parametrize("version", versions_of(PRODUCE))
def test_every_partition_of_a_produce_request_can_fail(version: int) -> None:
    batch = batch_of(b"a")
    message = produce_request([("t", 0, batch), ("t", 3, batch), ("u", 1, batch)])
    parts = refuse_everywhere(Outlet().request("Produce", version), message, 7)
    answer = decode(PRODUCE, version, parts)
    names = ("t", "t", "u") if version < 13 else ("", "", "")
    assert [
        (topic.name, each.index, each.error_code)
        for topic in answer.responses
        for each in topic.partition_responses
    ] == [(names[0], 0, 7), (names[1], 3, 7), (names[2], 1, 7)]


def test_what_will_be_refused_is_not_appended() -> None:
    message = produce_request([("t", 0, b"x"), ("t", 1, b"y"), ("u", 0, b"z")])
    withhold(PRODUCE, message, {("t", 1): 6, ("u", 0): 7})
    assert [
        data.records is None for topic in message.topic_data for data in topic.partition_data
    ] == [False, True, True]


def test_a_fetch_that_will_fail_does_not_wait() -> None:
    """B-G4.7: errors complete parked fetches."""
    message = fetch_request([("t", 0, 0)], max_wait_ms=60_000)
    withhold(FETCH, message, {("t", 0): 6})
    assert message.max_wait_ms == 0

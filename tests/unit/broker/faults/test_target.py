"""Which requests a fault is aimed at, and what is said of an aim that cannot be (B-G2)."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.broker.api_table import APIS
from fastprod.broker.faults.target import (
    Place,
    aim,
    api_key_of,
    check_count,
    check_ms,
    error_code_of,
)
from fastprod.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from fastprod.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fastprod.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from fastprod.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from fastprod.protocol.messages.init_producer_id import InitProducerIdRequest
from fastprod.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from fastprod.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from support.broker.fault_requests import target_of
from support.broker.world import batch_of, fetch_request, produce_request

BATCH = batch_of(b"a")


MESSAGES: list[tuple[str, Any, list[Place]]] = [
    (
        "Produce",
        produce_request([("t", 0, BATCH), ("t", 1, BATCH), ("u", 0, BATCH)]),
        [("t", 0), ("t", 1), ("u", 0)],
    ),
    ("Fetch", fetch_request([("t", 3, 0)]), [("t", 3)]),
    (
        "ListOffsets",
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name="t", partitions=[ListOffsetsPartition(partition_index=2, timestamp=-1)]
                )
            ],
        ),
        [("t", 2)],
    ),
    ("Metadata", MetadataRequest(topics=[MetadataRequestTopic(name="t")]), [("t", None)]),
    ("Metadata", MetadataRequest(topics=None), []),
    (
        "CreateTopics",
        CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
        ),
        [("t", None)],
    ),
    ("DeleteTopics", DeleteTopicsRequest(topic_names=["t"], timeout_ms=1), [("t", None)]),
    (
        "DeleteTopics",
        DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1),
        [("t", None)],
    ),
    (
        "DescribeConfigs",
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=2, resource_name="t"),
                DescribeConfigsResource(resource_type=4, resource_name="0"),
            ]
        ),
        [("t", None)],
    ),
    (
        "IncrementalAlterConfigs",
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=2, resource_name="t"),
                AlterConfigsResource(resource_type=4, resource_name="0"),
            ]
        ),
        [("t", None)],
    ),
    ("InitProducerId", InitProducerIdRequest(transactional_id=None), []),
]


@pytest.mark.parametrize(("api", "message", "places"), MESSAGES)
def test_a_request_names_these_places(api: str, message: Any, places: list[Place]) -> None:
    assert target_of(api, message).places == places


def test_an_aim_hits_its_api_topic_partition_and_node_alone() -> None:
    """B-G2: per topic and partition."""
    target = target_of("Produce", MESSAGES[0][1], node_id=1)
    assert aim("Produce").hit(target) == []
    assert aim(0).hit(target) == []
    assert aim("all").hit(target) == []
    assert aim("Fetch").hit(target) is None
    assert aim("Produce", "t").hit(target) == [("t", 0), ("t", 1)]
    assert aim("Produce", partition=0).hit(target) == [("t", 0), ("u", 0)]
    assert aim("Produce", "u", 0).hit(target) == [("u", 0)]
    assert aim("all", "u", 1).hit(target) is None
    assert aim("Produce", node=1).hit(target) == []
    assert aim("Produce", node=0).hit(target) is None


def test_an_aim_at_answers_spares_what_has_none() -> None:
    """B-D1.4: a Produce request with acks=0."""
    at_answers = aim("Produce")._replace(is_at_answers=True)
    assert at_answers.hit(target_of("Produce", produce_request([("t", 0, BATCH)], acks=0))) is None
    assert at_answers.hit(target_of("Produce", produce_request([("t", 0, BATCH)], acks=1))) == []


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [("Prduce", "Produce"), ("produce", "Produce"), ("METADATA", "Metadata"), ("fetc", "Fetch")],
)
def test_an_unknown_api_is_told_with_the_nearest_one(wrong: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"no API '{wrong}'; did you mean '{nearest}'"):
        aim(wrong)


@pytest.mark.parametrize("wrong", ["qqq", 999, -1, True, None])
def test_an_api_that_is_near_to_none_is_told_with_all(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"there are Produce, .*, and 'all'"):
        aim(wrong)


def test_apis_have_their_names_and_keys() -> None:
    for api in APIS.values():
        assert api_key_of(api.name) == api_key_of(api.key) == api.key


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("InitProducerId", "t"), "an? InitProducerId request names no topic"),
        (("Metadata", None, 1), "Metadata request names no partition: leave out partition=1"),
        (("Produce", "t", -1), "partition is -1; it must be a whole number from 0 on"),
        (("Produce", "t", None, -2), "node is -2"),
        (("Produce", ""), "topic is ''"),
        (("Produce", b"t"), "topic is b't'"),
        (("SaslHandshake", "t"), "a SaslHandshake request names no topic"),
        ((36, None, 1), "a SaslAuthenticate request names no partition"),
    ],
)
def test_an_aim_that_nothing_can_meet_is_refused(arguments: tuple[Any, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        aim(*arguments)


def test_errors_have_kafkas_names_and_codes() -> None:
    assert error_code_of("NOT_ENOUGH_REPLICAS") == error_code_of(19) == 19
    assert error_code_of("UNKNOWN_SERVER_ERROR") == -1
    assert error_code_of(4321) == 4321


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("NOT_ENOUGH_REPLICA", "no error 'NOT_ENOUGH_REPLICA'; did you mean 'NOT_ENOUGH_REPLICAS'"),
        ("NONE", "no error 'NONE'"),
        (0, "the error is 0"),
        (32768, "from -32768 to 32767"),
        (True, "Kafka's code or name"),
        (1.5, "Kafka's code or name"),
    ],
)
def test_what_is_no_error_is_refused(wrong: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        error_code_of(wrong)


def test_counts_and_times_have_limits() -> None:
    assert check_count("n", 1, 1) == 1
    assert check_ms("ms", 0.5) == 0.5
    for wrong in (0, -1, 1.5, True, "1"):
        with pytest.raises(ValueError, match=r"n is .*; it must be a whole number from 1 on"):
            check_count("n", wrong, 1)  # type: ignore[arg-type]
    for late in (-1, float("nan"), float("inf"), 86_400_001, True, "1"):
        with pytest.raises(ValueError, match=r"ms is .*; it must be from 0 to 86400000 milli"):
            check_ms("ms", late)  # type: ignore[arg-type]

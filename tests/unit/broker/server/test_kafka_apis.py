"""KafkaApis: dispatch, failures, and who is to be closed (B-A5.7, B-D5)."""

from __future__ import annotations

import logging
import struct

import pytest

from fastprod.broker.faults.fault_verbs import FaultVerbs
from fastprod.broker.faults.planned_faults import PlannedFaults
from fastprod.broker.network.connection import UNKNOWN_SOFTWARE, ClientSoftware
from fastprod.broker.server.apis.call import Call
from fastprod.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
)
from fastprod.protocol.messages.api_versions import ApiVersionsRequest
from fastprod.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from fastprod.protocol.messages.delete_topics import DeleteTopicsRequest
from fastprod.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from fastprod.protocol.messages.describe_cluster import DescribeClusterRequest
from fastprod.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
from fastprod.protocol.messages.group.delete_groups import DeleteGroupsRequest
from fastprod.protocol.messages.group.describe_groups import DescribeGroupsRequest
from fastprod.protocol.messages.group.heartbeat import HeartbeatRequest
from fastprod.protocol.messages.group.join_group import JoinGroupRequest
from fastprod.protocol.messages.group.leave_group import LeaveGroupRequest
from fastprod.protocol.messages.group.list_groups import ListGroupsRequest
from fastprod.protocol.messages.group.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fastprod.protocol.messages.group.offset_delete import OffsetDeleteRequest
from fastprod.protocol.messages.group.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from fastprod.protocol.messages.group.sync_group import SyncGroupRequest
from fastprod.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
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
from support.broker.world import (
    CLOSED,
    BrokerWorld,
    api_named,
    batch_of,
    fetch_request,
    produce_request,
)

REQUESTS = {
    "Produce": (9, produce_request([("t", 0, batch_of(b"a"))], acks=1)),
    "Fetch": (12, fetch_request([("t", 0, 0)])),
    "ListOffsets": (
        7,
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)]
                )
            ],
        ),
    ),
    "Metadata": (11, MetadataRequest(topics=[MetadataRequestTopic(name="t")])),
    "FindCoordinator": (4, FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])),
    "CreateTopics": (
        7,
        CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name="new", num_partitions=1, replication_factor=1, assignments=[], configs=[]
                )
            ]
        ),
    ),
    "DeleteTopics": (5, DeleteTopicsRequest(topic_names=["t"], timeout_ms=1)),
    "InitProducerId": (4, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)),
    "DescribeConfigs": (
        4,
        DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
            ]
        ),
    ),
    "IncrementalAlterConfigs": (
        1,
        IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(
                    resource_type=4,
                    resource_name="",
                    configs=[AlterableConfig(name="max.connections", value="9")],
                )
            ]
        ),
    ),
    "DescribeClientQuotas": (1, DescribeClientQuotasRequest()),
    "AlterClientQuotas": (
        1,
        AlterClientQuotasRequest(
            entries=[EntryData(entity=[EntityData(entity_type="ip", entity_name=None)])]
        ),
    ),
    "DescribeCluster": (0, DescribeClusterRequest(include_cluster_authorized_operations=False)),
}

# Without a coordinator these are answered with an error anyhow.
GROUP_REQUESTS = {
    "JoinGroup": (9, JoinGroupRequest(group_id="g")),
    "SyncGroup": (5, SyncGroupRequest(group_id="g")),
    "Heartbeat": (4, HeartbeatRequest(group_id="g")),
    "LeaveGroup": (5, LeaveGroupRequest(group_id="g")),
    "OffsetCommit": (
        8,
        OffsetCommitRequest(
            topics=[
                OffsetCommitRequestTopic(
                    name="t", partitions=[OffsetCommitRequestPartition(committed_metadata="")]
                )
            ]
        ),
    ),
    "OffsetFetch": (8, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(topics=None)])),
    "OffsetDelete": (0, OffsetDeleteRequest(group_id="g")),
    "ListGroups": (5, ListGroupsRequest()),
    "DescribeGroups": (5, DescribeGroupsRequest(groups=["g"])),
    "DeleteGroups": (2, DeleteGroupsRequest(groups_names=["g"])),
}


class Broken(Exception):
    """What a handler of the tests raises."""


def _break(world: BrokerWorld) -> None:
    def broken(call: Call[object]) -> None:
        raise Broken("out of order")

    for handler in world.state.apis._handlers.values():
        handler.handle = broken  # type: ignore[method-assign]


@pytest.mark.parametrize("name", [*REQUESTS, *GROUP_REQUESTS])
def test_a_handler_that_fails_is_answered_with_its_requests_own_error(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """B-A5.7"""
    version, message = {**REQUESTS, **GROUP_REQUESTS}[name]
    with BrokerWorld(topics={"t": 1}) as world:
        _break(world)
        answer = world.ask(name, version, message)
    assert "error_code=-1" in repr(answer)
    assert "Broken: out of order" in caplog.text


def test_with_acks_0_a_failure_closes_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    """B-A5.7, B-A6.3"""
    with BrokerWorld(topics={"t": 1}) as world:
        _break(world)
        message = produce_request([("t", 0, batch_of(b"a"))], acks=0)
        assert world.ask("Produce", 9, message) == CLOSED


def test_a_body_that_cannot_be_read_closes_the_connection_and_is_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """B-D5: with the client's software, the API and the version."""
    with BrokerWorld() as world, caplog.at_level(logging.WARNING):
        assert world.post_bytes("Metadata", 9, b"\xff").answer == CLOSED
    assert "unknown" in caplog.text
    assert "api_key=3, version=9" in caplog.text


def test_bytes_behind_a_request_are_ignored() -> None:
    """librdkafka 2.16.0 sends three too many with its Metadata request for all topics."""
    body = bytes.fromhex("00000000010000")
    with BrokerWorld(topics={"t": 1}) as world:
        answer = world.post_bytes("Metadata", 11, body).answer
    assert [each.name for each in answer.topics] == ["t"]


def test_a_failure_after_the_answer_is_only_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with BrokerWorld(topics={"t": 1}) as world:

        def broken(key: object) -> int:
            raise Broken("too late")

        world.state.purgatory.check_and_complete = broken  # type: ignore[method-assign]
        assert world.produce(batch_of(b"a")).error_code == 0
    assert "too late" in caplog.text


def test_every_listed_api_has_a_handler() -> None:
    with BrokerWorld() as world:
        listed = {each.api_key for each in world.state.table.api_versions()}
        assert listed == set(world.state.apis._handlers)


def test_the_answer_repeats_the_correlation_id() -> None:
    with BrokerWorld(topics={"t": 1}) as world:
        for name, (version, message) in REQUESTS.items():
            raw = world.post(name, version, message).raw
            assert struct.unpack_from(">i", raw) == (7,)


def test_the_errors_of_an_answer_are_counted_by_code() -> None:
    """B-A9 ErrorsPerSec: of every partition; 0 is no error."""
    batch = batch_of(b"a")
    parts: list[tuple[str, int, bytes | None]] = [("t", 0, batch), ("t", 9, batch), ("u", 0, batch)]
    with BrokerWorld(topics={"t": 1}) as world:
        asked = world.post("Produce", 9, produce_request(parts))
        assert asked.request.error_counts == {0: 1, 3: 2}
        assert world.post_bytes("ApiVersions", 5, b"").request.error_counts == {35: 1}


@pytest.mark.parametrize("name", REQUESTS)
def test_an_answer_without_errors_counts_as_such(name: str) -> None:
    """B-A9 ErrorsPerSec."""
    with BrokerWorld(topics={"t": 1}) as world:
        counts = world.post(name, *REQUESTS[name]).request.error_counts
        assert counts is not None
        assert set(counts) == {0}


@pytest.mark.parametrize(("replica_id", "name"), [(-1, "FetchConsumer"), (1, "FetchFollower")])
def test_fetches_of_consumers_and_followers_are_told_apart(replica_id: int, name: str) -> None:
    """B-A9 FetchConsumer and FetchFollower."""
    message = fetch_request([("t", 0, 0)])
    message.replica_id = replica_id
    with BrokerWorld(topics={"t": 1}) as world:
        assert world.post("Fetch", 12, message).request.metrics_alias == name


def test_the_software_that_a_client_names_is_known_of_its_connection() -> None:
    """B-A3.8, B-A10.2-3, B-A9 client-software: from version 3 on."""
    message = ApiVersionsRequest(client_software_name="lib", client_software_version="1.0")
    with BrokerWorld() as world:
        for version, known in ((2, UNKNOWN_SOFTWARE), (3, ClientSoftware("lib", "1.0"))):
            asked = world.post("ApiVersions", version, message)
            assert asked.request.connection.client_software == known


def test_a_fault_refuses_a_version_as_a_broker_does() -> None:
    """B-A7.2: in version 0, with the versions that there are, whoever says it."""
    planned = PlannedFaults()
    with BrokerWorld(faults=planned) as world:
        FaultVerbs(planned, ()).fail("ApiVersions", "UNSUPPORTED_VERSION")
        message = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        asked = world.post("ApiVersions", 3, message)
        answer = api_named("ApiVersions").response.decode(0, memoryview(asked.raw), 4)
        assert (answer.error_code, [each.api_key for each in answer.api_keys]) == (35, [18])
        assert answer.api_keys[0].max_version >= 3
        assert world.ask("ApiVersions", 3, message).error_code == 0

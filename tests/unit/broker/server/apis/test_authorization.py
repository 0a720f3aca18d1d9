"""What a client may not do, API by API, with Kafka's codes; without sockets (B-D6.3)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fastprod.broker.cluster.topics import OFFSETS_TOPIC
from fastprod.broker.server.acl import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from fastprod.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from fastprod.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from fastprod.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from fastprod.protocol.messages.describe_cluster import DescribeClusterRequest
from fastprod.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
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
from fastprod.protocol.messages.replica.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from support.broker.world import BrokerWorld, batch_of, fetch_request, produce_request

TOPIC, CLUSTER = ResourceType.TOPIC, ResourceType.CLUSTER
ADA = "User:ada"


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    """Topics "mine" and "other", and ada, who may do nothing yet."""
    with BrokerWorld(topics={"mine": 1, "other": 1}) as made:
        made.principal = ADA
        may(made, "User:root", Operation.ALL, "mine")
        yield made


def may(
    world: BrokerWorld,
    principal: str,
    operation: Operation,
    name: str = CLUSTER_NAME,
    kind: ResourceType = TOPIC,
) -> None:
    acl = Acl(principal, Permission.ALLOW, operation, kind, name, PatternType.LITERAL)
    world.state.authorizer.add([acl])


def metadata(world: BrokerWorld, *names: str, create: bool = False) -> dict[str | None, int]:
    topics = [MetadataRequestTopic(name=name) for name in names] if names else None
    message = MetadataRequest(topics=topics, allow_auto_topic_creation=create)
    return {each.name: each.error_code for each in world.ask("Metadata", 9, message).topics}


def test_who_may_not_write_is_told_by_partition(world: BrokerWorld) -> None:
    """B-D1 TOPIC_AUTHORIZATION_FAILED: the rest of the request is done."""
    may(world, ADA, Operation.WRITE, "mine")
    parts: list[tuple[str, int, bytes | None]] = [
        ("other", 0, batch_of(b"x")),
        ("mine", 0, batch_of(b"x")),
        ("none", 0, batch_of(b"x")),
    ]
    answer = world.ask("Produce", 9, produce_request(parts))
    assert {each.name: each.partition_responses[0].error_code for each in answer.responses} == {
        "other": TOPIC_AUTHORIZATION_FAILED,
        "mine": NONE,
        "none": TOPIC_AUTHORIZATION_FAILED,
    }
    ends = {t.name: t.partitions[0].log.log_end_offset for t in world.state.topics.all()}
    assert ends == {"mine": 1, "other": 0}


def test_who_may_not_read_is_told_by_partition(world: BrokerWorld) -> None:
    """B-D6.3: and a fetch with such a partition does not wait."""
    may(world, ADA, Operation.READ, "mine")
    message = fetch_request([("other", 0, 0), ("mine", 0, 0)], max_wait_ms=60_000)
    answer = world.ask("Fetch", 11, message)
    assert [each.partitions[0].error_code for each in answer.responses] == [
        TOPIC_AUTHORIZATION_FAILED,
        NONE,
    ]


def test_a_follower_needs_more_than_a_reader(world: BrokerWorld) -> None:
    """B-D6.3: CLUSTER_ACTION on the cluster."""
    may(world, ADA, Operation.READ, "mine")
    message = fetch_request([("mine", 0, 0)])
    message.replica_id = 1
    codes = []
    for _ in range(2):
        answer = world.ask("Fetch", 11, message)
        codes.append(answer.responses[0].partitions[0].error_code)
        may(world, ADA, Operation.CLUSTER_ACTION, kind=CLUSTER)
    assert codes == [TOPIC_AUTHORIZATION_FAILED, NONE]


def test_the_ends_of_epochs_are_for_readers_and_for_followers(world: BrokerWorld) -> None:
    """B-D6.3: DESCRIBE of the topic (KIP-320), or CLUSTER_ACTION on the cluster."""

    def ask() -> list[int]:
        message = OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic=name, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)]
                )
                for name in ("mine", "other")
            ]
        )
        answer = world.ask("OffsetForLeaderEpoch", 4, message)
        return [each.partitions[0].error_code for each in answer.topics]

    may(world, ADA, Operation.DESCRIBE, "mine")
    assert ask() == [NONE, TOPIC_AUTHORIZATION_FAILED]
    may(world, ADA, Operation.CLUSTER_ACTION, kind=CLUSTER)
    assert ask() == [NONE, NONE]


def test_offsets_are_for_who_may_describe(world: BrokerWorld) -> None:
    """B-D6.3."""
    may(world, ADA, Operation.DESCRIBE, "mine")
    at = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    topics = [ListOffsetsTopic(name=name, partitions=at) for name in ("mine", "other")]
    answer = world.ask("ListOffsets", 5, ListOffsetsRequest(replica_id=-1, topics=topics))
    assert [each.partitions[0].error_code for each in answer.topics] == [
        NONE,
        TOPIC_AUTHORIZATION_FAILED,
    ]


def test_topics_are_hidden_from_who_may_not_describe_them(world: BrokerWorld) -> None:
    """B-D6.3: not in the list of all, and no word on whether they exist."""
    may(world, ADA, Operation.WRITE, "mine")
    assert metadata(world) == {"mine": NONE}
    assert metadata(world, "mine", "other", "none") == {
        "mine": NONE,
        "other": TOPIC_AUTHORIZATION_FAILED,
        "none": TOPIC_AUTHORIZATION_FAILED,
    }


def test_a_topic_is_created_for_who_may_create_it(world: BrokerWorld) -> None:
    """B-D6.3: CREATE on the cluster, or on the topic."""
    may(world, ADA, Operation.DESCRIBE, "*")
    assert metadata(world, "new", create=True) == {"new": TOPIC_AUTHORIZATION_FAILED}
    assert metadata(world, "new", create=False) == {"new": UNKNOWN_TOPIC_OR_PARTITION}
    may(world, ADA, Operation.CREATE, "new")
    assert metadata(world, "new", "newer", create=True) == {
        "new": NONE,
        "newer": TOPIC_AUTHORIZATION_FAILED,
    }
    may(world, ADA, Operation.CREATE, kind=CLUSTER)
    assert metadata(world, "newer", create=True) == {"newer": NONE}


def test_operations_are_those_that_the_client_may_do(world: BrokerWorld) -> None:
    """B-D6.3, KIP-430."""
    may(world, ADA, Operation.WRITE, "mine")
    message = MetadataRequest(
        topics=[MetadataRequestTopic(name="mine")],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )
    answer = world.ask("Metadata", 9, message)
    told = 1 << Operation.WRITE | 1 << Operation.DESCRIBE
    assert answer.topics[0].topic_authorized_operations == told
    assert answer.cluster_authorized_operations == 0
    may(world, ADA, Operation.ALTER, kind=CLUSTER)
    answer = world.ask(
        "DescribeCluster", 0, DescribeClusterRequest(include_cluster_authorized_operations=True)
    )
    told = 1 << Operation.ALTER | 1 << Operation.DESCRIBE
    assert answer.cluster_authorized_operations == told


def create(world: BrokerWorld, *names: str) -> dict[str, Any]:
    message = CreateTopicsRequest(
        topics=[CreatableTopic(name=n, num_partitions=1, replication_factor=1) for n in names]
    )
    return {each.name: each for each in world.ask("CreateTopics", 7, message).topics}


def test_topics_are_made_by_who_may_create_them(world: BrokerWorld) -> None:
    """B-D6.3: and settings are for who may describe them."""
    may(world, ADA, Operation.CREATE, "a")
    found = create(world, "a", "b")
    assert (found["a"].error_code, found["b"].error_code) == (NONE, TOPIC_AUTHORIZATION_FAILED)
    assert found["b"].error_message == "Authorization failed."
    assert found["a"].topic_config_error_code == TOPIC_AUTHORIZATION_FAILED
    assert (found["a"].num_partitions, list(found["a"].configs)) == (-1, [])
    may(world, ADA, Operation.CREATE, kind=CLUSTER)
    may(world, ADA, Operation.DESCRIBE_CONFIGS, "c")
    found = create(world, "c")
    assert (found["c"].error_code, found["c"].num_partitions) == (NONE, 1)
    assert len(found["c"].configs) > 10


def deleted_by_name_and_id(world: BrokerWorld) -> list[DeleteTopicState]:
    """A topic by its name, another by its id, and one that is not there."""
    other = world.state.topics.get("other")
    assert other is not None
    return [
        DeleteTopicState(name="mine"),
        DeleteTopicState(name=None, topic_id=other.id),
        DeleteTopicState(name="none"),
    ]


def test_topics_are_deleted_by_who_may_delete_them(world: BrokerWorld) -> None:
    """B-D6.3: an id tells no name to who may not know it."""
    asked = deleted_by_name_and_id(world)

    def ask() -> list[tuple[str | None, int]]:
        answer = world.ask("DeleteTopics", 6, DeleteTopicsRequest(topics=asked))
        return [(each.name, each.error_code) for each in answer.responses]

    refused = TOPIC_AUTHORIZATION_FAILED
    assert ask() == [("mine", refused), (None, refused), ("none", refused)]
    asked.append(DeleteTopicState(name="other"))
    assert ask()[1::2] == [(None, refused), ("other", refused)]
    asked.pop()
    may(world, ADA, Operation.DESCRIBE, "other")
    assert ask()[1] == ("other", refused)
    may(world, ADA, Operation.DELETE, "*")
    assert ask() == [("mine", NONE), ("other", NONE), ("none", UNKNOWN_TOPIC_OR_PARTITION)]


def test_who_may_delete_in_the_cluster_may_delete_every_topic(world: BrokerWorld) -> None:
    """B-D6.3: whatever rules there are about the topic."""
    asked = deleted_by_name_and_id(world)
    may(world, ADA, Operation.DELETE, kind=CLUSTER)
    answer = world.ask("DeleteTopics", 6, DeleteTopicsRequest(topics=asked))
    assert [(each.name, each.error_code) for each in answer.responses] == [
        ("mine", NONE),
        ("other", NONE),
        ("none", UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert world.state.topics.all() == []


def test_who_may_know_of_a_topic_is_told_that_it_is_not_there(world: BrokerWorld) -> None:
    """B-D6.3: and else that it may not be deleted."""
    may(world, ADA, Operation.DESCRIBE, "mine")
    may(world, ADA, Operation.DESCRIBE, "none")
    message = DeleteTopicsRequest(topic_names=["mine", "none", "nobodys"])
    answer = world.ask("DeleteTopics", 5, message)
    assert {each.name: each.error_code for each in answer.responses} == {
        "mine": TOPIC_AUTHORIZATION_FAILED,
        "none": UNKNOWN_TOPIC_OR_PARTITION,
        "nobodys": TOPIC_AUTHORIZATION_FAILED,
    }
    assert world.state.topics.get("mine") is not None


def test_a_producer_id_is_for_who_may_write_somewhere(world: BrokerWorld) -> None:
    """B-D1 CLUSTER_AUTHORIZATION_FAILED, KIP-679."""

    def ask() -> int:
        message = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
        code: int = world.ask("InitProducerId", 1, message).error_code
        return code

    assert ask() == CLUSTER_AUTHORIZATION_FAILED
    may(world, ADA, Operation.WRITE, "mine")
    assert ask() == NONE
    world.state.authorizer.remove(AclFilter(principal=ADA))
    may(world, ADA, Operation.IDEMPOTENT_WRITE, kind=CLUSTER)
    assert ask() == NONE


def test_a_coordinator_is_told_to_who_may_describe_the_key(world: BrokerWorld) -> None:
    """B-D6.3."""

    def ask(key_type: int) -> int:
        message = FindCoordinatorRequest(key="k", key_type=key_type)
        code: int = world.ask("FindCoordinator", 2, message).error_code
        return code

    assert [ask(0), ask(1)] == [GROUP_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
    # Nor has it the topic of groups made.
    assert world.state.topics.get(OFFSETS_TOPIC) is None
    may(world, ADA, Operation.READ, "k", ResourceType.GROUP)
    may(world, ADA, Operation.WRITE, "k", ResourceType.TRANSACTIONAL_ID)
    assert [ask(0), ask(1)] == [NONE, NONE]


def test_settings_are_seen_and_changed_by_who_may(world: BrokerWorld) -> None:
    """B-D6.3: of topics by their own rules, of brokers by those of the cluster."""
    names = ((2, "mine"), (4, "0"))

    def ask() -> list[int]:
        seen = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=kind, resource_name=name, configuration_keys=None
                )
                for kind, name in names
            ]
        )
        changed = IncrementalAlterConfigsRequest(
            resources=[
                AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
                for kind, name in names
            ],
            validate_only=False,
        )
        answers = [
            *world.ask("DescribeConfigs", 1, seen).results,
            *world.ask("IncrementalAlterConfigs", 0, changed).responses,
        ]
        return [each.error_code for each in answers]

    refused = [TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED]
    assert ask() == refused * 2
    may(world, ADA, Operation.DESCRIBE_CONFIGS, "mine")
    may(world, ADA, Operation.DESCRIBE_CONFIGS, kind=CLUSTER)
    assert ask() == [NONE, NONE, *refused]
    may(world, ADA, Operation.ALTER_CONFIGS, kind=CLUSTER)
    assert ask()[3] == NONE


def test_quotas_are_seen_and_changed_by_who_may(world: BrokerWorld) -> None:
    """B-D6.3."""

    def ask() -> int:
        message = DescribeClientQuotasRequest(components=[], strict=False)
        code: int = world.ask("DescribeClientQuotas", 1, message).error_code
        return code

    assert ask() == CLUSTER_AUTHORIZATION_FAILED
    may(world, ADA, Operation.ALTER_CONFIGS, kind=CLUSTER)
    assert ask() == NONE
    message = AlterClientQuotasRequest(entries=[], validate_only=False)
    assert world.ask("AlterClientQuotas", 1, message).entries == []

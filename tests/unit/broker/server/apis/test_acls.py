"""DescribeAcls, CreateAcls and DeleteAcls, without sockets (B-D6.2)."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.broker.server.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fastprod.error_codes import CLUSTER_AUTHORIZATION_FAILED, INVALID_REQUEST, NONE
from fastprod.protocol.messages.security.create_acls import AclCreation, CreateAclsRequest
from fastprod.protocol.messages.security.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from fastprod.protocol.messages.security.describe_acls import DescribeAclsRequest
from support.broker.world import BrokerWorld

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ADA = Acl("User:ada", Permission.ALLOW, Operation.WRITE, TOPIC, "orders")
BOB = Acl("User:bob", Permission.DENY, Operation.ALL, GROUP, "g", PREFIXED, "10.0.0.1")


def creation(acl: Acl, **changes: Any) -> AclCreation:
    fields: dict[str, Any] = {
        "resource_type": acl.resource_type,
        "resource_name": acl.name,
        "resource_pattern_type": acl.pattern,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission_type": acl.permission,
    }
    return AclCreation(**fields | changes)


def create(world: BrokerWorld, *creations: AclCreation, version: int = 3) -> list[int]:
    answer = world.ask("CreateAcls", version, CreateAclsRequest(creations=list(creations)))
    return [each.error_code for each in answer.results]


def wanted(**chosen: Any) -> dict[str, Any]:
    return {
        "resource_type_filter": ResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": Operation.ANY,
        "permission_type": Permission.ANY,
    } | chosen


def describe(world: BrokerWorld, version: int = 3, **chosen: Any) -> set[Acl]:
    answer = world.ask("DescribeAcls", version, DescribeAclsRequest(**wanted(**chosen)))
    assert (answer.error_code, answer.error_message) == (NONE, None)
    return {
        Acl(
            each.principal,
            Permission(each.permission_type),
            Operation(each.operation),
            ResourceType(found.resource_type),
            found.resource_name,
            PatternType(found.pattern_type),
            each.host,
        )
        for found in answer.resources
        for each in found.acls
    }


def delete(world: BrokerWorld, *filters: dict[str, Any], version: int = 3) -> list[Any]:
    message = DeleteAclsRequest(filters=[DeleteAclsFilter(**each) for each in filters])
    found: list[Any] = world.ask("DeleteAcls", version, message).filter_results
    return found


@pytest.mark.parametrize("version", [1, 2, 3])
def test_rules_are_made_told_and_deleted(version: int) -> None:
    """B-D6.2."""
    with BrokerWorld() as world:
        world.principal = "User:ada"
        allowed = Acl("User:ada", Permission.ALLOW, Operation.ALL, CLUSTER, "kafka-cluster")
        world.state.authorizer.add([allowed])
        assert (
            create(world, creation(ADA), creation(BOB), creation(ADA), version=version) == [0] * 3
        )
        assert describe(world, version) == {allowed, ADA, BOB}
        assert describe(world, version, principal_filter="User:bob") == {BOB}
        by_topic = wanted(resource_type_filter=TOPIC)
        results = delete(world, by_topic, by_topic, version=version)
        assert [each.error_code for each in results] == [NONE, NONE]
        (only,) = results[0].matching_acls
        assert (only.principal, only.resource_name, only.operation) == (
            "User:ada",
            "orders",
            Operation.WRITE,
        )
        assert results[1].matching_acls == []
        assert describe(world, version) == {allowed, BOB}


@pytest.mark.parametrize(
    "changes",
    [
        {"resource_type": 0},
        {"resource_type": 1},
        {"resource_type": 99},
        {"resource_type": CLUSTER},
        {"resource_name": ""},
        {"resource_pattern_type": PatternType.MATCH},
        {"resource_pattern_type": PatternType.ANY},
        {"operation": 1},
        {"operation": 99},
        {"permission_type": 1},
        {"principal": "ada"},
        {"principal": "User:"},
    ],
)
def test_a_rule_that_cannot_be_is_refused_and_the_others_are_made(changes: dict[str, Any]) -> None:
    """B-D6.2."""
    with BrokerWorld() as world:
        message = CreateAclsRequest(creations=[creation(ADA, **changes), creation(BOB)])
        wrong, right = world.ask("CreateAcls", 3, message).results
        assert wrong.error_code == INVALID_REQUEST
        assert wrong.error_message
        assert right.error_code == NONE


def test_a_filter_that_cannot_be_is_refused() -> None:
    """B-D6.2."""
    with BrokerWorld() as world:
        answer = world.ask("DescribeAcls", 3, DescribeAclsRequest(**wanted(operation=99)))
        assert answer.error_code == INVALID_REQUEST
        assert "no operation 99" in answer.error_message
        create(world, creation(ADA))
        world.principal = "User:ada"
        world.state.authorizer.add(
            [ADA._replace(resource_type=CLUSTER, name="kafka-cluster", operation=Operation.ALTER)]
        )
        wrong, right = delete(
            world, wanted(pattern_type_filter=77), wanted(operation=Operation.WRITE)
        )
        assert (wrong.error_code, wrong.matching_acls) == (INVALID_REQUEST, [])
        assert len(right.matching_acls) == 1


def test_who_may_not_see_or_change_the_rules_is_told() -> None:
    """B-D6.2: DESCRIBE and ALTER on the cluster."""
    with BrokerWorld() as world:
        world.state.authorizer.add([ADA])
        world.principal = "User:ada"
        answer = world.ask("DescribeAcls", 3, DescribeAclsRequest(**wanted()))
        assert (answer.error_code, answer.resources) == (CLUSTER_AUTHORIZATION_FAILED, [])
        assert create(world, creation(BOB)) == [CLUSTER_AUTHORIZATION_FAILED]
        (result,) = delete(world, wanted())
        assert result.error_code == CLUSTER_AUTHORIZATION_FAILED
        assert world.state.authorizer.find(AclFilter()) == [ADA]

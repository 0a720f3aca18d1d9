"""DescribeUserScramCredentials and AlterUserScramCredentials, without sockets (B-D6.1)."""

from __future__ import annotations

from typing import Any

import pytest

from fastprod.broker.server.acl import Acl, Operation, Permission, ResourceType
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    DUPLICATE_RESOURCE,
    NONE,
    RESOURCE_NOT_FOUND,
    UNACCEPTABLE_CREDENTIAL,
    UNSUPPORTED_SASL_MECHANISM,
)
from fastprod.protocol.messages.security.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from fastprod.protocol.messages.security.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)
from fastprod.security.scram import make_credentials, salted_password
from support.broker.world import BrokerWorld

SHA_256, SHA_512 = 1, 2
NAMES = {SHA_256: "SCRAM-SHA-256", SHA_512: "SCRAM-SHA-512"}


def upsertion(
    name: str, mechanism: int = SHA_256, iterations: int = 8192, password: str = "pw"
) -> ScramCredentialUpsertion:
    salted = b"salted"
    if mechanism in NAMES and iterations >= 4096:
        salted = salted_password(NAMES[mechanism], password, b"salt", iterations)
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def alter(
    world: BrokerWorld, *upsertions: ScramCredentialUpsertion, deleted: tuple[Any, ...] = ()
) -> dict[str, int]:
    message = AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=n, mechanism=m) for n, m in deleted],
        upsertions=list(upsertions),
    )
    answer = world.ask("AlterUserScramCredentials", 0, message)
    return {each.user: each.error_code for each in answer.results}


def describe(world: BrokerWorld, *names: str) -> dict[str, Any]:
    """Names to iterations by mechanism, or to an error."""
    users = [UserName(name=name) for name in names] if names else None
    message = DescribeUserScramCredentialsRequest(users=users)
    answer = world.ask("DescribeUserScramCredentials", 0, message)
    assert answer.error_code == NONE
    return {
        each.user: each.error_code
        or {info.mechanism: info.iterations for info in each.credential_infos}
        for each in answer.results
    }


def test_credentials_are_set_told_and_removed() -> None:
    """B-D6.1."""
    with BrokerWorld() as world:
        users = world.state.users
        assert alter(world, upsertion("ada"), upsertion("bob", SHA_512, 4096)) == {
            "ada": NONE,
            "bob": NONE,
        }
        assert users.scram("ada", "SCRAM-SHA-256") == make_credentials(
            "SCRAM-SHA-256", "pw", salt=b"salt", iterations=8192
        )
        assert describe(world) == {"ada": {SHA_256: 8192}, "bob": {SHA_512: 4096}}
        assert describe(world, "bob", "eve") == {"bob": {SHA_512: 4096}, "eve": RESOURCE_NOT_FOUND}
        assert describe(world, "bob", "bob") == {"bob": DUPLICATE_RESOURCE}
        assert alter(world, deleted=(("ada", SHA_256), ("eve", SHA_256))) == {
            "ada": NONE,
            "eve": RESOURCE_NOT_FOUND,
        }
        assert users.scram("ada", "SCRAM-SHA-256") is None
        assert describe(world) == {"bob": {SHA_512: 4096}}


def test_users_with_passwords_are_told_too() -> None:
    """B-D6.1."""
    with BrokerWorld() as world:
        world.state.users.put("ada", "x", ["SCRAM-SHA-512", "PLAIN"])
        world.state.users.put("bob", "x", ["PLAIN"])
        assert describe(world) == {"ada": {SHA_512: 4096}}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (upsertion("ada", iterations=4095), UNACCEPTABLE_CREDENTIAL),
        (upsertion("ada", iterations=16_385), UNACCEPTABLE_CREDENTIAL),
        (upsertion(""), UNACCEPTABLE_CREDENTIAL),
        (upsertion("ada", 3), UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_what_cannot_be_is_refused_and_the_others_are_set(
    asked: ScramCredentialUpsertion, code: int
) -> None:
    """B-D6.1."""
    with BrokerWorld() as world:
        assert alter(world, asked, upsertion("bob")) == {asked.name: code, "bob": NONE}
        assert describe(world) == {"bob": {SHA_256: 8192}}


def test_a_user_is_changed_once_in_a_request() -> None:
    """B-D6.1: else neither change is made."""
    with BrokerWorld() as world:
        twice = alter(world, upsertion("ada"), upsertion("ada", SHA_512), upsertion("bob"))
        assert twice == {"ada": DUPLICATE_RESOURCE, "bob": NONE}
        both = alter(world, upsertion("bob", SHA_512), deleted=(("bob", SHA_256),))
        assert both == {"bob": DUPLICATE_RESOURCE}
        assert describe(world) == {"bob": {SHA_256: 8192}}


def test_who_may_not_is_told() -> None:
    """B-D6.1: DESCRIBE and ALTER on the cluster."""
    with BrokerWorld() as world:
        world.principal = "User:ada"
        rule = Acl("User:bob", Permission.ALLOW, Operation.ALL, ResourceType.TOPIC, "t")
        world.state.authorizer.add([rule])
        assert alter(world, upsertion("ada")) == {"ada": CLUSTER_AUTHORIZATION_FAILED}
        message = DescribeUserScramCredentialsRequest(users=None)
        answer = world.ask("DescribeUserScramCredentials", 0, message)
        assert (answer.error_code, answer.results) == (CLUSTER_AUTHORIZATION_FAILED, [])
        assert world.state.users.names() == []

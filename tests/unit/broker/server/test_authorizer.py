"""Authorizer: which rules hold, as in Kafka's StandardAuthorizer."""

from __future__ import annotations

import pytest

from fastprod.broker.network.connection import Connection
from fastprod.broker.server import authorizer as module
from fastprod.broker.server.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fastprod.broker.server.authorizer import Authorizer, TooManyAclsError

READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


def client(name: str = "ada", host: str = "10.0.0.1") -> Connection:
    made = Connection("c", 1, "L", 0, ("h", 1), (host, 2))
    made.principal = f"User:{name}"
    return made


def allow(
    operation: Operation = WRITE,
    name: str = "orders",
    principal: str = "User:ada",
    *,
    prefix: bool = False,
    kind: ResourceType = TOPIC,
    host: str = "*",
) -> Acl:
    pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
    return Acl(principal, Permission.ALLOW, operation, kind, name, pattern, host)


def deny(acl: Acl) -> Acl:
    return acl._replace(permission=Permission.DENY)


def made(*acls: Acl, **settings: bool) -> Authorizer:
    found = Authorizer(["User:root"], **settings)
    found.add(acls)
    return found


def test_without_a_rule_everybody_may_do_everything() -> None:
    rules = Authorizer()
    assert rules.allows(client(), WRITE, TOPIC, "orders")
    assert rules.allows_any(client(), WRITE, TOPIC)
    assert rules.is_open
    rules.add([allow()])
    assert not rules.is_open
    assert not rules.allows(client("bob"), WRITE, TOPIC, "orders")
    assert rules.remove(AclFilter()) == [allow()]
    assert rules.allows(client("bob"), WRITE, TOPIC, "orders")


def test_with_a_super_user_what_no_rule_allows_is_denied_from_the_start() -> None:
    """StandardAuthorizer, allow.everyone.if.no.acl.found=false: its data without any ACL denies."""
    rules = made()
    assert not rules.is_open
    assert not rules.allows(client(), WRITE, TOPIC, "orders")
    assert not rules.allows_any(client(), WRITE, TOPIC)
    assert not rules.allows_cluster(client(), DESCRIBE)
    assert rules.allows(client("root"), WRITE, TOPIC, "orders")
    assert rules.allows_any(client("root"), WRITE, TOPIC)
    rules.add([allow()])
    rules.remove(AclFilter())
    assert not rules.allows(client(), WRITE, TOPIC, "orders"), "the last rule opens nothing"
    everyones = made(allow_everyone_if_no_acl_found=True)
    assert everyones.allows(client(), WRITE, TOPIC, "orders")
    assert everyones.allows_any(client(), WRITE, TOPIC)


def test_from_the_first_rule_on_what_none_allows_is_denied() -> None:
    rules = made(allow())
    assert rules.allows(client(), WRITE, TOPIC, "orders")
    assert not rules.allows(client(), READ, TOPIC, "orders")
    assert not rules.allows(client(), WRITE, TOPIC, "order")
    assert not rules.allows(client(), WRITE, GROUP, "orders")
    assert not rules.allows(client("bob"), WRITE, TOPIC, "orders")
    assert rules.allows(client("root"), ALL, GROUP, "any")


def test_what_no_rule_is_about_may_be_everybodys() -> None:
    """`allow_everyone_if_no_acl_found`."""
    rules = made(allow(), allow_everyone_if_no_acl_found=True)
    assert rules.allows(client("bob"), WRITE, TOPIC, "other")
    assert not rules.allows(client("bob"), WRITE, TOPIC, "orders")
    assert rules.allows_any(client("bob"), WRITE, TOPIC)


def test_a_denial_goes_before_all_that_is_allowed() -> None:
    rules = made(allow(ALL, "*"), deny(allow(WRITE, "secret", prefix=True)))
    assert rules.allows(client(), WRITE, TOPIC, "orders")
    assert not rules.allows(client(), WRITE, TOPIC, "secrets")
    assert rules.allows(client(), READ, TOPIC, "secrets")
    assert rules.allows(client(), DESCRIBE, TOPIC, "secrets")


@pytest.mark.parametrize("operation", [READ, WRITE, Operation.DELETE, Operation.ALTER])
def test_what_is_allowed_implies_that_one_may_describe(operation: Operation) -> None:
    """But who is denied it may describe all the same."""
    assert made(allow(operation)).allows(client(), DESCRIBE, TOPIC, "orders")
    rules = made(allow(DESCRIBE), deny(allow(operation)))
    assert rules.allows(client(), DESCRIBE, TOPIC, "orders")


def test_who_alters_settings_may_see_them() -> None:
    rules = made(allow(Operation.ALTER_CONFIGS))
    assert rules.allows(client(), Operation.DESCRIBE_CONFIGS, TOPIC, "orders")
    assert not rules.allows(client(), DESCRIBE, TOPIC, "orders")


def test_rules_are_for_names_for_beginnings_and_for_all() -> None:
    rules = made(allow(WRITE, "a"), allow(WRITE, "pre", prefix=True), allow(READ, "*"))
    for name, expected in (("a", True), ("ab", False), ("pre", True), ("prefix", True)):
        assert rules.allows(client(), WRITE, TOPIC, name) is expected
    assert rules.allows(client(), READ, TOPIC, "whatever")
    # More prefixes than the name has characters.
    many = made(*(allow(WRITE, f"p{n}", prefix=True) for n in range(50)))
    assert many.allows(client(), WRITE, TOPIC, "p7x")
    assert not many.allows(client(), WRITE, TOPIC, "p")


def test_rules_are_for_everybody_and_for_hosts() -> None:
    rules = made(allow(WRITE, "a", "User:*"), allow(READ, "a", host="10.0.0.1"))
    assert rules.allows(client("anybody"), WRITE, TOPIC, "a")
    assert rules.allows(client(host="10.0.0.1"), READ, TOPIC, "a")
    assert not rules.allows(client(host="10.0.0.2"), READ, TOPIC, "a")


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([allow(READ)], False),
        ([allow(WRITE)], True),
        ([allow(ALL, "x", prefix=True)], True),
        ([allow(WRITE), deny(allow(WRITE))], False),
        ([allow(WRITE), deny(allow(WRITE, "ord", prefix=True))], False),
        ([allow(WRITE), deny(allow(WRITE, "*"))], False),
        ([allow(WRITE), deny(allow(WRITE, "other"))], True),
        ([allow(WRITE, "ord", prefix=True), deny(allow(WRITE, "ord"))], True),
        ([allow(WRITE, "*"), deny(allow(WRITE, "ord", prefix=True))], True),
        ([allow(WRITE, principal="User:bob")], False),
    ],
)
def test_who_may_write_to_some_topic(acls: list[Acl], expected: bool) -> None:
    """KIP-679: one topic is enough, unless it is denied altogether."""
    assert made(*acls).allows_any(client(), WRITE, TOPIC) is expected


def test_rules_are_found_and_removed_by_filters() -> None:
    acls = [
        allow(WRITE, "a"),
        allow(READ, "a", prefix=True),
        deny(allow(READ, "*", "User:bob", host="h")),
        allow(READ, "g", kind=GROUP),
    ]
    rules = made(*acls, acls[0])
    assert rules.find(AclFilter()) == acls
    assert rules.find(AclFilter(resource_type=GROUP)) == acls[3:]
    assert rules.find(AclFilter(name="a")) == acls[:2]
    assert rules.find(AclFilter(name="a", pattern=PatternType.PREFIXED)) == acls[1:2]
    assert rules.find(AclFilter(TOPIC, "abc", PatternType.MATCH)) == acls[1:3]
    assert rules.find(AclFilter(operation=WRITE)) == acls[:1]
    assert rules.find(AclFilter(permission=Permission.DENY)) == acls[2:3]
    assert rules.find(AclFilter(principal="User:bob")) == acls[2:3]
    assert rules.find(AclFilter(host="h")) == acls[2:3]
    assert rules.remove(AclFilter(resource_type=TOPIC)) == acls[:3]
    assert not rules.allows(client(), WRITE, TOPIC, "a")
    assert rules.find(AclFilter()) == acls[3:]


def test_clients_cannot_fill_the_memory_with_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ACLS", 2)
    rules = made(allow(name="a"), allow(name="b"))
    rules.add([allow(name="a")])
    with pytest.raises(TooManyAclsError):
        rules.add([allow(name="c")])


def test_a_rule_reads_like_a_sentence() -> None:
    assert str(allow()) == "User:ada may write topic orders"
    assert str(deny(allow(ALL, "o", prefix=True, host="h"))) == (
        "User:ada may not all topic o... from h"
    )


def test_operations_are_told_as_bits() -> None:
    """KIP-430."""
    told = made(allow(WRITE)).operations(client(), (READ, WRITE, DESCRIBE), TOPIC, "orders")
    assert told == 1 << WRITE | 1 << DESCRIBE


class CountedAcl(Acl):
    """A rule that counts how often it is compared with another one."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedAcl.comparisons += 1
        return tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = Acl.__hash__


def test_many_rules_about_one_resource_come_and_go_without_comparing_them_all() -> None:
    """B-D6.2: a network thread adds and removes them."""
    rules = [
        CountedAcl(f"User:{n}", Permission.ALLOW, Operation.READ, ResourceType.TOPIC, "t")
        for n in range(300)
    ]
    authorizer = Authorizer(["User:root"])
    authorizer.add(rules)
    last = authorizer.remove(AclFilter(principal="User:299"))
    assert authorizer.remove(AclFilter()) == rules[:-1]
    assert last == rules[-1:]
    # Those of the two assertions are counted, too.
    assert CountedAcl.comparisons < 10 * len(rules)

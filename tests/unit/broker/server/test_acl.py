"""Acl: what one rule says; how several go together is in test_authorizer.py."""

from __future__ import annotations

import pytest

from fastprod.broker.server.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

RULE = Acl("User:ada", Permission.ALLOW, Operation.WRITE, ResourceType.TOPIC, "orders")


def test_a_rule_covers_a_name_a_beginning_or_all() -> None:
    prefixed = RULE._replace(pattern=PatternType.PREFIXED)
    assert [RULE.covers(each) for each in ("orders", "orders-2", "order")] == [True, False, False]
    assert [prefixed.covers(each) for each in ("orders", "orders-2", "order")] == [
        True,
        True,
        False,
    ]
    assert RULE._replace(name="*").covers("anything")
    assert not prefixed._replace(name="*").covers("anything")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (RULE, True),
        (RULE._replace(principal="User:*"), True),
        (RULE._replace(principal="User:bob"), False),
        (RULE._replace(host="h"), True),
        (RULE._replace(host="g"), False),
        (RULE._replace(operation=Operation.ALL), True),
        (RULE._replace(operation=Operation.READ), False),
    ],
)
def test_a_rule_concerns_who_does_what_from_where(rule: Acl, expected: bool) -> None:
    assert rule.concerns("User:ada", "h", Operation.WRITE) is expected


def test_only_what_is_allowed_implies_more() -> None:
    assert RULE.concerns("User:ada", "h", Operation.DESCRIBE)
    denied = RULE._replace(permission=Permission.DENY)
    assert not denied.concerns("User:ada", "h", Operation.DESCRIBE)


def test_a_filter_matches_what_it_does_not_leave_open() -> None:
    assert AclFilter().matches(RULE)
    assert AclFilter(name="orders", operation=Operation.WRITE).matches(RULE)
    assert not AclFilter(name="order").matches(RULE)
    assert not AclFilter(pattern=PatternType.PREFIXED).matches(RULE)
    prefixed = RULE._replace(pattern=PatternType.PREFIXED)
    assert AclFilter(name="orders-2", pattern=PatternType.MATCH).matches(prefixed)
    assert not AclFilter(name="orders-2", pattern=PatternType.MATCH).matches(RULE)

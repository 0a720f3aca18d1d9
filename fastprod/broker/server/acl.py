"""Acl: a rule that allows somebody to do something, or denies it (KIP-11, KIP-290)."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

ANY_NAME: Final = "*"
"""As a literal pattern: every resource of its type. As a host: every host."""

ANYBODY: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The one resource of its type."""


class ResourceType(IntEnum):
    """What a rule is about."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a rule names its resources; ANY and MATCH are for filters alone."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What a rule lets one do."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class Permission(IntEnum):
    """Whether a rule allows or denies; ANY is for filters alone."""

    ANY = 1
    DENY = 2
    ALLOW = 3


# Who is allowed one of these is allowed to know that the resource exists.
_IMPLYING: Final = {
    Operation.DESCRIBE: frozenset(
        (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER)
    ),
    Operation.DESCRIBE_CONFIGS: frozenset((Operation.ALTER_CONFIGS,)),
}
_NONE: Final[frozenset[Operation]] = frozenset()


class Acl(NamedTuple):
    """One rule.

    Attributes:
        principal: "User:" and a name; "User:*": everybody.
        permission: ALLOW or DENY.
        operation: what; ALL: everything.
        resource_type: of what.
        name: of the resource, or the beginning of names; a literal "*": of every one.
        pattern: LITERAL or PREFIXED.
        host: address of the client; "*": any.
    """

    principal: str
    permission: Permission
    operation: Operation
    resource_type: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL
    host: str = ANY_NAME

    def __str__(self) -> str:
        """As one would say it."""
        verb = "may" if self.permission is Permission.ALLOW else "may not"
        what = self.operation.name.lower().replace("_", " ")
        where = "" if self.host == ANY_NAME else f" from {self.host}"
        names = f"{self.name}..." if self.pattern is PatternType.PREFIXED else self.name
        kind = self.resource_type.name.lower().replace("_", " ")
        return f"{self.principal} {verb} {what} {kind} {names}{where}"

    def covers(self, name: str) -> bool:
        """Whether it is about the resource of its type with this name."""
        if self.pattern is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (ANY_NAME, name)

    def concerns(self, principal: str, host: str, operation: Operation) -> bool:
        """Whether it says something about who does this from there."""
        return (
            self.principal in (ANYBODY, principal)
            and self.host in (ANY_NAME, host)
            and self._includes(operation)
        )

    def _includes(self, operation: Operation) -> bool:
        if self.operation in (Operation.ALL, operation):
            return True
        # Only what is allowed implies more.
        return self.permission is Permission.ALLOW and self.operation in _IMPLYING.get(
            operation, _NONE
        )


class AclFilter(NamedTuple):
    """Which rules are meant: those that agree with all that is not ANY or None."""

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether a rule is meant."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._names(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _names(self, acl: Acl) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern is PatternType.MATCH:
            return acl.covers(self.name)
        return self.name == acl.name

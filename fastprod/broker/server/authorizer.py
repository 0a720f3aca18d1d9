"""Authorizer: decides by ACLs who may do what, as Kafka's StandardAuthorizer does."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator

from fastprod.broker.network.connection import Connection
from fastprod.broker.server.acl import (
    ANY_NAME,
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

MOST_ACLS = 100_000

_Key = tuple[ResourceType, str]


class TooManyAclsError(Exception):
    """There are MOST_ACLS already."""


class Authorizer:
    """The ACLs of a broker. Any thread.

    What no ACL allows is denied, and what one denies is denied whatever others allow. But while
    there is neither an ACL nor a super user everybody may do everything: there is nobody who could
    allow anything, as in a Kafka without an authorizer.

    Args:
        super_users: principals that may always do everything, as "User:admin".
        allow_everyone_if_no_acl_found: everybody may do everything with a resource that no ACL is
            about.
    """

    def __init__(
        self, super_users: Collection[str] = (), allow_everyone_if_no_acl_found: bool = False
    ) -> None:
        self._super_users = frozenset(super_users)
        self._allow_unknown = allow_everyone_if_no_acl_found
        self._lock = threading.Lock()
        # Readers take no lock: the rules of one pattern are added to, or replaced as a whole.
        self._acls: dict[Acl, None] = {}
        self._literal: dict[_Key, list[Acl]] = {}
        self._prefixed: dict[_Key, list[Acl]] = {}

    @property
    def is_open(self) -> bool:
        """Whether everything is allowed, for there is neither an ACL nor a super user."""
        return not self._acls and not self._super_users

    # The rules.

    def add(self, acls: Iterable[Acl]) -> None:
        """Add rules; those that are there stay.

        Raises:
            TooManyAclsError: there would be more than MOST_ACLS; those before it have been added.
        """
        with self._lock:
            for acl in acls:
                if acl in self._acls:
                    continue
                if len(self._acls) >= MOST_ACLS:
                    raise TooManyAclsError(f"there are {MOST_ACLS:,} ACLs, and no room for more")
                index = self._index(acl.pattern)
                index.setdefault((acl.resource_type, acl.name), []).append(acl)
                self._acls[acl] = None

    def remove(self, wanted: AclFilter) -> list[Acl]:
        """Remove the rules that a filter matches, and return them."""
        with self._lock:
            found = [acl for acl in self._acls if wanted.matches(acl)]
            for acl in found:
                del self._acls[acl]
            for pattern, kind, name in {(a.pattern, a.resource_type, a.name) for a in found}:
                self._forget(self._index(pattern), (kind, name))
        return found

    def find(self, wanted: AclFilter) -> list[Acl]:
        """The rules that a filter matches, in the order in which they were added."""
        return [acl for acl in self._snapshot() if wanted.matches(acl)]

    def _snapshot(self) -> list[Acl]:
        with self._lock:
            return list(self._acls)

    def _index(self, pattern: PatternType) -> dict[_Key, list[Acl]]:
        return self._prefixed if pattern is PatternType.PREFIXED else self._literal

    def _forget(self, index: dict[_Key, list[Acl]], key: _Key) -> None:
        """Take those out of a pattern's rules that are there no more; the lock is held."""
        left = [acl for acl in index[key] if acl in self._acls]
        if left:
            index[key] = left
        else:
            del index[key]

    # What they say.

    def allows(
        self, client: Connection, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether a client may do something with a resource."""
        if self.is_open or client.principal in self._super_users:
            return True
        is_known = is_allowed = False
        principal, host = client.principal, client.client_address
        for acl in self._about(resource_type, name):
            is_known = True
            if acl.concerns(principal, host, operation):
                if acl.permission is Permission.DENY:
                    return False
                is_allowed = True
        return is_allowed or (self._allow_unknown and not is_known)

    def allows_cluster(self, client: Connection, operation: Operation) -> bool:
        """Whether a client may do something with the cluster."""
        return self.allows(client, operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def allows_any(
        self, client: Connection, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether a client may do something with one resource of a type at least (KIP-679)."""
        if self.is_open or client.principal in self._super_users:
            return True
        mine = [
            acl
            for acl in self._snapshot()
            if acl.resource_type is resource_type
            and acl.concerns(client.principal, client.client_address, operation)
        ]
        denied = [acl for acl in mine if acl.permission is Permission.DENY]
        if any(acl.covers(ANY_NAME) and acl.pattern is PatternType.LITERAL for acl in denied):
            return False
        if self._allow_unknown:
            return True
        return any(
            acl.permission is Permission.ALLOW and not any(_hides(no, acl) for no in denied)
            for acl in mine
        )

    def operations(
        self, client: Connection, among: Collection[Operation], kind: ResourceType, name: str
    ) -> int:
        """What a client may do with a resource, as bits of Kafka's operations (KIP-430)."""
        return sum(1 << each for each in among if self.allows(client, each, kind, name))

    def _about(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        """The rules about a resource."""
        yield from self._literal.get((resource_type, name), ())
        if name != ANY_NAME:
            yield from self._literal.get((resource_type, ANY_NAME), ())
        if self._prefixed:
            # All prefixes of the name, or all rules: whatever is less.
            if len(name) < len(self._prefixed):
                keys = [(resource_type, name[:end]) for end in range(len(name) + 1)]
            else:
                keys = list(self._prefixed)
            for kind, prefix in keys:
                if kind is resource_type and name.startswith(prefix):
                    yield from self._prefixed.get((kind, prefix), ())


def _hides(denied: Acl, allowed: Acl) -> bool:
    """Whether a rule denies all that another allows."""
    if denied.pattern is PatternType.PREFIXED:
        return allowed.name.startswith(denied.name) and allowed.name != ANY_NAME
    same = denied.name == allowed.name and allowed.pattern is PatternType.LITERAL
    return denied.name == ANY_NAME or same

"""DescribeAcls, CreateAcls and DeleteAcls: who may do what (B-D6.2)."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from fastprod.broker.cluster.topics import TopicError
from fastprod.broker.server.acl import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.authorizer import Authorizer, TooManyAclsError
from fastprod.broker.server.item_errors import item_error
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NONE,
    POLICY_VIOLATION,
)
from fastprod.protocol.messages.security.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from fastprod.protocol.messages.security.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from fastprod.protocol.messages.security.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

E = TypeVar("E", bound=IntEnum)


class DescribeAclsApi:
    """Handles DescribeAcls. Any thread.

    Args:
        authorizer: has the rules.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handle(self, call: Call[DescribeAclsRequest]) -> None:
        """Answer with the rules that the filter matches, by resource."""
        if not call.allows_cluster(Operation.DESCRIBE):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, None)
            return
        try:
            wanted = _filter(call.message)
        except TopicError as error:
            self.refuse(call, error.code, error.message)
            return
        resources: dict[tuple[ResourceType, str, PatternType], list[AclDescription]] = {}
        for acl in self._authorizer.find(wanted):
            key = (acl.resource_type, acl.name, acl.pattern)
            resources.setdefault(key, []).append(
                AclDescription(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
            )
        call.answer(
            DescribeAclsResponse(
                error_code=NONE,
                error_message=None,
                resources=[
                    DescribeAclsResource(
                        resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls
                    )
                    for (kind, name, pattern), acls in resources.items()
                ],
            )
        )

    def refuse(self, call: Call[DescribeAclsRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(DescribeAclsResponse(error_code=code, error_message=text, resources=[]))


class CreateAclsApi:
    """Handles CreateAcls. Any thread.

    Args:
        authorizer: gets the rules.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handle(self, call: Call[CreateAclsRequest]) -> None:
        """Add each rule that can be."""
        if not call.allows_cluster(Operation.ALTER):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, None)
            return
        results = []
        for each in call.message.creations:
            try:
                self._add(each)
            except Exception as error:
                results.append(_created(*item_error(error)))
            else:
                results.append(_created(NONE, None))
        call.answer(CreateAclsResponse(results=results))

    def refuse(self, call: Call[CreateAclsRequest], code: int, text: str | None) -> None:
        """Answer every rule with `code`."""
        results = [_created(code, text) for _ in call.message.creations]
        call.answer(CreateAclsResponse(results=results))

    def _add(self, asked: AclCreation) -> None:
        kind = _known(ResourceType, asked.resource_type, "resource type", ResourceType.ANY)
        pattern = _known(PatternType, asked.resource_pattern_type, "pattern type", PatternType.ANY)
        if pattern is PatternType.MATCH:
            raise TopicError(INVALID_REQUEST, "pattern type MATCH is for filters")
        operation = _known(Operation, asked.operation, "operation", Operation.ANY)
        permission = _known(Permission, asked.permission_type, "permission", Permission.ANY)
        name = asked.resource_name
        if kind is ResourceType.CLUSTER and name != CLUSTER_NAME:
            raise TopicError(
                INVALID_REQUEST, f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
            )
        if not name:
            raise TopicError(INVALID_REQUEST, "Invalid empty resource name")
        if not asked.principal.partition(":")[2]:
            raise TopicError(
                INVALID_REQUEST, f"principal {asked.principal!r}; it must be like User:name"
            )
        acl = Acl(asked.principal, permission, operation, kind, name, pattern, asked.host)
        try:
            self._authorizer.add([acl])
        except TooManyAclsError as error:
            raise TopicError(POLICY_VIOLATION, str(error)) from None


def _created(code: int, text: str | None) -> AclCreationResult:
    return AclCreationResult(error_code=code, error_message=text)


class DeleteAclsApi:
    """Handles DeleteAcls. Any thread.

    Args:
        authorizer: loses the rules.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handle(self, call: Call[DeleteAclsRequest]) -> None:
        """Remove the rules that any filter matches; each is told with the first that does."""
        if not call.allows_cluster(Operation.ALTER):
            self.refuse(call, CLUSTER_AUTHORIZATION_FAILED, None)
            return
        results = []
        for each in call.message.filters:
            try:
                removed = self._authorizer.remove(_filter(each))
            except TopicError as error:
                results.append(_failed(error.code, error.message))
            else:
                matching = [_matching(acl) for acl in removed]
                results.append(
                    DeleteAclsFilterResult(
                        error_code=NONE, error_message=None, matching_acls=matching
                    )
                )
        call.answer(DeleteAclsResponse(filter_results=results))

    def refuse(self, call: Call[DeleteAclsRequest], code: int, text: str | None) -> None:
        """Answer every filter with `code`."""
        results = [_failed(code, text) for _ in call.message.filters]
        call.answer(DeleteAclsResponse(filter_results=results))


def _failed(code: int, text: str | None) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(error_code=code, error_message=text, matching_acls=[])


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=NONE,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def _filter(asked: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """The filter of a request.

    Raises:
        TopicError: a number stands for nothing.
    """
    return AclFilter(
        _known(ResourceType, asked.resource_type_filter, "resource type"),
        asked.resource_name_filter,
        _known(PatternType, asked.pattern_type_filter, "pattern type"),
        asked.principal_filter,
        asked.host_filter,
        _known(Operation, asked.operation, "operation"),
        _known(Permission, asked.permission_type, "permission"),
    )


def _known(kind: type[E], number: int, what: str, refused: E | None = None) -> E:
    try:
        found = kind(number)
    except ValueError:
        raise TopicError(INVALID_REQUEST, f"there is no {what} {number}") from None
    if found is refused:
        raise TopicError(INVALID_REQUEST, f"{what} {found.name} is for filters")
    return found

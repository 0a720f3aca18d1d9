"""ListGroups, DescribeGroups and DeleteGroups (B-E2)."""

from __future__ import annotations

from typing import Final

from fastprod.broker.coordinator.group.group_summary import GroupSummary
from fastprod.broker.server.acl import Operation, ResourceType
from fastprod.broker.server.apis.call import Call
from fastprod.broker.server.apis.group.membership import GroupApi
from fastprod.error_codes import GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND, NONE
from fastprod.protocol.messages.group.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from fastprod.protocol.messages.group.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from fastprod.protocol.messages.group.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)

_FIRST_NOT_FOUND_VERSION: Final = 6
_OPERATIONS: Final = (Operation.READ, Operation.DELETE, Operation.DESCRIBE)


class ListGroupsApi(GroupApi):
    """Handles ListGroups. Any thread."""

    def handle(self, call: Call[ListGroupsRequest]) -> None:
        """Answer with the groups that the node coordinates and the client may know of."""
        message = call.message
        code, groups = self._coordinator.list_groups(
            message.states_filter, call.node_id, message.types_filter
        )
        if not call.allows_cluster(Operation.DESCRIBE):
            groups = [
                each
                for each in groups
                if call.allows(Operation.DESCRIBE, ResourceType.GROUP, each.group_id)
            ]
        call.answer(
            ListGroupsResponse(
                error_code=code,
                groups=[
                    ListedGroup(
                        group_id=each.group_id,
                        protocol_type=each.protocol_type,
                        group_state=each.state,
                        group_type=each.kind,
                    )
                    for each in groups
                ],
            )
        )

    def refuse(self, call: Call[ListGroupsRequest], code: int, text: str | None) -> None:
        """Answer with `code`."""
        call.answer(ListGroupsResponse(error_code=code))


class DescribeGroupsApi(GroupApi):
    """Handles DescribeGroups. Any thread."""

    def handle(self, call: Call[DescribeGroupsRequest]) -> None:
        """Answer for each group."""
        # Each once: otherwise a small request could have a huge answer.
        names = list(dict.fromkeys(call.message.groups))
        call.answer(DescribeGroupsResponse(groups=[self._describe(call, name) for name in names]))

    def refuse(self, call: Call[DescribeGroupsRequest], code: int, text: str | None) -> None:
        """Answer every group with `code`."""
        groups = [_described(name, code, GroupSummary("")) for name in call.message.groups]
        call.answer(DescribeGroupsResponse(groups=groups))

    def _describe(self, call: Call[DescribeGroupsRequest], group_id: str) -> DescribedGroup:
        if not call.allows(Operation.DESCRIBE, ResourceType.GROUP, group_id):
            return _described(group_id, GROUP_AUTHORIZATION_FAILED, GroupSummary(""))
        code, summary = self._coordinator.describe_group(group_id, call.node_id)
        is_missing = code == GROUP_ID_NOT_FOUND
        if is_missing and call.version < _FIRST_NOT_FOUND_VERSION:
            code = NONE
        described = _described(group_id, code, summary)
        if is_missing:
            described.error_message = summary.why
        if code == NONE and call.message.include_authorized_operations:
            described.authorized_operations = call.operations(
                _OPERATIONS, ResourceType.GROUP, group_id
            )
        return described


def _described(group_id: str, code: int, summary: GroupSummary) -> DescribedGroup:
    return DescribedGroup(
        error_code=code,
        group_id=group_id,
        group_state=summary.state,
        protocol_type=summary.protocol_type,
        protocol_data=summary.protocol,
        members=[
            DescribedGroupMember(
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                member_metadata=each.metadata,
                member_assignment=each.assignment,
            )
            for each in summary.members
        ],
    )


class DeleteGroupsApi(GroupApi):
    """Handles DeleteGroups. Any thread."""

    def handle(self, call: Call[DeleteGroupsRequest]) -> None:
        """Delete each group that nobody is in."""
        names = list(dict.fromkeys(call.message.groups_names))
        results = [
            DeletableGroupResult(group_id=name, error_code=self._delete(call, name))
            for name in names
        ]
        call.answer(DeleteGroupsResponse(results=results))

    def refuse(self, call: Call[DeleteGroupsRequest], code: int, text: str | None) -> None:
        """Answer every group with `code`."""
        names = dict.fromkeys(call.message.groups_names)
        call.answer(
            DeleteGroupsResponse(
                results=[DeletableGroupResult(group_id=name, error_code=code) for name in names]
            )
        )

    def _delete(self, call: Call[DeleteGroupsRequest], group_id: str) -> int:
        if not call.allows(Operation.DELETE, ResourceType.GROUP, group_id):
            return GROUP_AUTHORIZATION_FAILED
        return self._coordinator.delete_group(group_id, call.node_id)

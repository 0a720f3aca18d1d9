"""FindCoordinator: which node looks after a group or a transactional id (B-E1).

A group's node is the one that leads the group's partition of __consumer_offsets, which is made when
somebody first asks for a group.
"""

from __future__ import annotations

import logging

from fastprod.broker.cluster.cluster import Cluster, NodeAddress
from fastprod.broker.coordinator.group.group_metadata_manager import GroupMetadataManager
from fastprod.broker.server.acl import Operation, ResourceType
from fastprod.broker.server.apis.call import Call, change_topics
from fastprod.broker.server.item_errors import item_error
from fastprod.broker.threads.overflow_worker import OverflowWorker
from fastprod.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    GROUP_AUTHORIZATION_FAILED,
    INVALID_REQUEST,
    NONE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
)
from fastprod.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

_log = logging.getLogger(__name__)

GROUP, TRANSACTION = 0, 1
_FIRST_BATCHED_VERSION = 4
# What a key names, and the error of who may not know it.
_RESOURCES = {
    GROUP: (ResourceType.GROUP, GROUP_AUTHORIZATION_FAILED),
    TRANSACTION: (ResourceType.TRANSACTIONAL_ID, TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
}


class FindCoordinatorApi:
    """Handles FindCoordinator. Any thread.

    Args:
        cluster: its nodes share transactional ids by a stable hash.
        groups: knows the node of each group.
        worker: where the topic of the groups is made, if that takes long.
        partition_cost: how many partitions it takes as long as to make; 0: next to no time.
    """

    def __init__(
        self,
        cluster: Cluster,
        groups: GroupMetadataManager,
        worker: OverflowWorker,
        partition_cost: int,
    ) -> None:
        self._cluster = cluster
        self._groups = groups
        self._worker = worker
        self._partition_cost = partition_cost

    def handle(self, call: Call[FindCoordinatorRequest]) -> None:
        """Answer for one key, from version 4 on for each."""
        message = call.message
        batched = call.version >= _FIRST_BATCHED_VERSION
        keys = message.coordinator_keys if batched else [message.key]

        def make_topic_and_answer() -> None:
            try:
                self._groups.make_topic()
            except Exception as error:
                code, text = item_error(error)
                _log.error("groups cannot be kept, %s: error %d", text, code)
                self.refuse(call, COORDINATOR_NOT_AVAILABLE, text)
                return
            self._answer(call, [self._find(call, key) for key in keys])

        # Who may know of no group has no topic made, either.
        if (
            message.key_type == GROUP
            and not self._groups.has_topic
            and any(call.allows(Operation.DESCRIBE, ResourceType.GROUP, key) for key in keys)
        ):
            topics = self._cluster.topics
            change_topics(topics, self._worker, call, self._partition_cost, make_topic_and_answer)
        else:
            self._answer(call, [self._find(call, key) for key in keys])

    def refuse(self, call: Call[FindCoordinatorRequest], code: int, text: str | None) -> None:
        """Answer every key with `code`."""
        message = call.message
        batched = call.version >= _FIRST_BATCHED_VERSION
        keys = message.coordinator_keys if batched else [message.key]
        self._answer(call, [_nobody(key, code, text) for key in keys])

    def _answer(self, call: Call[FindCoordinatorRequest], found: list[Coordinator]) -> None:
        if call.version >= _FIRST_BATCHED_VERSION:
            call.answer(FindCoordinatorResponse(coordinators=found))
            return
        only = found[0]
        call.answer(
            FindCoordinatorResponse(
                error_code=only.error_code,
                error_message=only.error_message,
                node_id=only.node_id,
                host=only.host,
                port=only.port,
            )
        )

    def _find(self, call: Call[FindCoordinatorRequest], key: str) -> Coordinator:
        key_type = call.message.key_type
        if key_type not in (GROUP, TRANSACTION):
            return _nobody(
                key,
                INVALID_REQUEST,
                f"key type {key_type}; this broker knows 0 (group) and 1 (transaction)",
            )
        if key_type == TRANSACTION and not key:
            return _nobody(key, INVALID_REQUEST, "the transactional id is empty")
        kind, refusal = _RESOURCES[key_type]
        if not call.allows(Operation.DESCRIBE, kind, key):
            return _nobody(key, refusal, None)
        node = self._node(call, key, key_type)
        if node is None:
            return _nobody(key, COORDINATOR_NOT_AVAILABLE, "its node is not up")
        return Coordinator(
            key=key,
            node_id=node.id,
            host=node.host,
            port=node.port,
            error_code=NONE,
            error_message=None,
        )

    def _node(
        self, call: Call[FindCoordinatorRequest], key: str, key_type: int
    ) -> NodeAddress | None:
        if key_type == TRANSACTION:
            return self._cluster.coordinator(key, call.listener_name)
        return self._cluster.address(self._groups.leader_of(key), call.listener_name)


def _nobody(key: str, code: int, text: str | None) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=text)

"""FindCoordinator: which node looks after a group or a transactional id (B-E1).

It is the one that leads the name's partition of __consumer_offsets, or of __transaction_state. Each
is made when somebody first asks for a name in it.
"""

from __future__ import annotations

import logging
from typing import Any

from fastprod.broker.cluster.cluster import Cluster
from fastprod.broker.coordinator.group.group_metadata_manager import GroupMetadataManager
from fastprod.broker.coordinator.partitioned_state import PartitionedState
from fastprod.broker.coordinator.transaction.transaction_state_manager import (
    TransactionStateManager,
)
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
        cluster: where the nodes are.
        groups: knows the node of each group.
        transactions: knows the node of each transactional id.
        worker: where their topics are made, if that takes long.
        keeps_files: whether that takes a while for each partition.
    """

    def __init__(
        self,
        cluster: Cluster,
        groups: GroupMetadataManager,
        transactions: TransactionStateManager,
        worker: OverflowWorker,
        keeps_files: bool,
    ) -> None:
        self._cluster = cluster
        self._managers: dict[int, PartitionedState[Any]] = {
            GROUP: groups,
            TRANSACTION: transactions,
        }
        self._worker = worker
        self._keeps_files = keeps_files

    def handle(self, call: Call[FindCoordinatorRequest]) -> None:
        """Answer for one key, from version 4 on for each."""
        message = call.message
        batched = call.version >= _FIRST_BATCHED_VERSION
        keys = message.coordinator_keys if batched else [message.key]

        key_type = message.key_type
        manager = self._managers.get(key_type)
        # Who may know of no key has no topic made, either.
        if (
            manager is None
            or manager.has_topic
            or not any(
                call.allows(Operation.DESCRIBE, _RESOURCES[key_type][0], key) for key in keys
            )
        ):
            self._answer(call, [self._find(call, key) for key in keys])
            return

        def make_topic_and_answer() -> None:
            try:
                manager.make_topic()
            except Exception as error:
                code, text = item_error(error)
                _log.error("the topic of a coordinator cannot be made, %s: error %d", text, code)
                self.refuse(call, COORDINATOR_NOT_AVAILABLE, text)
                return
            self._answer(call, [self._find(call, key) for key in keys])

        cost = manager.partition_count if self._keeps_files else 0
        topics = self._cluster.topics
        change_topics(topics, self._worker, call, cost, make_topic_and_answer)

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
        node_id = self._managers[key_type].leader_of(key)
        node = self._cluster.address(node_id, call.listener_name)
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


def _nobody(key: str, code: int, text: str | None) -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=text)

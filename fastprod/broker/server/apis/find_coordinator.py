"""FindCoordinator: which node looks after a group or a transactional id (B-E1)."""

from __future__ import annotations

from fastprod.broker.cluster.cluster import Cluster
from fastprod.broker.server.acl import Operation, ResourceType
from fastprod.broker.server.apis.call import Call
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
        cluster: its nodes share the keys by a stable hash.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def handle(self, call: Call[FindCoordinatorRequest]) -> None:
        """Answer for one key, from version 4 on for each."""
        message = call.message
        batched = call.version >= _FIRST_BATCHED_VERSION
        keys = message.coordinator_keys if batched else [message.key]
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
        node = self._cluster.coordinator(key, call.listener_name)
        if node is None:
            return _nobody(key, COORDINATOR_NOT_AVAILABLE, "no node is up")
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

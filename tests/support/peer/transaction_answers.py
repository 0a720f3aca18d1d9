"""The coordinator's side of a transaction, as far as a producer can see it."""

from __future__ import annotations

from typing import Final

from fastprod.protocol.api_keys import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    END_TXN,
    FIND_COORDINATOR,
    TXN_OFFSET_COMMIT,
)
from support.peer.cluster_state import ClusterState, EndedTransaction, NodeAddress
from support.peer.journal import Request
from support.peer.script import Message

_BATCHED_FROM: Final = 4
_EPOCH_BUMP_FROM: Final = 5


class NoAnswerError(LookupError):
    """The peer has no answer of its own to such a request: script one with `reply`."""


def transaction_message(state: ClusterState, request: Request, error_code: int) -> Message:
    """Answer with `error_code` everywhere, or grant what is asked. Under the cluster's lock."""
    if request.api_key == FIND_COORDINATOR:
        return _find_coordinator(state, request, error_code)
    if request.api_key == ADD_PARTITIONS_TO_TXN:
        return _add_partitions(request, error_code)
    if request.api_key == ADD_OFFSETS_TO_TXN:
        return {"error_code": error_code}
    if request.api_key == TXN_OFFSET_COMMIT:
        return _offset_commit(request, error_code)
    if request.api_key == END_TXN:
        return _end_transaction(state, request, error_code)
    raise NoAnswerError(f"{request}: the peer has no answer of its own; script one with reply()")


def _find_coordinator(state: ClusterState, request: Request, error_code: int) -> Message:
    address = state.addresses.get(state.coordinator_id, NodeAddress("", -1))
    found: Message = {
        "node_id": -1 if error_code else state.coordinator_id,
        "host": "" if error_code else address.host,
        "port": -1 if error_code else address.port,
        "error_code": error_code,
    }
    if request.version < _BATCHED_FROM:
        return found | ({"error_message": None} if request.version >= 1 else {})
    return {
        "coordinators": [
            {**found, "key": key, "error_message": None} for key in request.message.coordinator_keys
        ]
    }


def _add_partitions(request: Request, error_code: int) -> Message:
    return {
        "results_by_topic_v3_and_below": [
            {
                "name": topic.name,
                "results_by_partition": [
                    {"partition_index": index, "partition_error_code": error_code}
                    for index in topic.partitions
                ],
            }
            for topic in request.message.v3_and_below_topics
        ]
    }


def _offset_commit(request: Request, error_code: int) -> Message:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {"partition_index": each.partition_index, "error_code": error_code}
                    for each in topic.partitions
                ],
            }
            for topic in request.message.topics
        ]
    }


def _end_transaction(state: ClusterState, request: Request, error_code: int) -> Message:
    message: Message = {"error_code": error_code}
    asked = request.message
    current = (-1, -1)
    if not error_code:
        ended = EndedTransaction(
            asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.committed
        )
        current = state.end_transaction(ended, bump=request.version >= _EPOCH_BUMP_FROM)
    if request.version >= _EPOCH_BUMP_FROM:
        message["producer_id"], message["producer_epoch"] = current
    return message

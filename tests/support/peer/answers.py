"""What a peer answers: ApiVersions, Metadata, InitProducerId; the rest is in two more modules."""

from __future__ import annotations

from typing import Any, Final

from fastprod.protocol.api_keys import (
    API_VERSIONS,
    FIND_COORDINATOR,
    INIT_PRODUCER_ID,
    METADATA,
    PRODUCE,
)
from support.oracle.kio_codec import encode_response
from support.peer.cluster_state import ClusterState, NodeAddress, Topic
from support.peer.journal import Request
from support.peer.peer_options import LOWEST_PRODUCE_VERSION, PEER_VERSIONS, PeerOptions
from support.peer.produce_answer import ProduceAnswer
from support.peer.script import Body, Cue, Message
from support.peer.transaction_answers import transaction_message

UNKNOWN_TOPIC_OR_PARTITION: Final = 3
UNSUPPORTED_VERSION: Final = 35
UNKNOWN_TOPIC_ID: Final = 100

NO_TOPIC_ID: Final = bytes(16)
NO_AUTHORIZED_OPERATIONS: Final = -(2**31)
_THROTTLE_FROM: Final = {METADATA: 3, API_VERSIONS: 1, FIND_COORDINATOR: 1}


class Answers:
    """The usual answers of one node. THREADS: the peer's loop, under the cluster's lock.

    Attributes:
        versions: what ApiVersions lists; may be changed at any time.
        produce: the part for Produce.
    """

    def __init__(self, state: ClusterState, node_id: int, options: PeerOptions) -> None:
        self.state = state
        self.node_id = node_id
        self.options = options
        listed = {**PEER_VERSIONS, **(options.versions or {})}
        self.versions = {key: each for key, each in sorted(listed.items()) if each is not None}
        self.produce = ProduceAnswer(state, node_id, options)

    def refuses(self, api_key: int, version: int) -> str | None:
        """Why a broker would hang up on such a request; None: it would not."""
        low, high = self.versions.get(api_key, (0, -1))
        if api_key == PRODUCE:
            low = max(low, LOWEST_PRODUCE_VERSION)
        if low <= version <= high:
            return None
        return f"version {version} of API {api_key}, which is spoken from {low} to {high}"

    def frame(self, request: Request, cue: Cue) -> bytes:
        """Do what the request asks for and return the frame to send; b"" for acks=0."""
        plan = cue.whole
        if request.api_key == API_VERSIONS:
            body = self._refusal_body(request, cue)
            if body is not None:
                return self._refusal(request, body)
        message = self._message(request, cue)
        if message is None:
            return b""
        if request.version >= _THROTTLE_FROM.get(request.api_key, 0):
            message["throttle_time"] = plan.throttle_ms or 0
        if request.api_key != PRODUCE and plan.fields:
            message |= plan.fields
        if plan.change is not None:
            plan.change(message)
        return request.encode(message)

    def _message(self, request: Request, cue: Cue) -> Message | None:
        if request.api_key == PRODUCE:
            return self.produce.message(request, cue)
        error_code = cue.whole.error_code or 0
        if request.api_key == API_VERSIONS:
            return self._api_versions(request.version, error_code)
        if request.api_key == METADATA:
            return self._metadata(request, cue)
        if request.api_key == INIT_PRODUCER_ID:
            return self._init_producer_id(request, error_code)
        return transaction_message(self.state, request, error_code)

    def _refusal_body(self, request: Request, cue: Cue) -> Body | None:
        plan = cue.whole
        if plan.unsupported_body is not None:
            return plan.unsupported_body
        if plan.error_code == UNSUPPORTED_VERSION:
            return "v0"
        return (
            self.options.unsupported_body if self.refuses(API_VERSIONS, request.version) else None
        )

    def _refusal(self, request: Request, body: Body) -> bytes:
        code = UNSUPPORTED_VERSION.to_bytes(2, "big")
        if body in ("v0", "asked"):
            version = 0 if body == "v0" else request.version
            message = self._api_versions(version, UNSUPPORTED_VERSION)
            if version >= _THROTTLE_FROM[API_VERSIONS]:
                message["throttle_time"] = 0
            return encode_response(API_VERSIONS, version, request.correlation_id, message)
        payload = request.correlation_id.to_bytes(4, "big", signed=True) + code
        if body == "junk":
            payload += b"\xff" * 7
        return len(payload).to_bytes(4, "big") + payload

    def _api_versions(self, version: int, error_code: int) -> Message:
        message: Message = {
            "error_code": error_code,
            "api_keys": [
                {"api_key": key, "min_version": low, "max_version": high}
                for key, (low, high) in self.versions.items()
            ],
        }
        features = self.options.features
        if version >= 3 and features:
            message["supported_features"] = [
                {"name": name, "min_version": 0, "max_version": level}
                for name, level in features.items()
            ]
            message["finalized_features_epoch"] = self.options.features_epoch
            message["finalized_features"] = [
                {"name": name, "max_version_level": level, "min_version_level": level}
                for name, level in features.items()
            ]
        return message

    def _init_producer_id(self, request: Request, error_code: int) -> Message:
        if error_code:
            return {"error_code": error_code, "producer_id": -1, "producer_epoch": -1}
        asked = request.message
        producer_id, epoch = self.state.init_producer_id(
            asked.transactional_id,
            getattr(asked, "producer_id", -1),
            getattr(asked, "producer_epoch", -1),
        )
        return {"error_code": 0, "producer_id": producer_id, "producer_epoch": epoch}

    def _metadata(self, request: Request, cue: Cue) -> Message:
        version = request.version
        message: Message = {
            "brokers": [
                _broker(node_id, address, version)
                for node_id, address in sorted(self.state.addresses.items())
            ],
            "topics": [
                self._topic(name, topic_id, version, cue)
                for name, topic_id in self._asked_topics(request)
            ],
        }
        if version >= 1:
            message["controller_id"] = self.state.controller_id
        if version >= 2:
            message["cluster_id"] = self.state.cluster_id
        if version >= 13:
            message["error_code"] = 0
        if cue.whole.is_reversed:
            message["topics"].reverse()
        return message

    def _asked_topics(self, request: Request) -> list[tuple[str | None, bytes]]:
        """(name, id) of what Metadata is asked for; a name without a topic has id zero."""
        asked = request.message.topics
        known = self.state.topics
        if asked is None or (request.version == 0 and not asked):
            return [(topic.name, topic.topic_id) for topic in known.values()]
        may_create = getattr(request.message, "allow_auto_topic_creation", True)
        found: list[tuple[str | None, bytes]] = []
        for each in asked:
            if each.name is None:
                topic = self.state.topic_by_id(each.topic_id)
                found.append((topic.name if topic else None, each.topic_id))
                continue
            if each.name not in known and may_create and self.state.auto_create_partitions:
                self.state.add_topic(each.name, self.state.auto_create_partitions)
            topic = known.get(each.name)
            found.append((each.name, topic.topic_id if topic else NO_TOPIC_ID))
        return found

    def _topic(self, name: str | None, topic_id: bytes, version: int, cue: Cue) -> Message:
        topic = None if name is None else self.state.topics.get(name)
        if topic is not None:
            error_code = topic.error_code
        else:
            error_code = UNKNOWN_TOPIC_ID if name is None else UNKNOWN_TOPIC_OR_PARTITION
        plan = cue.for_partition(name or "", None)
        error_code = error_code if plan.error_code is None else plan.error_code
        message: Message = {"error_code": error_code, "name": name, "partitions": []}
        if version >= 1:
            message["is_internal"] = topic is not None and topic.is_internal
        if version >= 8:
            message["topic_authorized_operations"] = NO_AUTHORIZED_OPERATIONS
        if version >= 10:
            message["topic_id"] = topic_id
        if topic is not None and not error_code:
            message["partitions"] = self._partitions(topic, version, cue)
        return message

    def _partitions(self, topic: Topic, version: int, cue: Cue) -> list[Message]:
        messages: list[Message] = []
        for index, partition in enumerate(topic.partitions):
            plan = cue.for_partition(topic.name, index)
            if plan.is_left_out:
                continue
            error_code = partition.error_code if plan.error_code is None else plan.error_code
            message: Message = {
                "error_code": error_code,
                "partition_index": index,
                "leader_id": partition.told_leader,
                "replica_nodes": partition.replicas,
                "isr_nodes": partition.replicas if partition.isr is None else partition.isr,
            }
            if version >= 5:
                message["offline_replicas"] = partition.offline
            if version >= 7:
                message["leader_epoch"] = partition.told_epoch
            messages.append(message)
        return messages


def _broker(node_id: int, address: NodeAddress, version: int) -> dict[str, Any]:
    message = {"node_id": node_id, "host": address.host, "port": address.port}
    return message | ({"rack": address.rack} if version >= 1 else {})

"""Produce: the batches of a request taken apart, appended, and answered partition by partition."""

from __future__ import annotations

from typing import Any, Final

from support.peer.cluster_state import ClusterState, Partition
from support.peer.journal import Request
from support.peer.partition_log import AppendResult
from support.peer.peer_options import PeerOptions
from support.peer.received_batch import ReceivedBatch
from support.peer.script import Cue, Hint, Message, Plan

UNKNOWN_TOPIC_OR_PARTITION: Final = 3
NOT_LEADER_OR_FOLLOWER: Final = 6
MESSAGE_TOO_LARGE: Final = 10
INVALID_REQUIRED_ACKS: Final = 21
UNKNOWN_TOPIC_ID: Final = 100

_TOPIC_IDS_FROM = 13
_LEADER_HINTS_FROM = 10
_FIELDS_FROM: Final = {"log_start_offset": 5, "record_errors": 8, "error_message": 8}


class ProduceAnswer:
    """Answers Produce for one node. THREADS: the peer's loop, under the cluster's lock."""

    def __init__(self, state: ClusterState, node_id: int, options: PeerOptions) -> None:
        self._state = state
        self._node_id = node_id
        self._options = options

    def take_apart(self, request: Request) -> list[ReceivedBatch]:
        """The batches in a request, in its order."""
        return [
            ReceivedBatch(
                request.arrival,
                self._node_id,
                request.connection,
                request.version,
                self._topic_name(topic, request.version),
                partition.index,
                bytes(partition.records or b""),
                self._options.check,
            )
            for topic in request.message.topic_data
            for partition in topic.partition_data
        ]

    def faults(self, request: Request) -> list[str]:
        """What no producer may ever do."""
        found = [
            f"{request}: {each.topic}-{each.partition}: {each.problem.text}"
            for each in request.batches
            if each.problem is not None
        ]
        places = [(each.topic, each.partition) for each in request.batches]
        twice = {place for place in places if places.count(place) > 1 and place[0] is not None}
        return found + [f"{request}: more than one batch for {place}" for place in sorted(twice)]

    def message(self, request: Request, cue: Cue) -> Message | None:
        """Append what is to be appended; None for acks=0, which has no answer."""
        batches = iter(request.batches)
        endpoints: dict[int, Message] = {}
        responses: list[Message] = []
        for topic in request.message.topic_data:
            answered = []
            for _ in topic.partition_data:
                batch = next(batches)
                plan = cue.for_partition(batch.topic or "", batch.partition)
                answer = self._partition(request, batch, plan, endpoints)
                if not plan.is_left_out:
                    answered.append(answer)
            is_by_id = request.version >= _TOPIC_IDS_FROM
            key = {"topic_id": topic.topic_id} if is_by_id else {"name": topic.name}
            if answered:
                responses.append({**key, "partition_responses": answered})
        if request.message.acks == 0:
            return None
        if cue.whole.is_reversed:
            responses.reverse()
            for each in responses:
                each["partition_responses"].reverse()
        message: Message = {"responses": responses}
        if endpoints and request.version >= _LEADER_HINTS_FROM:
            message["node_endpoints"] = list(endpoints.values())
        return message

    def _topic_name(self, topic: Any, version: int) -> str | None:
        if version < _TOPIC_IDS_FROM:
            return str(topic.name)
        found = self._state.topic_by_id(topic.topic_id)
        return None if found is None else found.name

    def _partition(
        self, request: Request, batch: ReceivedBatch, plan: Plan, endpoints: dict[int, Message]
    ) -> Message:
        partition = self._find(batch)
        result = self._outcome(request, batch, partition, plan)
        fields = dict(plan.fields or {})
        message: Message = {
            "index": batch.partition,
            "error_code": result.error_code,
            "base_offset": result.base_offset,
            "log_append_time": -1,
            "log_start_offset": -1,
            "record_errors": [
                {"batch_index": index, "batch_index_error_message": text}
                for index, text in (plan.record_errors or {}).items()
            ],
            "error_message": plan.error_message,
        }
        if partition is not None and not result.error_code:
            message["log_start_offset"] = partition.log.start_offset
        message |= fields
        for name, first_version in _FIELDS_FROM.items():
            if request.version < first_version:
                del message[name]
        hint = self._hint(partition, message["error_code"], plan)
        if hint is not None and request.version >= _LEADER_HINTS_FROM:
            message["current_leader"] = {
                "leader_id": hint.leader_id,
                "leader_epoch": hint.leader_epoch,
            }
            self._add_endpoint(hint, endpoints)
        batch.error_code = message["error_code"]
        batch.base_offset = message["base_offset"]
        return message

    def _find(self, batch: ReceivedBatch) -> Partition | None:
        topic = self._state.topics.get(batch.topic or "")
        if topic is None or not 0 <= batch.partition < len(topic.partitions):
            return None
        return topic.partitions[batch.partition]

    def _outcome(
        self, request: Request, batch: ReceivedBatch, partition: Partition | None, plan: Plan
    ) -> AppendResult:
        if plan.error_code is not None:
            if plan.is_appended and partition is not None and batch.problem is None:
                self._append(batch, partition, plan)
            return AppendResult(plan.error_code, -1)
        refusal = self._refusal(request, batch, partition)
        if refusal or partition is None:
            return AppendResult(refusal, -1)
        return self._append(batch, partition, plan)

    def _refusal(self, request: Request, batch: ReceivedBatch, partition: Partition | None) -> int:
        if request.message.acks not in (-1, 0, 1):
            return INVALID_REQUIRED_ACKS
        if partition is None:
            return UNKNOWN_TOPIC_ID if batch.topic is None else UNKNOWN_TOPIC_OR_PARTITION
        if partition.leader != self._node_id:
            return NOT_LEADER_OR_FOLLOWER
        if batch.problem is not None:
            return batch.problem.error_code
        limit = self._options.max_message_bytes
        return MESSAGE_TOO_LARGE if limit is not None and len(batch.raw) > limit else 0

    def _append(self, batch: ReceivedBatch, partition: Partition, plan: Plan) -> AppendResult:
        time_ms = (plan.fields or {}).get("log_append_time", -1)
        result = partition.log.append(batch, self._options.idempotence, time_ms)
        batch.is_duplicate = result.is_duplicate
        batch.is_appended = not result.error_code and not result.is_duplicate
        return result

    def _hint(self, partition: Partition | None, error_code: int, plan: Plan) -> Hint | None:
        if plan.hint is not None:
            return plan.hint
        is_moved = error_code == NOT_LEADER_OR_FOLLOWER and plan.error_code is None
        if partition is None or not is_moved or not self._options.leader_hints:
            return None
        return Hint(partition.leader, partition.epoch)

    def _add_endpoint(self, hint: Hint, endpoints: dict[int, Message]) -> None:
        known = self._state.addresses.get(hint.leader_id)
        host = hint.host if hint.host is not None or known is None else known.host
        port = hint.port if hint.port is not None or known is None else known.port
        if not hint.has_endpoint or host is None or port is None:
            return
        rack = None if known is None else known.rack
        endpoints[hint.leader_id] = {
            "node_id": hint.leader_id,
            "host": host,
            "port": port,
            "rack": rack,
        }

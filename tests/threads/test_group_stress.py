"""Many threads on few groups, with real timers, while their coordinators move (B-E2, B-A5.6)."""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import Any

import pytest

from fastprod.broker.cluster.topics import OFFSETS_TOPIC
from fastprod.error_codes import MEMBER_ID_REQUIRED, NONE, NOT_COORDINATOR
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
from fastprod.protocol.messages.group.heartbeat import HeartbeatRequest
from fastprod.protocol.messages.group.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from fastprod.protocol.messages.group.leave_group import LeaveGroupRequest
from fastprod.protocol.messages.group.list_groups import ListGroupsRequest
from fastprod.protocol.messages.group.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from fastprod.protocol.messages.group.sync_group import SyncGroupRequest, SyncGroupResponse
from support.broker.world import Asked, BrokerWorld
from support.groups.group_world import subscribed
from support.processes.scale import scaled

THREADS = 6
GROUPS = ("g", "h")
SESSION_MS = 20


def member(world: BrokerWorld, seed: int, rounds: int, asked: list[Asked]) -> None:
    """Joins, syncs, beats, commits and leaves, and does not wait for answers for long."""
    chance = random.Random(seed)
    member_id, generation_id = "", -1

    def ask(name: str, version: int, message: Any) -> Any:
        node_id = world.state.group_coordinator.manager.leader_of(message.group_id)
        # Sometimes it asks the wrong one.
        request = world.post(name, version, message, max(0, node_id ^ (chance.random() < 0.05)))
        asked.append(request)
        give_up = time.monotonic() + 0.05
        while request.answer is None and time.monotonic() < give_up:
            time.sleep(0.0002)
        return request.answer

    for number in range(rounds):
        group_id = chance.choice(GROUPS)
        joined = ask(
            "JoinGroup",
            5,
            JoinGroupRequest(
                group_id=group_id,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=2 * SESSION_MS,
                member_id=member_id,
                group_instance_id="i" if seed == 0 else None,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=subscribed("t"))],
            ),
        )
        if joined is None or joined.error_code not in (NONE, MEMBER_ID_REQUIRED):
            member_id = ""
            continue
        member_id, generation_id = joined.member_id, joined.generation_id
        if joined.error_code == MEMBER_ID_REQUIRED:
            continue
        place = OffsetCommitRequestPartition(partition_index=0, committed_offset=number)
        place.committed_metadata = ""
        commit = OffsetCommitRequest(
            group_id=group_id,
            member_id=member_id,
            generation_id_or_member_epoch=generation_id,
            topics=[OffsetCommitRequestTopic(name="t", partitions=[place])],
        )
        this = {"group_id": group_id, "member_id": member_id, "generation_id": generation_id}
        ask("SyncGroup", 3, SyncGroupRequest(**this))
        ask("OffsetCommit", 5, commit)
        ask("Heartbeat", 3, HeartbeatRequest(**this))
        if chance.random() < 0.3:
            ask("LeaveGroup", 1, LeaveGroupRequest(group_id=group_id, member_id=member_id))
            member_id = ""


def test_threads_on_the_same_groups_neither_wait_for_ever_nor_fail(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """B-E2: each request is answered, at the latest by the end of the broker."""
    rounds = scaled(4000, at_least=150)
    asked: list[Asked] = []
    settings: dict[str, Any] = {
        "group_min_session_timeout_ms": 1,
        "offsets_retention_check_interval_ms": 5,
    }
    with (
        caplog.at_level(logging.WARNING),
        BrokerWorld(brokers=2, topics={"t": 1}, **settings) as world,
    ):
        world.ask("FindCoordinator", 0, FindCoordinatorRequest(key="g"))
        threads = [
            threading.Thread(target=member, args=(world, seed, rounds, asked))
            for seed in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        partitions = world.state.topics.get(OFFSETS_TOPIC)
        assert partitions is not None
        while any(thread.is_alive() for thread in threads):
            for each in partitions.partitions:
                world.state.cluster.move_leader(each, 1 - each.leader)
            world.state.group_coordinator.manager.drop_moved()
            for node_id in (0, 1):
                world.ask("ListGroups", 4, ListGroupsRequest(), node_id)
            threads[0].join(0.1)
    assert [each for each in asked if each.answer is None] == []
    synced = [each for each in asked if isinstance(each.answer, SyncGroupResponse)]
    assert any(each.answer.error_code == NONE for each in synced)
    # Who stops to coordinate just as a generation ends cannot write that, and says so.
    moved = f"its end is not written down: error {NOT_COORDINATOR}"
    warned = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert [each for each in warned if moved not in each] == []

"""How transactions end, and what readers see of it (B-E4, B-C7)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastprod._core.records.record_reader import read_batches
from fastprod.broker.cluster.topics import OFFSETS_TOPIC
from fastprod.error_codes import (
    CONCURRENT_TRANSACTIONS,
    COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
    PRODUCER_FENCED,
    REQUEST_TIMED_OUT,
    TRANSACTION_COORDINATOR_FENCED,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from fastprod.protocol.messages.transaction.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from support.broker.replica_world import kill, pause, replicated
from support.broker.transaction_asker import TransactionAsker
from support.broker.world import PATIENCE_S, Asked, BrokerWorld, batch_of, fetch_request

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
CONFIG: dict[str, Any] = {
    "transaction_state_log_num_partitions": 1,
    "offsets_topic_num_partitions": 1,
}


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    with BrokerWorld(topics={"t": 2}, **CONFIG) as made:
        yield made


def producer(world: BrokerWorld, transactional_id: str = "x") -> TransactionAsker:
    """One that may begin a transaction."""
    made = TransactionAsker(world.ask, transactional_id, "t")
    assert made.find() == NONE
    assert made.init() == NONE
    return made


def values(fetched: object) -> list[bytes | None]:
    """Values in an answer to a Fetch; None stands for a marker."""
    records = fetched.records  # type: ignore[attr-defined]
    return [
        None if batch.is_control else record.value
        for batch in read_batches(bytes(records))
        for record in batch.records()
    ]


@pytest.mark.parametrize("version", range(6))
def test_every_version_ends_a_transaction(world: BrokerWorld, version: int) -> None:
    """B-E4"""
    asker = producer(world)
    fenced = PRODUCER_FENCED if version >= 2 else INVALID_PRODUCER_EPOCH
    assert asker.end(version=version) == INVALID_TXN_STATE
    asker.add(0)
    other = asker.twin()
    other.producer = asker.producer[0], 9
    assert other.end(version=version) == fenced
    other.producer = 99, 0
    assert other.end(version=version) == INVALID_PRODUCER_ID_MAPPING
    id_before, epoch_before = asker.producer
    assert asker.end(version=version) == NONE
    assert asker.producer == (id_before, epoch_before + (version == 5))


def test_readers_of_committed_records_see_up_to_the_first_that_is_undecided(
    world: BrokerWorld,
) -> None:
    """P-E.5, B-C5.3, B-C7.1, B-C7.3, B-C7.5"""
    one, other = producer(world, "one"), producer(world, "other")
    one.add(0)
    other.add(0)
    assert world.produce(batch_of(b"plain")).error_code == NONE
    assert one.send(b"1") == NONE
    assert other.send(b"2") == NONE
    assert world.produce(batch_of(b"later")).error_code == NONE
    found = one.fetch()
    assert (found.last_stable_offset, found.high_watermark) == (1, 4)
    assert values(found) == [b"plain"]
    assert values(one.fetch(isolation_level=0)) == [b"plain", b"1", b"2", b"later"]
    assert (one.offset(LATEST), one.offset(LATEST, 0), one.offset(EARLIEST)) == (1, 4, 0)
    assert one.offset(MAX_TIMESTAMP, 0) >= 0
    # The newest record is undecided.
    assert one.offset(MAX_TIMESTAMP) in (-1, 0)
    assert other.end(committed=False) == NONE
    found = one.fetch()
    assert (found.last_stable_offset, values(found), found.aborted_transactions) == (
        1,
        [b"plain"],
        [],
    )
    assert one.end() == NONE
    found = one.fetch()
    assert found.last_stable_offset == found.high_watermark == 6
    assert values(found) == [b"plain", b"1", b"2", b"later", None, None]
    (aborted,) = found.aborted_transactions
    assert (aborted.producer_id, aborted.first_offset) == (other.producer[0], 2)
    assert one.fetch(isolation_level=0).aborted_transactions is None
    # Whoever begins behind it need not know of it.
    assert one.fetch(5).aborted_transactions == []


def test_a_reader_that_waits_is_woken_by_the_end(world: BrokerWorld) -> None:
    """B-D2.3: by the marker, not by the records, also if it waits for many bytes."""
    asker = producer(world)
    asker.add(0)
    assert asker.send(b"x" * 1000) == NONE
    waiting = [
        world.post(
            "Fetch",
            12,
            fetch_request(
                [("t", 0, 0)], max_wait_ms=600_000, min_bytes=min_bytes, isolation_level=1
            ),
        )
        for min_bytes in (1, 1000)
    ]
    assert asker.send(b"y" * 2000) == NONE
    assert [each.answer for each in waiting] == [None, None]
    assert asker.end() == NONE
    for each in waiting:
        assert values(each.answer.responses[0].partitions[0]) == [b"x" * 1000, b"y" * 2000, None]


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_restarted_broker_knows_what_is_open_and_what_was_aborted(
    tmp_path: Path, is_clean: bool
) -> None:
    """B-C3.4, B-C7.4: closed or killed."""
    world = BrokerWorld(topics={"t": 2}, data_dir=tmp_path, **CONFIG)
    first, second = producer(world, "first"), producer(world, "second")
    first.add(0)
    second.add(0)
    first.send(b"1")
    second.send(b"2")
    first.end(committed=False)
    if is_clean:
        world.state.close()
    else:
        # Its files are as a kill leaves them.
        world.state._directory.close()  # type: ignore[union-attr]
    with BrokerWorld(topics={"t": 2}, data_dir=tmp_path, **CONFIG) as later:
        second.ask = later.ask
        found = second.fetch()
        assert found.last_stable_offset == 1
        (aborted,) = found.aborted_transactions
        assert (aborted.producer_id, aborted.first_offset) == (first.producer[0], 0)
        # What was open is read at the start, by a thread.
        deadline = time.monotonic() + PATIENCE_S
        while second.describe().error_code == COORDINATOR_LOAD_IN_PROGRESS:
            assert time.monotonic() < deadline
        assert second.describe().transaction_state == "Ongoing"
        assert second.send(b"3") == NONE
        assert second.end() == NONE
        assert second.fetch().last_stable_offset == second.fetch().high_watermark
        first.ask = later.ask
        assert first.end(committed=False) == NONE
    if not is_clean:
        world.state.abandon()
        world.state.close()


def write_marker(
    world: BrokerWorld, asker: TransactionAsker, topic: str = "t", **changed: Any
) -> int:
    given: dict[str, Any] = {
        "producer_id": asker.producer[0],
        "producer_epoch": asker.producer[1],
        "transaction_result": False,
        "coordinator_epoch": 5,
    }
    topics = [WritableTxnMarkerTopic(name=topic, partition_indexes=[0])]
    marker = WritableTxnMarker(topics=topics, **(given | changed))
    version = 2 if "transaction_version" in changed else 1
    found = world.ask("WriteTxnMarkers", version, WriteTxnMarkersRequest(markers=[marker]))
    code: int = found.markers[0].topics[0].partitions[0].error_code
    return code


def test_a_marker_that_comes_late_is_known_by_its_epoch(world: BrokerWorld) -> None:
    """KIP-1228: with transaction.version 2 it has another epoch than the records."""
    asker = producer(world)
    epoch = asker.producer[1]
    late: dict[str, Any] = {"transaction_version": 2, "producer_epoch": epoch}
    newer: dict[str, Any] = {"transaction_version": 2, "producer_epoch": epoch + 1}
    asker.add(0)
    asker.send(b"a")
    assert write_marker(world, asker, **late) == INVALID_PRODUCER_EPOCH
    assert write_marker(world, asker, transaction_version=1) == NONE
    for _ in range(2):
        # Harmless: nothing is open.
        assert write_marker(world, asker, **newer) == NONE


def test_an_admin_ends_what_hangs(world: BrokerWorld) -> None:
    """B-C7.6, KIP-664: kafka-transactions.sh abort; an older coordinator is refused."""
    asker = producer(world)
    asker.add(0)
    asker.send(b"hangs")
    assert asker.fetch().last_stable_offset == 0
    assert write_marker(world, asker, producer_epoch=-1) == INVALID_PRODUCER_EPOCH
    assert write_marker(world, asker) == NONE
    found = asker.fetch()
    assert (found.last_stable_offset, len(found.aborted_transactions)) == (2, 1)
    assert write_marker(world, asker, coordinator_epoch=4) == TRANSACTION_COORDINATOR_FENCED
    # Harmless: nothing is open.
    assert write_marker(world, asker, coordinator_epoch=6) == NONE
    assert write_marker(world, asker, "nowhere") == UNKNOWN_TOPIC_OR_PARTITION
    assert asker.producers().active_producers[0].coordinator_epoch == 6


def test_offsets_are_ended_by_an_admin_too(world: BrokerWorld) -> None:
    """KIP-664"""
    asker = producer(world)
    assert asker.add_offsets("g") == NONE
    assert asker.commit_offset("g", 5) == NONE
    assert write_marker(world, asker, OFFSETS_TOPIC) == NONE
    manager = world.state.group_coordinator.manager
    (group,) = manager.all_items()
    assert not group.offsets.has_pending


REPLICATED: dict[str, Any] = {"brokers": 3, "min_insync_replicas": 2}


def post_marker(world: BrokerWorld, *indexes: int) -> Asked:
    """The end of a transaction that has no records in these partitions."""
    topics = [WritableTxnMarkerTopic(name="t", partition_indexes=list(indexes))]
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=0,
        transaction_result=False,
        coordinator_epoch=5,
        topics=topics,
    )
    return world.post("WriteTxnMarkers", 1, WriteTxnMarkersRequest(markers=[marker]))


def codes(answer: Any) -> list[int]:
    return [each.error_code for each in answer.markers[0].topics[0].partitions]


def test_a_marker_is_answered_when_all_replicas_in_sync_have_it() -> None:
    """B-D1.5, B-E4"""
    with BrokerWorld(**REPLICATED) as world:
        found = replicated(world)
        assert codes(post_marker(world, 0).wait()) == [NONE]
        assert found.log.high_watermark == 1
        pause(world, 2)
        asked = post_marker(world, 0)
        assert asked.answer is None
        assert (found.log.log_end_offset, found.log.high_watermark) == (2, 1)
        pause(world)
        assert codes(asked.wait()) == [NONE]
        assert found.log_at(2).log_end_offset == found.log.high_watermark == 2


def test_each_partition_of_a_marker_has_its_own_answer_within_the_time_out() -> None:
    """B-D1.5"""
    with BrokerWorld(**REPLICATED, request_timeout_ms=20) as world:
        found = replicated(world)
        pause(world, 1, 2)
        assert codes(post_marker(world, 0, 9).wait()) == [
            REQUEST_TIMED_OUT,
            UNKNOWN_TOPIC_OR_PARTITION,
        ]
        assert (found.log.log_end_offset, found.log.high_watermark) == (1, 0)


def test_a_marker_needs_as_many_replicas_as_a_batch() -> None:
    """B-D1 NOT_ENOUGH_REPLICAS"""
    with BrokerWorld(**REPLICATED) as world:
        found = replicated(world)
        kill(world, 1)
        kill(world, 2)
        assert codes(post_marker(world, 0).wait()) == [NOT_ENOUGH_REPLICAS]
        assert found.log.log_end_offset == 0


def test_who_waits_for_a_marker_hears_of_a_new_leader() -> None:
    with BrokerWorld(**REPLICATED) as world:
        found = replicated(world)
        pause(world, 2)
        asked = post_marker(world, 0)
        assert asked.answer is None
        world.state.cluster.move_leader(found, 1)
        world.state.leader_moved(found)
        assert codes(asked.wait()) == [NOT_LEADER_OR_FOLLOWER]


def test_a_zombie_is_fenced(world: BrokerWorld) -> None:
    """B-E4"""
    zombie = producer(world)
    zombie.add(0)
    zombie.send(b"zombie")
    other = zombie.twin()
    assert other.init() == CONCURRENT_TRANSACTIONS
    assert other.init() == NONE
    assert zombie.send(b"more") in (INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE)
    assert zombie.add(0) == [PRODUCER_FENCED]
    assert zombie.end() == PRODUCER_FENCED
    assert zombie.init(producer_id=zombie.producer[0], producer_epoch=zombie.producer[1]) == (
        PRODUCER_FENCED
    )

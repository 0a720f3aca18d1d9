"""What becomes of a transaction: ids, partitions, ends, fencing, time (B-E4)."""

from __future__ import annotations

import pytest

from fastprod.broker.cluster.partition import Partition
from fastprod.broker.coordinator.group.group import Group
from fastprod.broker.coordinator.group.group_offsets import UNSTABLE
from fastprod.broker.coordinator.partitioned_state import CoordinatorError
from fastprod.broker.coordinator.transaction.transaction_metadata import TV_0, TV_2
from fastprod.broker.log.log import LogError
from fastprod.broker.log.record_batch import NO_PRODUCER, Producer
from fastprod.error_codes import (
    CONCURRENT_TRANSACTIONS,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_REQUEST,
    INVALID_TRANSACTION_TIMEOUT,
    INVALID_TXN_STATE,
    NONE,
    NOT_COORDINATOR,
    PRODUCER_FENCED,
    TRANSACTION_ABORTABLE,
)
from support.broker.transaction_world import T0, T1, TIMEOUT_MS, TransactionWorld
from support.broker.world import move_leader

HOUR_MS = 3_600_000


def kinds(world: TransactionWorld, place: tuple[str, int] = T0) -> list[str]:
    """What a log holds: records, and the markers of commits and aborts."""
    found = []
    for batch in world.log(place).batches():
        marker = batch.end_marker() if batch.is_control else None
        found.append("record" if marker is None else ("abort", "commit")[marker.kind])
    return found


def refusal(world: TransactionWorld, producer: Producer, adds: bool) -> int:
    with pytest.raises(CoordinatorError) as caught:
        world.transactions.in_transaction("x", producer, T0, adds, lambda: None)
    return caught.value.code


# Producer ids.


def test_a_new_id_has_epoch_0_and_the_next_producer_the_next_one() -> None:
    world = TransactionWorld()
    first = world.begun()
    assert first.epoch == 0
    assert world.begun() == first._replace(epoch=1)
    assert world.begun("another").id != first.id
    assert world.state() == "Empty"


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_time_out_has_bounds(timeout_ms: int) -> None:
    world = TransactionWorld()
    assert world.init(timeout_ms=timeout_ms) == (INVALID_TRANSACTION_TIMEOUT, NO_PRODUCER)
    assert world.init(timeout_ms=900_000)[0] == NONE


def test_the_empty_id_is_none() -> None:
    world = TransactionWorld()
    assert world.init("")[0] == INVALID_REQUEST
    assert world.transactions.add_partitions("", NO_PRODUCER, [T0], 0) == INVALID_REQUEST
    assert world.transactions.end_transaction("", NO_PRODUCER, True, TV_0, 0)[0] == INVALID_REQUEST


def test_another_node_is_no_coordinator() -> None:
    world = TransactionWorld()
    found = world.transactions.init_producer_id("x", 1000, None, 1 - world.txn_node())
    assert found == (NOT_COORDINATOR, NO_PRODUCER)


def test_a_producer_that_goes_on_after_an_error_has_the_next_epoch() -> None:
    """KIP-360: who asks twice gets the same, who comes late is fenced."""
    world = TransactionWorld()
    first = world.begun()
    code, second = world.init(expected=first)
    assert (code, second) == (NONE, first._replace(epoch=1))
    assert world.init(expected=first) == (NONE, second)
    assert world.init(expected=second) == (NONE, first._replace(epoch=2))
    assert world.init(expected=first)[0] == PRODUCER_FENCED
    assert world.init(expected=Producer(9, 0))[0] == PRODUCER_FENCED


def test_used_up_epochs_bring_another_id() -> None:
    world = TransactionWorld()
    first = world.begun()
    metadata = world.metadata()
    metadata.now = metadata.now._replace(producer_epoch=32766)
    code, second = world.init(expected=first._replace(epoch=32766))
    assert code == NONE
    assert second.id != first.id
    assert second.epoch == 0
    # A repeated request is told the same.
    assert world.init(expected=first._replace(epoch=32766)) == (NONE, second)


# Partitions.


def test_partitions_belong_to_the_transaction_that_they_begin() -> None:
    world = TransactionWorld()
    producer = world.begun()
    assert world.add(producer, T0) == NONE
    assert world.state() == "Ongoing"
    assert world.add(producer, T0, T1) == NONE
    assert world.metadata().now.partitions == {T0, T1}
    stored = world.metadata().partition.log.log_end_offset
    assert world.add(producer, T1) == NONE
    assert world.metadata().partition.log.log_end_offset == stored, "nothing new is written"


def test_only_the_producer_itself_adds_partitions() -> None:
    world = TransactionWorld()
    assert world.add(Producer(1, 0)) == INVALID_PRODUCER_ID_MAPPING
    producer = world.begun()
    assert world.add(producer._replace(id=7)) == INVALID_PRODUCER_ID_MAPPING
    assert world.add(producer._replace(epoch=1)) == PRODUCER_FENCED


def test_a_partition_is_verified_before_its_first_record() -> None:
    """KIP-890, part 1; B-D1 INVALID_TXN_STATE: the log itself takes nothing that was not."""
    world = TransactionWorld()
    producer = world.begun()
    assert refusal(world, producer, adds=False) == TRANSACTION_ABORTABLE
    world.add(producer, T1)
    assert refusal(world, producer, adds=False) == TRANSACTION_ABORTABLE
    world.add(producer, T0)
    done = world.transactions.in_transaction("x", producer, T0, False, lambda: world.send(producer))
    assert done.base_offset == 0
    verified = world.transactions.verify_partitions("x", producer, [T0, ("t", 3)], world.txn_node())
    assert verified == {T0: NONE, ("t", 3): TRANSACTION_ABORTABLE}


def test_a_partition_is_added_by_its_first_record() -> None:
    """KIP-890, part 2"""
    world = TransactionWorld()
    producer = world.begun()
    world.transactions.in_transaction("x", producer, T0, True, lambda: world.send(producer))
    assert world.metadata().now.partitions == {T0}
    assert world.state() == "Ongoing"
    assert refusal(world, producer._replace(epoch=9), adds=True) == PRODUCER_FENCED


# Ends.


@pytest.mark.parametrize(("is_commit", "kind"), [(True, "commit"), (False, "abort")])
@pytest.mark.parametrize("version", [TV_0, TV_2])
def test_an_end_is_written_to_each_partition(is_commit: bool, kind: str, version: int) -> None:
    """B-C7.2; with KIP-890 the producer goes on with the next epoch, in the logs, too."""
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer, T0, T1)
    world.send(producer)
    assert world.log().last_stable_offset == 0
    code, following = world.end(producer, is_commit, version)
    assert code == NONE
    assert following == producer._replace(epoch=1 if version else 0)
    assert kinds(world) == ["record", kind]
    assert kinds(world, T1) == [kind]
    assert world.log().last_stable_offset == world.log().log_end_offset == 2
    assert world.state() == f"Complete{kind.title()}"
    assert world.metadata().now.partitions == frozenset()
    grown = [(each.topic, each.index) for each in world.grown]
    assert T0 in grown
    assert T1 in grown
    state = dict(world.log().producers())[producer.id]
    assert state.epoch == following.epoch


def test_without_kip_890_an_end_is_repeated_and_not_another_one() -> None:
    world = TransactionWorld()
    producer = world.begun()
    assert world.end(producer)[0] == INVALID_TXN_STATE
    assert world.end(producer, False)[0] == INVALID_TXN_STATE
    world.add(producer)
    assert world.end(producer._replace(epoch=3))[0] == PRODUCER_FENCED
    assert world.end(producer._replace(id=3))[0] == INVALID_PRODUCER_ID_MAPPING
    assert world.end(producer)[0] == NONE
    assert world.end(producer)[0] == NONE
    assert world.end(producer, False)[0] == INVALID_TXN_STATE
    assert kinds(world) == ["commit"]


def test_with_kip_890_the_epoch_tells_a_repeated_end_from_the_next_one() -> None:
    world = TransactionWorld()
    first = world.begun()
    assert world.end(first, True, TV_2)[0] == INVALID_TXN_STATE
    # Nothing is known to be in it: it can be aborted.
    code, second = world.end(first, False, TV_2)
    assert (code, second) == (NONE, first._replace(epoch=1))
    assert world.end(first, False, TV_2) == (NONE, second)
    assert world.end(first, True, TV_2)[0] == INVALID_TXN_STATE
    assert world.end(second, True, TV_2)[0] == INVALID_TXN_STATE
    world.add(second, version=TV_2)
    code, third = world.end(second, True, TV_2)
    assert (code, third) == (NONE, first._replace(epoch=2))
    assert world.end(second, True, TV_2) == (NONE, third)
    assert world.end(second, False, TV_2)[0] == INVALID_TXN_STATE
    assert world.end(first, False, TV_2)[0] == PRODUCER_FENCED


def test_with_kip_890_used_up_epochs_bring_another_id() -> None:
    world = TransactionWorld()
    producer = world.begun()
    metadata = world.metadata()
    metadata.now = metadata.now._replace(producer_epoch=32766)
    last = producer._replace(epoch=32766)
    world.add(last, version=TV_2)
    code, following = world.end(last, True, TV_2)
    assert code == NONE
    assert following.id != producer.id
    assert following.epoch == 0
    assert world.end(last, True, TV_2) == (NONE, following)
    assert world.add(following, version=TV_2) == NONE


def test_a_late_record_of_an_ended_transaction_is_refused() -> None:
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer)
    _, following = world.end(producer, False, TV_2)
    assert refusal(world, producer, adds=True) == PRODUCER_FENCED
    with pytest.raises(LogError) as caught:
        world.send(producer)
    assert caught.value.error_code == INVALID_PRODUCER_EPOCH
    world.transactions.in_transaction("x", following, T0, True, lambda: world.send(following))


# Fencing and time.


def test_what_a_zombie_has_left_open_is_aborted() -> None:
    """KIP-98: the new producer is asked to come again, and the zombie can do nothing more."""
    world = TransactionWorld()
    zombie = world.begun()
    world.add(zombie)
    world.send(zombie)
    assert world.init() == (CONCURRENT_TRANSACTIONS, NO_PRODUCER)
    assert kinds(world) == ["record", "abort"]
    code, producer = world.init()
    assert code == NONE
    assert producer.epoch > zombie.epoch + 1
    assert world.add(zombie) == PRODUCER_FENCED
    assert world.end(zombie)[0] == PRODUCER_FENCED
    with pytest.raises(LogError) as caught:
        world.send(zombie, 1)
    assert caught.value.error_code == INVALID_PRODUCER_EPOCH


def test_an_abandoned_transaction_is_aborted_after_its_time_out() -> None:
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer)
    world.send(producer)
    world.purgatory.advance(TIMEOUT_MS - 1)
    assert world.state() == "Ongoing"
    world.purgatory.advance(1)
    assert world.state() == "CompleteAbort"
    assert kinds(world) == ["record", "abort"]
    assert world.end(producer)[0] == PRODUCER_FENCED
    assert world.add(producer) == PRODUCER_FENCED


@pytest.mark.parametrize("is_timed_out", [True, False])
def test_a_producer_whose_transaction_was_aborted_for_it_may_go_on(is_timed_out: bool) -> None:
    """KIP-588: unless another one has come, it asks with what it has, and again."""
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer)
    world.send(producer)
    if is_timed_out:
        world.purgatory.advance(TIMEOUT_MS)
    else:
        assert world.init(expected=producer) == (CONCURRENT_TRANSACTIONS, NO_PRODUCER)
    assert kinds(world) == ["record", "abort"]
    code, following = world.init(expected=producer)
    assert (code, following) == (NONE, producer._replace(epoch=1))
    assert world.init(expected=producer) == (NONE, following)
    assert world.add(following) == NONE
    world.send(following)
    assert world.end(following)[0] == NONE
    world.begun()
    assert world.init(expected=producer)[0] == PRODUCER_FENCED
    assert world.init(expected=following)[0] == PRODUCER_FENCED


def test_the_epoch_for_fencing_is_given_to_no_producer() -> None:
    world = TransactionWorld()
    first = world.begun()
    metadata = world.metadata()
    metadata.now = metadata.now._replace(producer_epoch=32766)
    last = first._replace(epoch=32766)
    world.add(last)
    assert world.init(expected=last)[0] == CONCURRENT_TRANSACTIONS
    assert metadata.now.producer_epoch == 32767
    assert world.init(expected=last)[0] == PRODUCER_FENCED
    code, following = world.init()
    assert (code, following.epoch) == (NONE, 0)
    assert following.id != first.id


def test_each_transaction_has_its_whole_time() -> None:
    world = TransactionWorld()
    producer = world.begun()
    for _ in range(5):
        world.add(producer)
        world.purgatory.advance(TIMEOUT_MS // 2)
        assert world.end(producer)[0] == NONE
    assert len(world.purgatory.pending) <= 2, "one deadline serves for all"
    short = world.begun(timeout_ms=10)
    world.add(short)
    world.purgatory.advance(10)
    assert world.state() == "CompleteAbort"


def test_a_partition_without_a_leader_is_marked_when_it_has_one() -> None:
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer, T0, T1)
    partition = world.topics.partition(*T1)
    assert partition is not None
    move_leader(partition, -1, [0, 1])
    assert world.end(producer)[0] == NONE
    assert (kinds(world), kinds(world, T1)) == (["commit"], [])
    assert world.state() == "PrepareCommit"
    assert world.add(producer) == CONCURRENT_TRANSACTIONS
    assert world.init()[0] == CONCURRENT_TRANSACTIONS
    assert world.end(producer)[0] == CONCURRENT_TRANSACTIONS
    world.purgatory.advance(1000)
    assert world.state() == "PrepareCommit"
    move_leader(partition, 0, [0, 1])
    world.purgatory.advance(1000)
    assert world.state() == "CompleteCommit"
    assert (kinds(world), kinds(world, T1)) == (["commit"], ["commit"])


def test_a_deleted_topic_is_no_obstacle() -> None:
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer, T0, ("u", 0))
    world.topics.delete("u")
    assert world.end(producer)[0] == NONE
    assert world.state() == "CompleteCommit"


def test_a_restarted_broker_aborts_what_nobody_ends() -> None:
    """B-E4: whose producer is gone is found out without any request."""
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer)
    world.send(producer)
    world.purgatory.advance(TIMEOUT_MS // 2)
    later = world.restarted()
    later.transactions.begin()
    later.worker.run()
    assert later.state() == "Ongoing"
    later.purgatory.advance(TIMEOUT_MS // 2)
    assert later.state() == "CompleteAbort"
    assert kinds(later) == ["record", "abort"]


def test_a_restarted_broker_completes_what_was_decided() -> None:
    """B-E4: killed between the decision and its markers, it writes them."""
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer)
    world.send(producer)
    world.transactions.markers.write = lambda metadata: None  # type: ignore[method-assign]
    assert world.end(producer)[0] == NONE
    assert kinds(world) == ["record"]
    later = world.restarted()
    later.transactions.begin()
    later.worker.run()
    assert kinds(later) == ["record", "commit"]
    assert later.state() == "CompleteCommit"
    assert later.end(producer)[0] == NONE


def test_the_next_coordinator_goes_on() -> None:
    """B-E1"""
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer)
    old = world.metadata()
    partition, old_node = old.partition, world.txn_node()
    move_leader(partition, 1 - old_node, [0, 1])
    world.transactions.leaders_moved()
    world.worker.run()
    assert old.is_dead
    found = world.transactions.end_transaction("x", producer, True, TV_0, old_node)
    assert found == (NOT_COORDINATOR, NO_PRODUCER)
    assert world.end(producer)[0] == NONE
    (batch,) = world.log().batches()
    marker = batch.end_marker()
    assert marker is not None
    assert marker.coordinator_epoch == partition.leader_epoch == 1


def test_an_id_that_nobody_uses_is_forgotten() -> None:
    """transactional.id.expiration.ms; not while a transaction is open."""
    world = TransactionWorld(transactional_id_expiration_ms=2 * HOUR_MS)
    producer = world.begun(timeout_ms=900_000)
    world.begun("y")
    world.purgatory.advance(HOUR_MS)
    assert world.add(producer) == NONE
    assert world.end(producer)[0] == NONE
    world.purgatory.advance(HOUR_MS)
    assert world.transactions.existing("y", None) is None
    assert world.state() == "CompleteCommit"
    world.purgatory.advance(2 * HOUR_MS)
    assert world.transactions.existing("x", None) is None
    assert world.add(producer) == INVALID_PRODUCER_ID_MAPPING
    assert world.restarted().transactions.existing("x", None) is None


# Offsets of groups.


def test_offsets_count_when_their_transaction_is_committed() -> None:
    """KIP-447; B-E2"""
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer, world.offsets_place())
    assert world.commit_offset(producer, 5) == NONE
    assert world.fetched() == {}
    node = world.node()
    assert world.offsets.fetch("g", [T0, T1], node, True) == (NONE, {T0: UNSTABLE})
    world.end(producer)
    assert world.fetched() == {T0: 5}
    world.add(producer, world.offsets_place())
    assert world.commit_offset(producer, 9) == NONE
    assert world.fetched() == {T0: 5}
    world.end(producer, False)
    assert world.fetched() == {T0: 5}
    assert world.restarted().fetched() == {T0: 5}


def test_offsets_of_an_open_transaction_survive_a_restart() -> None:
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer, world.offsets_place())
    world.commit_offset(producer, 5)
    later = world.restarted()
    assert later.offsets.fetch("g", None, later.node(), True)[1] == {}
    assert later.offsets.fetch("g", [T0], later.node(), True)[1] == {T0: UNSTABLE}
    later.end(producer)
    assert later.fetched() == {T0: 5}
    assert later.restarted().fetched() == {T0: 5}


def test_what_was_committed_without_a_transaction_meanwhile_counts() -> None:
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer, world.offsets_place())
    world.commit_offset(producer, 5)
    world.commit({T0: 7})
    world.end(producer)
    assert world.fetched() == {T0: 7}
    assert world.restarted().fetched() == {T0: 7}


def test_groups_that_another_node_reads_before_a_marker_is_written_get_it() -> None:
    """Else their offsets would be undecided until the next move."""
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer, world.offsets_place())
    world.commit_offset(producer, 5)
    manager = world.coordinator.manager
    items_in = manager.items_in

    def found_too_early(partition: Partition) -> list[Group]:
        manager.items_in = items_in  # type: ignore[method-assign]
        found = items_in(partition)
        move_leader(partition, 1 - world.node(), [0, 1])
        assert world.offsets.fetch("g", [T0], world.node(), True)[1] == {T0: UNSTABLE}
        return found

    manager.items_in = found_too_early  # type: ignore[method-assign]
    assert world.end(producer)[0] == NONE
    assert world.state() == "CompleteCommit"
    assert world.offsets.fetch("g", [T0], world.node(), True)[1][T0].offset == 5


def test_groups_that_are_being_read_get_their_marker_later() -> None:
    world = TransactionWorld()
    producer = world.begun()
    world.add(producer, world.offsets_place())
    world.commit_offset(producer, 5)
    while world.partition().log.size_bytes <= 256 * 1024:
        world.commit({("t", 2): 1}, metadata="x" * 4000)
    later = world.restarted()
    assert later.end(producer)[0] == NONE
    assert later.state() == "PrepareCommit"
    later.worker.run()
    later.purgatory.advance(100)
    assert later.state() == "CompleteCommit"
    assert later.fetched()[T0] == 5
    assert kinds(later, later.offsets_place()).count("commit") == 1

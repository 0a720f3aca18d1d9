"""What clients are told that put something into a transaction (B-E4, B-D1, B-D6.3)."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fastprod.broker.server.acl import Acl, Operation, PatternType, Permission, ResourceType
from fastprod.error_codes import (
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    INVALID_GROUP_ID,
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_TXN_STATE,
    NONE,
    NOT_ENOUGH_REPLICAS,
    OPERATION_NOT_ATTEMPTED,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    PRODUCER_FENCED,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTION_ABORTABLE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSTABLE_OFFSET_COMMIT,
)
from fastprod.protocol.messages.group.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from fastprod.protocol.messages.transaction.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from support.broker.transaction_asker import TransactionAsker
from support.broker.world import BrokerWorld


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    with BrokerWorld(
        topics={"t": 2},
        transaction_state_log_num_partitions=1,
        offsets_topic_num_partitions=1,
    ) as made:
        yield made


@pytest.fixture
def asker(world: BrokerWorld) -> TransactionAsker:
    """A producer that may begin a transaction."""
    made = TransactionAsker(world.ask, "x", "t")
    assert made.find() == NONE
    assert made.init() == NONE
    return made


def fetched(world: BrokerWorld, stable: bool = True) -> tuple[int, int]:
    """Offset and code of t-0 in the group g."""
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    asked = OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)], require_stable=stable
    )
    (group,) = world.ask("OffsetFetch", 9, asked).groups
    (found,) = group.topics[0].partitions
    return found.committed_offset, found.error_code


@pytest.mark.parametrize("version", range(4))
def test_partitions_are_added_all_or_none(asker: TransactionAsker, version: int) -> None:
    """B-E4"""
    assert asker.add(0, 7, version=version) == [OPERATION_NOT_ATTEMPTED, UNKNOWN_TOPIC_OR_PARTITION]
    assert asker.add(0, 1, version=version) == [NONE, NONE]
    stale = asker.twin()
    stale.producer = asker.producer[0], asker.producer[1] + 1
    fenced = PRODUCER_FENCED if version >= 2 else INVALID_PRODUCER_EPOCH
    assert stale.add(0, version=version) == [fenced]
    stale.producer = 77, 0
    assert stale.add(0, version=version) == [INVALID_PRODUCER_ID_MAPPING]


def test_a_broker_adds_and_verifies_for_its_clients(
    world: BrokerWorld, asker: TransactionAsker
) -> None:
    """KIP-890"""

    def ask(verifies: bool, *partitions: int) -> list[int]:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id="x",
            producer_id=asker.producer[0],
            producer_epoch=asker.producer[1],
            verify_only=verifies,
            topics=[AddPartitionsToTxnTopic(name="t", partitions=list(partitions))],
        )
        found = world.ask(
            "AddPartitionsToTxn", 5, AddPartitionsToTxnRequest(transactions=[transaction])
        )
        assert found.error_code == NONE
        (result,) = found.results_by_transaction
        (topic,) = result.topic_results
        return [each.partition_error_code for each in topic.results_by_partition]

    assert ask(True, 0) == [TRANSACTION_ABORTABLE]
    assert ask(False, 0) == [NONE]
    assert ask(True, 0, 1) == [NONE, TRANSACTION_ABORTABLE]


@pytest.mark.parametrize(
    ("version", "code"),
    [(9, INVALID_TXN_STATE), (10, INVALID_TXN_STATE), (11, TRANSACTION_ABORTABLE)],
)
def test_a_record_of_no_transaction_is_refused(
    asker: TransactionAsker, version: int, code: int
) -> None:
    """B-D1 INVALID_TXN_STATE, KIP-890"""
    assert asker.send(version=version) == code
    asker.add(1)
    assert asker.send(version=version) == code
    asker.add(0)
    assert asker.send(version=version) == NONE
    assert asker.end() == NONE
    # The next transaction has to begin first.
    assert asker.send(version=version) == code


def test_a_record_of_version_12_adds_its_partition(asker: TransactionAsker) -> None:
    """KIP-890"""
    assert asker.send(version=12) == NONE
    assert asker.describe().topics[0].partitions == [0]
    asker.sequence = 0
    assert asker.send(version=12, partition=1) == NONE
    before = asker.twin()
    assert asker.end(version=5) == NONE
    assert asker.producer == (before.producer[0], before.producer[1] + 1)
    assert before.send(version=12) == INVALID_PRODUCER_EPOCH
    assert asker.send(version=12) == NONE


def test_the_first_record_of_version_12_has_the_first_sequence(asker: TransactionAsker) -> None:
    """KIP-890: what came before it was refused for a moment, and comes again."""
    asker.sequence = 1
    assert asker.send(version=12) == OUT_OF_ORDER_SEQUENCE_NUMBER
    asker.sequence = 0
    assert asker.send(version=12) == NONE
    assert asker.send(version=12) == NONE
    assert asker.end(version=5) == NONE
    # With AddPartitionsToTxn they go on from one transaction to the next.
    asker.add(1)
    asker.sequence = 1
    assert asker.send(version=11, partition=1) == NONE


def test_a_producer_with_a_transaction_writes_nothing_else(asker: TransactionAsker) -> None:
    """B-C6.2: its row of transactions."""
    asker.add(0)
    assert asker.send() == NONE
    assert asker.send(transactional=False) == INVALID_TXN_STATE
    assert asker.send() == NONE


def test_without_a_coordinator_a_producer_tries_again(
    world: BrokerWorld, asker: TransactionAsker
) -> None:
    """B-D1: an error that every client tries again after."""
    asker.add(0)
    world.state.transaction_coordinator.close()
    assert asker.send() == NOT_ENOUGH_REPLICAS


def test_records_need_their_transactional_id(asker: TransactionAsker) -> None:
    """B-D1 TRANSACTIONAL_ID_AUTHORIZATION_FAILED"""
    asker.add(0)
    assert asker.send(named=False) == TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", range(5))
def test_offsets_wait_for_the_end(
    world: BrokerWorld, asker: TransactionAsker, version: int
) -> None:
    """B-E2, KIP-447"""
    assert asker.add_offsets("g", version=min(version, 4)) == NONE
    assert asker.commit_offset("g", 5, version=version) == NONE
    assert fetched(world) == (-1, UNSTABLE_OFFSET_COMMIT)
    assert fetched(world, stable=False) == (-1, NONE)
    assert asker.end() == NONE
    assert fetched(world) == (5, NONE)
    assert asker.add_offsets("g") == NONE
    assert asker.commit_offset("g", 9, version=version) == NONE
    assert asker.end(committed=False) == NONE
    assert fetched(world) == (5, NONE)


def test_offsets_of_version_5_add_their_group(world: BrokerWorld, asker: TransactionAsker) -> None:
    """KIP-890"""
    assert asker.find(0, "g") == NONE
    assert asker.commit_offset("g", 5, version=4) == TRANSACTION_ABORTABLE
    assert asker.commit_offset("g", 5, version=5) == NONE
    assert fetched(world) == (-1, UNSTABLE_OFFSET_COMMIT)
    before = asker.twin()
    assert asker.end(version=5) == NONE
    assert fetched(world) == (5, NONE)
    assert before.commit_offset("g", 9, version=5) == INVALID_PRODUCER_EPOCH


def test_offsets_are_for_groups_and_partitions_that_there_can_be(asker: TransactionAsker) -> None:
    """B-E2"""
    assert asker.find(0, "g") == NONE
    assert asker.commit_offset("", 5, version=5) == INVALID_GROUP_ID
    assert asker.commit_offset("g", 5, version=5, partition=7) == UNKNOWN_TOPIC_OR_PARTITION


def allow(world: BrokerWorld, kind: ResourceType, name: str, operation: Operation) -> None:
    acl = Acl("User:ada", Permission.ALLOW, operation, kind, name, PatternType.LITERAL)
    world.state.authorizer.add([acl])


def test_each_resource_of_a_transaction_has_its_own_rules() -> None:
    """B-D6.3: where Kafka asks."""
    with BrokerWorld(
        topics={"t": 2}, transaction_state_log_num_partitions=1, offsets_topic_num_partitions=1
    ) as world:
        asker = TransactionAsker(world.ask, "x", "t")
        assert (asker.find(), asker.find(0, "g"), asker.init()) == (NONE, NONE, NONE)
        world.principal = "User:ada"
        # From the first rule on, what none allows is denied.
        allow(world, ResourceType.TOPIC, "another", Operation.READ)
        assert asker.init() == TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert asker.add(0) == [TRANSACTIONAL_ID_AUTHORIZATION_FAILED]
        assert asker.send() == TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert asker.add_offsets("g") == TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert asker.commit_offset("g", 1) == TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert asker.end() == TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert asker.describe().error_code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        assert asker.listed().transaction_states == []
        allow(world, ResourceType.TRANSACTIONAL_ID, "x", Operation.WRITE)
        assert asker.init() == NONE
        assert asker.add(0) == [TOPIC_AUTHORIZATION_FAILED]
        assert asker.send() == TOPIC_AUTHORIZATION_FAILED
        assert asker.add_offsets("g") == GROUP_AUTHORIZATION_FAILED
        assert asker.commit_offset("g", 1) == GROUP_AUTHORIZATION_FAILED
        assert asker.describe().error_code == NONE
        assert len(asker.listed().transaction_states) == 1
        assert asker.producers().error_code == TOPIC_AUTHORIZATION_FAILED
        broker = world.ask("AddPartitionsToTxn", 4, AddPartitionsToTxnRequest(transactions=[]))
        assert broker.error_code == CLUSTER_AUTHORIZATION_FAILED
        allow(world, ResourceType.GROUP, "g", Operation.READ)
        assert asker.add_offsets("g") == NONE
        assert asker.commit_offset("g", 1) == TOPIC_AUTHORIZATION_FAILED
        allow(world, ResourceType.TOPIC, "t", Operation.READ)
        assert asker.commit_offset("g", 1) == NONE
        allow(world, ResourceType.TOPIC, "t", Operation.WRITE)
        assert asker.add(0) == [NONE]
        assert asker.send() == NONE
        assert asker.producers().error_code == NONE
        assert asker.end() == NONE

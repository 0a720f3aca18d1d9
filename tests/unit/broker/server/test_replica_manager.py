"""ReplicaManager: what each partition answers, with Kafka's code (B-D1, B-D2, B-D3, B-C5)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import fastprod.broker.log.log as log_module
from fastprod.broker.cluster.partition import Partition
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker
from fastprod.broker.log.log import Log
from fastprod.broker.log.producer_replay import replay
from fastprod.broker.log.record_batch import Producer
from fastprod.broker.log.transaction_index import AbortedTxn
from fastprod.broker.server.replica_manager import (
    AppendResult,
    FetchWant,
    ReadResult,
    ReplicaManager,
)
from fastprod.error_codes import (
    CORRUPT_MESSAGE,
    FENCED_LEADER_EPOCH,
    INVALID_RECORD,
    INVALID_TOPIC_EXCEPTION,
    NONE,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_LEADER_EPOCH,
    UNKNOWN_TOPIC_OR_PARTITION,
    UNSUPPORTED_COMPRESSION_TYPE,
    UNSUPPORTED_VERSION,
)
from support.broker.world import (
    PATIENCE_S,
    BrokerWorld,
    batch_of,
    fetch_request,
    move_leader,
    produce_request,
)
from support.oracle.record_batch import decode_batches


@pytest.fixture
def world() -> Iterator[BrokerWorld]:
    with BrokerWorld(brokers=2, topics={"t": 2}) as made:
        yield made


def append(
    world: BrokerWorld,
    batch: bytes | None,
    partition: int = 0,
    *,
    topic: str = "t",
    acks: int = -1,
    version: int = 9,
    node_id: int | None = None,
) -> AppendResult:
    """Append one batch, at the node that leads the partition unless told otherwise."""
    records = None if batch is None else memoryview(bytearray(batch))
    node = partition % 2 if node_id is None else node_id
    return world.state.replica_manager.append(node, topic, partition, records, acks, version)


def read(manager: ReplicaManager, *wanted: FetchWant, max_bytes: int = 1 << 20) -> list[ReadResult]:
    return manager.read(0, wanted, max_bytes, 0)


def want(offset: int, partition: int = 0, max_bytes: int = 1 << 20) -> FetchWant:
    return FetchWant("t", partition, offset, max_bytes)


def test_offsets_are_given_in_order(world: BrokerWorld) -> None:
    found = [append(world, batch_of(b"a", b"b")) for _ in range(3)]
    assert [(each.error, each.base_offset) for each in found] == [(0, 0), (0, 2), (0, 4)]
    assert {each.log_append_time_ms for each in found} == {-1}


@pytest.mark.parametrize(
    ("topic", "partition", "code"),
    [
        ("t", 7, UNKNOWN_TOPIC_OR_PARTITION),
        ("unknown", 0, UNKNOWN_TOPIC_OR_PARTITION),
        ("not legal", 0, INVALID_TOPIC_EXCEPTION),
        ("__consumer_offsets", 0, INVALID_TOPIC_EXCEPTION),
    ],
)
def test_no_topic_is_made_by_a_produce(
    world: BrokerWorld, topic: str, partition: int, code: int
) -> None:
    """B-D1 UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION-name and
    INVALID_TOPIC_EXCEPTION-internal.
    """
    found = append(world, batch_of(b"a"), partition, topic=topic)
    assert (found.error, found.base_offset, found.log_start_offset) == (code, -1, -1)
    assert found.message
    assert [each.name for each in world.state.topics.all()] == ["t"]


@pytest.mark.parametrize("batch", [None, b""])
def test_no_batch_at_all_is_an_invalid_record(world: BrokerWorld, batch: bytes | None) -> None:
    """B-D1 INVALID_RECORD-batches: none."""
    assert append(world, batch).error == INVALID_RECORD


def test_two_batches_are_an_invalid_record(world: BrokerWorld) -> None:
    """B-D1 INVALID_RECORD-batches: more than one."""
    assert append(world, batch_of(b"a") * 2).error == INVALID_RECORD


def test_zstd_needs_version_7(world: BrokerWorld) -> None:
    """B-D1 UNSUPPORTED_COMPRESSION_TYPE."""
    batch = batch_of(b"a", codec=4, compress=lambda data: data)
    assert append(world, batch, version=6).error == UNSUPPORTED_COMPRESSION_TYPE
    assert append(world, batch, version=7).error == CORRUPT_MESSAGE


def test_another_node_says_who_leads(world: BrokerWorld) -> None:
    """B-D1 NOT_LEADER_OR_FOLLOWER."""
    found = append(world, batch_of(b"a"), 0, node_id=1)
    assert found.error == NOT_LEADER_OR_FOLLOWER
    assert found.partition is not None
    assert found.partition.leader == 0


def test_too_few_replicas_in_sync_refuse_acks_all_alone(world: BrokerWorld) -> None:
    """B-D1 NOT_ENOUGH_REPLICAS; B-D1.5: nothing is appended."""
    world.state.topics.create("two", 1, 2, {"min.insync.replicas": "2"})
    world.state.cluster.node_down(1, True)
    assert append(world, batch_of(b"a"), topic="two").error == NOT_ENOUGH_REPLICAS
    assert append(world, batch_of(b"a"), topic="two", acks=1).error == NONE


def test_the_first_check_that_fails_decides(world: BrokerWorld) -> None:
    """B-D1: place, shape, internal topic, leader, replicas in sync, and the log's own checks
    last.
    """
    world.state.topics.create("two", 1, 2, {"min.insync.replicas": "2"})
    world.state.cluster.node_down(1, True)
    damaged = batch_of(b"a")[:-1] + b"?"
    found = [
        append(world, None, topic="unknown"),
        append(world, None, topic="__consumer_offsets"),
        append(world, damaged, topic="__consumer_offsets"),
        append(world, None, topic="two", node_id=1),
        append(world, damaged, topic="two", node_id=1),
        append(world, damaged, topic="two"),
        append(world, damaged, topic="two", acks=1),
    ]
    assert [each.error for each in found] == [
        UNKNOWN_TOPIC_OR_PARTITION,
        INVALID_RECORD,
        INVALID_TOPIC_EXCEPTION,
        INVALID_RECORD,
        NOT_LEADER_OR_FOLLOWER,
        NOT_ENOUGH_REPLICAS,
        CORRUPT_MESSAGE,
    ]


def test_a_refused_batch_brings_its_reasons(world: BrokerWorld) -> None:
    """B-D1.2"""
    far = world.clock.time_ms() + 10_000_000
    found = append(world, batch_of(b"a", b"b", timestamp=far))
    assert found.error == 32
    assert [at for at, _ in found.record_errors] == [0, 1]
    assert found.message


def test_a_read_in_the_middle_of_a_batch_gives_the_whole_batch(world: BrokerWorld) -> None:
    """B-B2.6, B-C5.1"""
    for n in range(3):
        append(world, batch_of(b"%d" % n, b"x", b"y"))
    for offset in range(9):
        (result,) = read(world.state.replica_manager, want(offset))
        data = b"".join(map(bytes, result.records))
        assert decode_batches(data)[0].base_offset == offset // 3 * 3
        assert len(decode_batches(data)) == 3 - offset // 3
        assert result.size_bytes == len(data)


def test_the_end_is_empty_and_beyond_it_is_out_of_range(world: BrokerWorld) -> None:
    """B-C5.2, B-D2.2"""
    append(world, batch_of(b"a"))
    at_end, above, below = read(world.state.replica_manager, want(1), want(2), want(-1))
    assert (at_end.error, at_end.high_watermark, at_end.records) == (0, 1, [])
    for each in (above, below):
        assert each.error == OFFSET_OUT_OF_RANGE
        assert each[1:4] == (-1, -1, -1)


def test_whole_batches_up_to_the_limit_and_one_even_if_it_is_larger(world: BrokerWorld) -> None:
    """B-C5.4"""
    batch = batch_of(b"x" * 100)
    for _ in range(4):
        append(world, batch)
    manager = world.state.replica_manager
    sizes = [
        read(manager, want(0, max_bytes=limit))[0].size_bytes
        for limit in (0, 1, len(batch), 2 * len(batch) - 1, 2 * len(batch))
    ]
    assert [size // len(batch) for size in sizes] == [1, 1, 1, 1, 2]
    assert all(size % len(batch) == 0 for size in sizes)


def test_only_the_first_partition_with_data_may_exceed_the_limit(world: BrokerWorld) -> None:
    """B-C5.4, B-D2.4"""
    world.state.topics.create("u", 3, assignment=None)
    for partition in (1, 2):
        move_leader(world.state.topics.partition("u", partition), 0, [0, 1])
        world.produce(batch_of(b"x" * 100), "u", partition)
    wanted = [FetchWant("u", each, 0, 1 << 20) for each in range(3)]
    found = read(world.state.replica_manager, *wanted, max_bytes=10)
    assert [bool(each.records) for each in found] == [False, True, False]
    assert [each.error for each in found] == [0, 0, 0]
    beyond = read(
        world.state.replica_manager, wanted[1], FetchWant("u", 2, 5, 1 << 20), max_bytes=10
    )
    assert [each.error for each in beyond] == [0, OFFSET_OUT_OF_RANGE]


@pytest.mark.parametrize(
    ("epoch", "code"),
    [
        (-1, NONE),
        (0, FENCED_LEADER_EPOCH),
        (1, NONE),
        (2, UNKNOWN_LEADER_EPOCH),
    ],
)
def test_the_leader_epoch_a_client_believes_in_is_checked(
    world: BrokerWorld, epoch: int, code: int
) -> None:
    """B-D2.1"""
    partition = world.state.topics.partition("t", 0)
    assert partition is not None
    move_leader(partition, 0, [0, 1])
    manager = world.state.replica_manager
    asked = FetchWant("t", 0, 0, 100, epoch)
    assert read(manager, asked)[0].error == code
    assert manager.list_offset(0, asked, -1, 0, 7).error == code


def test_offsets_by_sentinel_and_by_time(world: BrokerWorld) -> None:
    """B-D3"""
    manager = world.state.replica_manager
    base = world.clock.time_ms() - 1000
    for n in (0, 20, 10):
        append(world, batch_of(b"a", b"b", timestamp=base + n))

    def find(timestamp: int, version: int = 7) -> tuple[int, ...]:
        return tuple(manager.list_offset(0, want(0), timestamp, 0, version))

    assert find(-1) == (0, 6, -1, 0)
    assert find(-2) == (0, 0, -1, 0)
    assert find(-3) == (0, 3, base + 21, 0)
    assert find(base) == (0, 0, base, 0)
    assert find(base + 1) == (0, 1, base + 1, 0)
    assert find(base + 2) == (0, 2, base + 20, 0)
    assert find(base + 22)[:3] == (0, -1, -1)
    for timestamp, version in ((-3, 6), (-4, 7), (-99, 7)):
        assert find(timestamp, version)[0] == UNSUPPORTED_VERSION


def test_a_deleted_topic_is_unknown(world: BrokerWorld) -> None:
    """B-D4.3"""
    append(world, batch_of(b"a"))
    world.state.topics.delete("t")
    assert append(world, batch_of(b"a")).error == UNKNOWN_TOPIC_OR_PARTITION
    assert read(world.state.replica_manager, want(0))[0].error == UNKNOWN_TOPIC_OR_PARTITION


def test_what_a_partition_raises_is_its_own(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake of the broker's, too; what is said of the others is true."""

    def fails(*_: object) -> None:
        raise KeyError("a mistake")

    world.state.topics.create("u", 1)
    failing = world.state.topics.partition("t", 0)
    assert failing is not None
    for name in ("validate", "read"):
        monkeypatch.setattr(Log, name, _only_of(failing.log, getattr(Log, name), fails))
    message = produce_request([("t", 0, batch_of(b"a")), ("u", 0, batch_of(b"b"))])
    appended = world.ask("Produce", 9, message).responses
    assert [each.partition_responses[0].error_code for each in appended] == [-1, 0]
    fetched = world.ask("Fetch", 9, fetch_request([("t", 0, 0), ("u", 0, 0)])).responses
    assert [each.partitions[0].error_code for each in fetched] == [-1, 0]
    assert fetched[1].partitions[0].records


def _only_of(log: Log, usual: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
    """A method that does something else for one log."""
    return lambda self, *words: (other if self is log else usual)(self, *words)


def aborted(partition: Partition) -> None:
    """One record of a transaction that was aborted."""
    fields = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    partition.append(bytearray(batch_of(b"a", **fields)), is_verified=True)
    partition.append_marker(EndTransactionMarker(Producer(5, 0), 0, False))


def test_records_that_go_meanwhile_take_along_what_is_known_of_them(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C7.5: without it the records of an aborted transaction would count."""
    partition = world.state.topics.partition("t", 0)
    assert partition is not None
    aborted(partition)
    assert len(world.state.replica_manager.read(0, [want(0)], 1 << 20, 1)[0].aborted) == 1

    def late(log: Log, offset: int, end_offset: int) -> list[AbortedTxn]:
        monkeypatch.undo()
        log.delete_records(log.log_end_offset)
        return log.aborted_transactions(offset, end_offset)

    monkeypatch.setattr(Log, "aborted_transactions", late)
    (found,) = world.state.replica_manager.read(0, [want(0)], 1 << 20, 1)
    assert (found.error, found.records) == (OFFSET_OUT_OF_RANGE, [])


def test_while_a_tail_is_lost_nothing_undecided_or_aborted_is_read_as_committed(
    world: BrokerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B-C7.3, B-C7.5: which transactions are open and aborted is found out anew then."""
    partition = world.state.topics.partition("t", 0)
    assert partition is not None
    aborted(partition)
    fields = {"producer_id": 6, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    partition.append(bytearray(batch_of(b"open", **fields)), is_verified=True)
    partition.append(bytearray(batch_of(b"lost")))
    found: list[ReadResult] = []
    reader = threading.Thread(
        target=lambda: found.extend(world.state.replica_manager.read(0, [want(0)], 1 << 20, 1))
    )

    def replayed(*args: Any) -> None:
        reader.start()
        # It reads now, or waits.
        reader.join(0.05)
        replay(*args)

    monkeypatch.setattr(log_module, "replay", replayed)
    assert partition.log.truncate_to(3) == 3
    reader.join(PATIENCE_S)
    assert [(each.last_stable_offset, len(each.aborted)) for each in found] == [(2, 1)]

"""The check that the other proofs here stand on: it takes what is right and names each fault."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from fastprod.records import RecordMetadata
from support.oracle import murmur2
from support.records.ledger import Difference, Ledger
from support.records.readers import ReadRecord
from support.records.workload import LARGEST_VALUE_BYTES, Workload

COUNT = 400
PARTITIONS = 3

Log = dict[int, list[ReadRecord]]


def written(workload: Workload) -> tuple[Log, Ledger]:
    """A topic as it should be, with its acknowledgements."""
    log: Log = {partition: [] for partition in range(PARTITIONS)}
    ledger = Ledger(workload)
    for index in range(workload.count):
        sent = workload.record(index)
        partition = index // 7 % PARTITIONS
        if sent.key is not None:
            partition = (murmur2.unsigned(sent.key) & 0x7FFFFFFF) % PARTITIONS
        offset = len(log[partition])
        log[partition].append(
            ReadRecord(partition, offset, sent.timestamp_ms, sent.key, sent.value, sent.headers)
        )
        ledger.acknowledged(
            index, RecordMetadata("any", partition, offset, sent.timestamp_ms, 0, 0)
        )
    return log, ledger


def checked(log: Log, ledger: Ledger) -> None:
    ledger.check(itertools.chain.from_iterable(log.values()), PARTITIONS)


def test_a_topic_with_every_record_once_in_order_is_accepted() -> None:
    log, ledger = written(Workload(COUNT))
    checked(log, ledger)


def lose_the_last(log: Log) -> None:
    log[1].pop()


def lose_one_within(log: Log) -> None:
    del log[1][5]


def lose_one_and_close_the_gap(log: Log) -> None:
    del log[1][5]
    log[1][5:] = [each._replace(offset=each.offset - 1) for each in log[1][5:]]


def double(log: Log) -> None:
    log[2].append(log[2][3]._replace(offset=len(log[2])))


def swap(log: Log) -> None:
    first, second = log[0][0], log[0][20]
    log[0][0] = second._replace(offset=first.offset)
    log[0][20] = first._replace(offset=second.offset)


def change_a_value(log: Log) -> None:
    log[0][9] = log[0][9]._replace(value=(log[0][9].value or b"") + b"x")


def change_a_key(log: Log) -> None:
    log[0][9] = log[0][9]._replace(key=(log[0][9].key or b"") + b"x")


def forget_an_empty_value(log: Log) -> None:
    at = next(n for n, each in enumerate(log[0]) if each.value == b"")
    log[0][at] = log[0][at]._replace(value=None)


def turn_headers_round(log: Log) -> None:
    at = next(n for n, each in enumerate(log[0]) if len(each.headers) > 1)
    log[0][at] = log[0][at]._replace(headers=log[0][at].headers[::-1])


def shift_a_timestamp(log: Log) -> None:
    log[0][9] = log[0][9]._replace(timestamp_ms=log[0][9].timestamp_ms - 10_000_000)


def move_to_another_partition(log: Log) -> None:
    at = next(n for n, each in enumerate(log[0]) if each.key is not None)
    moved = log[0][at]
    del log[0][at]
    log[0][at:] = [each._replace(offset=each.offset - 1) for each in log[0][at:]]
    log[1].append(moved._replace(partition=1, offset=len(log[1])))


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lose_the_last, "missing"),
        (lose_one_within, "should come next"),
        (lose_one_and_close_the_gap, "was acknowledged at"),
        (double, "is there twice"),
        (swap, "was acknowledged at"),
        (change_a_value, "sent: "),
        (change_a_key, "sent: "),
        (forget_an_empty_value, "sent: "),
        (turn_headers_round, "sent: "),
        (shift_a_timestamp, "no record was sent with this timestamp"),
        (move_to_another_partition, "was acknowledged at"),
    ],
)
def test_a_fault_is_named(fault: Callable[[Log], None], said: str) -> None:
    log, ledger = written(Workload(COUNT))
    fault(log)
    with pytest.raises(Difference, match=said):
        checked(log, ledger)


def test_order_is_checked_when_the_producer_itself_mixed_it_up() -> None:
    workload = Workload(COUNT)
    ledger = Ledger(workload)
    log: Log = {0: []}
    for offset, index in enumerate([0, 4, 12, 8]):
        sent = workload.record(index)
        log[0].append(ReadRecord(0, offset, sent.timestamp_ms, sent.key, sent.value, sent.headers))
        ledger.acknowledged(index, RecordMetadata("any", 0, offset, sent.timestamp_ms, 0, 0))
    with pytest.raises(Difference, match="record 8 comes after record 12"):
        ledger.check(log[0], 0)


def test_a_key_in_another_partition_than_kafkas_is_named() -> None:
    workload = Workload(COUNT)
    ledger = Ledger(workload)
    index = next(n for n in range(COUNT) if workload.record(n).key)
    sent = workload.record(index)
    assert sent.key is not None
    wrong = ((murmur2.unsigned(sent.key) & 0x7FFFFFFF) + 1) % PARTITIONS
    ledger.acknowledged(index, RecordMetadata("any", wrong, 0, sent.timestamp_ms, 0, 0))
    record = ReadRecord(wrong, 0, sent.timestamp_ms, sent.key, sent.value, sent.headers)
    with pytest.raises(Difference, match="Kafka's partitioner says"):
        ledger.check([record], PARTITIONS)


def test_an_acknowledgement_that_comes_twice_or_without_offset_is_named() -> None:
    workload = Workload(COUNT)
    ledger = Ledger(workload)
    good = RecordMetadata("any", 0, 0, workload.timestamp_ms(5), 0, 0)
    ledger.acknowledged(5, good)
    with pytest.raises(Difference, match="twice"):
        ledger.acknowledged(5, good)
    with pytest.raises(Difference, match="is acknowledged as"):
        ledger.acknowledged(6, RecordMetadata("any", 0, -1, workload.timestamp_ms(6), 0, 0))
    with pytest.raises(Difference, match="is acknowledged as"):
        ledger.acknowledged(7, RecordMetadata("any", 0, 1, 17, 0, 0))


def test_the_workload_has_every_kind_of_record_and_a_timestamp_of_its_own_for_each() -> None:
    workload = Workload(20_000)
    records = [workload.record(index) for index in range(workload.count)]
    again = Workload(20_000)
    assert records == [again.record(index) for index in range(workload.count)]
    assert records[7] != Workload(20_000, seed=2).record(7)
    assert [workload.index_of(each.timestamp_ms) for each in records] == list(range(20_000))
    sizes = [-1 if each.value is None else len(each.value) for each in records]
    assert {-1, 0, LARGEST_VALUE_BYTES} <= set(sizes)
    assert 0.8e3 < sum(sizes) / len(sizes) < 1.2e3
    assert {None, b""} <= {each.key for each in records}
    assert {0, 1, 2, 4} <= {len(each.headers) for each in records}
    lanes = {(each.key, index % 4) for index, each in enumerate(records) if each.key}
    assert len(lanes) == len({key for key, _ in lanes})


def test_a_failed_record_may_be_there_once_or_not_at_all() -> None:
    workload = Workload(COUNT)
    ledger = Ledger(workload)
    for index in range(2, COUNT):
        ledger.failed(index)
    sent = [workload.record(index) for index in (0, 1, 9)]
    log = [
        ReadRecord(0, offset, each.timestamp_ms, each.key, each.value, each.headers)
        for offset, each in enumerate(sent)
    ]
    for index in (0, 1):
        ledger.acknowledged(
            index, RecordMetadata("any", 0, index, workload.timestamp_ms(index), 0, 0)
        )
    ledger.check(log, 0)
    with pytest.raises(Difference, match="is there twice"):
        ledger.check([*log, log[2]._replace(offset=3)], 0)
    with pytest.raises(Difference, match="1 of 400 records are missing, the first is record 1"):
        ledger.check(log[:1], 0)

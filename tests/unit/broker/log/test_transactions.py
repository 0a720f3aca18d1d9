"""Transactions in a partition's log (B-C7), and their index (B-C3.4)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from fastprod.broker.log.end_transaction_marker import EndTransactionMarker, encode_marker
from fastprod.broker.log.log import Log, LogError
from fastprod.broker.log.record_batch import Producer
from fastprod.broker.log.transaction_index import AbortedTxn, TransactionIndex
from fastprod.broker.threads.clock import FakeClock
from fastprod.error_codes import (
    INVALID_PRODUCER_EPOCH,
    INVALID_TXN_STATE,
    TRANSACTION_COORDINATOR_FENCED,
)
from support.broker.log_batches import TIME, batch, open_log
from support.oracle.record_batch import decode_batch

ONE, TWO = 1, 2
LogMaker = Callable[..., Log]


@pytest.fixture(params=["memory", "files"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> LogMaker:
    directory = None if request.param == "memory" else tmp_path
    return lambda **settings: open_log(directory, **settings)


def send(
    log: Log, producer_id: int, sequence: int = 0, epoch: int = 0, transactional: bool = True
) -> int:
    """Append a record, and return its offset."""
    data = batch(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
    )
    return log.append(data, 0, is_verified=True).base_offset


def end(
    log: Log, producer_id: int, is_commit: bool = True, epoch: int = 0, coordinator: int = 0
) -> int:
    marker = EndTransactionMarker(Producer(producer_id, epoch), coordinator, is_commit)
    return log.append_marker(marker, 0).base_offset


def refusal(log: Log, *args: int, **settings: bool) -> int:
    data = batch(
        producer_id=args[0],
        base_sequence=args[1],
        producer_epoch=args[2],
        transactional=settings.get("transactional", True),
    )
    with pytest.raises(LogError) as caught:
        log.append(data, 0, is_verified=settings.get("is_verified", False))
    return caught.value.error_code


def test_a_marker_is_that_of_kafka() -> None:
    """B-C7.2: a control batch of one record, with neither codec nor sequence."""
    for is_commit in (False, True):
        marker = EndTransactionMarker(Producer(77, 5), 3, is_commit)
        found = decode_batch(bytes(encode_marker(marker, TIME)))
        assert (found.is_transactional, found.is_control, found.codec) == (True, True, 0)
        assert (found.producer_id, found.producer_epoch, found.base_sequence) == (77, 5, -1)
        (record,) = found.records
        assert record.key == struct.pack(">hh", 0, is_commit)
        assert record.value == struct.pack(">hi", 0, 3)


def test_readers_see_up_to_the_first_undecided_record(make: LogMaker) -> None:
    """B-C7.1, B-C7.3"""
    log = make()
    log.append(batch(), 0)
    assert log.last_stable_offset == 1
    assert send(log, ONE) == 1
    assert send(log, TWO) == 2
    before = log.appended_bytes
    log.append(batch(), 0)
    assert (log.last_stable_offset, log.high_watermark) == (1, 4)
    assert log.stable_bytes < before
    assert end(log, TWO) == 4
    assert log.last_stable_offset == 1
    end(log, ONE)
    assert log.last_stable_offset == log.log_end_offset == 6
    assert log.stable_bytes == log.appended_bytes
    assert [each.is_control for each in log.batches()] == [False] * 4 + [True] * 2


def test_aborts_are_noted_for_those_who_read_the_records(make: LogMaker) -> None:
    """B-C7.4, B-C7.5"""
    log = make()
    send(log, ONE)
    send(log, TWO)
    end(log, TWO, is_commit=False)
    send(log, TWO, 1)
    end(log, ONE, is_commit=False)
    end(log, TWO)
    first = AbortedTxn(TWO, 1, 2, 0)
    second = AbortedTxn(ONE, 0, 4, 3)
    assert log.aborted_transactions(0, 6) == [first, second]
    assert log.aborted_transactions(0, 1) == [second]
    assert log.aborted_transactions(3, 6) == [second]
    assert log.aborted_transactions(5, 6) == []
    # Nothing was in it: nobody has to skip anything.
    end(log, 3, is_commit=False)
    assert log.aborted_transactions(0, 7) == [first, second]


def test_what_was_not_verified_is_refused(make: LogMaker) -> None:
    """B-D1 INVALID_TXN_STATE, B-C6.2"""
    log = make()
    assert refusal(log, ONE, 0, 0) == INVALID_TXN_STATE
    send(log, ONE)
    assert log.is_in_transaction(ONE, 0)
    assert not log.is_in_transaction(ONE, 1)
    repeated = batch(producer_id=ONE, producer_epoch=0, base_sequence=0, transactional=True)
    assert log.append(repeated, 0).duplicate
    following = batch(producer_id=ONE, producer_epoch=0, base_sequence=1, transactional=True)
    assert log.append(following, 0).base_offset == 1
    assert refusal(log, ONE, 0, 1) == INVALID_TXN_STATE
    assert refusal(log, ONE, 2, 0, transactional=False) == INVALID_TXN_STATE
    end(log, ONE)
    assert refusal(log, ONE, 2, 0) == INVALID_TXN_STATE
    assert send(log, ONE, 2) == 3


def test_who_is_older_than_the_end_is_fenced(make: LogMaker) -> None:
    """B-C7.6"""
    log = make()
    send(log, ONE)
    end(log, ONE, epoch=3, coordinator=5)
    assert refusal(log, ONE, 1, 0, is_verified=True) == INVALID_PRODUCER_EPOCH
    with pytest.raises(LogError) as caught:
        end(log, ONE, epoch=2, coordinator=5)
    assert caught.value.error_code == INVALID_PRODUCER_EPOCH
    with pytest.raises(LogError) as caught:
        end(log, ONE, epoch=3, coordinator=4)
    assert caught.value.error_code == TRANSACTION_COORDINATOR_FENCED
    assert log.log_end_offset == 2
    # A new epoch begins with 0.
    assert send(log, ONE, 0, epoch=3) == 2


def test_an_open_transaction_keeps_its_producer_known() -> None:
    """B-C6.6"""
    clock = FakeClock(TIME)
    log = open_log(None, clock, producer_id_expiration_ms=1000, retention_ms=-1)
    send(log, ONE)
    send(log, TWO)
    end(log, TWO)
    clock.advance(1000)
    log.run_retention_now()
    assert [producer_id for producer_id, _ in log.producers()] == [ONE]
    assert log.last_stable_offset == 0


def test_what_is_cut_off_is_undecided_again(make: LogMaker) -> None:
    """B-C7.3, B-C8.3"""
    log = make()
    send(log, ONE)
    send(log, TWO)
    end(log, TWO, is_commit=False)
    end(log, ONE, is_commit=False)
    log.truncate_to(3)
    assert (log.last_stable_offset, log.log_end_offset) == (0, 3)
    assert log.aborted_transactions(0, 3) == [AbortedTxn(TWO, 1, 2, 0)]
    log.truncate_to(1)
    assert log.aborted_transactions(0, 1) == []
    end(log, ONE)
    assert log.last_stable_offset == 2


def test_the_log_may_begin_inside_a_transaction(make: LogMaker) -> None:
    log = make()
    send(log, ONE)
    send(log, ONE, 1)
    log.delete_records(1)
    assert log.last_stable_offset == 1


def filled(directory: Path) -> Log:
    """Aborts in several segments, and one transaction that is open."""
    log = open_log(directory, segment_bytes=400, index_interval_bytes=0)
    for turn in range(10):
        send(log, ONE, turn)
        end(log, ONE, is_commit=False)
    send(log, TWO)
    return log


def expected() -> list[AbortedTxn]:
    return [AbortedTxn(ONE, 2 * n, 2 * n + 1, 2 * n + 2) for n in range(10)]


@pytest.mark.parametrize("is_closed", [True, False])
def test_the_index_is_found_again(tmp_path: Path, is_closed: bool) -> None:
    """B-C3.4: 34 bytes an entry, beside the segment that has the marker."""
    log = filled(tmp_path)
    files = sorted((tmp_path / "t-0").glob("*.txnindex"))
    assert len(files) > 2
    assert sum(file.stat().st_size for file in files) == 34 * 10
    first = struct.unpack(">hqqqq", files[0].read_bytes()[:34])
    assert first == (0, *expected()[0])
    if is_closed:
        log.close()
    again = open_log(tmp_path, segment_bytes=400)
    assert again.aborted_transactions(0, 100) == expected()
    assert (again.last_stable_offset, again.log_end_offset) == (20, 21)
    end(again, TWO, is_commit=False)
    assert again.last_stable_offset == 22
    again.close()
    assert len(open_log(tmp_path).aborted_transactions(0, 100)) == 11


@pytest.mark.parametrize("damage", ["missing tail", "garbage", "version"])
@pytest.mark.parametrize("at", [0, -1])
def test_a_damaged_index_is_built_again(tmp_path: Path, damage: str, at: int) -> None:
    """B-C3.4, B-C3.5"""
    filled(tmp_path)
    file = sorted((tmp_path / "t-0").glob("*.txnindex"))[at]
    data = bytearray(file.read_bytes())
    if damage == "missing tail":
        data = data[:-7]
    elif damage == "garbage":
        data += b"x" * 34
    else:
        data[1] = 9
    file.write_bytes(data)
    again = open_log(tmp_path, segment_bytes=400)
    assert again.aborted_transactions(0, 100) == expected()
    assert again.last_stable_offset == 20
    sizes = [each.stat().st_size for each in (tmp_path / "t-0").glob("*.txnindex")]
    assert sum(sizes) == 34 * 10


def test_an_index_goes_with_its_segment(make: LogMaker, tmp_path: Path) -> None:
    log = make(segment_bytes=400, retention_bytes=0)
    for turn in range(10):
        send(log, ONE, turn)
        end(log, ONE, is_commit=False)
    log.run_retention_now()
    assert log.log_start_offset > 0
    found = log.aborted_transactions(0, 100)
    assert all(each.last_offset >= log.log_start_offset for each in found)
    bases = {int(each.stem) for each in (tmp_path / "t-0").glob("*.log")}
    assert {int(each.stem) for each in (tmp_path / "t-0").glob("*.txnindex")} <= bases


def test_a_reader_is_told_no_more_than_it_needs() -> None:
    """B-C7.5: it stops where all that comes later begins behind the reader's end."""
    index = TransactionIndex()
    for n in range(100):
        index.append(AbortedTxn(n, 2 * n, 2 * n + 1, 2 * n + 2), 0)
    assert [each.producer_id for each in index.collect(0, 4)] == [0, 1]
    assert [each.producer_id for each in index.collect(10, 12)] == [5]
    assert len(index.collect(0, 1000)) == len(index) == 100

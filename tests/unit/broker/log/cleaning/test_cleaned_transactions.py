"""Which batches belong to aborted transactions, and which markers may go (B-C4.6)."""

from __future__ import annotations

from fastprod._core.records.record_reader import RecordBatch, read_batches
from fastprod.broker.log.cleaning.cleaned_transactions import CleanedTransactions
from fastprod.broker.log.end_transaction_marker import EndTransactionMarker, encode_marker
from fastprod.broker.log.record_batch import Producer
from fastprod.broker.log.transaction_index import AbortedTxn
from support.broker.log_batches import TIME, batch

ABORTED = AbortedTxn(7, 10, 12, 13)


def data(offset: int, producer: int = 7, transactional: bool = True) -> RecordBatch:
    made = batch(
        1,
        base_offset=offset,
        transactional=transactional,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
    )
    (found,) = read_batches(bytes(made))
    return found


def marker(offset: int, is_commit: bool, producer: int = 7) -> RecordBatch:
    made = encode_marker(EndTransactionMarker(Producer(producer, 0), 0, is_commit), TIME)
    made[:8] = offset.to_bytes(8, "big")
    (found,) = read_batches(bytes(made))
    return found


def test_records_of_an_aborted_transaction_go_and_its_marker_after_them() -> None:
    """B-C4.6"""
    seen = CleanedTransactions([ABORTED])
    assert not seen.is_aborted(data(5))
    assert not seen.is_done_with(marker(6, is_commit=True))
    assert seen.is_aborted(data(10))
    assert not seen.is_aborted(data(11, producer=8))
    assert not seen.is_done_with(marker(12, is_commit=False))
    assert seen.kept == [ABORTED]
    assert not seen.is_aborted(data(13))
    later = CleanedTransactions([ABORTED])
    assert later.is_done_with(marker(12, is_commit=False))
    assert later.kept == []


def test_a_commit_goes_when_no_record_of_its_transaction_is_left() -> None:
    """B-C4.6"""
    seen = CleanedTransactions([])
    assert seen.is_done_with(marker(3, is_commit=True))
    assert not seen.is_aborted(data(4, transactional=False))
    assert seen.is_done_with(marker(5, is_commit=True))
    assert not seen.is_aborted(data(6))
    assert not seen.is_done_with(marker(7, is_commit=True))
    assert seen.is_done_with(marker(8, is_commit=True))

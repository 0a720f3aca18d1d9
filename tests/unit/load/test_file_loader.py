"""fastprod.load.file_loader: splits through a producer, counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from fastprod.load.column_mapping import ColumnMapping
from fastprod.load.file_loader import FileLoader
from fastprod.load.file_splits import FileSplit, split_file
from fastprod.load.input_files import InputError, find_files
from fastprod.load.rate_limiter import RateLimiter
from fastprod.load.split_reader import SplitReader
from fastprod.producer import KafkaProducer
from fastprod.protocol.api_keys import PRODUCE
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer


@pytest.fixture
def single(new_peer: PeerFactory) -> Peer:
    """A peer with topic "one" of one partition."""
    return new_peer(topics={"one": 1})


@pytest.fixture
def splits(tmp_path: Path) -> list[FileSplit]:
    """Of a file with the lines 0 to 9."""
    path = tmp_path / "a.txt"
    path.write_text("".join(f"{number}\n" for number in range(10)))
    return split_file(find_files([str(path)])[0], "text", 10)


READER = SplitReader("text", ColumnMapping("value", "value", headers=(("h", b"1"),)))


def test_rows_of_all_splits_are_delivered_in_their_order(
    single: Peer, splits: list[FileSplit]
) -> None:
    seen = []
    with KafkaProducer(bootstrap_servers=single.bootstrap_servers) as producer:
        loader = FileLoader(producer, "one", READER)
        loader.load(splits, lambda: seen.append(loader.done_bytes))
        loader.finish()
    assert (loader.delivered_count, loader.delivered_bytes, loader.failed_count) == (10, 20, 0)
    assert (seen, loader.done_bytes) == ([0, 10], 20)
    records = single.log("one", 0)
    assert [record.value for record in records] == [b"%d" % number for number in range(10)]
    assert {(record.key, *record.headers) for record in records[:1]} == {(b"0", ("h", b"1"))}


def test_a_row_that_is_refused_is_named(single: Peer, splits: list[FileSplit]) -> None:
    single.on(PRODUCE).error(29).always()
    with KafkaProducer(bootstrap_servers=single.bootstrap_servers) as producer:
        loader = FileLoader(producer, "one", READER)
        loader.load(splits[1:], lambda: None)
        loader.finish()
    assert (loader.delivered_count, loader.failed_count) == (0, 5)
    assert loader.first_error is not None
    assert "a.txt, bytes 10 to 19, row 0 (from 0): " in loader.first_error
    assert "TOPIC_AUTHORIZATION_FAILED" in loader.first_error


def test_a_partition_that_is_none_is_named(single: Peer, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"v": ["x", "y"], "p": [0, -1]}), path)
    reader = SplitReader("parquet", ColumnMapping("v", "", "p"))
    with KafkaProducer(bootstrap_servers=single.bootstrap_servers) as producer:
        loader = FileLoader(producer, "one", reader)
        with pytest.raises(InputError, match=r"a\.parquet, .*from row 0 on: .*row 1 is -1"):
            loader.load(split_file(find_files([str(path)])[0], "parquet"), lambda: None)


def test_the_row_at_fault_is_named_not_one_that_shared_its_batch(
    single: Peer, splits: list[FileSplit]
) -> None:
    single.on(PRODUCE).error(32, record_errors={7: "too late"}).always()
    with KafkaProducer(bootstrap_servers=single.bootstrap_servers, linger_ms=10_000) as producer:
        loader = FileLoader(producer, "one", READER)
        loader.load(splits, lambda: None)
        producer.flush()
        loader.finish()
    assert loader.failed_count == 10
    assert loader.first_error is not None
    assert "a.txt, bytes 10 to 19, row 2 (from 0): " in loader.first_error
    assert "too late" in loader.first_error


def test_headers_take_none_of_the_rate(
    single: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    pieces = RateLimiter.pieces

    def noting(limiter: RateLimiter, row_count: int, byte_count: int) -> Iterator[slice]:
        told.append(byte_count)
        return pieces(limiter, row_count, byte_count)

    monkeypatch.setattr(RateLimiter, "pieces", noting)
    path = tmp_path / "a.csv"
    path.write_text(f"value,h\nv,{'x' * 1000}\n")
    reader = SplitReader("csv", ColumnMapping("value", header_columns=(("h", "h"),)))
    with KafkaProducer(bootstrap_servers=single.bootstrap_servers) as producer:
        loader = FileLoader(producer, "one", reader, max_bytes_per_second=1000)
        loader.load(split_file(find_files([str(path)])[0], "csv", 10_000), lambda: None)
        loader.finish()
    assert loader.delivered_count == 1
    assert told == [1]

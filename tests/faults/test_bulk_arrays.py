"""BulkFuture.arrays: where each record of a bulk is, without an object a record."""

from __future__ import annotations

import sys
from typing import Any

import numpy
import pytest

from fastprod.producer import KafkaProducer
from fastprod.protocol.api_keys import PRODUCE
from fastprod.records import BulkArrays
from support.engine.quick_producer import WAIT_S
from support.peer.scripted_peer import Peer
from support.processes.child_python import run_python

INVALID_RECORD = 87
BESIDE_PLUG_INS = [
    pytest.param({}, id="plain"),
    pytest.param({"value_serializer": lambda data: data}, id="plug-in"),
]


def producer_for(peer: Peer, **config: Any) -> KafkaProducer:
    return KafkaProducer({"bootstrap_servers": peer.bootstrap_servers, **config})


def rows(arrays: BulkArrays) -> list[tuple[int, int, int]]:
    """(partition, offset, timestamp) of each record."""
    assert [each.dtype for each in arrays] == [numpy.int32, numpy.int64, numpy.int64]
    columns = [each.tolist() for each in arrays]
    return list(zip(*columns, strict=True))


@pytest.mark.parametrize("plug_ins", BESIDE_PLUG_INS)
def test_each_record_is_where_the_arrays_say(peer: Peer, plug_ins: dict[str, Any]) -> None:
    """Many rows, so that the column of timestamps begins late and grows."""
    values = [b"%d" % i for i in range(5_000)]
    times = [1_000 + max(0, i - 2_100) * (i % 7) for i in range(5_000)]
    with producer_for(peer, **plug_ins) as producer:
        future = producer.send_many("t", values, keys=values, timestamps_ms=times)
        arrays = future.arrays(WAIT_S)
    found = {
        (partition, offset): (record.timestamp, record.value)
        for partition in range(3)
        for offset, record in enumerate(peer.log("t", partition))
    }
    assert [found[p, o] for p, o, _ in rows(arrays)] == list(zip(times, values, strict=True))
    assert arrays.timestamps.tolist() == times


@pytest.mark.parametrize("plug_ins", BESIDE_PLUG_INS)
def test_one_timestamp_for_all(peer: Peer, plug_ins: dict[str, Any]) -> None:
    with producer_for(peer, **plug_ins) as producer:
        arrays = producer.send_many(
            "t", [b"a", b"b", b"c"], partitions=[1, 1, 2], timestamps_ms=42
        ).arrays(WAIT_S)
    assert rows(arrays) == [(1, 0, 42), (1, 1, 42), (2, 0, 42)]


def test_numpy_columns_give_numpy_arrays(peer: Peer) -> None:
    values = numpy.array([b"a", b"b", b"c"])
    times = numpy.array([5, 6, 7], "datetime64[ms]")
    with producer_for(peer) as producer:
        future = producer.append_columns(
            topic="t", values=values, partitions=numpy.array([2, 0, 2]), timestamps_ms=times
        )
        assert rows(future.arrays(WAIT_S)) == [(2, 0, 5), (0, 0, 6), (2, 1, 7)]


def test_records_that_were_not_delivered_are_minus_one_in_all_three(peer: Peer) -> None:
    """Refused here, as too large, and by the broker, with its batch."""
    peer.on(PRODUCE).for_partition("t", 2).error(INVALID_RECORD).once()
    values = [b"x" * 2000, b"a", b"b", b"x" * 3000, b"c"]
    with producer_for(peer, max_request_size=1000) as producer:
        future = producer.send_many(
            "t", values, partitions=[0, 0, 2, 0, 0], timestamps_ms=[3, 4, 5, 6, 7]
        )
        arrays = future.arrays(WAIT_S)
        failed = [row.row for row in future.failed_rows()]
    assert rows(arrays) == [(-1, -1, -1), (0, 0, 4), (-1, -1, -1), (-1, -1, -1), (0, 1, 7)]
    assert numpy.flatnonzero(arrays.partitions < 0).tolist() == failed == [0, 2, 3]


def test_a_bulk_that_failed_whole(peer: Peer) -> None:
    with producer_for(peer, max_block_ms=100) as producer:
        assert rows(producer.send_many("absent", [b"a", b"b"]).arrays(WAIT_S)) == [(-1, -1, -1)] * 2


def test_without_acks_the_offsets_alone_are_unknown(peer: Peer) -> None:
    with producer_for(peer, acks=0, enable_idempotence=False) as producer:
        future = producer.send_many("t", [b"a", b"b"], partitions=[1, 0], timestamps_ms=9)
        assert rows(future.arrays(WAIT_S)) == [(1, -1, 9), (0, -1, 9)]


def test_the_brokers_time_wins(peer: Peer) -> None:
    peer.on(PRODUCE).answer(log_append_time=77).always()
    with producer_for(peer) as producer:
        future = producer.send_many("t", [b"a", b"b"], partitions=[0, 0], timestamps_ms=[1, 2])
        assert rows(future.arrays(WAIT_S)) == [(0, 0, 77), (0, 1, 77)]


def test_records_of_a_split_batch_are_where_its_parts_are(new_peer: Any) -> None:
    peer = new_peer({"t": 1}, max_message_bytes=3000)
    with producer_for(peer, batch_size=100_000, linger_ms=50) as producer:
        values = [b"%03d" % i + b"x" * 500 for i in range(40)]
        arrays = producer.send_many("t", values, timestamps_ms=range(40)).arrays(20)
    assert rows(arrays) == [(0, i, i) for i in range(40)]


def test_an_empty_bulk_has_empty_arrays(peer: Peer) -> None:
    with producer_for(peer) as producer:
        assert rows(producer.send_many("t", []).arrays(0)) == []


def test_arrays_wait_as_result_does(peer: Peer) -> None:
    peer.on(PRODUCE).hold()
    with producer_for(peer) as producer:
        future = producer.send_many("t", [b"a"], partitions=[0], timestamps_ms=1)
        with pytest.raises(TimeoutError, match="not all of 1 records"):
            future.arrays(0.05)
        peer.wait_until_held()
        peer.release()
        assert rows(future.arrays(WAIT_S)) == [(0, 0, 1)]


def test_no_object_is_made_for_a_record(peer: Peer) -> None:
    count = 20_000
    with producer_for(peer) as producer:
        future = producer.send_many("t", [b"v"] * count, timestamps_ms=range(count))
        future.arrays(WAIT_S)
        before = sys.getallocatedblocks()
        arrays = future.arrays(WAIT_S)
        assert sys.getallocatedblocks() - before < 200
    assert len(arrays.offsets) == count


def test_numpy_is_imported_by_the_first_call(peer: Peer) -> None:
    script = """
        import json, sys
        from fastprod import KafkaProducer
        with KafkaProducer(bootstrap_servers=sys.argv[1]) as producer:
            future = producer.send_many("t", [b"a", b"b"])
            future.result(30)
            before = "numpy" in sys.modules
            offsets = future.arrays(30).offsets
            print(json.dumps({"before": before, "after": "numpy" in sys.modules}))
    """
    told = run_python(script, peer.bootstrap_servers).told
    assert told == {"before": False, "after": True}

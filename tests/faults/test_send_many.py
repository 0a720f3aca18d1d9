"""send_many: columns in, one future for the lot, no record without an outcome."""

from __future__ import annotations

import random
import re
import threading
from typing import Any

import pytest

from fastprod.errors import (
    BufferExhaustedError,
    BulkError,
    MetadataTimeoutError,
    RecordTooLargeError,
)
from fastprod.producer import KafkaProducer
from fastprod.protocol.api_keys import METADATA, PRODUCE
from support.engine.quick_producer import WAIT_S
from support.engine.thread_refusal import no_thread
from support.peer.scripted_peer import Peer

MESSAGE_TOO_LARGE = 10
INVALID_RECORD = 87


# Plug-ins have each record go by itself.
BESIDE_PLUG_INS = [
    pytest.param({}, id="plain"),
    pytest.param(
        {"value_serializer": lambda data: data},
        id="plug-in",
    ),
]


def producer_for(peer: Peer, **config: Any) -> KafkaProducer:
    return KafkaProducer({"bootstrap_servers": peer.bootstrap_servers, **config})


def test_every_column_arrives(peer: Peer) -> None:
    with producer_for(peer) as producer:
        future = producer.send_many(
            "t",
            [b"v0", bytearray(b"v1"), None, memoryview(b"v3")],
            keys=[b"k", None, b"k", b""],
            headers=[[("a", b"1")], None, {"b": None}, ()],
            partitions=[0, 1, 2, 2],
            timestamps_ms=[10, 11, 12, 13],
        )
        found = future.result(WAIT_S)
    assert found.topic == "t"
    assert found.record_count == 4
    assert sorted((r.partition, r.record_count) for r in found.ranges) == [(0, 1), (1, 1), (2, 2)]
    logs = [peer.log("t", partition) for partition in range(3)]
    assert [(e.timestamp, e.key, e.value, list(e.headers)) for log in logs for e in log] == [
        (10, b"k", b"v0", [("a", b"1")]),
        (11, None, b"v1", []),
        (12, b"k", None, [("b", None)]),
        (13, b"", b"v3", []),
    ]


def test_a_bulk_fills_batches_up_to_their_size_and_mixes_no_partitions(peer: Peer) -> None:
    """P-D.2: records of different sizes, some larger than a batch, which have one of their own."""
    source = random.Random("bulk")
    values = [source.randbytes(source.choice([0, 5, 90, 700, 9_000])) for _ in range(2_000)]
    partitions = [number // 40 % 2 for number in range(len(values))]
    with producer_for(peer, linger_ms=60_000, batch_size=8_192) as producer:
        producer.send_many("t", values, partitions=partitions)
        producer.flush(WAIT_S)
    for batch in peer.batches():
        assert len(batch.raw) <= 8_192 or batch.header.record_count == 1
    for partition in (0, 1):
        expected = [v for v, p in zip(values, partitions, strict=True) if p == partition]
        assert [entry.value for entry in peer.log("t", partition)] == expected


def test_keys_choose_the_partition_as_send_does(peer: Peer) -> None:
    """P-C.3: murmur2 of the key."""
    keys = [b"key-%d" % i for i in range(50)]
    with producer_for(peer) as producer:
        one_by_one = [producer.send("t", b"", key).result(WAIT_S).partition for key in keys]
        producer.send_many("t", keys, keys=keys).result(WAIT_S)
    for key, partition in zip(keys, one_by_one, strict=True):
        assert key in [entry.value for entry in peer.log("t", partition)]


def test_a_long_bulk_keeps_its_order_and_counts(peer: Peer) -> None:
    values = [b"%06d" % i for i in range(10_000)]
    with producer_for(peer, batch_size=4096) as producer:
        future = producer.send_many("t", iter(values), partitions=[1] * len(values))
        assert len(future) == len(values)
        found = future.result(30)
        assert future.done()
    assert [entry.value for entry in peer.log("t", 1)] == values
    assert sum(each.record_count for each in found.ranges) == len(values)
    assert found.ranges[0].first_offset == 0


def test_columns_of_unequal_length_are_refused_before_anything_is_sent(peer: Peer) -> None:
    with producer_for(peer) as producer:
        with pytest.raises(ValueError, match=r"differ in length: \{'values': 3, 'keys': 2\}"):
            producer.send_many("t", [b"1", b"2", b"3"], keys=[b"a", b"b"])
        producer.flush(WAIT_S)
    assert peer.requests(PRODUCE) == []


def test_too_large_records_are_refused_and_the_others_arrive(peer: Peer) -> None:
    """P-A.3.7, P-A.3.12 row 1"""
    with producer_for(peer, max_request_size=1000) as producer:
        future = producer.send_many("t", [b"a", b"x" * 2000, b"b", b"y" * 3000, b"c"])
        with pytest.raises(BulkError, match="2 of 5 record") as raised:
            future.result(WAIT_S)
        failures = future.failures(WAIT_S)
    assert raised.value.first_index == 1
    assert isinstance(raised.value.__cause__, RecordTooLargeError)
    assert [index for index, _ in failures] == [1, 3]
    assert [row[:4] for row in future.failed_rows()] == [
        (1, "t", -1, 2000),
        (3, "t", -1, 3000),
    ]
    delivered = future.delivered()
    assert (delivered.record_count, delivered.byte_count) == (3, 3)
    assert {v for p in range(3) for v in peer.values("t", p)} == {b"a", b"b", b"c"}


def test_records_of_a_refused_batch_are_named_by_index(peer: Peer) -> None:
    peer.on(PRODUCE).for_partition("t", 2).error(INVALID_RECORD).once()
    with producer_for(peer) as producer:
        future = producer.send_many("t", [b"a", b"b", b"c"], partitions=[0, 2, 0])
        failures = future.failures(WAIT_S)
    assert [index for index, _ in failures] == [1]
    assert peer.values("t", 0) == [b"a", b"c"]


def test_without_metadata_the_whole_bulk_fails_and_says_why(peer: Peer) -> None:
    """P-A.3.12 row 1: not raised, in the future."""
    with producer_for(peer, max_block_ms=200) as producer:
        future = producer.send_many("absent", [b"1", b"2"])
        assert isinstance(future.exception(WAIT_S), BulkError)
        assert [type(error) for _, error in future.failures()] == [MetadataTimeoutError] * 2
    assert peer.requests(METADATA)


@pytest.mark.parametrize("plug_ins", BESIDE_PLUG_INS)
def test_when_memory_does_not_come_back_the_rest_fails_without_waiting_for_each(
    peer: Peer, plug_ins: dict[str, Any]
) -> None:
    """P-D.3.4: one wait of max_block_ms, not one a record."""
    sizes = {"buffer_memory": 65_536, "batch_size": 16_384}
    producer = producer_for(peer, max_block_ms=100, **sizes, **plug_ins)
    producer.warmup("t", timeout=WAIT_S)
    peer.on(PRODUCE).hold().always()
    future = producer.send_many("t", [b"x" * 4000] * 40, partitions=[0] * 40)
    peer.clear_script()
    peer.release()
    failures = future.failures(30)
    assert failures
    assert {type(error) for _, error in failures} == {BufferExhaustedError}
    assert [index for index, _ in failures] == list(range(40 - len(failures), 40))
    assert producer._engine.counters()["buffer_exhausted"] == 1
    producer.close(WAIT_S)
    assert len(peer.values("t", 0)) == 40 - len(failures)


BAD_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "value": ({"values": "text"}, "value must be bytes.*not str"),
    "key": ({"keys": 1.5}, "key must be bytes.*not float"),
    "header": ({"headers": [(None, b"x")]}, "a header's name must be a str"),
    "partition": ({"partitions": -1}, "partition must be .* not -1"),
    "partition of a wrong type": ({"partitions": "0"}, "partition must be an int"),
    "missing partition": ({"partitions": 99}, "Partition 99 of topic t"),
    "timestamp": ({"timestamps_ms": -5}, "timestamp_ms must be .* not -5"),
}


@pytest.mark.parametrize("is_plain", [False, True], ids=["rows", "lists"])
@pytest.mark.parametrize(("bad", "text"), BAD_ROWS.values(), ids=list(BAD_ROWS))
def test_a_bad_row_fails_alone_with_its_number_and_the_reason(
    peer: Peer, bad: dict[str, Any], text: str, is_plain: bool
) -> None:
    """Wherever it is, also in a later chunk; so for everything that a row may have."""
    count, bad_rows = 6000, [0, 2500, 5999]
    good: dict[str, Any] = {"values": b"ok", "keys": b"k"}
    if not is_plain or not set(bad) <= set(good):
        good |= {"headers": [("h", b"1")], "partitions": 0, "timestamps_ms": 7}
    columns = {name: [cell] * count for name, cell in good.items()}
    for name, cell in bad.items():
        for row in bad_rows:
            columns[name][row] = cell
    with producer_for(peer, max_block_ms=1000) as producer:
        producer.warmup("t", timeout=WAIT_S)
        future = producer.send_many("t", **columns)
        failed = future.failed_rows(WAIT_S)
        assert [row.row for row in failed] == bad_rows
        assert re.search(text, str(failed[1].error))
        assert future.delivered(WAIT_S).record_count == count - len(bad_rows)
        assert sum(len(peer.values("t", p)) for p in range(3)) == count - len(bad_rows)


@pytest.mark.parametrize("plug_ins", BESIDE_PLUG_INS)
def test_each_partition_that_is_not_there_is_told_and_waited_for_once(
    peer: Peer, monkeypatch: pytest.MonkeyPatch, plug_ins: dict[str, Any]
) -> None:
    """max_block_ms is for all of them together, as for the columns of append_columns."""
    partitions = [0, 99, 1, 98, 99, 2] * 1000
    with producer_for(peer, max_block_ms=300, **plug_ins) as producer:
        producer.warmup("t", timeout=WAIT_S)
        await_topic = producer._await_topic
        waits_ms: list[int] = []

        def await_and_note(topic: str, partition: int | None, timeout_ms: int) -> None:
            waits_ms.append(timeout_ms)
            assert sum(waits_ms) <= 300, "max_block_ms once more"
            await_topic(topic, partition, timeout_ms)

        monkeypatch.setattr(producer, "_await_topic", await_and_note)
        failed = producer.send_many("t", [b"v"] * 6000, partitions=partitions).failed_rows(WAIT_S)
    assert [row.row for row in failed] == [i for i, p in enumerate(partitions) if p > 2]
    assert {type(row.error) for row in failed} == {MetadataTimeoutError}
    assert [
        row.error for row in failed if f"Partition {partitions[row.row]} " not in str(row.error)
    ] == []
    assert [len(peer.values("t", p)) for p in range(3)] == [1000] * 3
    assert sum(waits_ms) == 300
    if not plug_ins:
        assert len(waits_ms) == len({id(row.error) for row in failed}) == 2


def test_a_row_that_a_plug_in_does_not_take_fails_alone(peer: Peer) -> None:
    """A serializer, a partitioner."""

    def partition(_topic: Any, _key: Any, _kb: Any, _value: Any, data: bytes, _cluster: Any) -> int:
        if data == b"bad":
            raise LookupError("no place for it")
        return 0

    with producer_for(
        peer, value_serializer=lambda text: text.encode(), partitioner_class=partition
    ) as producer:
        future = producer.send_many("t", ["a", None, "bad", 5, "b"])
        failed = future.failed_rows(WAIT_S)
        assert [row.row for row in failed] == [1, 2, 3]
        for row, word in zip(failed, ("NoneType", "no place for it", "int"), strict=True):
            assert word in str(row.error)
    assert peer.values("t", 0) == [b"a", b"b"]


def test_a_done_callback_fires_once_when_all_records_are_done(peer: Peer) -> None:
    fired = threading.Event()
    seen: list[int] = []

    def note(future: Any) -> None:
        seen.append(future.result(0).record_count)
        fired.set()

    with producer_for(peer) as producer:
        producer.send_many("t", [b"v"] * 5000).add_done_callback(note)
        assert fired.wait(10)
        producer.flush(WAIT_S)
    assert seen == [5000]


@pytest.mark.parametrize("left_by", [RuntimeError("mine"), SystemExit(5)])
def test_a_done_callback_that_raises_stops_no_other(peer: Peer, left_by: BaseException) -> None:
    """P-A.3.15"""
    told = threading.Event()

    def leave(_: Any) -> None:
        raise left_by

    with producer_for(peer) as producer:
        bulk = producer.send_many("t", [b"v"])
        bulk.add_done_callback(leave)
        bulk.add_done_callback(lambda _: told.set())
        bulk.result(WAIT_S)
        assert told.wait(WAIT_S)
        told.clear()
        bulk.add_done_callback(leave)  # at once, in this thread
        bulk.add_done_callback(lambda _: told.set())
        assert told.is_set()


def test_a_done_callback_that_no_thread_could_run_does_not_keep_the_next_from_it(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the first batch is done already."""
    fired = threading.Event()
    seen: list[str] = []
    peer.on(PRODUCE).after(1).hold().always()
    with producer_for(peer, batch_size=4_096, max_request_size=20_000) as producer:
        future = producer.send_many("t", [bytes(100)] * 5000)
        peer.wait_until(lambda: 0 < producer._engine.counters()["records_acked"] < 5000)
        with no_thread(monkeypatch, "delivery"), pytest.raises(RuntimeError, match="new thread"):
            future.add_done_callback(lambda _: seen.append("refused"))
        future.add_done_callback(lambda _: fired.set())
        peer.clear_script()
        peer.release()
        assert fired.wait(WAIT_S)
    assert seen == []


def test_an_empty_bulk_is_done_at_once(peer: Peer) -> None:
    with producer_for(peer) as producer:
        future = producer.send_many("t", [])
        assert future.done()
        assert future.result(0).record_count == 0


def test_its_text_says_how_far_it_is(new_peer: Any) -> None:
    peer = new_peer({"t": 1, "u": 1})
    with producer_for(peer, max_request_size=1000) as producer:
        producer.warmup("t")
        peer.on(PRODUCE).hold().times(1)
        future = producer.send_many("t", [b"v", bytes(2000), None])
        assert repr(future) == "<BulkFuture topic='t' 3 rows, 1 done, 1 failed>"
        peer.wait_until_held()
        peer.release()
        future.delivered(WAIT_S)
        assert repr(future) == "<BulkFuture topic='t' 3 rows, 3 done, 1 failed>"
        future = producer.append_columns(topic=["t", "u"], values=[b"v"] * 2)
        assert repr(future).startswith("<BulkFuture 2 topics 2 rows, ")


def test_serializers_and_the_users_partitioner_see_every_record(peer: Peer) -> None:
    with producer_for(
        peer,
        value_serializer=lambda text: text.encode(),
        partitioner_class=lambda topic, key, kb, value, vb, cluster: len(vb) % 3,
    ) as producer:
        future = producer.send_many("t", ["a", "bb", "ccc", "dddd"])
        assert future.result(WAIT_S).record_count == 4
    assert [peer.values("t", p) for p in range(3)] == [[b"ccc"], [b"a", b"dddd"], [b"bb"]]


def test_a_split_batch_still_counts_as_one_bulk(new_peer: Any) -> None:
    """P-D.9.5: the future's records resolve to the children."""
    peer = new_peer({"t": 1}, max_message_bytes=3000)
    with producer_for(peer, batch_size=100_000, linger_ms=50) as producer:
        future = producer.send_many("t", [b"%03d" % i + b"x" * 500 for i in range(40)])
        found = future.result(20)
    assert [value[:3] for value in peer.values("t", 0)] == [b"%03d" % i for i in range(40)]
    assert sum(each.record_count for each in found.ranges) == 40


def test_keyed_records_of_a_bulk_are_told_by_few_ranges(peer: Peer) -> None:
    """Rows of three partitions take turns; a range is a batch, not a row."""
    keys = [b"%d" % i for i in range(3_000)]
    with producer_for(peer, linger_ms=60_000, batch_size=1_000_000) as producer:
        found = producer.send_many("t", keys, keys=keys).result(WAIT_S)
    assert found.record_count == 3_000
    assert found.byte_count == 2 * sum(map(len, keys))
    assert sorted(found.ranges) == [(p, 0, len(peer.values("t", p)), "t") for p in range(3)]


@pytest.mark.parametrize("column", ["values", "keys"])
@pytest.mark.parametrize("change", ["clear", "pop", "append"])
def test_a_list_that_changes_its_length_meanwhile_is_refused(
    peer: Peer, column: str, change: str
) -> None:
    """Another thread may have it while this one waits for metadata: no crash, no endless loop."""
    columns = {"values": [b"value"] * 9, "keys": [b"key"] * 9}

    class Meanwhile(KafkaProducer):
        def _await_topic(self, topic: str, partition: int | None, timeout_ms: int) -> None:
            super()._await_topic(topic, partition, timeout_ms)
            given = columns[column]
            given[:] = {"clear": [], "pop": given[:-1], "append": [*given, b"more"]}[change]

    with Meanwhile({"bootstrap_servers": peer.bootstrap_servers}) as producer:
        with pytest.raises(ValueError, match="changed its length"):
            producer.send_many("t", columns["values"], columns["keys"])
        assert producer.send_many("t", [b"next"]).result(WAIT_S).record_count == 1

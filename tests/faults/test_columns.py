"""append_columns: Arrow and numpy in, one future for the lot, whatever happens to single rows."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fastprod import KafkaProducer
from fastprod._core.bytes.murmur2 import hash_key
from fastprod.errors import (
    BufferExhaustedError,
    InvalidTopicError,
    MetadataTimeoutError,
    ProducerClosedError,
    RecordTooLargeError,
    UndeliveredError,
)
from fastprod.protocol.api_keys import METADATA, PRODUCE
from support.broker.black_hole import black_hole
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer
from support.processes.child_python import run_python
from support.records.arrow_capsules import Exporter, StreamExporter, batch, binary

INVALID_RECORD = 87
VALUES = pa.array([b"%06d" % i for i in range(3_000)])


def by_topic(peer: Peer, topic: str, partitions: int) -> list[bytes]:
    return sorted(v or b"" for p in range(partitions) for v in peer.values(topic, p))


def test_rows_of_several_topics_arrive_in_order_with_one_future(new_peer: PeerFactory) -> None:
    peer = new_peer({"a": 1, "b": 2})
    topics = pa.array(["a", "b", "a", "b", "b"]).dictionary_encode()
    with quick_producer(peer, linger_ms=60_000) as producer:  # the wait for them ends it
        future = producer.append_columns(
            topic=topics,
            values=pa.array([b"0", b"1", b"2", b"3", b"4"]),
            partitions=[0, 1, 0, 1, 0],
        )
        found = future.result(WAIT_S)
    assert (found.topic, found.record_count, found.byte_count) == (None, 5, 5)
    assert sorted(found.ranges, key=lambda r: (r.topic, r.partition)) == [
        (0, 0, 2, "a"),
        (0, 0, 1, "b"),
        (1, 0, 2, "b"),
    ]
    assert peer.values("a", 0) == [b"0", b"2"]
    assert [peer.values("b", p) for p in range(2)] == [[b"4"], [b"1", b"3"]]


def test_send_many_takes_columns_wherever_it_takes_lists(peer: Peer) -> None:
    with quick_producer(peer) as producer:
        future = producer.send_many(
            "t",
            [b"v0", b"v1"],
            keys=pa.array([b"k", None]),
            headers={"same": b"s", "own": pa.array([b"1", None])},
            partitions=np.array([1, 1]),
            timestamps_ms=[7, None],
        )
        assert future.result(WAIT_S).topic == "t"
        producer.send_many("t", np.array([b"v2", b"v3"]), partitions=[1, 1]).result(WAIT_S)
    log = peer.log("t", 1)
    assert [(e.key, e.value, list(e.headers)) for e in log[:2]] == [
        (b"k", b"v0", [("same", b"s"), ("own", b"1")]),
        (None, b"v1", [("same", b"s"), ("own", None)]),
    ]
    assert log[0].timestamp == 7
    assert [e.value for e in log[2:]] == [b"v2", b"v3"]


def test_too_large_rows_fail_alone_and_are_told_with_their_sizes(peer: Peer) -> None:
    values = pa.array([b"a", b"x" * 2000, None, b"b"])
    headers = {"h": pa.array([b"", b"", b"y" * 3000, b""])}
    with quick_producer(peer, max_request_size=1000) as producer:
        future = producer.append_columns(
            topic="t", values=values, keys=[b"k"] * 4, header_columns=headers
        )
        rows = future.failed_rows(WAIT_S)
        assert future.delivered().record_count == 2
    assert [(r.row, r.topic, r.key_size_bytes, r.value_size_bytes) for r in rows] == [
        (1, "t", 1, 2000),
        (2, "t", 1, -1),
    ]
    assert {type(row.error) for row in rows} == {RecordTooLargeError}
    assert by_topic(peer, "t", 3) == [b"a", b"b"]


def test_rows_that_the_broker_refuses_are_told_with_their_sizes(peer: Peer) -> None:
    peer.on(PRODUCE).for_partition("t", 2).error(INVALID_RECORD).once()
    with quick_producer(peer) as producer:
        future = producer.append_columns(
            topic="t", values=pa.array([b"a", b"bb", b"ccc"]), partitions=pa.array([0, 2, 0])
        )
        rows = future.failed_rows(WAIT_S)
    assert [row[:4] for row in rows] == [(1, "t", -1, 2)]


def test_an_unknown_topic_fails_its_rows_and_no_others(peer: Peer) -> None:
    topics = pa.array(["t", "absent", "t", "nowhere"])
    with quick_producer(peer, max_block_ms=200) as producer:
        producer.warmup("t", timeout=WAIT_S)
        began_s = time.monotonic()
        future = producer.append_columns(topic=topics, values=[b"a", b"bb", b"c", None])
        rows = future.failed_rows(WAIT_S)
        assert time.monotonic() - began_s < WAIT_S
    assert [row[:4] for row in rows] == [(1, "absent", -1, 2), (3, "nowhere", -1, -1)]
    assert {type(row.error) for row in rows} == {MetadataTimeoutError}
    assert by_topic(peer, "t", 3) == [b"a", b"c"]


def test_new_topics_are_asked_for_together(new_peer: PeerFactory) -> None:
    names = [f"t{number:03}" for number in range(100)]
    peer = new_peer(dict.fromkeys(names, 1))
    with quick_producer(peer) as producer:
        producer.warmup()
        future = producer.append_columns(topic=pa.array(names), values=pa.array(names))
        assert len(future.result(WAIT_S).ranges) == 100
    new = [request for request in peer.requests(METADATA) if request.message.topics]
    assert len(new) == 1


def test_absent_topics_are_asked_for_together(peer: Peer) -> None:
    names = [f"absent{number:03}" for number in range(100)]

    def asked_together() -> list[int]:
        """How many of them each request names that names any."""
        asked = ({each.name for each in one.message.topics} for one in peer.requests(METADATA))
        return [len(found) for each in asked if (found := each.intersection(names))]

    with quick_producer(peer, max_block_ms=100, retry_backoff_ms=20) as producer:
        producer.warmup("t", timeout=WAIT_S)
        future = producer.append_columns(topic=["t", *names], values=[b""] * 101)
        rows = future.failed_rows(WAIT_S)
        peer.wait_until(lambda: bool(asked_together()), WAIT_S, "a request for what is absent")
    assert [row.row for row in rows] == list(range(1, 101))
    assert min(asked_together()) == len(names)


def test_many_rows_of_an_unknown_topic_share_one_error(peer: Peer) -> None:
    with quick_producer(peer, max_block_ms=100) as producer:
        future = producer.append_columns(topic="absent", values=VALUES)
        errors = {id(row.error) for row in future.failed_rows(WAIT_S)}
    assert len(future) == len(VALUES)
    assert len(errors) == 1


def test_a_partition_that_is_not_there_fails_its_rows_and_no_others(peer: Peer) -> None:
    partitions = pa.array([0, 7, None, 3], pa.uint16())
    with quick_producer(peer, max_block_ms=200) as producer:
        producer.warmup("t", timeout=WAIT_S)
        future = producer.append_columns(
            topic="t", values=[b"a", b"b", b"c", b"d"], partitions=partitions
        )
        rows = future.failed_rows(WAIT_S)
    assert [row.row for row in rows] == [1, 3]
    assert {type(row.error) for row in rows} == {MetadataTimeoutError}
    assert by_topic(peer, "t", 3) == [b"a", b"c"]


@pytest.mark.parametrize("name", ["", "x" * 250])
def test_a_topic_of_no_legal_name_fails_its_rows(peer: Peer, name: str) -> None:
    with quick_producer(peer) as producer:
        future = producer.append_columns(topic=["t", name], values=[b"a", b"b"])
        rows = future.failed_rows(WAIT_S)
    assert [(row.row, row.topic, type(row.error)) for row in rows] == [(1, name, InvalidTopicError)]
    assert by_topic(peer, "t", 3) == [b"a"]


def test_bad_columns_leave_nothing_queued_and_nothing_unreleased(peer: Peer) -> None:
    exporter = Exporter(batch(value=binary(b"a", b"b"), partition=binary(b"1", b"2")))
    with quick_producer(peer) as producer:
        with pytest.raises(TypeError, match="column 'partition' is Arrow binary"):
            producer.append_columns(exporter, topic="t")
        producer.flush(WAIT_S)
        assert producer._engine.counters()["records_acked"] == 0
    gc.collect()
    assert exporter.released == {"schema": 1, "array": 1}


def test_arrays_are_released_when_the_call_returns_and_the_records_arrive(peer: Peer) -> None:
    exporter = StreamExporter(binary(), parts=[binary(b"a", b"b"), binary(b"c")])
    peer.on(PRODUCE).hold().once()
    with quick_producer(peer) as producer:
        future = producer.append_columns(topic="t", values=exporter)
        gc.collect()
        assert exporter.released == {"schema": 1, "array": 2, "stream": 1}
        peer.wait_until(lambda: bool(peer.requests(PRODUCE)), WAIT_S, "a request")
        assert not future.done()
        peer.release()
        assert future.result(WAIT_S).record_count == 3
    assert by_topic(peer, "t", 3) == [b"a", b"b", b"c"]


def test_when_memory_does_not_come_back_the_rest_fails_after_one_wait(peer: Peer) -> None:
    values = pa.array([b"x" * 1000] * 500)
    topics = ["t"] * 500
    peer.on(PRODUCE).hold().always()
    producer = quick_producer(peer, buffer_memory=65_536, batch_size=16_384, max_block_ms=200)
    producer.warmup("t", timeout=WAIT_S)
    future = producer.append_columns(topic=topics, values=values, partitions=[0] * 500)
    peer.clear_script()
    peer.release()
    rows = future.failed_rows(WAIT_S)
    assert {type(row.error) for row in rows} == {BufferExhaustedError}
    assert {row.value_size_bytes for row in rows} == {1000}
    assert [row.row for row in rows] == list(range(500 - len(rows), 500))
    producer.close(WAIT_S)
    assert len(peer.values("t", 0)) == 500 - len(rows) > 0


def test_memory_that_comes_back_in_time_lets_all_rows_through(peer: Peer) -> None:
    keys = pa.array([b"%d" % i for i in range(20_000)])
    with quick_producer(peer, buffer_memory=65_536, batch_size=8_192) as producer:
        found = producer.append_columns(topic="t", values=keys, keys=keys).result(WAIT_S)
    assert found.record_count == 20_000
    assert by_topic(peer, "t", 3) == sorted(b"%d" % i for i in range(20_000))
    for partition in range(3):
        numbers = [int(value or b"") for value in peer.values("t", partition)]
        assert numbers == sorted(numbers)


def test_a_closed_producer_takes_no_columns_and_leaves_them_alone(peer: Peer) -> None:
    producer = quick_producer(peer)
    producer.close(WAIT_S)
    exporter = Exporter(binary(b"a"))
    with pytest.raises(ProducerClosedError):
        producer.append_columns(topic="t", values=exporter)
    assert exporter.released == {}


def test_close_ends_a_wait_for_memory(peer: Peer) -> None:
    """Other threads run while it waits: one of them closes."""
    peer.on(PRODUCE).hold().always()
    producer = quick_producer(peer, buffer_memory=65_536, batch_size=16_384, max_block_ms=60_000)
    raised: list[BaseException] = []

    def append() -> None:
        try:
            producer.append_columns(topic="t", values=pa.array([b"x" * 1000] * 500))
        except ProducerClosedError as error:
            raised.append(error)

    thread = threading.Thread(target=append)
    thread.start()
    peer.wait_until(
        lambda: producer._engine.counters()["waiting_threads"] == 1, WAIT_S, "a wait for memory"
    )
    with pytest.raises(UndeliveredError):
        producer.close(0)
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert len(raised) == 1
    assert len(raised[0].sent_records) > 0  # type: ignore[attr-defined]


def test_plug_ins_see_rows_as_python_objects_which_columns_are_not(peer: Peer) -> None:
    with quick_producer(peer, value_serializer=bytes) as producer:
        with pytest.raises(TypeError, match="past serializers, interceptors"):
            producer.append_columns(topic="t", values=np.array([b"a"]))
        with pytest.raises(TypeError, match="past serializers, interceptors"):
            producer.send_many("t", pa.array([b"a"]))
        with pytest.raises(TypeError, match="past serializers, interceptors"):
            producer.send_many("t", [b"a"], headers={"h": b"v"})
        # numpy's cells are Python objects as well.
        found = producer.send_many("t", np.array([b"a", b"b"]), partitions=[0, 0]).result(WAIT_S)
    assert found.record_count == 2
    assert peer.values("t", 0) == [b"a", b"b"]


def test_no_rows_are_done_at_once_and_need_no_topic(peer: Peer) -> None:
    with quick_producer(peer) as producer:
        future = producer.append_columns(topic="absent", values=pa.array([], pa.binary()))
        assert future.done()
        assert future.result(0)[:3] == ("absent", 0, ())


def test_a_done_callback_fires_once_for_all_topics(new_peer: PeerFactory) -> None:
    peer = new_peer({"a": 1, "b": 2})
    fired = threading.Event()
    with quick_producer(peer) as producer:
        future = producer.append_columns(topic=["a", "b"], values=[b"1", b"2"])
        future.add_done_callback(lambda done: fired.set())
        assert fired.wait(WAIT_S)


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is told by /proc")
def test_calls_that_end_in_any_way_leave_no_memory_behind() -> None:
    """200 bulks of 20,000 rows; 16 bytes of each row kept by mistake would be 64 MB."""
    values = pa.array([b"x" * 10] * 20_000)
    topics = pa.array(["t"] * 20_000).dictionary_encode()
    headers = pa.array([[("k", b"v")]] * 20_000, pa.map_(pa.string(), pa.binary()))
    words: dict[str, Any] = {"topic": topics, "values": values, "headers": headers}

    def turn(producer: KafkaProducer) -> None:
        future = producer.append_columns(**words, keys=values, partitions=[0] * 20_000)
        assert future.exception().failed_count == 20_000  # type: ignore[union-attr]
        with pytest.raises(TypeError):
            producer.append_columns(**words, keys=pa.array([1.5]))
        with pytest.raises(ValueError, match="differ"):
            producer.append_columns(**words, keys=values[1:])

    with black_hole() as nowhere, quick_producer(nowhere, max_block_ms=0) as producer:
        for _ in range(20):
            turn(producer)
        gc.collect()
        arrow, resident = pa.total_allocated_bytes(), resident_bytes()
        for _ in range(200):
            turn(producer)
        gc.collect()
        assert pa.total_allocated_bytes() == arrow
        assert resident_bytes() - resident < 16_000_000


@pytest.mark.parametrize("what", ["memory", "metadata"])
def test_ctrl_c_ends_a_wait_and_leaves_a_producer_that_works(peer: Peer, what: str) -> None:
    peer.on(PRODUCE).hold().always()
    topic = "t" if what == "memory" else "absent"
    values = pa.array([b"x" * 1000] * 500)

    def is_waiting() -> bool:
        if what == "memory":
            return bool(producer._engine.counters()["waiting_threads"] == 1)
        return any(
            each.name == topic
            for request in peer.requests(METADATA)
            for each in request.message.topics or ()
        )

    def interrupt() -> None:
        peer.wait_until(is_waiting)
        os.kill(os.getpid(), signal.SIGINT)

    with quick_producer(peer, buffer_memory=65_536, batch_size=16_384) as producer:
        producer.warmup("t")
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        began_s = time.monotonic()
        with pytest.raises(KeyboardInterrupt) as raised:
            producer.append_columns(topic=topic, values=values)
        interrupting.join()
        assert time.monotonic() - began_s < WAIT_S
        assert producer._engine.counters()["waiting_threads"] == 0
        peer.clear_script()
        peer.release()
        sent = raised.value.sent_records  # type: ignore[attr-defined]
        assert sent.result(WAIT_S).record_count == len(sent)
        assert (len(sent) > 0) == (what == "memory")
        assert producer.send("t", b"after").result(WAIT_S).offset >= 0


def test_rows_by_key_keep_their_order_in_each_partition_and_are_told_by_row(
    new_peer: PeerFactory,
) -> None:
    """Though those of one partition are queued together; a row that is too large fails alone."""
    peer = new_peer({"t": 4})
    # The partitioner chooses for some of the last ones, wherever it does.
    keys = [b"key-%d" % (i * i % 97) if i < 2_500 or i % 10 else None for i in range(3_000)]
    values = [b"%06d" % i if i != 1_234 else b"x" * 4_000 for i in range(3_000)]
    with quick_producer(peer, batch_size=16_384, max_request_size=2_000) as producer:
        future = producer.append_columns(
            topic="t", values=pa.array(values), keys=pa.array(keys), timestamps_ms=range(3_000)
        )
        partitions, offsets, times = future.arrays(WAIT_S)
        (failed,) = future.failed_rows()
    assert (failed.row, failed.value_size_bytes) == (1_234, 4_000)
    assert isinstance(failed.error, RecordTooLargeError)
    logs = [[value or b"" for value in peer.values("t", p)] for p in range(4)]
    assert [sorted(log) for log in logs] == logs
    for i, (key, value) in enumerate(zip(keys, values, strict=True)):
        if i == failed.row:
            assert (partitions[i], offsets[i], times[i]) == (-1, -1, -1)
            continue
        assert logs[partitions[i]][offsets[i]] == value
        assert times[i] == i
        assert key is None or partitions[i] == (hash_key(key) & 0x7FFFFFFF) % 4
    assert future.delivered().byte_count == sum(
        len(value) + len(key or b"")
        for i, (value, key) in enumerate(zip(values, keys, strict=True))
        if i != failed.row
    )


def test_ctrl_c_among_rows_by_key_tells_of_each_whether_it_was_queued(
    new_peer: PeerFactory,
) -> None:
    peer = new_peer({"t": 4})
    peer.on(PRODUCE).hold().always()
    values = [b"%06d" % i * 100 for i in range(900)]

    def interrupt() -> None:
        peer.wait_until(lambda: producer._engine.counters()["waiting_threads"] == 1)
        os.kill(os.getpid(), signal.SIGINT)

    with quick_producer(peer, buffer_memory=131_072, batch_size=16_384) as producer:
        producer.warmup("t")
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt) as raised:
            producer.append_columns(
                topic="t", values=pa.array(values), keys=pa.array([b"%d" % i for i in range(900)])
            )
        interrupting.join()
        peer.clear_script()
        peer.release()
        sent = raised.value.sent_records  # type: ignore[attr-defined]
        failed = sent.failed_rows(WAIT_S)
        partitions, offsets, _ = sent.arrays(WAIT_S)
    assert len(sent) == 900
    assert 0 < len(failed) < 900
    assert all("ended with KeyboardInterrupt" in str(each.error) for each in failed)
    assert {each.row for each in failed} == {i for i in range(900) if partitions[i] == -1}
    logs = [peer.values("t", p) for p in range(4)]
    assert sum(map(len, logs)) == 900 - len(failed)
    for i in range(900):
        assert partitions[i] == -1 or logs[partitions[i]][offsets[i]] == values[i]


def test_neither_numpy_nor_pyarrow_is_imported_or_needed() -> None:
    """The Arrow structs are our own, and numpy is met by its buffers."""
    told = run_python(
        """
        import json, sys

        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("numpy", "pyarrow"):
                    raise ImportError(f"{name} is absent here")

        sys.meta_path.insert(0, Absent())
        import fastprod
        from fastprod._core.testing.column_doors import rows_for_test
        from support.records.arrow_capsules import Exporter, binary
        rows, _ = rows_for_test(topic="t", values=Exporter(binary(b"a")), keys=[b"k"])
        print(json.dumps({"rows": repr(rows), "there": "numpy" in sys.modules}))
        """
    ).told
    assert told == {"rows": "[('t', b'a', b'k', None, 2, 0)]", "there": False}

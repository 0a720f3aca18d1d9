"""What runs in a worker, without Spark: Arrow batches in, a scripted broker at the other end."""

from __future__ import annotations

import datetime
import functools
import pickle
import types
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow
import pytest

from fastprod._core.producer.bulk_future import BulkFuture
from fastprod.load.rate_limiter import RateLimiter
from fastprod.load.row_error import RowError
from fastprod.producer import KafkaProducer
from fastprod.protocol.api_keys import INIT_PRODUCER_ID, METADATA, PRODUCE
from fastprod.spark.rows.bad_row import BadRow
from fastprod.spark.rows.row_plan import RowPlan
from fastprod.spark.sink import producer_cache, task_writer
from fastprod.spark.sink.options import SinkOptions, sink_options
from fastprod.spark.sink.task_writer import run
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer
from support.processes.child_python import run_python
from support.processes.leak_guard import nothing_is_left

INVALID_RECORD = 87
PATIENCE_S = 30.0
VALUE = RowPlan(value=0)

__all__ = ["nothing_is_left"]


@pytest.fixture(autouse=True)
def no_producer_is_left(nothing_is_left: None) -> Iterator[None]:
    yield
    producer_cache.close_all()


def options_for(peer: Peer, topic: str | None = "t", **more: str) -> SinkOptions:
    given = {"kafka.bootstrap.servers": peer.bootstrap_servers, "fastprod.tune.worker": "false"}
    if topic is not None:
        given["topic"] = topic
    return sink_options({**given, **{name.replace("__", "."): text for name, text in more.items()}})


def batch(**columns: pyarrow.Array | list[object]) -> pyarrow.RecordBatch:
    return pyarrow.RecordBatch.from_pydict(columns)


def test_every_part_of_a_row_arrives(peer: Peer) -> None:
    entry = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
    time = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
    rows = batch(
        value=pyarrow.array(["v0", None, ""]),
        key=pyarrow.array([None, b"k", b""]),
        headers=pyarrow.array(
            [[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None, []],
            pyarrow.list_(entry),
        ),
        topic=pyarrow.array(["t", "t", "t"]),
        partition=pyarrow.array([2, 2, 2], pyarrow.int32()),
        timestamp=pyarrow.array([time] * 3, pyarrow.timestamp("us", tz="UTC")),
        span=pyarrow.array(["s", None, ""]),
    )
    plan = RowPlan(0, 1, 2, 3, 4, 5, (("span", 6),))
    report = run(plan, options_for(peer, None, header__origin="o"), iter([rows]))
    ms = 1_704_153_600_000
    assert [(e.timestamp, e.key, e.value, list(e.headers)) for e in peer.log("t", 2)] == [
        (ms, None, b"v0", [("a", b"1"), ("a", None), ("origin", b"o"), ("span", b"s")]),
        (ms, b"k", None, [("origin", b"o"), ("span", None)]),
        (ms, b"", b"", [("origin", b"o"), ("span", b"")]),
    ]
    assert (report.rows, report.bytes, report.offsets) == (3, 3, {"t": {2: (0, 2)}})


def test_a_partitioner_of_the_users_sees_every_row(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 3, "u": 3})
    entry = pyarrow.struct([("KEY", pyarrow.string()), ("Value", pyarrow.binary())])
    rows = batch(
        value=[str(each) for each in range(12)],
        topic=["t", "u"] * 6,
        headers=pyarrow.array([[{"KEY": "a", "Value": b"1"}]] * 12, pyarrow.list_(entry)),
    )
    options = options_for(
        peer,
        None,
        kafka__partitioner__class="fastprod.partitioner:RoundRobinPartitioner",
        header__b="2",
    )
    report = run(RowPlan(value=0, topic=1, headers=2), options, iter([rows, rows]))
    for topic in ("t", "u"):
        logs = [peer.log(topic, partition) for partition in range(3)]
        assert [len(log) for log in logs] == [4, 4, 4]
        headers = {tuple(record.headers) for log in logs for record in log}
        assert headers == {(("a", b"1"), ("b", b"2"))}
    assert (report.rows, report.bytes) == (24, 28)


def test_plug_ins_cost_no_request_for_each_topic(new_peer: PeerFactory) -> None:
    names = [f"t{number}" for number in range(40)]
    peer = new_peer(dict.fromkeys(names, 1))
    round_robin = "fastprod.partitioner:RoundRobinPartitioner"
    options = options_for(peer, None, kafka__partitioner__class=round_robin)
    rows = batch(value=names, topic=names)
    assert run(RowPlan(value=0, topic=1), options, iter([rows])).rows == 40
    assert len(peer.requests(METADATA)) < 5


def test_plug_ins_wait_for_one_topic_that_is_not_there(
    new_peer: PeerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that is there, one that is missing; none of the other nine is waited for."""
    peer = new_peer({"t": 1})
    send_many = KafkaProducer.send_many
    asked = []

    def awaited(producer: KafkaProducer, topic: str, *rest: Any, **more: Any) -> BulkFuture:
        asked.append(topic)
        future = send_many(producer, topic, *rest, **more)
        future.exception(PATIENCE_S)
        return future

    monkeypatch.setattr(KafkaProducer, "send_many", awaited)
    rows = batch(value=["v"] * 11, topic=["t", *(f"missing-{n}" for n in range(10))])
    more = {
        "kafka__partitioner__class": "fastprod.partitioner:RoundRobinPartitioner",
        "kafka__max__block__ms": "1000",
    }
    options = options_for(peer, None, **more)
    # The first topic is known however long its answer takes.
    producer_cache.producer_for(options.settings).warmup("t", timeout=PATIENCE_S)
    with pytest.raises(RowError, match="missing-0"):
        run(RowPlan(0, topic=1), options, iter([rows]))
    assert asked == ["t", "missing-0"]


@pytest.mark.parametrize("list_of", [pyarrow.list_, pyarrow.large_list])
def test_the_names_of_a_headers_fields_are_in_any_case(
    peer: Peer, list_of: Callable[[pyarrow.DataType], pyarrow.DataType]
) -> None:
    entry = pyarrow.struct([("KEY", pyarrow.large_string()), ("Value", pyarrow.binary())])
    headers = pyarrow.array([None, [{"KEY": "a", "Value": b"1"}], []], list_of(entry))
    rows = batch(value=["x", "y", "z"], headers=headers, partition=pyarrow.array([0] * 3))
    run(RowPlan(value=0, headers=1, partition=2), options_for(peer), iter([rows.slice(1)]))
    assert [list(record.headers) for record in peer.log("t", 0)] == [[("a", b"1")], []]


def test_slices_and_many_batches_keep_their_order(peer: Peer) -> None:
    whole = batch(
        value=[f"{each:05}" for each in range(9000)],
        partition=pyarrow.array([1] * 9000, pyarrow.int32()),
    )
    parts = (whole.slice(start, 1000) for start in range(0, 9000, 1000))
    report = run(RowPlan(0, partition=1), options_for(peer), parts)
    assert peer.values("t", 1) == [b"%05d" % each for each in range(9000)]
    assert report.rows == 9000


def test_a_task_without_rows_asks_no_broker(peer: Peer) -> None:
    empty = batch(value=pyarrow.array([], pyarrow.string()))
    report = run(VALUE, options_for(peer), iter([empty]))
    assert (report.rows, report.client_id) == (0, "")
    assert peer.requests() == []


def test_tasks_of_one_configuration_use_one_producer(peer: Peer) -> None:
    reports = [run(VALUE, options_for(peer), iter([batch(value=["v"])])) for _ in range(5)]
    assert len({report.client_id for report in reports}) == 1
    assert len(peer.requests(INIT_PRODUCER_ID)) == 1


def test_a_fifth_configuration_ends_the_producer_unused_longest(peer: Peer) -> None:
    configurations = [options_for(peer, kafka__client__id=str(each)) for each in range(5)]
    for options in configurations:
        run(VALUE, options, iter([batch(value=["v"])]))
    assert not producer_cache.producer_for(configurations[1].settings).closed
    assert len(peer.requests(INIT_PRODUCER_ID)) == 5
    run(VALUE, configurations[0], iter([batch(value=["v"])]))
    assert len(peer.requests(INIT_PRODUCER_ID)) == 6


def test_a_producer_that_no_task_asks_for_any_more_is_closed(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a password that was changed it would be refused once a second, as long as the worker."""
    now_s = 1_000.0
    clock = types.SimpleNamespace(monotonic=lambda: now_s)
    monkeypatch.setattr(producer_cache, "time", clock)
    each_options = (options_for(peer, kafka__client__id=name) for name in ("old", "used", "new"))
    old, used, new = (options.settings for options in each_options)
    producers = [producer_cache.producer_for(settings) for settings in (old, used)]
    now_s += 60.0
    producer_cache.producer_for(used)
    now_s += 1.0
    producers.append(producer_cache.producer_for(new))
    assert [each.closed for each in producers] == [True, False, False]
    assert producer_cache.producer_for(used) is producers[1]
    now_s += 61.0
    assert producer_cache.producer_for(new) is producers[2]
    assert [each.closed for each in producers] == [True, True, False]


def test_a_failed_row_is_named_and_its_producer_is_not_used_again(peer: Peer) -> None:
    peer.on(PRODUCE).for_partition("t", 2).error(INVALID_RECORD).once()
    partitions = pyarrow.array([0, 0, 2, 0], pyarrow.int32())
    rows = batch(value=["a", "b", "bad", "d"], partition=partitions)
    plan = RowPlan(value=0, partition=1)
    first = batch(value=["x"] * 10, partition=pyarrow.array([0] * 10, pyarrow.int32()))
    with pytest.raises(RowError) as raised:
        run(plan, options_for(peer), iter([first, rows]))
    error = raised.value
    assert (error.row, error.topic, error.partition) == (12, "t", 2)
    assert (error.key_size_bytes, error.value_size_bytes) == (-1, 3)
    assert (error.failed_count, error.acknowledged_count) == (1, 13)
    assert "InvalidRecordError" in str(error)
    assert "key null, value of 3 bytes" in str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.row) == (str(error), 12)
    run(VALUE, options_for(peer), iter([batch(value=["after"])]))
    assert len(peer.requests(INIT_PRODUCER_ID)) == 2


def test_the_row_at_fault_is_named_not_one_that_shared_its_batch(peer: Peer) -> None:
    peer.on(PRODUCE).error(32, record_errors={2: "too late"}).once()
    rows = batch(value=["a", "b", "c"], partition=pyarrow.array([0, 0, 0], pyarrow.int32()))
    # Three rows are one batch however long this thread is held between them.
    options = options_for(peer, kafka__linger__ms="10000")
    with pytest.raises(RowError, match="too late") as raised:
        run(RowPlan(0, partition=1), options, iter([rows]))
    assert (raised.value.row, raised.value.failed_count) == (2, 3)


def test_rows_of_several_topics_are_named_by_their_place_in_the_task(new_peer: PeerFactory) -> None:
    peer = new_peer({"t": 1, "u": 1})
    peer.on(PRODUCE).for_topic("u").error(INVALID_RECORD).always()
    rows = batch(value=["a", "b", "c", "d"], topic=["t", "t", "t", "u"])
    with pytest.raises(RowError) as raised:
        run(RowPlan(value=0, topic=1), options_for(peer, None), iter([rows]))
    assert (raised.value.row, raised.value.topic) == (3, "u")


@pytest.mark.parametrize(
    ("column", "cells", "plan", "text"),
    [
        ("topic", pyarrow.array(["t", None]), RowPlan(0, topic=1), "contains a null topic."),
        (
            "partition",
            pyarrow.array([0, -1], pyarrow.int32()),
            RowPlan(0, partition=1),
            "Invalid p",
        ),
        (
            "timestamp",
            pyarrow.array([0, -1], pyarrow.timestamp("us", tz="UTC")),
            RowPlan(0, timestamp=1),
            "Invalid timestamp: -1 us",
        ),
        (
            "headers",
            pyarrow.array(
                [None, [None]],
                pyarrow.list_(
                    pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
                ),
            ),
            RowPlan(0, headers=1),
            "every header needs a key",
        ),
    ],
)
def test_a_row_that_is_no_record_is_named(
    peer: Peer, column: str, cells: pyarrow.Array, plan: RowPlan, text: str
) -> None:
    good = pyarrow.RecordBatch.from_arrays(
        [pyarrow.array(["v"] * 3), pyarrow.nulls(3, cells.type)], ["value", column]
    )
    bad = pyarrow.RecordBatch.from_arrays([pyarrow.array(["v", "w"]), cells], ["value", column])
    batches = [bad] if column == "topic" else [good, bad]
    with pytest.raises(RowError) as raised:
        run(plan, options_for(peer, None if column == "topic" else "t"), iter(batches))
    assert text in str(raised.value)
    assert raised.value.row == (1 if column == "topic" else 4)


def test_a_row_that_has_no_form_in_its_format_is_named(peer: Peer) -> None:
    def encoded() -> Iterator[pyarrow.RecordBatch]:
        yield batch(value=["v"] * 3)
        raise BadRow(1, "cannot be encoded: it is null")

    with pytest.raises(RowError, match=r"it is null \[row 4 \(from 0\) of Spark") as raised:
        run(VALUE, options_for(peer), encoded())
    assert raised.value.row == 4


def test_a_worker_that_forks_writes_in_both_processes(peer: Peer) -> None:
    told = run_python(
        """
        import json, os, sys
        import pyarrow
        from fastprod.spark.sink.options import sink_options
        from fastprod.spark.rows.row_plan import RowPlan
        from fastprod.spark.sink.task_writer import run
        options = sink_options({"kafka.bootstrap.servers": sys.argv[1], "topic": "t"})
        def write(text):
            rows = pyarrow.RecordBatch.from_pydict({"value": [text]})
            return run(RowPlan(value=0), options, iter([rows])).rows
        write("before")
        pid = os.fork()
        if pid == 0:
            write("child")
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(json.dumps({"status": status, "rows": write("parent")}))
        """,
        peer.bootstrap_servers,
    ).told
    assert told == {"status": 0, "rows": 1}
    values = [value for partition in range(3) for value in peer.values("t", partition)]
    assert sorted(value or b"" for value in values) == [b"before", b"child", b"parent"]


def test_a_worker_is_tuned_once_unless_that_is_turned_off(peer: Peer) -> None:
    told = run_python(
        """
        import gc, json, sys
        import pyarrow
        from fastprod.spark.sink.options import sink_options
        from fastprod.spark.rows.row_plan import RowPlan
        from fastprod.spark.sink.task_writer import run
        given = {"kafka.bootstrap.servers": sys.argv[1], "topic": "t"}
        def write(tunes):
            rows = pyarrow.RecordBatch.from_pydict({"value": ["v"]})
            options = sink_options({**given, "fastprod.tune.worker": tunes})
            run(RowPlan(value=0), options, iter([rows]))
            return gc.get_freeze_count()
        print(json.dumps({"counts": [write("false"), write("true"), write("true")]}))
        """,
        peer.bootstrap_servers,
    ).told
    off, once, twice = told["counts"]
    assert off == 0
    assert once > 1000
    assert twice <= once


def test_what_a_worker_imports_after_its_first_task_is_tuned_too_but_not_for_ever(
    peer: Peer,
) -> None:
    """Spark imports pandas when it sends the first task's outcome back."""
    told = run_python(
        """
        import gc, json, sys
        import pyarrow
        from fastprod.spark.sink.options import sink_options
        from fastprod.spark.rows.row_plan import RowPlan
        from fastprod.spark.sink.task_writer import run
        options = sink_options({"kafka.bootstrap.servers": sys.argv[1], "topic": "t"})
        kept, in_sight = [], []
        for _ in range(6):
            rows = pyarrow.RecordBatch.from_pydict({"value": ["v"]})
            run(RowPlan(value=0), options, iter([rows]))
            in_sight.append(len(gc.get_objects()))
            kept.append([[] for _ in range(5000)])
        print(json.dumps({"in_sight": in_sight}))
        """,
        peer.bootstrap_servers,
    ).told
    in_sight = told["in_sight"]
    assert max(in_sight[:4]) < 2_000
    assert in_sight[4] > 5_000
    assert in_sight[5] > 10_000


def test_a_task_takes_as_long_as_its_rows_take_at_the_rate(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept_s: list[float] = []
    standing = functools.partial(RateLimiter, clock_s=lambda: 0.0, sleep=slept_s.append)
    monkeypatch.setattr(task_writer, "RateLimiter", standing)
    rows = batch(value=pyarrow.array([b"0123456789"]))
    run(VALUE, options_for(peer, fastprod__max__bytes__per__second="1000"), iter([rows]))
    assert slept_s == [pytest.approx(10 / 1000)]


def test_columns_that_are_no_part_of_a_record_take_none_of_the_rate(
    peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept_s: list[float] = []
    standing = functools.partial(RateLimiter, clock_s=lambda: 0.0, sleep=slept_s.append)
    monkeypatch.setattr(task_writer, "RateLimiter", standing)
    value, key = pyarrow.array([b"0123456789"]), pyarrow.array([b"k"])
    rows = batch(value=value, key=key, other=[b"x" * 1000], span=[b"y" * 1000])
    plan = RowPlan(value=0, key=1, header_columns=(("span", 3),))
    run(plan, options_for(peer, fastprod__max__bytes__per__second="1000"), iter([rows]))
    assert slept_s == [pytest.approx(11 / 1000)]

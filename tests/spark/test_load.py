"""`fastprod spark-load`: files of every format, both engines, failures, resumption, Ctrl-C."""

from __future__ import annotations

import base64
import gzip
import json
import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.orc
import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result
from pyspark.sql import SparkSession, functions

from fastprod.broker.broker import Broker
from fastprod.cli.command import fastprod
from fastprod.load.input_files import InputError
from fastprod.spark.jobs import load_job
from fastprod.spark.jobs.load_job import LoadJob
from fastprod.spark.jobs.manifest import Manifest
from support.records.readers import ReadRecord, read_with_confluent

PATIENCE_S = 400.0

Load = Callable[..., Result]
Records = Callable[[], list[ReadRecord]]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One for all: workers keep their producers, and those of a broker that is gone look for it."""
    with Broker() as broker:
        yield broker


@pytest.fixture
def topic(broker: Broker) -> str:
    """A new topic of two partitions."""
    name = f"t-{uuid.uuid4().hex}"
    broker.create_topic(name, 2)
    return name


@pytest.fixture
def load(spark: SparkSession, broker: Broker, topic: str, tmp_path: Path) -> Load:
    """`load(path, *options)` into the topic, in the session of this folder.

    Progress is told to those who ask for it: on a slow machine it would be a line after 5 s.
    """

    def invoke(*arguments: str) -> Result:
        state = ("--state-dir", str(tmp_path / "state"))
        servers = ("--topic", topic, "-b", broker.bootstrap_servers)
        command = ["spark-load", "--progress", "none", *arguments, *servers, *state]
        result = CliRunner().invoke(fastprod, command)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def records(broker: Broker, topic: str) -> Records:
    """All records of the topic, by another client."""

    def read() -> list[ReadRecord]:
        found = read_with_confluent(broker.bootstrap_servers, topic)
        return [record for partition in sorted(found) for record in found[partition]]

    return read


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A Parquet file of ten row groups with the columns id, name and x; 0 to 999."""
    path = tmp_path / "a.parquet"
    numbers = list(range(1000))
    columns = {"id": numbers, "name": [f"n{n}" for n in numbers], "x": [n / 2 for n in numbers]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, row_group_size=100)
    return str(path)


def summary(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("engine", ["direct", "spark"])
def test_columns_become_keys_values_headers_partitions_and_timestamps(
    load: Load, records: Records, topic: str, tmp_path: Path, engine: str
) -> None:
    path = tmp_path / "a.parquet"
    columns = {"k": ["a", None], "v": [b"\xff", None], "p": [1, 0], "ms": [1_700_000_000_000, None]}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    mapping = ("--key", "k", "--value", "v", "--partition-column", "p", "--timestamp-column", "ms")
    headers = ("-H", "All=1", "--header-column", "Each=k", "-H", "All=2")
    result = load(str(path), "--engine", engine, *mapping, *headers, "--summary", "-")
    assert result.exit_code == 0, result.stderr
    told = summary(result)
    assert (told["engine"], told["rows"], told["bytes"]) == (engine, 2, 2)
    assert told["offsets"] == {topic: {"0": [0, 0], "1": [0, 0]}}
    null, whole = records()
    assert (whole.partition, whole.timestamp_ms) == (1, 1_700_000_000_000)
    assert (whole.key, whole.value, sorted(whole.headers)) == (
        b"a",
        b"\xff",
        [("All", b"1"), ("All", b"2"), ("Each", b"a")],
    )
    assert (null.key, null.value, dict(null.headers)["Each"]) == (None, None, None)
    assert null.timestamp_ms > whole.timestamp_ms


def plans(spark: SparkSession) -> str:
    """What Spark tells of its queries: the event log has the same texts."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(60_000)
    found = spark._jsparkSession.sharedState().statusStore().executionsList()
    return "\n".join(found.apply(n).physicalPlanDescription() for n in range(found.size()))


# XF
def test_the_value_of_a_constant_header_is_in_no_plan(
    load: Load, records: Records, spark: SparkSession, table: str
) -> None:
    value = b"hush-\xff"
    first = os.fsdecode(b"column.Auth=" + value)
    headers = ("-H", first, "--header-column", "Each=id", "-H", "Auth=hush-2")
    spark.conf.set("spark.sql.ui.explainMode", "extended")
    try:
        result = load(table, "--engine", "spark", "--value", "name", *headers)
    finally:
        spark.conf.unset("spark.sql.ui.explainMode")
    assert result.exit_code == 0, result.stderr
    told = plans(spark)
    assert "== Analyzed Logical Plan ==" in told
    for secret in (b"hush-", value, b"hush-2"):
        for form in (
            secret.decode(errors="ignore"),
            secret.hex(),
            base64.b64encode(secret)[:6].decode(),
        ):
            assert form.lower() not in told.lower()
    [found] = [each.headers for each in records() if each.value == b"n7"]
    assert found == (("column.Auth", value), ("Auth", b"hush-2"), ("Each", b"7"))


FILES = {
    "a.csv": b'k,v\n1,"x ""y"""\n2,z\n',
    "a.tsv": b'k\tv\n1\t"x ""y"""\n2\tz\n',
    "a.jsonl": b'{"k": 1, "v": "x \\"y\\"", "n": {"a": 1}}\n{"k": 2, "v": "z"}\n',
}


@pytest.mark.parametrize("engine", ["direct", "spark"])
@pytest.mark.parametrize("name", list(FILES))
def test_both_engines_read_text_alike(
    load: Load, records: Records, tmp_path: Path, name: str, engine: str
) -> None:
    (tmp_path / name).write_bytes(FILES[name])
    path = str(tmp_path / name)
    result = load(path, "--engine", engine, "--key", "k", "--value", "v")
    assert result.exit_code == 0, result.stderr
    assert f"(engine {engine})" in result.stdout
    assert sorted((each.key, each.value) for each in records()) == [
        (b"1", b'x "y"'),
        (b"2", b"z"),
    ]


@pytest.mark.parametrize("more", [(), ("--job-id", "j")])
def test_spark_reads_the_files_that_were_found_and_no_others(
    load: Load, records: Records, tmp_path: Path, more: tuple[str, ...]
) -> None:
    for name in ("top.txt", "below/a.txt", "x[1].txt", "x1.txt", "{y}.txt"):
        (tmp_path / "in" / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / "in" / name).write_text(f"{name}\n")
    given = ("in/below", "in/**/a.txt", "in/top.txt", "in/x[1].txt", "in/{y}.txt")
    paths = [str(tmp_path / each) for each in given]
    result = load(*paths, "--engine", "spark", *more)
    assert result.exit_code == 0, result.stderr
    assert sorted(each.value for each in records() if each.value) == [
        b"below/a.txt",
        b"top.txt",
        b"x[1].txt",
        b"{y}.txt",
    ]


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_columns_that_one_file_has_alone_are_not_left_out(
    load: Load, records: Records, tmp_path: Path, kind: str
) -> None:
    write = pyarrow.parquet.write_table if kind == "parquet" else pyarrow.orc.write_table
    for name, columns in (("a", {"v": ["x"]}), ("b", {"n": [5], "v": ["y"]}), ("c", {"v": ["z"]})):
        write(pyarrow.table(columns), str(tmp_path / f"{name}.{kind}"))
    result = load(str(tmp_path), "--value-format", "json")
    assert result.exit_code == 0, result.stderr
    found = [json.loads(each.value or b"") for each in records()]
    assert sorted(found, key=str) == [{"v": "x"}, {"v": "y", "n": 5}, {"v": "z"}]


@pytest.mark.parametrize("above", ["", "more"])
def test_keys_in_the_names_of_folders_are_keys(
    load: Load, records: Records, tmp_path: Path, above: str
) -> None:
    for number in (7, 8):
        folder = tmp_path / "in" / above / f"key={number}"
        folder.mkdir(parents=True)
        (folder / "a.csv").write_text(f"value\nx{number}\n")
    result = load(str(tmp_path / "in"))
    assert result.exit_code == 0, result.stderr
    assert sorted((each.key, each.value) for each in records()) == [(b"7", b"x7"), (b"8", b"x8")]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "header.csv", "a.json", "a.json.gz"])
def test_inputs_without_rows_are_no_failure_to_spark(load: Load, tmp_path: Path, name: str) -> None:
    data = b"k,v\n" if name == "header.csv" else b""
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    result = load(str(tmp_path / name), "--engine", "spark", "--value", "v", "--summary", "-")
    assert result.exit_code == 0, result.stderr
    assert summary(result)["rows"] == 0


DAMAGED = {
    "a.jsonl": ['{"k": "1", "v": "x"}\n{"k": "2", "v"\n'],
    "fewer.csv": ["k,v,w\n1,x,\n2\n"],
    "more.csv": ["k,v\n1,x\n2,y,z\n"],
    "other-order.csv": ["k,v\n1,x\n", "v,k\ny,2\n"],
}


@pytest.mark.parametrize("name", list(DAMAGED))
def test_a_damaged_row_ends_a_load_by_spark(
    load: Load, records: Records, tmp_path: Path, name: str
) -> None:
    for number, text in enumerate(DAMAGED[name]):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{number}{name}").write_text(text)
    result = load(str(tmp_path / "in"), "--engine", "spark", "--key", "k", "--value", "v")
    assert result.exit_code in (1, 2), result.stderr
    assert name in result.stderr
    assert not [each for each in records() if each.value not in (b"x", b"y")]


def test_orc_is_read_by_spark(
    load: Load, records: Records, spark: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "orc")
    spark.sql("select 'k' key, 'v' value").coalesce(1).write.orc(path)
    result = load(path)
    assert result.exit_code == 0, result.stderr
    assert [(each.key, each.value) for each in records()] == [(b"k", b"v")]


def test_avro_without_its_package_is_told_with_the_package(load: Load, tmp_path: Path) -> None:
    (tmp_path / "a.avro").write_bytes(b"Obj\x01")
    result = load(str(tmp_path / "a.avro"))
    assert result.exit_code == 2
    assert "--packages org.apache.spark:spark-avro_2.13" in result.stderr


def test_sql_chooses_rows_and_makes_columns(load: Load, records: Records, table: str) -> None:
    query = ("--select", "string(id) key, x * 2 as twice", "--where", "id % 500 = 1")
    result = load(table, *query, "--value-format", "json")
    assert result.exit_code == 0, result.stderr
    assert sorted((each.key, each.value) for each in records()) == [
        (b"1", b'{"key":"1","twice":1.0}'),
        (b"501", b'{"key":"501","twice":501.0}'),
    ]


# Every kind of type, and the names of a record's other parts.
TYPED = """id as key, if(id % 3 = 0, double('NaN'), x / 3) partition, name as headers,
    timestamp_micros(id * 86399999999) timestamp, date_add(date'1999-12-31', int(id)) topic,
    cast(x / 7 as decimal(20, 9)) d, array(id, null) a, map(name, x, 'n', null) m, float(x / 3) f,
    named_struct('x', null, 'y "quoted"', encode(name, 'utf-8')) s, if(id % 2 = 0, name, null) n,
    timestamp_ntz'2020-02-29 12:00:00.5' ntz, null nothing, array(named_struct('t', true)) t,
    tinyint(id % 100) tiny, concat('\\u0001', name, '\\u00e9') text"""


@pytest.mark.parametrize("ignores_nulls", ["true", "false"])
def test_json_is_what_spark_makes_of_the_columns(
    load: Load, records: Records, spark: SparkSession, table: str, ignores_nulls: str
) -> None:
    setting = "spark.sql.jsonGenerator.ignoreNullFields"
    spark.conf.set(setting, ignores_nulls)
    try:
        parts = ("-H", "All=1", "--header-column", "Each=headers", "--timestamp-column", "key")
        result = load(
            table, "--select", TYPED, "--where", "id < 200", "--value-format", "json", *parts
        )
        rows = spark.read.parquet(table).where("id < 200").selectExpr(f"struct({TYPED}) row")
        whole = {
            "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS][XXXXX]",
            "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
        }
        wanted = rows.select("row.key", functions.to_json("row", whole)).collect()
    finally:
        spark.conf.unset(setting)
    assert result.exit_code == 0, result.stderr
    found = {int(each.key or b""): each for each in records()}
    assert len(found) == len(wanted) == 200
    for key, text in wanted:
        record = found[key]
        assert json.loads(record.value or b"") == json.loads(text)
        assert sorted(record.headers) == [("All", b"1"), ("Each", b"n%d" % key)]
        assert record.timestamp_ms == key


def test_a_whole_query_may_aggregate(load: Load, records: Records, table: str) -> None:
    result = load(table, "--sql", "select string(count(*)) value from input")
    assert result.exit_code == 0, result.stderr
    assert [each.value for each in records()] == [b"1000"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--value", "nosuch"), "there is no column 'nosuch'; there are id, name, x"),
        ((), "which column is the value? There are id, name, x"),
        (("--select", "nosuch"), "`nosuch` cannot be resolved"),
        (("--where", "id ="), "[PARSE_SYNTAX_ERROR]"),
        (("--value", "name", "--schema", "name nosuchtype"), "NOSUCHTYPE"),
        (("--select", "array(id) value"), "of type array<bigint>, which has no bytes"),
        (
            ("--select", "parse_json(name) v", "--value-format", "json"),
            "column 'v' is of type variant, which --value-format json does not take: cast it",
        ),
        (("--value", "name", "--timestamp-column", "x"), "'x' is of type double: give a timestamp"),
        (
            ("--select", "name value, true p", "--partition-column", "p"),
            "'p' is of type boolean, which is no number",
        ),
        (("--conf", "spark.speculation=true", "--value", "name"), "spark.speculation = true"),
        (("--sql", "select max(name) value from input", "--job-id", "j"), "(Aggregate)"),
        (("--sql", "select name value from input offset 1", "--job-id", "j"), "(Offset)"),
        (("--sql", "select name value from input except select 'n1'", "--job-id", "j"), "(Except)"),
        (
            ("--where", "id in (select x from input)", "--value", "name", "--job-id", "j"),
            "(subquery)",
        ),
        (
            ("--sql", "select name value from input union all select 'x'", "--job-id", "j"),
            "has rows that are not the input's",
        ),
        (
            ("--sql", "select name value from input union all values ('x')", "--job-id", "j"),
            "has rows that are not the input's",
        ),
        (
            (
                *("--job-id", "j", "--sql"),
                "select name value from input union all select string(id) from range(2)",
            ),
            "has rows that are not the input's",
        ),
    ],
)
def test_what_is_wrong_takes_one_line_and_exit_code_2(
    load: Load, records: Records, table: str, arguments: tuple[str, ...], told: str
) -> None:
    result = load(table, *arguments, "--progress", "none")
    assert result.exit_code == 2, result.stderr
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert records() == []


@pytest.mark.parametrize("engine", ["direct", "spark"])
def test_a_row_that_is_refused_is_exit_code_1(load: Load, tmp_path: Path, engine: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text("x\n" * 5 + "y" * 5000 + "\n")
    limit = ("-X", "max.request.size=2000")
    result = load(str(path), "--engine", engine, *limit, "--summary", str(tmp_path / "s"))
    assert result.exit_code == 1
    assert "more than max_request_size = 2,000" in result.stderr
    assert "row 5 (from 0)" in result.stderr
    assert result.stderr.count("\n") == 1
    told = json.loads((tmp_path / "s").read_text())
    assert (told["outcome"], told["rows"]) == ("failed", 0)
    assert "max_request_size" in told["error"]


@pytest.mark.parametrize("part", [1.0, 1.5])
def test_no_fraction_of_a_partition_is_cut_off(
    load: Load, records: Records, tmp_path: Path, part: float
) -> None:
    columns = {"value": ["x", "y"], "p": [part, None]}
    pyarrow.parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    result = load(str(tmp_path), "--value", "value", "--partition-column", "p")
    if part == 1.0:
        assert result.exit_code == 0, result.stderr
        assert [each.partition for each in records() if each.value == b"x"] == [1]
    else:
        assert result.exit_code == 1
        assert "column 'p' has a value that is no int: 1.5" in result.stderr


def test_what_is_wrong_with_a_later_file_is_exit_code_1_and_tells_what_was_sent(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_job, "_WAVE_BYTES", 1)
    monkeypatch.setattr(load_job, "_WAVE_COUNT", 1_000)
    (tmp_path / "a.csv").write_text("k,v\n1,x\n")
    (tmp_path / "b.csv").write_text("k,w\n1,x\n")
    paths = [str(tmp_path / name) for name in ("a.csv", "b.csv")]
    more = ("--engine", "spark", "--value", "v", "--job-id", "j")
    result = load(*paths, *more, "--summary", str(tmp_path / "s"))
    assert result.exit_code == 1
    assert "1 rows known to be delivered, then: --value: there is no column 'v'" in result.stderr
    told = json.loads((tmp_path / "s").read_text())
    assert (told["outcome"], told["rows"]) == ("failed", 1)


@pytest.mark.parametrize("engine", ["direct", "spark"])
def test_a_job_that_is_done_sends_nothing_again_but_new_files(
    load: Load, records: Records, tmp_path: Path, engine: str
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    arguments = (str(folder), "--engine", engine, "--job-id", "daily", "--summary", "-")
    assert summary(load(*arguments))["rows"] == 1
    again = summary(load(*arguments))
    assert (again["rows"], again["rows_of_earlier_runs"]) == (0, 1)
    (folder / "b.txt").write_text("b\n")
    assert summary(load(*arguments))["rows"] == 1
    assert sorted(each.value or b"" for each in records()) == [b"a", b"b"]
    (folder / "a.txt").write_text("a\nmore\n")
    changed = load(*arguments)
    assert changed.exit_code == 2
    assert "a.txt has changed since this job began" in changed.stderr


@pytest.mark.parametrize("engine", ["direct", "spark"])
def test_a_file_that_changes_while_it_is_read_is_not_marked(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    (tmp_path / "a.txt").write_text("a\nb\n")
    left = LoadJob._left

    def change(*arguments: Any) -> Any:
        found = left(*arguments)
        (tmp_path / "a.txt").write_text("a\n")
        return found

    monkeypatch.setattr(LoadJob, "_left", change)
    arguments = (str(tmp_path / "a.txt"), "--engine", engine, "--job-id", "j")
    result = load(*arguments)
    assert result.exit_code != 0
    assert "a.txt has changed since it was found: 4 bytes of 20" in result.stderr
    assert list((tmp_path / "state" / "j" / "done").iterdir()) == []


def test_after_a_failure_a_job_sends_what_is_not_marked(
    load: Load, records: Records, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("a\n")
    (folder / "b.txt").write_text("b" * 5000 + "\n")
    arguments = (str(folder), "--job-id", "j", "--summary", "-")
    failed = load(*arguments, "-X", "max.request.size=2000")
    assert failed.exit_code == 1
    assert "run it again with --job-id j for the rest" in failed.stderr
    wanted_marks = summary(failed)["rows"]
    rest = summary(load(*arguments))
    assert rest["outcome"] == "complete"
    assert rest["rows"] + wanted_marks == 2
    assert {each.value for each in records()} == {b"a", b"b" * 5000}


@pytest.mark.parametrize("engine", ["direct", "spark"])
def test_marks_that_cannot_be_written_are_a_failure_that_tells_what_was_delivered(
    load: Load, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    def refuse(manifest: Manifest, number: int, report: object) -> None:
        raise InputError("cannot write done/0: No space left on device")

    monkeypatch.setattr(Manifest, "mark", refuse)
    (tmp_path / "a.txt").write_text("a\n")
    summary_file = tmp_path / "summary"
    result = load(
        *(str(tmp_path / "a.txt"), "--engine", engine, "--job-id", "j"),
        *("--summary", str(summary_file)),
    )
    assert result.exit_code == 1, result.stderr
    assert "1 rows known to be delivered, then: cannot write done/0: No space" in result.stderr
    assert result.stderr.count("\n") == 1
    told = json.loads(summary_file.read_text())
    assert (told["outcome"], told["rows"]) == ("failed", 1)


def test_ctrl_c_ends_the_tasks_and_the_job_goes_on_later(
    load: Load, records: Records, table: str, tmp_path: Path
) -> None:
    marks = tmp_path / "state" / "j" / "done"
    arguments = (table, "--value", "name", "--partitions", "10", "--job-id", "j", "--summary", "-")

    def press_ctrl_c() -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not (marks.is_dir() and any(marks.iterdir())) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    thread = threading.Thread(target=press_ctrl_c)
    thread.start()
    interrupted = load(*arguments, "--max-mb-per-second", "0.001", "--progress", "json")
    thread.join()
    assert interrupted.exit_code == 130, interrupted.stderr
    assert "interrupted: " in interrupted.stderr.splitlines()[-1]
    assert "run it again with --job-id j" in interrupted.stderr
    assert signal.getsignal(signal.SIGINT) is before
    first = summary(interrupted)
    assert 0 < first["rows"] < 1000
    rest = summary(load(*arguments))
    assert (rest["rows"], rest["rows_of_earlier_runs"]) == (1000 - first["rows"], first["rows"])
    assert {each.value for each in records()} == {b"n%d" % number for number in range(1000)}


def test_progress_as_json_tells_splits_and_bytes(load: Load, table: str) -> None:
    limit = ("--max-mb-per-second", "0.01", "--partitions", "10")
    result = load(table, "--value", "name", *limit, "--progress", "json")
    assert result.exit_code == 0
    told = [json.loads(line) for line in result.stderr.splitlines()]
    assert told[-1]["input_bytes_total"] > 0
    assert [each["tasks"] for each in told] == sorted(each["tasks"] for each in told)
    assert {each["tasks_total"] for each in told} == {told[0]["tasks_total"]}

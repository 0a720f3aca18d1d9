"""JSON made in the workers, held against Spark's own to_json; formats through the sink."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal
from typing import Any

import numpy
import pyarrow
import pytest
from pyspark.sql import DataFrame, SparkSession, functions

from conftest import TopicFactory
from fastprod.spark.formats import json as json_format
from kafka_cluster import KafkaCluster
from support.spark.sink import SparkSink

ROW_COUNT = 1_500
SECOND_US = 1_000_000
# Zones whose rules differ between the versions of Java's data and of ours are none for this.
ZONES = (
    *("UTC", "Europe/Berlin", "America/New_York", "America/Sao_Paulo", "Europe/Amsterdam"),
    *("America/Nuuk", "Australia/Lord_Howe", "Europe/Dublin", "Antarctica/Troll", "Asia/Gaza"),
    *("Pacific/Apia", "Africa/Monrovia", "Asia/Tehran", "PST", "EST", "+5", "GMT-03:30"),
    "-00:00:30",
)
PATTERNS = (
    *("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]", "yy-M-d H:m:s.S X", "yyyyy.SSSSSSSSS XX x"),
    *("y XXXX xxxx", "'o''c'HH[:mm] xxxxx", "yyy''HH xxx xx", "dd.MM.yyyy HH:mm:ss XXXXX"),
)


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """With TIME; the zone is put back."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert zone is not None
    spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        yield spark
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
        spark.conf.unset("spark.sql.timeType.enabled")


def column(kind: pyarrow.DataType, make: Callable[[random.Random], Any]) -> pyarrow.Array:
    """Random rows, a tenth of them null."""
    chance = random.Random(str(kind))
    rows = [None if chance.random() < 0.1 else make(chance) for _ in range(ROW_COUNT)]
    if pyarrow.types.is_temporal(kind):
        width = pyarrow.int32() if pyarrow.types.is_date32(kind) else pyarrow.int64()
        return pyarrow.array(rows, width).cast(kind)
    return pyarrow.array(rows, kind)


def text(chance: random.Random) -> str:
    ranges = ((0, 0x7F), (0x20, 0x7E), (0x80, 0xD7FF), (0xE000, 0xFFFF), (0x10000, 0x10FFFF))
    return "".join(
        chr(chance.randint(*chance.choice(ranges))) for _ in range(chance.randint(0, 30))
    )


def double(chance: random.Random) -> float:
    special = (float("nan"), float("inf"), float("-inf"), -0.0, 0.0)
    bits: float = struct.unpack("d", chance.randbytes(8))[0]
    rounded = chance.randint(-(10**9), 10**9) / 100
    return chance.choice((bits, rounded, float(chance.randint(-(10**12), 10**12)), *special))


def integer(bits: int) -> Callable[[random.Random], int]:
    largest = 2 ** (bits - 1) - 1
    return lambda chance: chance.choice((-largest - 1, largest, chance.randint(-largest, largest)))


def time_us(chance: random.Random) -> int:
    """The years -4000 to 14000, and more often those near us."""
    near = chance.randint(-5 * 10**9, 5 * 10**9)
    return chance.choice((near, chance.randint(-190_000_000_000, 380_000_000_000))) * SECOND_US + (
        chance.randint(0, 999_999)
    )


def decimal(precision: int, scale: int) -> Callable[[random.Random], Decimal]:
    def make(chance: random.Random) -> Decimal:
        largest = 10 ** chance.randint(0, precision) - 1
        return Decimal(chance.randint(-largest, largest)).scaleb(-scale, Context(prec=80))

    return make


def columns() -> dict[str, pyarrow.Array]:
    """One of each type, and some inside of others."""
    whole = {
        f"i{bits}": column(getattr(pyarrow, f"int{bits}")(), integer(bits))
        for bits in (8, 16, 32, 64)
    }
    pair = pyarrow.struct([("w", pyarrow.float64()), ("n", pyarrow.string())])
    inner = pyarrow.struct([('x"y', pyarrow.int32()), ("z", pyarrow.list_(pair))])
    return whole | {
        "boolean": column(pyarrow.bool_(), lambda chance: chance.random() < 0.5),
        "double": column(pyarrow.float64(), double),
        "decimal_38_18": column(pyarrow.decimal128(38, 18), decimal(38, 18)),
        "decimal_38_0": column(pyarrow.decimal128(38, 0), decimal(38, 0)),
        "decimal_10_10": column(pyarrow.decimal128(10, 10), decimal(10, 10)),
        "text": column(pyarrow.string(), text),
        "bytes": column(pyarrow.binary(), lambda chance: chance.randbytes(chance.randint(0, 9))),
        "day": column(pyarrow.date32(), lambda chance: chance.randint(-2_000_000, 4_000_000)),
        "at": column(pyarrow.timestamp("us", "UTC"), time_us),
        "time": column(
            pyarrow.time64("ns"), lambda chance: chance.randint(0, 86_399_999_999) * 1_000
        ),
        "list": column(
            pyarrow.list_(pyarrow.int32()),
            lambda chance: chance.choices((None, 1, -5), k=chance.randint(0, 4)),
        ),
        "map": column(
            pyarrow.map_(pyarrow.string(), pyarrow.string()),
            lambda chance: [(f"{i}{text(chance)}", chance.choice((None, 'x"'))) for i in range(2)],
        ),
        "days": column(
            pyarrow.map_(pyarrow.int64(), pyarrow.map_(pyarrow.date32(), pyarrow.int8())),
            lambda chance: [(i, [(chance.randint(0, 9), 1)]) for i in range(chance.randint(0, 3))],
        ),
        "struct": column(
            inner,
            lambda chance: {
                'x"y': chance.choice((None, 1)),
                "z": chance.choice((None, [], [None, {"w": 1.5, "n": None}])),
            },
        ),
    }


def both(frame: DataFrame, options: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Each row's text, by our worker and by Spark."""
    given = dict(options or {})
    names = [functions.col(f"`{name}`") for name in frame.columns]
    wanted = frame.select(functions.to_json(functions.struct(*names), given)).collect()
    encoder = json_format.plan(
        frame.schema, {f"json.{name.lower()}": value for name, value in given.items()}
    )

    def work(batches: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        for batch in batches:
            yield pyarrow.RecordBatch.from_arrays([encoder.encode(batch)], names=["text"])

    found = frame.mapInArrow(work, "text binary").collect()
    assert len(found) == len(wanted) == frame.count()
    return [(bytes(ours[0]).decode(), spark[0]) for ours, spark in zip(found, wanted, strict=True)]


def exact(text: str) -> Any:
    """Parsed, with all digits of numbers."""
    return json.loads(text, parse_float=Decimal, parse_constant=str)


def test_every_type_is_what_spark_makes_of_it(session: SparkSession) -> None:
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    frame = session.createDataFrame(pyarrow.table(columns()))
    frame = frame.withColumn("ntz", functions.expr("to_timestamp_ntz(at)"))
    for options in ({}, {"ignoreNullFields": "false"}):
        for ours, spark in both(frame, options):
            # Java before 19 writes some doubles with more digits than it takes.
            assert ours == spark or json.loads(ours) == json.loads(spark)
        decimals = frame.select("decimal_38_18", "decimal_38_0", "decimal_10_10", "i64")
        for ours, spark in both(decimals, options):
            assert exact(ours) == exact(spark)


def test_floats_read_back_as_the_same_floats(session: SparkSession) -> None:
    bits = numpy.random.default_rng(7).integers(0, 2**32, 3_000, numpy.uint32)
    frame = session.createDataFrame(pyarrow.table({"f": bits.view(numpy.float32)}))
    for ours, spark in both(frame):
        one, other = json.loads(ours)["f"], json.loads(spark)["f"]
        assert one == other or numpy.float32(one) == numpy.float32(other)


@pytest.mark.slow
def test_timestamps_have_the_offsets_of_java_in_every_zone(session: SparkSession) -> None:
    frame = session.createDataFrame(
        pyarrow.table({"at": column(pyarrow.timestamp("us", "UTC"), time_us)})
    )
    for zone in ZONES:
        session.conf.set("spark.sql.session.timeZone", zone)
        for ours, spark in both(frame):
            assert ours == spark, zone
    for ours, spark in both(frame, {"timeZone": "Asia/Kolkata"}):
        assert ours == spark


def test_patterns_are_written_as_java_writes_them(session: SparkSession) -> None:
    session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    times = column(pyarrow.timestamp("us", "UTC"), time_us)
    days = column(pyarrow.date32(), lambda chance: chance.randint(-2_000_000, 4_000_000))
    frame = session.createDataFrame(pyarrow.table({"at": times, "day": days}))
    frame = frame.withColumn("ntz", functions.expr("to_timestamp_ntz(at)"))
    for pattern in PATTERNS:
        for ours, spark in both(frame, {"timestampFormat": pattern}):
            assert ours == spark, pattern
    options = {"dateFormat": "d.M.yy", "timestampNTZFormat": "yyyyMMdd HHmmss.SSSSSS"}
    for ours, spark in both(frame, options):
        assert ours == spark


def test_bytes_that_are_no_utf8_become_the_same_text(session: SparkSession) -> None:
    chance = random.Random(8)
    parts = b"ab\xed\xa0\x80\xf0\x9f\xe2\x82\xf4\x90\xc0\xc3\xbf\xff"
    data = [bytes(chance.choices(parts, k=chance.randint(0, 8))) for _ in range(3_000)]
    frame = session.createDataFrame(pyarrow.table({"data": data}))
    broken = frame.select(functions.expr("cast(data as string)").alias("text"))
    wanted = [
        row[0] for row in broken.select(functions.to_json(functions.struct("text"))).collect()
    ]
    # Python's own UTF-8 of the rows would be mended already.
    raw = pyarrow.array(data, pyarrow.binary())
    strings = pyarrow.Array.from_buffers(pyarrow.string(), len(raw), raw.buffers())
    batch = pyarrow.RecordBatch.from_arrays([strings], names=["text"])
    found = json_format.JsonEncoder().encode(batch).to_pylist()
    assert [each.decode() for each in found] == wanted


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("parse_json('1')", "variant"),
        ("interval '1' day", "interval day"),
        ("struct(interval '1' month)", "interval month"),
        ("map(struct(1), 1)", "map<struct<col1:int>,int>"),
    ],
)
def test_types_that_json_has_not_are_refused_by_name(ours: SparkSink, sql: str, name: str) -> None:
    outcome = ours.write(f"select {sql} c", topic="t", value__format="json")
    assert outcome.error is not None
    assert f"is of type {name}, which value.format=json does not take" in outcome.error


def test_typed_columns_become_records(
    ours: SparkSink, kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name = topic(kafka)
    outcome = ours.write(
        f"select 7L id, 1.5D price, 'x' name, '{name}' topic, 'b' trace, 0 partition",
        value__format="json",
        key__format="raw",
        key__columns="name",
        header__column__trace="trace",
    )
    assert outcome.error is None
    (record,) = ours.records(name)
    assert (record.key, record.value) == (
        b"x",
        b'{"id":7,"price":1.5,"name":"x","trace":"b"}',
    )
    assert list(record.headers) == [("trace", b"b")]


def test_a_wrong_column_is_told_before_any_task(ours: SparkSink) -> None:
    outcome = ours.write("select 1 id", topic="t", value__format="json", value__columns="idd")
    assert outcome.error is not None
    assert "there is no column named 'idd'; did you mean id?" in outcome.error

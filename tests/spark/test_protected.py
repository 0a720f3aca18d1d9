"""Writes to a protected cluster: its records, and that secrets are in nothing that Spark tells."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import fastprod.spark
from fastprod.broker.broker import Broker
from support.security.authority import CertificateAuthority
from support.spark.sink import SparkSink

PASSWORD = "hush-7 of ada"
WRONG = "hush-8 of ada"
MECHANISM = "SCRAM-SHA-512"
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(tls=True, sasl_users={"ada": PASSWORD}, topics={"t": 2, "s": 1, "k": 1}) as made:
        yield made


def settings(broker: Broker, password: str = PASSWORD) -> dict[str, str]:
    """Settings of a client, without the servers."""
    found = broker.client_settings("ada", mechanism=MECHANISM) | {"sasl.password": password}
    del found["bootstrap.servers"]
    return found


def in_jaas(given: dict[str, str]) -> dict[str, str]:
    """The same settings with user and password in a line of JAAS."""
    user, password = given["sasl.username"], given["sasl.password"]
    found = {name: value for name, value in given.items() if name not in USER}
    line = f"{MODULE} required username='{user}' password='{password}';"
    return found | {"sasl.jaas.config": line}


USER = ("sasl.username", "sasl.password")


def options(given: dict[str, str]) -> dict[str, Any]:
    return {f"kafka.{name}": value for name, value in given.items()}


@pytest.fixture
def ours(spark: SparkSession, broker: Broker) -> SparkSink:
    return SparkSink("fastprod", spark, broker.bootstrap_servers)


@contextlib.contextmanager
def event_log(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Spark's event log of the block goes into a folder, with the longest plans there are."""
    context = spark.sparkContext._jsc.sc()
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    folder.mkdir()
    conf = context.conf().clone().set("spark.eventLog.compress", "false")
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "protected", jvm.scala.Option.apply(None), jvm.java.io.File(str(folder)).toURI(), conf
    )
    listener.start()
    context.addSparkListener(listener)
    spark.conf.set("spark.sql.ui.explainMode", "extended")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.ui.explainMode")
        context.listenerBus().waitUntilEmpty(60_000)
        context.removeSparkListener(listener)
        listener.stop()


def told(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.rglob("*")) if path.is_file())


def values(broker: Broker, topic: str) -> list[bytes]:
    return sorted(record.value or b"" for record in broker.records(topic))


# XF
def test_rows_and_micro_batches_arrive_and_no_secret_is_told(
    ours: SparkSink, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    given = settings(broker)
    rows = "select string(id) value from range(100)"
    expected = sorted(str(number).encode() for number in range(100))
    with event_log(spark, tmp_path / "log"):
        assert ours.write(rows, topic="t", **options(in_jaas(given))).error is None
        assert values(broker, "t") == expected
        result = fastprod.spark.write(
            spark.sql(rows),
            bootstrap_servers=broker.bootstrap_servers,
            topic="t",
            kafka=in_jaas(given),
        )
        assert result.rows == 100
        assert values(broker, "t") == sorted(expected * 2)
        lines = tmp_path / "lines"
        lines.mkdir()
        (lines / "1.txt").write_text("one\ntwo\n")
        stream = spark.readStream.text(str(lines))
        checkpoint = tmp_path / "checkpoint"
        assert ours.stream(stream, checkpoint, topic="s", **options(in_jaas(given))).error is None
        assert values(broker, "s") == [b"one", b"two"]
    log = told(tmp_path / "log")
    assert "== Analyzed Logical Plan ==" in log
    assert "hush-7" not in log


def test_a_key_is_given_by_reference_and_not_told(
    ours: SparkSink, broker: Broker, spark: SparkSession, tmp_path: Path
) -> None:
    """P-B.8: no name that Spark hides, and no code of the sink runs before Spark has a plan."""
    mine = CertificateAuthority(tmp_path / "authority").issue("ada")
    secret = mine.key.read_text().splitlines()[1]
    plain = options(settings(broker)) | {
        "kafka.ssl.keystore.certificate.chain": mine.certificate.read_text(),
        "kafka.ssl.keystore.key": mine.key.read_text(),
    }
    outcome = ours.write("select 'k' value", topic="k", **plain)
    assert outcome.error is not None
    assert "kafka.ssl.keystore.key holds a secret" in outcome.error
    assert "${file:PATH}" in outcome.error
    assert secret not in outcome.error
    with event_log(spark, tmp_path / "log"):
        by_reference = plain | {"kafka.ssl.keystore.key": f"${{file:{mine.key}}}"}
        assert ours.write("select 'k' value", topic="k", **by_reference).error is None
        stated = {name.removeprefix("kafka."): value for name, value in plain.items()}
        assert (
            fastprod.spark.write(
                spark.sql("select 'l' value"),
                bootstrap_servers=broker.bootstrap_servers,
                topic="k",
                kafka=stated,
            ).rows
            == 1
        )
    assert values(broker, "k") == [b"k", b"l"]
    log = told(tmp_path / "log")
    assert "ssl.keystore.key" in log
    assert secret not in log


def test_a_password_may_stand_in_a_variable_that_is_newer_than_the_session(
    broker: Broker, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a notebook; the environment of Spark's Java process stays that of its start."""
    monkeypatch.setenv("LATE_PASSWORD", PASSWORD)
    before = len(values(broker, "t"))
    with event_log(spark, tmp_path / "log"):
        fastprod.spark.write(
            spark.sql("select 'v' value"),
            bootstrap_servers=broker.bootstrap_servers,
            topic="t",
            kafka=settings(broker, "${env:LATE_PASSWORD}"),
        )
    assert len(values(broker, "t")) == before + 1
    assert "hush-7" not in told(tmp_path / "log")


@pytest.mark.parametrize("validates", ["true", "false"])
def test_a_wrong_password_is_told_by_the_driver_or_a_task_without_it(
    ours: SparkSink, broker: Broker, spark: SparkSession, tmp_path: Path, validates: str
) -> None:
    """The driver asks the cluster before any task, unless `fastprod.validate` is false."""
    given = options(settings(broker, WRONG)) | {"fastprod.validate": validates}
    with event_log(spark, tmp_path / "log"):
        outcome = ours.write("select 'v' value", topic="t", **given)
    assert outcome.error is not None
    assert f"refused user 'ada' by {MECHANISM}" in outcome.error
    assert ("The driver asked, before any task" in outcome.error) == (validates == "true")
    for text in (outcome.error, told(tmp_path / "log")):
        assert "hush-" not in text

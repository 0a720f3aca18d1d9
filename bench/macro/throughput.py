"""Delivered records a second from one thread, and the CPU time that each costs."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Mapping

from bench.fresh_process import Contender
from bench.point import CONFLUENT, OURS, Point, against
from bench.series import Series
from bench.workload import Workload

_BATCH = 512_000
_SMALL_BATCH = 16_384
_BULK = 100_000
_LOOPBACK = "plain loopback TCP"
_BARE = "prepared frames, bare socket"

_SEND = Workload("send", 4_000_000, linger_ms=5, batch_bytes=_BATCH, idempotence=False)


def points() -> list[Point]:
    """The points against the mock cluster, then those against Apache Kafka."""
    return [
        _against_confluent("mock.100B", "100 B values, futures dropped", _SEND),
        _against_confluent("mock.100B_16kB", "the same in small batches", _small(_SEND, 2_000_000)),
        _against_confluent("mock.1kB", "1 kB values", _text(_SEND, 1000, 800_000)),
        _defaults(),
        _idempotence(),
        _against_confluent(
            "mock.callbacks",
            "100 B values, a delivery callback for each",
            dataclasses.replace(_SEND, record_count=1_000_000, callbacks=True),
        ),
        _bulk(),
        _columns(),
        _keyed_columns(),
        _extras(),
        _near_loopback(),
        *(_codec(codec) for codec in ("lz4", "zstd")),
        _kafka(),
        *_with_tls("kafka_tls", "Apache Kafka"),
        *_with_tls("discard_tls", "our broker, which throws them away"),
        _against_confluent(
            "kafka.1kB", "1 kB values to Apache Kafka", _text(_SEND, 1000, 600_000), java=True
        ),
    ]


def _small(load: Workload, count: int) -> Workload:
    return dataclasses.replace(load, batch_bytes=_SMALL_BATCH, record_count=count)


def _text(load: Workload, size: int, count: int) -> Workload:
    return dataclasses.replace(load, values=f"text-{size}", record_count=count)


def _against_confluent(name: str, title: str, load: Workload, java: bool = False) -> Point:
    contenders = [
        Contender(OURS, "fastprod_", load),
        Contender(CONFLUENT, "confluent_", load),
    ]
    if java:
        contenders.append(Contender("Java ProducerPerformance", "java_", load))
    return Point(f"throughput.{name}", title, name.split(".")[0], contenders, against(CONFLUENT))


def _defaults() -> Point:
    load = Workload("send", 2_000_000)
    return _against_confluent("mock.defaults", "every client at its own defaults", load)


def _idempotence() -> Point:
    def figures(series: Mapping[str, Series]) -> dict[str, float]:
        on, off = series["idempotence on"], series["idempotence off"]
        return {"rate_kept": on.rate_per_s / off.rate_per_s, "cpu_ratio": on.cpu_us / off.cpu_us}

    return Point(
        "throughput.mock.idempotence",
        "what exactly-once writes cost us",
        "mock",
        [
            Contender(label, "fastprod_", dataclasses.replace(_SEND, idempotence=is_on))
            for label, is_on in (("idempotence off", False), ("idempotence on", True))
        ],
        figures,
    )


def _bulk() -> Point:
    many = dataclasses.replace(_SEND, way="bulk", bulk_records=_BULK)
    return Point(
        "throughput.mock.bulk",
        "lists of 100 B values: send_many, and confluent-kafka's produce_batch",
        "mock",
        [
            Contender(OURS, "fastprod_", many),
            Contender(CONFLUENT, "confluent_", many),
            Contender("fastprod send()", "fastprod_", _SEND),
            Contender(_BARE, "bare_socket", many),
        ],
        _against_both,
    )


def _columns() -> Point:
    def figures(series: Mapping[str, Series]) -> dict[str, float]:
        lists, arrow, keyed = (series[label] for label in ("lists", "arrow", "arrow-keys"))
        return {
            "rate_ratio": arrow.rate_per_s / lists.rate_per_s,
            "cpu_ratio": arrow.cpu_us / lists.cpu_us,
            "keyed_rate_ratio": keyed.rate_per_s / lists.rate_per_s,
            "keyed_cpu_ratio": keyed.cpu_us / lists.cpu_us,
        }

    many = dataclasses.replace(_SEND, way="bulk", bulk_records=_BULK, record_count=8_000_000)
    return Point(
        "throughput.mock.columns",
        "send_many of 100 B values: lists, Arrow, and Arrow with keys over 4 partitions",
        "mock",
        [
            Contender(label, "fastprod_columns", dataclasses.replace(many, columns=label))
            for label in ("lists", "arrow", "arrow-keys")
        ],
        figures,
    )


def _keyed_columns() -> Point:
    def figures(series: Mapping[str, Series]) -> dict[str, float]:
        theirs, bare = series[CONFLUENT], series[_BARE]
        found = {}
        for label in labels:
            found[f"{label}_of_bare_socket"] = series[label].rate_per_s / bare.rate_per_s
            found[f"{label}_rate_ratio"] = series[label].rate_per_s / theirs.rate_per_s
            found[f"{label}_cpu_ratio"] = series[label].cpu_us / theirs.cpu_us
        return found

    labels = ("arrow-keys", "numpy-keys")
    many = dataclasses.replace(_SEND, way="bulk", bulk_records=_BULK)
    load = dataclasses.replace(many, record_count=8_000_000)
    rival = dataclasses.replace(many, record_count=1_000_000, columns="lists-keys")
    return Point(
        "throughput.mock.keyed_columns",
        "columns of 100 B values with a key each over 4 partitions, and produce_batch",
        "mock",
        [
            *(
                Contender(label, "fastprod_columns", dataclasses.replace(load, columns=label))
                for label in labels
            ),
            Contender(CONFLUENT, "confluent_", rival),
            Contender(_BARE, "bare_socket", many),
        ],
        figures,
    )


def _extras() -> Point:
    """What a key or headers cost, beside a send of nothing but a value."""

    def figures(series: Mapping[str, Series]) -> dict[str, float]:
        plain = series["nothing"].rates_per_s
        return {
            f"{label}_kept": statistics.median(
                rate / other for rate, other in zip(series[label].rates_per_s, plain, strict=True)
            )
            for label in ("keys", "headers")
        }

    load = dataclasses.replace(_SEND, record_count=2_000_000)
    return Point(
        "throughput.mock.extras",
        "100 B values with nothing, with a key each, with three headers; the partitioner chooses",
        "mock",
        [
            Contender(label, "fastprod_", dataclasses.replace(load, extra=label))
            for label in ("nothing", "keys", "headers")
        ],
        figures,
        rounds=15,
    )


def _near_loopback() -> Point:
    def figures(series: Mapping[str, Series]) -> dict[str, float]:
        rate_per_s = series[OURS].rate_per_s
        return {
            "of_loopback": rate_per_s / series[_LOOPBACK].rate_per_s,
            "of_bare_socket": rate_per_s / series[_BARE].rate_per_s,
        }

    load = dataclasses.replace(
        _text(_SEND, 1000, 4_000_000), way="bulk", bulk_records=_BULK, columns="arrow"
    )
    return Point(
        "throughput.discard.1kB_bulk",
        "1 kB values in bulk to our broker, which throws them away, beside plain loopback TCP",
        "discard",
        [
            Contender(OURS, "fastprod_columns", load),
            Contender(_BARE, "bare_socket", load),
            Contender(_LOOPBACK, "bare_loopback", load, reaches_server=False),
        ],
        figures,
    )


def _codec(codec: str) -> Point:
    load = dataclasses.replace(_SEND, values="json-lines", record_count=1_500_000, codec=codec)
    return _against_confluent(f"mock.{codec}", f"JSON lines of 175 B, {codec}", load)


def _kafka() -> Point:
    load = dataclasses.replace(_SEND, record_count=3_000_000)
    fewer = dataclasses.replace(_SEND, record_count=200_000)
    return Point(
        "throughput.kafka.100B",
        "100 B values to Apache Kafka, with everybody",
        "kafka",
        [
            Contender(OURS, "fastprod_", load),
            Contender(CONFLUENT, "confluent_", load),
            Contender("Java ProducerPerformance", "java_", load),
            Contender("aiokafka", "aiokafka_", fewer),
            Contender("kafka-python", "kafka_python_", fewer),
            Contender(_BARE, "bare_socket", load),
        ],
        against(CONFLUENT),
    )


def _with_tls(server: str, name: str) -> list[Point]:
    return [
        Point(
            f"throughput.{server}.{title}",
            f"{title} values over TLS to {name}",
            server,
            [
                Contender(OURS, "fastprod_", load),
                Contender(CONFLUENT, "confluent_", load),
                Contender(_BARE, "bare_socket", load),
            ],
            _against_both,
            rounds=8,
        )
        for title, load in (
            ("100B", dataclasses.replace(_SEND, record_count=6_000_000)),
            ("1kB", _text(_SEND, 1000, 1_200_000)),
        )
    ]


def _against_both(series: Mapping[str, Series]) -> dict[str, float]:
    found = against(CONFLUENT)(series)
    return found | {"of_bare_socket": series[OURS].rate_per_s / series[_BARE].rate_per_s}

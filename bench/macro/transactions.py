"""Transactions to Apache Kafka: how many a second, what they cost, and the commit of one record."""

from __future__ import annotations

from collections.abc import Mapping

from bench.fresh_process import Contender
from bench.point import CONFLUENT, OURS, Point, against
from bench.series import Series
from bench.workload import Workload

_SERVER = "kafka"
_SMALL = Workload("transactions", 400_000, transaction_records=1_000)
_LARGE = Workload("transactions", 3_000_000, transaction_records=100_000)
_PLAIN = Workload("send", 3_000_000, idempotence=True)
_COMMITS = Workload("commits", 1_000, transaction_records=1)
_NO_TRANSACTIONS = "fastprod without"
_BARE = "its requests, bare socket"


def points() -> list[Point]:
    """Every client has its own defaults. Readers of committed records say what arrived."""
    return [
        Point(
            "transactions.kafka.1000",
            "transactions of 1,000 records of 100 B, back to back",
            _SERVER,
            [
                Contender(OURS, "fastprod_transactions", _SMALL),
                Contender(CONFLUENT, "confluent_transactions", _SMALL),
            ],
            against(CONFLUENT),
            rounds=9,
        ),
        Point(
            "transactions.kafka.100000",
            "transactions of 100,000 records, and as many records without any",
            _SERVER,
            [
                Contender(OURS, "fastprod_transactions", _LARGE),
                Contender(_NO_TRANSACTIONS, "fastprod_", _PLAIN),
                Contender(CONFLUENT, "confluent_transactions", _LARGE),
            ],
            _large_figures,
            rounds=7,
        ),
        Point(
            "transactions.kafka.commit",
            "the commit of a record that was just sent, long after the transaction before",
            _SERVER,
            [
                Contender(OURS, "fastprod_transactions", _COMMITS),
                Contender(CONFLUENT, "confluent_transactions", _COMMITS),
                Contender(_BARE, "bare_transactions", _COMMITS),
            ],
            _commit_figures,
            rounds=7,
        ),
    ]


def _large_figures(series: Mapping[str, Series]) -> dict[str, float]:
    ours, without, theirs = series[OURS], series[_NO_TRANSACTIONS], series[CONFLUENT]
    return {
        "rate_kept": ours.rate_per_s / without.rate_per_s,
        "cpu_ratio": ours.cpu_us / without.cpu_us,
        "rate_ratio": ours.rate_per_s / theirs.rate_per_s,
    }


def _commit_figures(series: Mapping[str, Series]) -> dict[str, float]:
    ours, theirs, bare = (series[label].latency_us(0.5) for label in (OURS, CONFLUENT, _BARE))
    return {"median_ratio": ours / theirs, "of_bare_socket": ours / bare, "median_us": ours}

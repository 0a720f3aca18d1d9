"""One run: a plan, a cluster, loads, faults, and the verdict."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from fastprod import KafkaProducer
from fastprod.errors import KafkaError as ProducerError
from support.chaos.calls import Calls
from support.chaos.clusters import ChaosCluster, apache_cluster, our_cluster
from support.chaos.fault_runner import FaultRunner
from support.chaos.idempotent_load import IdempotentLoad
from support.chaos.journal import Journal
from support.chaos.judge import LeftOpen, Seen, judge
from support.chaos.live_reader import LiveReader
from support.chaos.plan import LoadPlan, Plan
from support.chaos.transactional_load import TransactionalLoad
from support.records.readers import stream_with_confluent

TOPIC = "chaos"
OFFSETS_TOPIC = "__consumer_offsets"
END_S = 180.0
READ_S = 120.0
OFFSET_S = 60.0
MOVING_COORDINATOR = (
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
)
NODE_PAUSE_S = {"ours": 1.0, "apache": 3.0}

Load = IdempotentLoad | TransactionalLoad


@dataclass
class Report:
    """How a run ended.

    Attributes:
        seed: of the plan.
        violations: none is the aim.
        counts: of what happened.
        faults: what was done, and when.
        seconds: of the whole.
    """

    seed: int
    violations: list[str] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    longest_s: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0

    def __str__(self) -> str:
        counts = ", ".join(f"{name} {count:,}" for name, count in sorted(self.counts.items()))
        longest = ", ".join(f"{name} {took:.1f}" for name, took in sorted(self.longest_s.items()))
        verdict = f"{len(self.violations)} VIOLATIONS" if self.violations else "clean"
        lines = [
            f"seed {self.seed}: {verdict}, {self.seconds:.1f} s, {len(self.faults)} faults; "
            f"{counts}; longest calls in s: {longest}"
        ]
        if self.violations:
            lines += [*sorted(self.faults), *(f"VIOLATION {each}" for each in self.violations)]
        return "\n".join(lines)


def run(name: str, seed: int, seconds: float) -> Report:
    """Run a seed against a new cluster, and judge.

    Args:
        name: of the cluster: ours or apache.
        seed: any number.
        seconds: how long faults go on; the whole takes some more.
    """
    began_s = time.monotonic()
    plan = Plan.of(seed, seconds, node_pause_s=NODE_PAUSE_S[name])
    report = Report(seed)
    with _opened(name, plan) as cluster:
        cluster.create_topic(TOPIC, plan.partitions)
        run_plan(plan, cluster, report)
    report.seconds = time.monotonic() - began_s
    return report


def _opened(name: str, plan: Plan) -> AbstractContextManager[ChaosCluster]:
    if name == "ours":
        return our_cluster(plan.seed, max_versions="3.0" if plan.is_first_protocol else None)
    return apache_cluster(plan.seed, is_first_protocol=plan.is_first_protocol)


def run_plan(plan: Plan, cluster: ChaosCluster, report: Report) -> None:
    """Run a plan against a cluster that has the topic."""
    with contextlib.ExitStack() as opened:
        calls = opened.enter_context(Calls())
        live = opened.enter_context(LiveReader(cluster.direct_servers, TOPIC, plan.partitions))
        loads = [_load(each, cluster, plan, calls) for each in plan.loads]
        over = threading.Event()
        threads = [
            threading.Thread(target=load.run, args=(over,), name=load.plan.name, daemon=True)
            for load in loads
        ]
        for each in threads:
            each.start()
        try:
            with FaultRunner(plan, cluster, TOPIC) as faults:
                faults.wait()
        finally:
            over.set()
            until_s = time.monotonic() + END_S
            for each in threads:
                each.join(max(0.0, until_s - time.monotonic()))
        report.faults = faults.done
        report.violations += faults.violations
        report.violations += [f"{each.name} has not ended" for each in threads if each.is_alive()]
        seen = read_all(cluster, report)
    report.violations += calls.violations + live.violations
    report.violations += judge_loads(cluster, loads, seen)
    report.violations += _taken_back(live.seen, seen)
    report.longest_s = calls.longest_s
    report.counts = _counts([load.journal for load in loads])
    report.counts["records read"] = sum(map(len, seen.values()))
    report.counts["records read live"] = sum(map(len, live.seen.values()))


def _load(sent: LoadPlan, cluster: ChaosCluster, plan: Plan, calls: Calls) -> Load:
    place = cluster.bootstrap_servers, TOPIC, plan.partitions, calls
    if not sent.is_transactional:
        return IdempotentLoad(sent, *place)
    return TransactionalLoad(sent, *place, lambda: cluster.proxy.unanswered_inits[sent.name])


def read_all(cluster: ChaosCluster, report: Report) -> Seen:
    """All committed records; that the reader reaches the end shows that no transaction is open."""
    try:
        cluster.wait_until_in_sync(TOPIC)
        end_what_was_left_open(cluster)
        return rows_of(cluster, committed=True)
    except (TimeoutError, ProducerError) as error:
        report.violations.append(f"the end: {error!r}")
    return {}


def rows_of(cluster: ChaosCluster, *, committed: bool) -> Seen:
    """Offsets and values of each partition, as a reader sees them.

    Raises:
        TimeoutError: it has not reached the end.
    """
    rows: dict[int, list[tuple[int, bytes]]] = {}
    for record in stream_with_confluent(
        cluster.direct_servers, TOPIC, committed=committed, timeout_s=READ_S
    ):
        assert record.value is not None
        rows.setdefault(record.partition, []).append((record.offset, record.value))
    return rows


def end_what_was_left_open(cluster: ChaosCluster) -> None:
    """Abort a transaction wherever Kafka has left one open: perhaps none has followed there.

    Raises:
        ProducerError: that was not possible.
    """
    by_id: dict[str, list[int]] = {}
    for each in cluster.left_open:
        if each.topic == TOPIC:
            by_id.setdefault(each.transactional_id, []).append(each.partition)
    for transactional_id, partitions in by_id.items():
        with KafkaProducer(
            bootstrap_servers=cluster.direct_servers, transactional_id=transactional_id
        ) as producer:
            producer.init_transactions()
            producer.begin_transaction()
            futures = [
                producer.send(TOPIC, b"nobody 0 of no load", partition=partition)
                for partition in partitions
            ]
            producer.flush()
            for future in futures:
                future.result(0)
            producer.abort_transaction()


def _taken_back(live: Seen, seen: Seen) -> list[str]:
    found = []
    for index, rows in live.items():
        there = dict(seen.get(index, ()))
        gone = [(offset, value[:40]) for offset, value in rows if there.get(offset) != value]
        if gone:
            found.append(f"partition {index}: {len(gone)} read and taken back, first {gone[0]}")
        if rows and rows != list(seen.get(index, ()))[: len(rows)]:
            found.append(f"partition {index}: the live reader has missed records")
    return found


def judge_loads(cluster: ChaosCluster, loads: Sequence[Load], seen: Seen) -> list[str]:
    """What is wrong with records, and with the positions of groups."""
    left_open = cluster.left_open
    found = []
    stored = {}
    if left_open:
        try:
            rows = rows_of(cluster, committed=False)
            stored = {(index, offset): value for index in rows for offset, value in rows[index]}
        except TimeoutError as error:
            found.append(f"what is stored: {error}")
    ends = {}
    for load in loads:
        if isinstance(load, TransactionalLoad):
            own = {at: n for at, n in left_open.items() if at[0] == load.transactional_id}
            by_partition = {at.partition: n for at, n in own.items() if at.topic == TOPIC}
            ends[load.plan.name] = LeftOpen(by_partition, stored)
            if any(at.topic == OFFSETS_TOPIC for at in own):
                load.journal.count("positions not judged, for Kafka left them open")
            else:
                found += _wrong_offset(cluster, load)
    return judge([load.journal for load in loads], seen, ends) + found


def _wrong_offset(cluster: ChaosCluster, load: TransactionalLoad) -> list[str]:
    """Whether a group is elsewhere than its load has committed."""
    if load.positions == [0]:
        return []
    try:
        there = committed_offset(cluster.direct_servers, load.group)
    except KafkaException as error:
        return [f"{load.group}: {error}"]
    if there in load.positions or (there < 0 and 0 in load.positions):
        return []
    return [f"{load.group} is at {there}, and was committed to {load.positions}"]


def committed_offset(bootstrap_servers: str, group: str) -> int:
    """The position of a group in partition 0.

    A coordinator may be on the move still when the faults are over, which its client leaves to
    whoever asks.

    Raises:
        KafkaException: no coordinator told it within `OFFSET_S`.
    """
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, "log_level": 0})
    deadline_s = time.monotonic() + OFFSET_S
    try:
        while True:
            try:
                return int(consumer.committed([TopicPartition(TOPIC, 0)], timeout=30)[0].offset)
            except KafkaException as error:
                is_moving = error.args[0].code() in MOVING_COORDINATOR
                if not is_moving or time.monotonic() > deadline_s:
                    raise
            time.sleep(0.1)
    finally:
        consumer.close()


def _counts(journals: list[Journal]) -> dict[str, int]:
    found: dict[str, int] = {}
    for journal in journals:
        for what, count in journal.counts.items():
            found[what] = found.get(what, 0) + count
    return found

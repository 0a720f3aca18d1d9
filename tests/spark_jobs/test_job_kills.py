"""kill -9 of workers, executors, drivers and nodes amid jobs: no row is lost, no job hangs.

Rows are written at least once: a task that is repeated repeats its rows, so does a micro-batch
whose driver died.  Every row that is there twice belongs to one of these.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator

import pytest

from conftest import TopicFactory
from kafka_cluster import KafkaCluster
from support.processes.scale import scaled
from support.records.readers import ReadRecord, stream_with_confluent
from support.spark.job import Copies, JobPlan, SparkJob

SEED = 20_261_120
RATE = {"fastprod.max.bytes.per.second": "400000"}
PATIENCE_S = 60.0
FINISH_S = 300.0
RUNS = 30
LEADER_AWAY_S = 1.0
ONE_PROCESS = "local[2,4]"
# Executors in processes of their own take some ten seconds to start.
EXECUTORS = "local-cluster[2,1,1024]"
KINDS = ("worker", "executor", "driver", "node")


def check(job: SparkJob, records: Iterator[ReadRecord]) -> str:
    """No row is missing, and each that is there twice is explained; return what was found."""
    plan = job.plan
    copies = Copies.of(records)
    missing = copies.missing(plan.row_count)
    assert not missing, f"{len(missing):,} of {plan.row_count:,} rows, the first is {min(missing)}"
    repeated, tasks = copies.repeated(), job.repeated_tasks()
    for row in repeated:
        batch = row // plan.rows_a_file if plan.file_count else 0
        if batch in job.unfinished_batches or (not plan.file_count and job.restarts):
            continue
        assert {(batch, task) for task in copies.tasks[row]} & tasks, f"row {row} is there twice"
    assert max(copies.counts.values()) <= 1 + job.kill_count
    return (
        f"{plan.row_count:,} rows, {len(repeated):,} of them repeated, "
        f"{sum(repeated.values()) - len(repeated):,} records too many; tasks of another attempt: "
        f"{sorted(tasks)}; micro-batches under way when the driver died: "
        f"{sorted(job.unfinished_batches)}; drivers started again: {job.restarts}"
    )


def plan_of(
    bootstrap_servers: str, topic: str, *, master: str, streams: bool, row_count: int = 36_000
) -> JobPlan:
    """Some ten seconds of writing."""
    return JobPlan(
        master=master,
        row_count=row_count,
        file_count=row_count // 6_000 if streams else 0,
        partition_count=6,
        options={"kafka.bootstrap.servers": bootstrap_servers, "topic": topic, **RATE},
    )


@pytest.mark.slow
def test_a_stream_whose_executor_and_then_driver_are_killed_goes_on_where_it_was(
    kafka: KafkaCluster, topic: TopicFactory
) -> None:
    name, chosen = topic(kafka, partitions=2), random.Random(SEED + 2)
    plan = plan_of(kafka.bootstrap_servers, name, master=EXECUTORS, streams=True, row_count=18_000)
    with SparkJob(plan) as job:
        assert job.wait_for_rows(chosen.randrange(500, 6_000))
        assert job.kill_executor(chosen)
        assert job.wait_for_rows(chosen.randrange(9_000, 12_000))
        assert job.kill_driver(chosen, master=ONE_PROCESS)
        job.finish(FINISH_S)
        print(check(job, stream_with_confluent(kafka.bootstrap_servers, name)))


class NodeKiller:
    """Kills nodes of Kafka; each is started again a little later, in a thread."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []

    def kill(self, chosen: random.Random) -> bool:
        """SIGKILL a node, unless the last one is not back yet."""
        if any(thread.is_alive() for thread in self._threads):
            return False
        node = chosen.choice(list(self._cluster.node_ids))
        self._cluster.kill(node)
        thread = threading.Thread(target=self._restart, args=(node,), name="restart")
        self._threads.append(thread)
        thread.start()
        return True

    def _restart(self, node: int) -> None:
        try:
            time.sleep(LEADER_AWAY_S)
            self._cluster.restart(node)
        except BaseException as error:
            self._failures.append(error)

    def join(self) -> int:
        """Wait until all nodes run again; return how many were killed."""
        for thread in self._threads:
            thread.join(PATIENCE_S * 2)
        assert self._failures == []
        return len(self._threads)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("run", range(scaled(RUNS)))
def test_kills_at_random_cost_no_row(run: int, kafka3: KafkaCluster, topic: TopicFactory) -> None:
    chosen = random.Random(SEED + 100 + run)
    name, nodes = topic(kafka3, partitions=3), NodeKiller(kafka3)
    # Every kind comes first in its turn; what follows is by chance.
    order = [KINDS[run // 2 % 4], *chosen.choices(KINDS, k=chosen.randrange(3))]
    master = EXECUTORS if "executor" in order else ONE_PROCESS
    plan = plan_of(kafka3.bootstrap_servers, name, master=master, streams=run % 2 == 0)
    moments = sorted(chosen.randrange(200, plan.row_count * 3 // 4) for _ in order)
    done = []
    with SparkJob(plan) as job:
        kinds = {
            "worker": lambda: job.kill_worker(chosen),
            "executor": lambda: job.kill_executor(chosen),
            "driver": lambda: job.kill_driver(chosen, chosen.choice((None, ONE_PROCESS))),
            "node": lambda: nodes.kill(chosen),
        }
        for kind, moment in zip(order, moments, strict=True):
            if job.wait_for_rows(moment):
                done.append(f"{kind} at {moment:,}" if kinds[kind]() else f"no {kind}")
        job.finish(FINISH_S)
        nodes.join()
        found = check(job, stream_with_confluent(kafka3.bootstrap_servers, name))
    print(f"run {run}, {'stream' if plan.file_count else 'batch'}, {', '.join(done)}: {found}")

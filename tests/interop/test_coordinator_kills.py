"""The transaction coordinator is killed at each call of a transaction, on Apache Kafka.

Each time at the moment at which the request comes to its node: before it is done, or after, so that
only its answer is missing. A proxy sees the request, and holds it or its answer, until the node
is gone. Half of the times under the protocol of Kafka 4 (KIP-890), half under the one before it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

import pytest

from fastprod import KafkaProducer
from support.chaos.calls import Calls
from support.chaos.clusters import ApacheCluster, apache_cluster
from support.chaos.conditions import ANSWERS, BOTH, GOOD, Conditions
from support.chaos.plan import LoadPlan
from support.chaos.request_spotter import Spotted
from support.chaos.run import TOPIC, Report, judge_loads, read_all
from support.chaos.transactional_load import FencedByProtocol, TransactionalLoad
from support.processes.scale import scaled

KILLS = scaled(50, at_least=4)
PARTITIONS = 3
DONE_S = 0.1
WAIT_S = 60.0
PRODUCE, INIT, ADD_PARTITIONS, ADD_OFFSETS, END, COMMIT_OFFSETS = 0, 22, 24, 25, 26, 28
TO_COORDINATOR = (INIT, ADD_PARTITIONS, ADD_OFFSETS, END)
BOTH_PROTOCOLS = {"InitProducerId": INIT, "TxnOffsetCommit": COMMIT_OFFSETS, "EndTxn": END}
CALLS = {
    "before KIP-890": {
        **BOTH_PROTOCOLS,
        "AddPartitionsToTxn": ADD_PARTITIONS,
        "AddOffsetsToTxn": ADD_OFFSETS,
    },
    # The first Produce adds the partition, and TxnOffsetCommit the group's.
    "KIP-890": {**BOTH_PROTOCOLS, "Produce": PRODUCE},
}


@pytest.fixture(params=list(CALLS))
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cluster(protocol: str) -> Iterator[ApacheCluster]:
    with apache_cluster(1, is_first_protocol=protocol != "KIP-890") as found:
        found.create_topic(TOPIC, PARTITIONS)
        yield found


class CoordinatorKiller:
    """Kills the coordinator when the next request of an API comes; has a thread while entered.

    What goes wrong in its thread is raised at the end: without kills calls may hang meanwhile.
    """

    def __init__(self, cluster: ApacheCluster) -> None:
        self.kills = 0
        self.errors: list[BaseException] = []
        self._cluster = cluster
        self._coordinator = -1
        self._armed: tuple[int, bool] | None = None
        self._met: list[int] = []  # the node that the request came to
        self._is_met = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="coordinator killer")

    def __enter__(self) -> CoordinatorKiller:
        self._end_watch = self._cluster.proxy.watch(self._look)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end_watch()
        self._is_over.set()
        self._is_met.set()
        self._thread.join()
        if self.errors:
            raise self.errors[0]

    def arm(self, api_key: int, is_before: bool) -> None:
        """Kill at the next request of this API, before it is done or after."""
        self._armed = api_key, is_before

    @property
    def is_armed(self) -> bool:
        """Whether no such request has come yet."""
        return self._armed is not None

    def _look(self, node: int, spotted: Spotted) -> None:
        if spotted.api_key in TO_COORDINATOR:
            self._coordinator = node
        if self._armed is None or spotted.api_key != self._armed[0]:
            return
        held = BOTH if self._armed[1] else frozenset({ANSWERS})
        self._cluster.proxy.set_at_once(node, Conditions(held=held))
        self._armed = None
        self._met = [node]
        self._is_met.set()

    def _run(self) -> None:
        try:
            while self._is_met.wait() and not self._is_over.is_set():
                self._is_met.clear()
                self._kill(self._met[0])
        except BaseException as error:
            self.errors.append(error)

    def _kill(self, met: int) -> None:
        proxy, coordinator = self._cluster.proxy, self._coordinator
        time.sleep(DONE_S)  # so that a request that was passed on is done
        proxy.set(
            coordinator, Conditions(held=proxy.conditions(coordinator).held, is_refusing=True)
        )
        self._cluster.kill(coordinator)
        proxy.cut(coordinator)
        if met != coordinator:
            proxy.set(met, GOOD)
        self._cluster.restart(coordinator)
        proxy.set(coordinator, GOOD)
        self.kills += 1


def load_plan(name: str) -> LoadPlan:
    settings = {
        "request_timeout_ms": 3_000,
        "delivery_timeout_ms": 60_000,
        "transaction_timeout_ms": 60_000,
        "max_block_ms": 30_000,
    }
    return LoadPlan(name, True, settings, seed=5, records_per_s=0, value_bytes=100)


@pytest.mark.long
@pytest.mark.timeout(3_600)
def test_committed_records_are_there_and_no_others(cluster: ApacheCluster, protocol: str) -> None:
    """P-I.4, P-I.6, P-I.7: whichever call its coordinator dies at."""
    loads = []
    with Calls() as calls, CoordinatorKiller(cluster) as killer:
        for name, api_key in CALLS[protocol].items():
            load = TransactionalLoad(
                load_plan(f"{name}-{protocol.replace(' ', '-')}"),
                cluster.bootstrap_servers,
                TOPIC,
                PARTITIONS,
                calls,
                lambda: 0,
            )
            loads.append(load)
            began_s = time.monotonic()
            count = kill_at(cluster, killer, load, api_key)
            print(
                f"{name}: {count} kills in {time.monotonic() - began_s:.0f} s: "
                f"{load.journal.counts}; longest calls {calls.longest_s}"
            )
    report = Report(0)
    seen = read_all(cluster, report)
    found = report.violations + calls.violations + judge_loads(cluster, loads, seen)
    print({load.plan.name: load.journal.counts for load in loads})
    assert found == []


def kill_at(
    cluster: ApacheCluster, killer: CoordinatorKiller, load: TransactionalLoad, api_key: int
) -> int:
    """Commit transactions, each with the coordinator killed at one of its calls."""
    kills = (KILLS + 1) // 2 if api_key in BOTH_PROTOCOLS.values() else KILLS
    with contextlib.ExitStack() as opened:
        producer = load.open(opened)
        for number in range(kills):
            before = killer.kills
            killer.arm(api_key, is_before=number % 2 == 0)
            if api_key == INIT:
                producer.close(0)
                producer = load.open(opened)
            transact(producer, load, number)
            deadline_s = time.monotonic() + WAIT_S
            while killer.kills == before and not killer.errors:
                if time.monotonic() > deadline_s:
                    raise TimeoutError(f"no kill, {load.plan.name}, {number}")
                if killer.is_armed:  # a time-out has aborted it before it came to that call
                    transact(producer, load, number)
                time.sleep(0.01)
            cluster.wait_until_in_sync(TOPIC)
    return kills


def transact(producer: KafkaProducer, load: TransactionalLoad, number: int) -> None:
    with contextlib.suppress(FencedByProtocol):
        load.transact(producer, aborts=number % 5 == 4, has_offsets=True, least=1)

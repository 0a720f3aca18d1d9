"""FaultRunner: has the faults of a plan happen to a cluster, and undoes them all."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Sequence

from support.chaos.clusters import NODES, ChaosCluster
from support.chaos.conditions import Conditions
from support.chaos.plan import ALL, Fault, Plan


class FaultRunner:
    """Two threads, one for the network and one for the nodes, for the time of a `with`.

    At the end of it the network is good and all nodes are up.

    `violations`: what a thread raised. `done`: the faults that were.
    """

    def __init__(self, plan: Plan, cluster: ChaosCluster, topic: str) -> None:
        self.violations: list[str] = []
        self.done: list[str] = []
        self._plan = plan
        self._cluster = cluster
        self._topic = topic
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._network = [plan.always] * NODES
        self._refusing = [False] * NODES
        self._threads = [
            threading.Thread(target=self._run, args=(plan.network, self._harm_network)),
            threading.Thread(target=self._run, args=(plan.nodes, self._harm_node)),
        ]

    def __enter__(self) -> FaultRunner:
        for node in range(NODES):
            self._apply(node)
        self._began_s = time.monotonic()
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for each in self._threads:
            each.join()

    def wait(self) -> None:
        """Until the plan's time is over."""
        self._over.wait(max(0.0, self._began_s + self._plan.seconds - time.monotonic()))

    def _run(self, faults: Sequence[Fault], harm: Callable[[Fault], None]) -> None:
        try:
            for fault in faults:
                if self._over.wait(max(0.0, self._began_s + fault.at_s - time.monotonic())):
                    return
                self.done.append(f"{time.monotonic() - self._began_s:6.2f} s: {fault}")
                harm(fault)
        except BaseException as error:
            self.violations.append(f"fault: {error!r}")

    def _harm_network(self, fault: Fault) -> None:
        nodes = range(NODES) if fault.node == ALL else [fault.node]
        try:
            for node in nodes:
                self._set(node, network=fault.conditions)
                if fault.kind == "cut":
                    self._cluster.proxy.cut(node)
                elif fault.kind == "half-open":
                    self._cluster.proxy.lose_servers(node)
            self._over.wait(fault.lasts_s)
        finally:
            for node in nodes:
                self._set(node, network=self._plan.always)

    def _harm_node(self, fault: Fault) -> None:
        cluster, node = self._cluster, fault.node
        if fault.kind == "move":
            cluster.move_leader(self._topic, fault.partition % self._plan.partitions, node)
        elif fault.kind == "pause":
            cluster.pause(node)
            try:
                self._over.wait(fault.lasts_s)
            finally:
                cluster.resume(node)
        else:
            self._set(node, is_refusing=fault.is_refusing)
            try:
                (cluster.kill if fault.kind == "kill" else cluster.stop)(node)
                self._over.wait(fault.lasts_s)
            finally:
                cluster.restart(node)
                self._set(node, is_refusing=False)

    def _set(
        self, node: int, network: Conditions | None = None, is_refusing: bool | None = None
    ) -> None:
        with self._lock:
            if network is not None:
                self._network[node] = network
            if is_refusing is not None:
                self._refusing[node] = is_refusing
            self._apply(node)

    def _apply(self, node: int) -> None:
        conditions = dataclasses.replace(self._network[node], is_refusing=self._refusing[node])
        self._cluster.proxy.set(node, conditions)

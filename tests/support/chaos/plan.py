"""Plan: what a seed does to a cluster, and who sends meanwhile; the same each time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from support.chaos.clusters import NODES
from support.chaos.conditions import ANSWERS, BOTH, GOOD, REQUESTS, Conditions

ALL = -1
FIRST_FAULT_S = 0.5
SMALL_BATCH = 200


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong.

    Attributes:
        at_s: when, from the start of the run.
        kind: of NETWORK or NODE.
        node: which one; ALL: each.
        lasts_s: until it is undone.
        conditions: of the network meanwhile.
        is_refusing: connections to a dead node are reset by the proxy; else they
            begin and are reset.
        partition: whose leader moves.
    """

    at_s: float
    kind: str
    node: int
    lasts_s: float
    conditions: Conditions = GOOD
    is_refusing: bool = True
    partition: int = 0

    def __str__(self) -> str:
        where = "all nodes" if self.node == ALL else f"node {self.node}"
        return f"{self.at_s:6.2f} s {self.kind} of {where} for {self.lasts_s:.2f} s"


@dataclass(frozen=True)
class LoadPlan:
    """One producer.

    Attributes:
        name: of the load; its values begin with it.
        is_transactional: or idempotent alone.
        settings: of the producer.
        seed: of what it sends.
        records_per_s: about.
        value_bytes: at most.
    """

    name: str
    is_transactional: bool
    settings: dict[str, Any]
    seed: int
    records_per_s: int
    value_bytes: int


@dataclass(frozen=True)
class Plan:
    """All of a run: `Plan.of(seed, seconds)`.

    Attributes:
        always: the network where nothing is wrong.
        is_first_protocol: transactions as before KIP-890.
        network: its faults, one after the other.
        nodes: likewise; one at a time is harmed.
        loads: all at once.
    """

    seed: int
    seconds: float
    partitions: int
    always: Conditions
    is_first_protocol: bool
    network: tuple[Fault, ...]
    nodes: tuple[Fault, ...]
    loads: tuple[LoadPlan, ...] = field(default=())

    @classmethod
    def of(cls, seed: int, seconds: float, *, node_pause_s: float = 1.0) -> Plan:
        """The plan of a seed.

        Args:
            seed: any number.
            seconds: how long faults go on.
            node_pause_s: between two faults of nodes, at least; they last up to as long, and twice.
        """
        chance = random.Random(f"{seed} conditions")
        latency_s = chance.choice((0.0, 0.0, 0.001, 0.005))
        return cls(
            seed=seed,
            seconds=seconds,
            partitions=chance.choice((1, 3, 6)),
            is_first_protocol=chance.random() < 0.25,
            always=Conditions(latency_s=latency_s, jitter_s=latency_s * chance.random(), pieces=1),
            network=tuple(_network_faults(random.Random(f"{seed} network"), seconds)),
            nodes=tuple(_node_faults(random.Random(f"{seed} nodes"), seconds, node_pause_s)),
            loads=tuple(_loads(seed)),
        )


def _slow(chance: random.Random) -> Conditions:
    return Conditions(latency_s=chance.uniform(0.01, 0.3), jitter_s=chance.uniform(0, 0.2))


def _narrow(chance: random.Random) -> Conditions:
    return Conditions(bytes_per_s=chance.uniform(20_000, 500_000))


def _split(chance: random.Random) -> Conditions:
    return Conditions(pieces=chance.randrange(2, 40), jitter_s=0.002)


def _merged(chance: random.Random) -> Conditions:
    return Conditions(merge_s=chance.uniform(0.005, 0.1))


def _black_hole(_: random.Random) -> Conditions:
    return Conditions(held=BOTH)


def _half(chance: random.Random) -> Conditions:
    return Conditions(held=frozenset({chance.choice((REQUESTS, ANSWERS, ANSWERS))}))


def _reset_after(chance: random.Random) -> Conditions:
    return Conditions(reset_after=int(10 ** chance.uniform(0, 5)))


NETWORK: dict[str, Callable[[random.Random], Conditions]] = {
    "latency": _slow,
    "bandwidth": _narrow,
    "split": _split,
    "merged": _merged,
    "black hole": _black_hole,
    "one-way hole": _half,
    "half-open": _black_hole,
    "reset after": _reset_after,
    "cut": lambda _: GOOD,
}
NODE = ("kill", "kill", "stop", "pause", "move", "move")


def _network_faults(chance: random.Random, seconds: float) -> Iterator[Fault]:
    at_s = FIRST_FAULT_S
    while at_s < seconds:
        kind = chance.choice(list(NETWORK))
        node = chance.choice((ALL, *range(NODES), *range(NODES)))
        lasts_s = chance.uniform(0.1, 1.5)
        yield Fault(at_s, kind, node, lasts_s, NETWORK[kind](chance))
        at_s += lasts_s + chance.uniform(0.1, 0.8)


def _node_faults(chance: random.Random, seconds: float, pause_s: float) -> Iterator[Fault]:
    at_s = FIRST_FAULT_S + chance.uniform(0, pause_s)
    while at_s < seconds:
        kind = chance.choice(NODE)
        lasts_s = 0.0 if kind == "move" else chance.uniform(0.1, 2 * pause_s)
        yield Fault(
            at_s,
            kind,
            chance.randrange(NODES),
            lasts_s,
            is_refusing=chance.random() < 0.8,
            partition=chance.randrange(6),
        )
        at_s += lasts_s + chance.uniform(0.3 if kind == "move" else pause_s, 2 * pause_s)


def _loads(seed: int) -> Iterator[LoadPlan]:
    chance = random.Random(f"{seed} loads")
    for number in range(chance.choice((2, 3))):
        yield _load(chance, f"txn{number}", is_transactional=True)
    for number in range(chance.choice((1, 2))):
        yield _load(chance, f"idem{number}", is_transactional=False)


def _load(chance: random.Random, name: str, is_transactional: bool) -> LoadPlan:
    settings: dict[str, Any] = {
        "linger_ms": chance.choice((None, 0, 3, 20)),
        "batch_size": chance.choice((SMALL_BATCH, 16_384, 262_144)),
        "compression_type": chance.choice(("none", "none", "lz4", "zstd", "snappy", "gzip")),
        "max_in_flight_requests_per_connection": chance.choice((1, 2, 5, 5)),
        "request_timeout_ms": chance.choice((700, 1_500, 4_000)),
        "delivery_timeout_ms": chance.choice((60_000, 60_000, 60_000, 5_000)),
        "max_block_ms": 15_000,
        "metadata_max_age_ms": chance.choice((500, 5_000, 300_000)),
        "connections_max_idle_ms": chance.choice((300, 540_000)),
        "metadata_recovery_rebootstrap_trigger_ms": chance.choice((2_000, 300_000)),
    }
    time_out_ms = chance.choice((60_000, 60_000, 60_000, 3_000))
    if is_transactional:
        settings["transaction_timeout_ms"] = time_out_ms
    if settings["linger_ms"] is None:
        del settings["linger_ms"]
    return LoadPlan(
        name,
        is_transactional,
        settings,
        chance.randrange(1 << 30),
        # One record in a batch, one batch in a request, one request at a time.
        chance.choice((20, 100, 300)) if settings["batch_size"] > SMALL_BATCH else 20,
        chance.choice((20, 200, 3_000)),
    )

"""Plans of the chaos: a seed is a plan, and all kinds of faults occur."""

from __future__ import annotations

import itertools

from fastprod.config import ProducerConfig
from support.chaos.plan import NETWORK, NODE, Plan


def test_a_seed_is_always_the_same_plan_and_another_seed_is_another() -> None:
    assert Plan.of(7, 60) == Plan.of(7, 60)
    assert Plan.of(7, 60) != Plan.of(8, 60)


def test_twenty_seeds_have_every_kind_of_fault_and_settings_that_are_allowed() -> None:
    plans = [Plan.of(seed, 60) for seed in range(1, 21)]
    assert {each.kind for plan in plans for each in plan.network} == set(NETWORK)
    assert {each.kind for plan in plans for each in plan.nodes} == set(NODE)
    for plan in plans:
        assert {True, False} == {each.is_transactional for each in plan.loads}
        for each in plan.loads:
            ProducerConfig(each.settings, bootstrap_servers="localhost:1")
        for faults in (plan.network, plan.nodes):
            assert all(0 < each.at_s < 60 and each.lasts_s < 10 for each in faults)


def test_one_node_at_a_time_is_harmed() -> None:
    for seed in range(20):
        nodes = Plan.of(seed, 60).nodes
        for before, after in itertools.pairwise(nodes):
            assert before.at_s + before.lasts_s < after.at_s

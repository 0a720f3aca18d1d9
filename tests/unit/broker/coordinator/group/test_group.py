"""Who commits (B-E2, B-E3)."""

from __future__ import annotations

from fastprod.broker.coordinator.group.group import Committing
from fastprod.broker.log.record_batch import Producer


def test_an_old_transactional_producer_says_nothing_of_itself() -> None:
    """KIP-447"""
    nobody = Committing("g", -1, "", None, {})
    assert nobody.names_nobody
    assert not nobody._replace(generation_id=0).names_nobody
    assert not nobody._replace(member_id="m").names_nobody
    assert not nobody._replace(group_instance_id="i").names_nobody
    assert not nobody.is_transactional
    assert nobody._replace(producer=Producer(1, 0)).is_transactional

"""InitProducerId, with and without a transactional id (B-E4)."""

from __future__ import annotations

import pytest

from fastprod.error_codes import (
    INVALID_PRODUCER_EPOCH,
    INVALID_REQUEST,
    NONE,
    PRODUCER_FENCED,
)
from fastprod.protocol.messages.find_coordinator import FindCoordinatorRequest
from fastprod.protocol.messages.init_producer_id import InitProducerIdRequest
from support.broker.world import BrokerWorld


@pytest.mark.parametrize("version", range(6))
def test_every_version_gives_ids_of_their_own_with_epoch_0(version: int) -> None:
    """B-E4 InitProducerId."""
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    with BrokerWorld(brokers=2) as world:
        answers = [world.ask("InitProducerId", version, asked, node) for node in (0, 1, 0)]
    assert [(each.error_code, each.producer_epoch) for each in answers] == [(0, 0)] * 3
    assert len({each.producer_id for each in answers}) == 3


def test_without_a_transactional_id_what_it_has_is_given_up() -> None:
    """B-E4 InitProducerId"""
    with BrokerWorld() as world:
        asked = InitProducerIdRequest(transactional_id=None, producer_id=5, producer_epoch=3)
        found = world.ask("InitProducerId", 4, asked)
        assert (found.error_code, found.producer_id, found.producer_epoch) == (NONE, 0, 0)
        half = InitProducerIdRequest(transactional_id=None, producer_id=5)
        assert world.ask("InitProducerId", 4, half).error_code == INVALID_REQUEST


@pytest.mark.parametrize("version", range(6))
def test_a_transactional_id_has_the_next_epoch_each_time(version: int) -> None:
    """B-E4: and who has an older one is fenced, by the code that the version knows."""
    asked = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1000)
    with BrokerWorld() as world:
        world.ask("FindCoordinator", 3, FindCoordinatorRequest(key="x", key_type=1))
        found = [world.ask("InitProducerId", version, asked) for _ in range(3)]
        assert [(each.error_code, each.producer_epoch) for each in found] == [
            (NONE, 0),
            (NONE, 1),
            (NONE, 2),
        ]
        assert len({each.producer_id for each in found}) == 1
        late = InitProducerIdRequest(
            transactional_id="x", transaction_timeout_ms=1000, producer_id=77, producer_epoch=0
        )
        code = world.ask("InitProducerId", version, late).error_code
        assert (
            code
            == (NONE, NONE, NONE, INVALID_PRODUCER_EPOCH, PRODUCER_FENCED, PRODUCER_FENCED)[version]
        )


def test_the_empty_transactional_id_is_none() -> None:
    """B-E4"""
    asked = InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1)
    with BrokerWorld() as world:
        answer = world.ask("InitProducerId", 4, asked)
    assert answer.error_code == INVALID_REQUEST
    assert (answer.producer_id, answer.producer_epoch) == (-1, -1)

"""InitProducerId of producers without transactions (B-E4)."""

from __future__ import annotations

import pytest

from fastprod.error_codes import INVALID_REQUEST, TRANSACTIONAL_ID_AUTHORIZATION_FAILED
from fastprod.protocol.messages.init_producer_id import InitProducerIdRequest
from support.broker.world import BrokerWorld


@pytest.mark.parametrize("version", range(5))
def test_every_version_gives_ids_of_their_own_with_epoch_0(version: int) -> None:
    """B-E4 InitProducerId."""
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)
    with BrokerWorld(brokers=2) as world:
        answers = [world.ask("InitProducerId", version, asked, node) for node in (0, 1, 0)]
    assert [(each.error_code, each.producer_epoch) for each in answers] == [(0, 0)] * 3
    assert len({each.producer_id for each in answers}) == 3


@pytest.mark.parametrize(
    ("transactional_id", "code"),
    [("", INVALID_REQUEST), ("x", TRANSACTIONAL_ID_AUTHORIZATION_FAILED)],
)
def test_there_are_no_transactions_yet(transactional_id: str, code: int) -> None:
    """B-E4 InitProducerId: with a transactional id it is refused."""
    asked = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1)
    with BrokerWorld() as world:
        answer = world.ask("InitProducerId", 4, asked)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)

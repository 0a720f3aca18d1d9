"""What a transactional producer may not do: its errors name the right that is missing (P-I.6)."""

from __future__ import annotations

import pytest

from fastprod.errors import AuthorizationError, TopicAuthorizationError
from fastprod.protocol.api_keys import FIND_COORDINATOR, TXN_OFFSET_COMMIT
from support.engine.quick_producer import WAIT_S, quick_producer
from support.peer.fixtures import PeerFactory

TOPIC_AUTHORIZATION_FAILED = 29
GROUP_AUTHORIZATION_FAILED = 30
GROUP_KEY = 0


def test_offsets_of_a_topic_that_may_not_be_read_name_it(new_peer: PeerFactory) -> None:
    """P-I.6: the producer's user needs what is otherwise the consumer's; fatal, as in Java."""
    peer = new_peer({"t": 1}, features={"transaction.version": 2})
    peer.on(TXN_OFFSET_COMMIT).error(TOPIC_AUTHORIZATION_FAILED)
    with quick_producer(peer, transactional_id="ledger") as producer:
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        with pytest.raises(TopicAuthorizationError, match="read the topic") as caught:
            producer.send_offsets_to_transaction({("in", 0): 5}, "readers", WAIT_S)
        assert "topic 'in'" in str(caught.value)
        assert caught.value.topic == "in"
        assert caught.value.fatal


def test_a_group_that_may_not_be_looked_for_is_named(new_peer: PeerFactory) -> None:
    """P-I.6: the transaction can be aborted, and the producer goes on."""
    peer = new_peer({"t": 1}, features={"transaction.version": 2})
    peer.on(FIND_COORDINATOR).when(lambda request: request.message.key_type == GROUP_KEY).error(
        GROUP_AUTHORIZATION_FAILED
    )
    with quick_producer(peer, transactional_id="ledger") as producer:
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        with pytest.raises(AuthorizationError, match="refuse the group 'readers'") as caught:
            producer.send_offsets_to_transaction({("in", 0): 5}, "readers", WAIT_S)
        assert caught.value.abortable
        producer.abort_transaction(WAIT_S)
        with producer.transaction(WAIT_S):
            producer.send("t", b"x", partition=0)
    assert peer.values("t", 0) == [b"x"]

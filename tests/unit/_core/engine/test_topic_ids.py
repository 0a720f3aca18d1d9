"""Produce by topic id, version 13 on: whose answer it is, and when ids can be used at all."""

from __future__ import annotations

import pytest

from fastprod.protocol.api_keys import METADATA, PRODUCE
from support.engine.quick_producer import WAIT_S, quick_producer
from support.engine.sender_steps import TOPIC, Steps, offset, outcome, partition_answer
from support.oracle import kio_codec
from support.peer.fixtures import PeerFactory

VERSION = 13
OLD_ID = bytes([1] * 16)
NEW_ID = bytes([2] * 16)


def set_id(sender: Steps, topic_id: bytes) -> None:
    sender.engine.set_topic(TOPIC, topic_id, [(0, 0, 0)])
    sender.door.obey()


def response(topic_id: bytes, base_offset: int) -> bytes:
    """An answer for partition 0, from behind its correlation id on."""
    topic = {
        "topic_id": topic_id,
        "partition_responses": [partition_answer(0, base_offset=base_offset)],
    }
    message = {"responses": [topic], "throttle_time": 0}
    return kio_codec.encode_response(PRODUCE, VERSION, 0, message)[8:]


def test_an_answer_is_matched_by_the_ids_that_were_sent() -> None:
    """P-F.3.4: metadata may have brought another id meanwhile."""
    sender = Steps(version=VERSION)
    set_id(sender, OLD_ID)
    future = sender.send()
    handle = sender.drain()
    set_id(sender, NEW_ID)
    assert sender.door.answer(handle, response(OLD_ID, 7))
    assert offset(future) == 7


def test_an_answer_for_another_topic_is_none() -> None:
    """P-F.3.4, P-F.4.1: the batch counts as left out, and is sent again under the topic's new
    id.
    """
    sender = Steps(version=VERSION)
    set_id(sender, OLD_ID)
    future = sender.send()
    handle = sender.drain()
    set_id(sender, NEW_ID)
    assert sender.door.answer(handle, response(NEW_ID, 7))
    assert outcome(future) is None
    sender.pass_time(1_000)
    again = sender.drain()
    (topic,) = kio_codec.decode_request(sender.door.frame(again)[4:])[1].topic_data
    assert topic.topic_id == NEW_ID
    assert sender.door.answer(again, response(NEW_ID, 8))
    assert offset(future) == 8


@pytest.mark.parametrize(("metadata_version", "expected"), [(9, 12), (12, 13)])
def test_without_an_id_the_request_names_its_topics(
    new_peer: PeerFactory, metadata_version: int, expected: int
) -> None:
    """P-F.3.3: Produce 13 only if metadata has brought an id of every topic."""
    peer = new_peer({"t": 1}, versions={METADATA: (4, metadata_version)})
    with quick_producer(peer) as producer:
        assert producer.send("t", b"v").result(WAIT_S).offset == 0
    assert [request.version for request in peer.requests(PRODUCE)] == [expected]
    assert peer.values("t", 0) == [b"v"]

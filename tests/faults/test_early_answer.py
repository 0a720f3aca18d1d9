"""A broker that answers a request before it has read all of it (P-G.2.1, P-G.2.2, P-D.8.4)."""

from __future__ import annotations

import random

from fastprod import KafkaProducer
from fastprod.protocol.api_keys import PRODUCE
from support.oracle.kio_codec import encode_response, request_header
from support.peer.fixtures import PeerFactory
from support.peer.scripted_peer import Peer

BOUND_S = 20.0
SMALL_BYTES = 4_096
MARK_BYTES = 1_000
LIE = 777


def answer_to_what_is_being_sent(peer: Peer) -> None:
    """Answer the Produce request that is half-read as a success at offset LIE."""
    (connection,) = [each for each in peer.connections if each.partial_frame]
    header = request_header(connection.partial_frame[4:])
    assert header.api_key == PRODUCE
    topic = {"topic_id": peer.topic_id("t")} if header.version >= 13 else {"name": "t"}
    partition = {
        "index": 0,
        "error_code": 0,
        "base_offset": LIE,
        "log_append_time": -1,
        "log_start_offset": 0,
        "record_errors": [],
    }
    message = {"responses": [{**topic, "partition_responses": [partition]}]}
    connection.send(encode_response(PRODUCE, header.version, header.correlation_id, message))


def test_an_answer_before_the_request_has_left_ends_the_connection(new_peer: PeerFactory) -> None:
    """The records' memory would be used anew while the socket still takes the frame. They are
    sent again, and are there once; nobody hears of the answer."""
    peer = new_peer({"t": 1}, receive_buffer_bytes=SMALL_BYTES)
    peer.on(PRODUCE).stop_reading(MARK_BYTES)
    source = random.Random(2)
    values = [source.randbytes(50_000) for _ in range(4)]
    with KafkaProducer(
        bootstrap_servers=peer.bootstrap_servers,
        linger_ms=60_000,
        batch_size=250_000,
        send_buffer_bytes=SMALL_BYTES,
    ) as producer:
        futures = [producer.send("t", value) for value in values]
        assert not futures[0].done()
        producer.send("t", b"x" * 60_000)  # the batch of the others is full
        peer.wait_until(
            lambda: any(len(each.partial_frame) == MARK_BYTES for each in peer.connections),
            BOUND_S,
        )
        answer_to_what_is_being_sent(peer)
        peer.wait_until(lambda: len(peer.connections) > 2, BOUND_S, "a new connection")
        peer.resume_reading()
        producer.flush(BOUND_S)
        assert [future.result(0).offset for future in futures] == [0, 1, 2, 3]
        assert peer.values("t", 0) == [*values, b"x" * 60_000]

"""The driver's look at the cluster."""

from __future__ import annotations

import pytest

from fastprod.errors import KafkaError, KafkaTimeoutError
from fastprod.protocol.api_keys import METADATA
from fastprod.spark.sink.cluster_check import check_cluster
from fastprod.spark.sink.options import SinkOptions, sink_options
from support.peer.scripted_peer import Peer
from support.processes.leak_guard import nothing_is_left

__all__ = ["nothing_is_left"]

INVALID_TOPIC = 17
PATIENT = {"kafka.max.block.ms": "10000"}


def options_for(servers: str, topic: str | None, **more: str) -> SinkOptions:
    given = {"kafka.bootstrap.servers": servers, "kafka.max.block.ms": "300", **more}
    return sink_options(given if topic is None else {**given, "topic": topic})


@pytest.mark.parametrize(("topic", "idempotent"), [("t", "true"), ("t", "false"), (None, "true")])
def test_a_cluster_is_looked_at_once(peer: Peer, topic: str | None, idempotent: str) -> None:
    options = options_for(
        peer.bootstrap_servers,
        topic,
        **{"kafka.enable.idempotence": idempotent, **PATIENT},
    )
    check_cluster(options)
    asked = len(peer.requests(METADATA))
    assert asked
    check_cluster(options)
    assert len(peer.requests(METADATA)) == asked


@pytest.mark.parametrize("topic", ["t", None])
def test_a_cluster_that_does_not_answer_is_told_with_the_way_out(topic: str | None) -> None:
    with pytest.raises(KafkaTimeoutError) as raised:
        check_cluster(options_for("127.0.0.1:1", topic))
    assert any("fastprod.validate to false" in note for note in raised.value.__notes__)


def test_what_failed_is_looked_at_again(peer: Peer) -> None:
    peer.set_topic_error("t", INVALID_TOPIC)
    options = options_for(peer.bootstrap_servers, "t", **PATIENT)
    with pytest.raises(KafkaError, match="INVALID_TOPIC"):
        check_cluster(options)
    peer.set_topic_error("t", 0)
    check_cluster(options)

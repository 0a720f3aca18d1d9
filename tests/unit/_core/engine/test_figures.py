"""Figures of an engine: copies of what it has counted."""

from __future__ import annotations

from fastprod._core.engine.engine import Engine
from fastprod.client.engine_settings import engine_settings
from fastprod.config import ProducerConfig

BUFFER = 1 << 22


def test_an_engine_that_has_sent_nothing_has_counted_nothing() -> None:
    settings = ProducerConfig(bootstrap_servers="b0:9092", buffer_memory=BUFFER)
    engine = Engine(**engine_settings(settings))
    engine.topic("t")
    counters, maxima, latencies, nodes, (topic,) = engine.measure(False)
    assert counters["buffer_total_bytes"] == counters["buffer_available_bytes"] == BUFFER
    assert (counters["records_sent"], counters["producer_id"]) == (0, -1)
    assert set(maxima.values()) == {0}
    assert {each.count for each in latencies.values()} == {0}
    assert nodes == []
    assert (topic.name, topic.records, topic.ack_time.count) == ("t", 0, 0)


def test_the_child_of_a_fork_does_not_look_into_its_parents_pool() -> None:
    engine = Engine(**engine_settings(ProducerConfig(bootstrap_servers="b0:9092")))
    engine.abandon()
    counters = engine.counters()
    assert (counters["buffer_available_bytes"], counters["buffer_callback_bytes"]) == (0, 0)

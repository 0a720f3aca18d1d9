"""Engine: settings in, commands in, events out; no thread is started here."""

from __future__ import annotations

import resource

import pytest

from fastprod._core.engine.control_queue import EventKind
from fastprod._core.engine.engine import Engine
from fastprod.client.engine_settings import engine_settings
from fastprod.config import ProducerConfig


def engine(**config: object) -> Engine:
    settings = engine_settings(ProducerConfig(bootstrap_servers="localhost:1", **config))
    return Engine(**settings)


def test_it_ends_without_having_been_started() -> None:
    made = engine()
    made.close_accumulator()
    made.close_deliveries()
    assert made.deliveries_closed
    del made


def test_buffer_memory_is_what_it_was_told() -> None:
    counters = engine(buffer_memory=1 << 20).counters()
    assert counters["buffer_total_bytes"] == 1 << 20
    assert counters["buffer_available_bytes"] == 1 << 20


def test_a_topic_is_one_object_and_has_as_many_partitions_as_it_was_told() -> None:
    """P-D.1.1, P-H.4.2: also fewer, when it was made anew."""
    made = engine()
    topic = made.topic("t")
    assert made.topic("t") is topic
    assert topic.partition_count == 0
    made.set_topic("t", bytes(16), [(0, 1, 5), (-1, -1, -1)])
    assert topic.partition_count == 2
    made.set_topic("t", bytes(16), [(0, 1, 5)])
    assert topic.partition_count == 1
    made.set_topic("t", bytes(16), [(0, 1, 5)] * 5000)
    assert topic.partition_count == 5000


def test_leaders_are_told_of_partitions_that_there_are() -> None:
    made = engine()
    made.set_topic("t", bytes(16), [(0, 1, 5), (1, 1, 6)])
    made.set_leaders("t", [(1, 0, 2, 5)])
    for partition in (-1, 2):
        with pytest.raises(IndexError, match="'t'"):
            made.set_leaders("t", [(0, 0, 2, 5), (partition, 0, 2, 5)])
    made.forget_leaders("t")
    made.forget_leaders("never mentioned")
    assert made.topic("t").partition_count == 2


def test_events_come_in_order_and_a_wait_for_one_has_a_bound() -> None:
    made = engine()
    assert made.next_event(0) is None
    assert made.next_event(0.01) is None
    made.post(EventKind.ON_WAKE)
    made.post(EventKind.ON_WARM_WANTED, 2)
    taken = [made.next_event(1) for _ in range(2)]
    assert [event and (event.kind, event.node_id) for event in taken] == [
        (EventKind.ON_WAKE, 0),
        (EventKind.ON_WARM_WANTED, 2),
    ]


def test_a_look_for_an_event_does_not_sleep() -> None:
    """A sleep that is over takes as long as the system's timers are late, some 75 us."""
    made = engine()
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    for _ in range(500):
        assert made.next_event(0) is None
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before < 250


def test_nothing_to_flush_is_flushed_at_once() -> None:
    assert engine().flush(0) is None


def test_idempotence_waits_for_a_producer_id() -> None:
    assert not engine().has_producer_id
    assert engine(enable_idempotence=False).has_producer_id


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_of_this_machine_is_accepted(codec: str) -> None:
    assert engine(compression_type=codec).counters()["records_sent"] == 0

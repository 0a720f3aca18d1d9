"""LeaderUpdates: who leads what reaches the engine, from answers and from hints."""

from __future__ import annotations

from fastprod._core.engine.control_queue import EventKind
from support.engine.network_world import BOOTSTRAP_SLOT, TOPIC_ID, World


def test_leaders_reach_the_engine_before_the_callers_are_woken() -> None:
    """P-A.4.6: a caller that wakes finds the topic."""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [2, 1, 2]})
    ((topic, topic_id, leaders),) = world.engine.take("set_topic")
    assert (topic, topic_id) == ("t", TOPIC_ID)
    slot_of = {node: slot for slot, _, node in leaders}
    assert [(epoch, node) for _, epoch, node in leaders] == [(3, 2), (3, 1), (3, 2)]
    assert len({BOOTSTRAP_SLOT, slot_of[1], slot_of[2]}) == 3
    assert "t" in world.listener.changed
    assert world.engine.take("metadata_seen") == [()]


def test_a_topic_with_records_is_followed_again_and_one_that_is_forgotten_has_no_leaders() -> None:
    """P-H.3, P-D.5.1: what the I/O thread still has of it then asks for it by name."""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1]})
    assert world.engine.take("forget_leaders") == []
    world.now_ms += 300_000
    world.turn()
    world.answer_metadata({"t": [1]})
    assert world.engine.take("forget_leaders") == [("t",)]
    assert world.metadata.topics == frozenset()
    world.tell(EventKind.ON_METADATA_WANTED, topic="t")
    assert world.metadata.topics == {"t"}
    world.turn()
    world.answer_metadata({"t": [2]})
    assert world.metadata.cluster.topics == {"t"}


def test_leader_hints_are_taken_together_and_only_what_they_change_is_handed_over() -> None:
    """P-H.6 (KIP-951): the newest one of a partition stays."""
    world = World(enable_idempotence=False)
    for topic in ("t", "u"):
        world.metadata.add(topic, world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1] * 100, "u": [1]})
    slot_of = {node: slot for _, _, all in world.engine.take("set_topic") for slot, _, node in all}
    for topic, partition, leader, epoch in (
        ("t", 7, 2, 4),
        ("t", 9, 3, 4),
        ("u", 0, 2, 3),
        ("t", 7, 1, 5),
    ):
        world.tell(
            EventKind.ON_LEADER_HINT,
            topic=topic,
            partition=partition,
            node_id=leader,
            leader_epoch=epoch,
            data=b"b9",
            port=9092,
        )
    assert world.engine.take("set_leaders") == []
    world.turn()
    ((topic, leaders),) = world.engine.take("set_leaders")
    slot_of[3] = world.slot(3)
    assert topic == "t"
    assert {partition: told for partition, *told in leaders} == {
        7: [slot_of[1], 5, 1],
        9: [slot_of[3], 4, 3],
    }
    assert world.engine.take("set_topic") == []
    world.turn()
    assert world.engine.take("set_leaders") == []


def test_a_hint_that_came_before_an_answer_is_taken_before_it() -> None:
    """P-H.4.2: a topic that was made anew starts with lower epochs than the hint's."""
    world = World(enable_idempotence=False)
    world.metadata.add("t", world.now_ms)
    world.ready()
    world.turn()
    world.answer_metadata({"t": [1]})
    world.metadata.request_update()
    world.turn()
    world.now_ms += 100
    world.turn()
    world.tell(EventKind.ON_LEADER_HINT, topic="t", partition=0, node_id=2, leader_epoch=9)
    world.engine.take("set_topic")
    world.answer_metadata({"t": [1]}, topic_id=bytes(15) + b"\x08", epoch=0)
    names = [name for name, *_ in world.engine.commands if name in ("set_leaders", "set_topic")]
    assert names == ["set_leaders", "set_topic"]
    known = world.metadata.cluster.partitions("t").get(0)
    assert known is not None
    assert (known.leader_id, known.leader_epoch) == (1, 0)

"""The load tables of the adaptive partitioner (contract P-C.5.6, P-C.5.7); P-L.61."""

from __future__ import annotations

from support.engine.sender_steps import TOPIC, Steps


def fill(sender: Steps, lengths: list[int]) -> None:
    for partition, length in enumerate(lengths):
        for _ in range(length):
            sender.send(b"x" * 60, partition)


def table(sender: Steps) -> dict[int, int]:
    """As it is a millisecond after a record without a key."""
    sender.door.place_without_key(TOPIC)
    sender.door.update_load()
    return sender.door.load_table(TOPIC)


def test_queues_make_the_weights_of_the_adaptive_partitioner() -> None:
    """P-L.61 testAdaptiveBuiltInPartitioner, P-C.5.6: queues 1, 7, 2 give 7, 1, 6."""
    sender = Steps([(0, 0)] * 3, batch_size=100)
    fill(sender, [1, 7, 2])
    assert table(sender) == {0: 7, 1: 1, 2: 6}
    sender.succeed(sender.drain())
    assert table(sender) == {0: 7, 1: 1, 2: 6}


def test_a_node_that_takes_nothing_is_left_out() -> None:
    """P-L.61, P-C.5.7: it has had data for more than 100 ms longer than it last took any."""
    sender = Steps(
        [(0, 0), (1, 0), (1, 0)],
        batch_size=100,
        partitioner_availability_timeout_ms=100,
    )
    fill(sender, [1, 7, 2])
    sender.door.stamp(1, 1100, 1000)
    assert table(sender) == {0: 7, 1: 1, 2: 6}
    sender.door.stamp(1, 1101, 1000)
    assert table(sender) == {0: 1}
    sender.door.stamp(1, 1101, 1101)
    assert table(sender) == {0: 7, 1: 1, 2: 6}


def test_partitions_without_a_leader_have_no_weight() -> None:
    """P-C.5.6: only those with a known leader."""
    sender = Steps([(0, 0), (-1, -1), (0, 0)], batch_size=100)
    fill(sender, [1, 7, 2])
    assert table(sender) == {0: 2, 2: 1}


def test_without_adaptive_partitioning_there_is_no_table() -> None:
    """P-C.5.6."""
    sender = Steps([(0, 0)] * 3, batch_size=100, partitioner_adaptive_partitioning_enable=False)
    fill(sender, [1, 7, 2])
    assert table(sender) == {}


def test_without_records_that_have_no_key_there_is_no_table() -> None:
    """P-C.5.6: keys and partitions given by hand need none, and do not pay for one."""
    sender = Steps([(0, 0)] * 3, batch_size=100)
    fill(sender, [1, 7, 2])
    sender.door.update_load()
    assert sender.door.load_table(TOPIC) == {}
    assert table(sender) == {0: 7, 1: 1, 2: 6}
    fill(sender, [5, 0, 0])
    sender.door.update_load()
    assert sender.door.load_table(TOPIC) == {0: 7, 1: 1, 2: 6}, "nobody has looked at it since"
    assert table(sender) == {0: 2, 1: 1, 2: 6}


def test_a_topic_that_shrank_and_grew_has_a_table_of_what_it_has_now() -> None:
    """P-C.5.6: partitions that are gone have no weight."""
    sender = Steps([(0, 0)] * 3, batch_size=100)
    fill(sender, [1, 7, 2])
    sender.lead([(0, 0)] * 2)
    assert table(sender) == {0: 7, 1: 1}
    sender.lead([(0, 0)] * 4)
    assert table(sender) == {0: 7, 1: 1, 2: 6, 3: 8}

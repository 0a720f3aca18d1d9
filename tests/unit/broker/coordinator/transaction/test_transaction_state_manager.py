"""Where transactional ids are kept, and what is found again of them (B-E1, B-E4)."""

from __future__ import annotations

from fastprod.broker.cluster.topics import TRANSACTION_TOPIC
from fastprod.error_codes import NONE, UNKNOWN_SERVER_ERROR
from support.broker.transaction_world import TransactionWorld


def test_the_topic_is_kafkas() -> None:
    topic = TransactionWorld().topics.get(TRANSACTION_TOPIC)
    assert topic is not None
    assert topic.is_internal
    assert topic.config.text("cleanup.policy") == "compact"
    assert [len(each.replicas) for each in topic.partitions] == [2, 2, 2]


def test_a_restarted_broker_knows_its_ids() -> None:
    world = TransactionWorld()
    producers = {name: world.begun(name) for name in ("x", "y", "z")}
    world.begun("y")
    later = world.restarted()
    for name, producer in producers.items():
        epoch = producer.epoch + (name == "y")
        assert later.metadata(name).now.producer == producer._replace(epoch=epoch)
        assert later.begun(name) == producer._replace(epoch=epoch + 1)


def test_a_long_log_is_written_anew() -> None:
    """It has the effect of compaction."""
    world = TransactionWorld()
    for _ in range(20):
        world.begun()
    before = world.metadata()
    manager = world.transactions.manager
    # Nobody was given it: it is in no log.
    manager.item("never", world.txn_node("never"), creates=True)
    manager._rewrite(manager._loaded[before.partition.index])
    log = before.partition.log
    assert log.log_start_offset == 20
    later = world.restarted()
    assert later.metadata().now.producer == before.now.producer
    assert later.transactions.existing("never", None) is None


def test_what_cannot_be_written_down_has_not_happened() -> None:
    world = TransactionWorld()
    producer = world.begun()
    world.metadata().partition.log._failure = "the disk is full"
    assert world.add(producer) not in (NONE, UNKNOWN_SERVER_ERROR)
    assert world.state() == "Empty"
    code, _ = world.init()
    assert code != NONE
    assert world.metadata().now.producer == producer

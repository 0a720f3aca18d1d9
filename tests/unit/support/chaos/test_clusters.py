"""What the nodes of a cluster under chaos say of themselves."""

from __future__ import annotations

from support.chaos.clusters import ends_left_out

SAID = (
    "15:41:13.736 INFO [Transaction Marker Channel Manager 3]: Couldn't find leader endpoint for "
    "partitions {} while trying to send transaction markers for {}, these partitions are likely "
    "deleted already and hence can be skipped (TransactionMarkerChannelManager)\n"
)


def test_each_end_that_kafka_has_left_out_is_found() -> None:
    log = (
        "15:41:13.734 INFO [Broker id=3] Transitioning 5 partition(s) to local leaders. (logger)\n"
        + SAID.format("Set(chaos-0)", "id of txn0")
        + SAID.format("HashSet(chaos-2, chaos-5, __consumer_offsets-3)", "id of txn1")
        + SAID.format("Set(chaos-1, chaos-0)", "id of txn0")
    )
    assert ends_left_out(log) == {
        ("id of txn0", "chaos", 0): 2,
        ("id of txn0", "chaos", 1): 1,
        ("id of txn1", "chaos", 2): 1,
        ("id of txn1", "chaos", 5): 1,
        ("id of txn1", "__consumer_offsets", 3): 1,
    }


def test_other_lines_are_none() -> None:
    assert ends_left_out("Couldn't find leader endpoint for partitions Set(chaos-0)\n") == {}

"""Acknowledgements and offsets against confluent-kafka's mock cluster.

It keeps 5 MiB of a partition and checks nothing, so what it stored proves little; but it numbers
records on its own, and it answers ApiVersions in a way of its own (P-G.5.3).
"""

from __future__ import annotations

import pytest

from fastprod import KafkaProducer, RecordMetadata
from mock_cluster import MockCluster
from support.broker.sockets import until
from support.records.readers import end_offsets

RECORDS = 20_000
PARTITIONS = 4
TIMEOUT_S = 60.0


def offsets_by_partition(found: list[RecordMetadata]) -> dict[int, list[int]]:
    offsets: dict[int, list[int]] = {}
    for each in found:
        offsets.setdefault(each.partition, []).append(each.offset)
    return offsets


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("acks", ["1", "all"])
def test_records_have_the_offsets_in_which_they_were_sent(
    mock_cluster: MockCluster, acks: str, codec: str
) -> None:
    settings = {
        "bootstrap_servers": mock_cluster.bootstrap_servers,
        "acks": acks,
        "compression_type": codec,
        "batch_size": 16_384,
    }
    with KafkaProducer(settings) as producer:
        futures = [
            producer.send("any", b"value %d" % n, b"key %d" % (n % 100) if n % 3 else None)
            for n in range(RECORDS)
        ]
        producer.flush(TIMEOUT_S)
        found = [future.result(0) for future in futures]
    offsets = offsets_by_partition(found)
    assert sorted(offsets) == list(range(PARTITIONS))
    for each in offsets.values():
        assert each == list(range(len(each)))


def test_without_acks_a_record_is_done_when_it_is_written_and_has_no_offset(
    mock_cluster: MockCluster,
) -> None:
    """P-F.3.4"""
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers, acks=0) as producer:
        futures = [producer.send("any", b"%d" % n, timestamp_ms=n) for n in range(RECORDS)]
        producer.flush(TIMEOUT_S)
        found = [future.result(0) for future in futures]
        # The same connection still has a partner that counts: what was sent is not lost.
        counters = producer._engine.counters()
    assert {each.offset for each in found} == {-1}
    assert [each.timestamp for each in found] == list(range(RECORDS))
    assert counters["records_acked"] == RECORDS
    # It may not have read them all when the producer is closed.
    until(lambda: sum(end_offsets(mock_cluster.bootstrap_servers, "any").values()) == RECORDS)
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers, acks=1) as producer:
        next_offsets = [
            producer.send("any", b"last", partition=n).result(TIMEOUT_S).offset
            for n in range(PARTITIONS)
        ]
    assert sum(next_offsets) == RECORDS


def test_a_server_that_refuses_the_newest_apiversions_is_asked_again_on_the_same_connection(
    mock_cluster: MockCluster,
) -> None:
    """P-G.5.3: its refusal does not parse as version 0, and is understood all the same."""
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        assert producer.send("any", b"value", partition=0).result(TIMEOUT_S).offset == 0
        counters = producer._engine.counters()
    assert counters["connections_closed"] == 0
    assert counters["connections_opened"] <= 2  # the bootstrap address, and the leader

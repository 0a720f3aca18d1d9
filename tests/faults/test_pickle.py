"""A producer pickles as its configuration, an error as what it says; a future does not pickle."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest

from fastprod import KafkaProducer
from fastprod.errors import (
    BufferExhaustedError,
    BulkError,
    FlushTimeoutError,
    KafkaError,
    MetadataTimeoutError,
    ProducerClosedError,
    RecordTooLargeError,
    UndeliveredError,
)
from mock_cluster import MockCluster
from support.broker.black_hole import black_hole, frozen


def assert_survives(error: BaseException) -> None:
    """Type, text, numbers and cause are the same on the other side."""
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.__dict__ == error.__dict__
    for name in ("retriable", "undelivered_count", "failed_count", "size_bytes", "waited_ms"):
        assert getattr(again, name, None) == getattr(error, name, None)


def refused(work: Callable[[], object]) -> KafkaError:
    """The error that `work` raises, with its traceback."""
    with pytest.raises(KafkaError) as found:
        work()
    return found.value


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_producer_comes_back_as_a_new_one_with_the_same_settings(
    mock_cluster: MockCluster, protocol: int
) -> None:
    with KafkaProducer(
        {"bootstrap.servers": mock_cluster.bootstrap_servers},
        client_id="pickled",
        linger_ms=3,
        compression_type="lz4",
    ) as producer:
        before = producer.send("t", b"before").result(20)
        with pickle.loads(pickle.dumps(producer, protocol)) as again:
            assert type(again) is KafkaProducer
            assert again.config.values() == producer.config.values()
            assert again.config.explicit == producer.config.explicit
            assert again.send("t", b"after", partition=before.partition).result(20).offset == (
                before.offset + 1
            )
            ids = {each._engine.counters()["producer_id"] for each in (producer, again)}
            assert len(ids) == 2


def test_a_closed_producer_still_pickles(mock_cluster: MockCluster) -> None:
    producer = KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers)
    producer.close()
    with pickle.loads(pickle.dumps(producer)) as again:
        assert again.send("t", b"x").result(20).offset >= 0


def test_a_setting_that_does_not_pickle_is_named(mock_cluster: MockCluster) -> None:
    with (
        KafkaProducer(
            bootstrap_servers=mock_cluster.bootstrap_servers,
            value_serializer=lambda value: bytes(value),
        ) as producer,
        pytest.raises((pickle.PicklingError, AttributeError), match="lambda"),
    ):
        pickle.dumps(producer)


def test_futures_do_not_pickle_and_cannot_be_copied(mock_cluster: MockCluster) -> None:
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        futures: list[object] = [producer.send("t", b"x"), producer.send_many("t", [b"x"])]
        for future in futures:
            with pytest.raises(TypeError):
                pickle.dumps(future)
            with pytest.raises(TypeError):
                copy.copy(future)


def test_the_metadata_of_a_record_pickles(mock_cluster: MockCluster) -> None:
    with KafkaProducer(bootstrap_servers=mock_cluster.bootstrap_servers) as producer:
        for metadata in (
            producer.send("t", b"x", key=b"k").result(20),
            producer.send_many("t", [b"x"] * 10).result(20),
        ):
            assert pickle.loads(pickle.dumps(metadata)) == metadata


def test_the_errors_of_a_living_producer_survive(mock_cluster: MockCluster) -> None:
    """Spark carries them from a worker to the driver."""
    producer = KafkaProducer(
        bootstrap_servers=mock_cluster.bootstrap_servers,
        buffer_memory=200_000,
        batch_size=16_384,
        max_request_size=100_000,
        max_block_ms=300,
    )
    producer.warmup("t", timeout=20)
    too_large = producer.send("t", bytes(150_000))
    bulk = producer.send_many("t", [b"x", bytes(150_000)])
    found = [
        refused(lambda: too_large.result(20)),
        refused(lambda: bulk.result(20)),
    ]
    with frozen(mock_cluster.pid):
        futures = [producer.send("t", bytes(50_000)) for _ in range(5)]
        exhausted = [f for f in futures if f.done()]
        found += [refused(exhausted[0].result), refused(lambda: producer.flush(0.1))]
        found.append(refused(lambda: producer.close(0)))
    found += [refused(futures[0].result), refused(lambda: producer.send("t", b"x"))]
    assert [type(each) for each in found] == [
        RecordTooLargeError,
        BulkError,
        BufferExhaustedError,
        FlushTimeoutError,
        UndeliveredError,
        KafkaError,
        ProducerClosedError,
    ]
    for error in found:
        assert_survives(error)


def test_the_error_of_a_broker_that_does_not_answer_survives_with_its_cause() -> None:
    with (
        black_hole() as nowhere,
        KafkaProducer(bootstrap_servers=nowhere, max_block_ms=300) as producer,
    ):
        error = refused(lambda: producer.partitions_for("t"))
    assert type(error) is MetadataTimeoutError
    assert_survives(error)

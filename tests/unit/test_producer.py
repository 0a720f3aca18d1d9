"""KafkaProducer: making, plug-ins, what needs no broker (P-A.1, P-A.9, P-L.6-11, P-L.33)."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Mapping
from typing import Any

import pytest

from fastprod.errors import ConfigError, IllegalStateError, KafkaError, ProducerClosedError
from fastprod.interceptors import ProducerInterceptor
from fastprod.partitioner import Partitioner
from fastprod.producer import KafkaProducer
from fastprod.records import ProducerRecord
from fastprod.serializers import Serializer

NOWHERE = "127.0.0.1:1"


class Counted:
    """Counts what happens to a plug-in."""

    made = 0
    closed = 0

    @classmethod
    def reset(cls) -> None:
        cls.made = cls.closed = 0

    def note_made(self) -> None:
        type(self).made += 1

    def close(self) -> None:
        type(self).closed += 1


class CountedSerializer(Counted, Serializer):
    def configure(self, config: Mapping[str, Any], is_key: bool) -> None:
        self.note_made()

    def __call__(self, topic: str, headers: Any, data: Any) -> bytes | None:
        return b""


class CountedPartitioner(Counted, Partitioner):
    def configure(self, config: Mapping[str, Any]) -> None:
        self.note_made()

    def partition(self, *_: Any) -> int:
        return 0


class CountedInterceptor(Counted, ProducerInterceptor):
    client_id = ""

    def configure(self, config: Mapping[str, Any]) -> None:
        self.note_made()
        type(self).client_id = config["client.id"]


class BrokenInterceptor(ProducerInterceptor):
    def configure(self, config: Mapping[str, Any]) -> None:
        raise RuntimeError("cannot be configured")


def test_plug_ins_are_made_once_and_closed_once() -> None:
    """P-L.9 testSerializerClose, testPartitionerClose, testInterceptorConstructClose; P-A.9.6."""
    kinds = (CountedSerializer, CountedPartitioner, CountedInterceptor)
    for kind in kinds:
        kind.reset()
    producer = KafkaProducer(
        bootstrap_servers=NOWHERE,
        value_serializer=CountedSerializer,
        partitioner_class=CountedPartitioner,
        interceptor_classes=[CountedInterceptor],
    )
    assert [kind.made for kind in kinds] == [1, 1, 1]
    assert CountedInterceptor.client_id == producer.config.client_id != ""
    producer.close(0)
    producer.close(0)
    assert [kind.closed for kind in kinds] == [1, 1, 1]


def test_a_failed_construction_closes_what_was_made() -> None:
    """P-A.1.3; P-L.7, P-L.8 testInterceptorConstructorConfigurationWithException..."""
    CountedInterceptor.reset()
    with pytest.raises((ConfigError, KafkaError)):
        KafkaProducer(
            bootstrap_servers=NOWHERE,
            interceptor_classes=[CountedInterceptor, BrokenInterceptor],
        )
    assert CountedInterceptor.closed == 1


def test_a_host_that_does_not_resolve_is_a_config_error() -> None:
    """P-A.1.4"""
    with pytest.raises(ConfigError, match="No resolvable bootstrap urls"):
        KafkaProducer(bootstrap_servers="no-such-host.invalid:9092")


def test_the_constructor_does_not_connect() -> None:
    """P-A.1.5: nothing listens there, and that is no error yet."""
    with KafkaProducer(bootstrap_servers=NOWHERE) as producer:
        assert not producer.closed
    assert producer.closed


def test_settings_may_have_kafkas_dotted_names() -> None:
    with KafkaProducer({"bootstrap.servers": NOWHERE, "linger.ms": "7"}) as producer:
        assert producer.config.linger_ms == 7


def test_generated_client_ids_differ() -> None:
    """P-A.1.2"""
    with (
        KafkaProducer(bootstrap_servers=NOWHERE) as one,
        KafkaProducer(bootstrap_servers=NOWHERE) as other,
    ):
        assert one.config.client_id != other.config.client_id
        assert one.config.client_id in repr(one)


def test_close_is_idempotent_and_refuses_a_negative_timeout() -> None:
    """P-A.9.1, P-A.9.2; P-L.11 closeShouldBeIdempotent, closeWithNegativeTimestampShouldThrow."""
    producer = KafkaProducer(bootstrap_servers=NOWHERE)
    with pytest.raises(ValueError, match="must be 0 or more"):
        producer.close(-0.1)
    assert not producer.closed
    producer.close()
    producer.close()


def test_after_close_sends_raise_and_flush_and_metrics_do_not() -> None:
    """P-A.3.2, P-A.9.8"""
    producer = KafkaProducer(bootstrap_servers=NOWHERE)
    producer.close()
    for call in (
        lambda: producer.send("t", b""),
        lambda: producer.send(ProducerRecord("t")),
        lambda: producer.try_send("t", b""),
        lambda: producer.send_many("t", [b""]),
        lambda: producer.partitions_for("t"),
        lambda: producer.warmup("t"),
    ):
        with pytest.raises(ProducerClosedError):
            call()
    producer.flush(0)
    assert producer.metrics()


def test_the_exit_of_a_with_block_closes_even_after_an_error() -> None:
    """P-A.11"""
    with (
        pytest.raises(RuntimeError, match="mine"),
        KafkaProducer(bootstrap_servers=NOWHERE) as producer,
    ):
        raise RuntimeError("mine")
    assert producer.closed


def test_it_pickles_as_its_configuration() -> None:
    with KafkaProducer(bootstrap_servers=NOWHERE, linger_ms=3) as producer:
        copied = pickle.loads(pickle.dumps(producer))
    with copied:
        assert copied.config.linger_ms == 3
        assert not copied.closed


def test_what_is_no_topic_is_refused() -> None:
    with KafkaProducer(bootstrap_servers=NOWHERE) as producer:
        with pytest.raises(TypeError, match="topic name or a ProducerRecord, not int"):
            producer.send(3, b"")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="topic name, not bytes"):
            producer.send_many(b"t", [b""])  # type: ignore[arg-type]
        error = producer.send("x" * 250, b"").exception(5)
        assert error is not None
        assert "1 to 249 characters" in str(error)


def test_arguments_out_of_range_are_refused_before_anything_waits() -> None:
    """P-A.2.1"""
    with KafkaProducer(bootstrap_servers=NOWHERE) as producer:
        with pytest.raises(ValueError, match=r"partition must be .* not -1"):
            producer.send("t", b"", partition=-1)
        with pytest.raises(ValueError, match=r"timestamp_ms must be .* not -5"):
            producer.send("t", b"", timestamp_ms=-5)
        with pytest.raises(ValueError, match=r"partition must be .* not 2,147,483,648"):
            producer.send("t", b"", partition=1 << 31)
        with pytest.raises(ValueError, match=r"timestamp_ms must be .* not 9,223,372,036,854,"):
            producer.send("t", b"", timestamp_ms=1 << 63)
        with pytest.raises(TypeError, match="partition must be an int or None, not float"):
            producer.send("t", b"", partition=1.5)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"value must be bytes.*not str"):
            producer.send("t", "text")
        with pytest.raises(TypeError, match=r"key must be bytes.*not int"):
            producer.send("t", b"", key=7)


def test_a_records_headers_are_frozen_once_it_is_sent() -> None:
    """P-A.2.2, P-A.3.6; P-L.19 testHeaders."""
    record = ProducerRecord("t", b"v", headers=[("a", b"1")])
    with KafkaProducer(bootstrap_servers=NOWHERE, max_block_ms=0) as producer:
        producer.send(record)
        with pytest.raises(IllegalStateError):
            record.headers.add("b", b"2")
        producer.send(record)


def test_try_send_never_blocks() -> None:
    """A topic that is not known yet is an error in the future, at once."""
    with KafkaProducer(bootstrap_servers=NOWHERE) as producer:
        future = producer.try_send("t", b"v")
        assert future.done()
        assert future.exception(0) is not None


def test_a_producer_whose_settings_are_wrong_can_be_shown() -> None:
    """S13: by whoever prints the frames of the error."""
    with pytest.raises(ConfigError) as caught:
        KafkaProducer(bootstrap_servers="nowhere:1", linger_ms="long")
    made = [
        each
        for frame in traceback.walk_tb(caught.value.__traceback__)
        for each in frame[0].f_locals.values()
        if isinstance(each, KafkaProducer)
    ]
    assert {repr(each) for each in made} == {"<KafkaProducer without settings>"}

"""ProducerIdRequests: when it asks, and what it tells the engine of what came (P-F.5.1)."""

from __future__ import annotations

import logging

import pytest

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.connections.connection_states import NO_LIMIT_MS
from fastprod.client.producer_id import (
    ProducerIdRequests,
    check_producer_id,
    producer_id_request,
    read_producer_id,
)
from fastprod.errors import ApiError, UnsupportedVersionError
from fastprod.protocol.field_types import SchemaError
from fastprod.protocol.messages.init_producer_id import InitProducerIdResponse

WHERE = "b1:9092 (node 1)"
LOADING = 14
DENIED = 31
BAD_REQUEST = 42
NOT_AUTHORIZED = 53  # of which the table has no more to say than its name
NEWER_THAN_US = 30_000


class Engine:
    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def set_producer_id(self, producer_id: int, epoch: int) -> None:
        self.told.append(("id", producer_id, epoch))

    def set_producer_id_error(self, text: str) -> None:
        self.told.append(("error", text))

    def abort_pending(self, code: int) -> None:
        self.told.append(("abort", code))

    def fail(self, code: int) -> None:
        self.told.append(("fail", code))


def requests(engine: Engine, *, is_wanted: bool = True) -> ProducerIdRequests:
    return ProducerIdRequests(engine, ExponentialBackoff(100, 400, jitter=0), is_wanted=is_wanted)


def answer(code: int = 0, producer_id: int = 7, epoch: int = 2) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=code, producer_id=producer_id, producer_epoch=epoch)


def test_it_asks_while_an_id_is_wanted_and_no_request_is_on_its_way() -> None:
    engine = Engine()
    asked = requests(engine, is_wanted=False)
    assert asked.delay_ms(0) == NO_LIMIT_MS
    asked.want()
    assert asked.delay_ms(0) == 0
    asked.sent()
    assert asked.delay_ms(0) == NO_LIMIT_MS
    assert asked.answered(answer(), WHERE, 0) is None
    assert engine.told == [("id", 7, 2)]
    assert asked.delay_ms(0) == NO_LIMIT_MS


def test_what_fails_for_now_is_asked_for_again_ever_more_slowly(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P-F.5.1; an id starts the backoff anew."""
    engine = Engine()
    asked = requests(engine)
    delays = []
    for failure in ("lost", LOADING, "lost", LOADING):
        asked.sent()
        with caplog.at_level(logging.WARNING):
            if isinstance(failure, str):
                asked.failed(f"the connection to {WHERE} ended", 1_000)
            else:
                assert asked.answered(answer(failure), WHERE, 1_000) is None
        ((kind, text),) = engine.told
        assert kind == "error"
        assert WHERE in str(text)
        assert str(text) in caplog.text
        engine.told.clear()
        delays.append(asked.delay_ms(1_000))
    assert delays == [100, 200, 400, 400]
    asked.answered(answer(), WHERE, 1_000)
    asked.want()
    asked.failed("lost", 2_000)
    assert asked.delay_ms(2_000) == 100


def test_without_the_right_what_waits_fails_and_the_next_record_asks_again() -> None:
    """P-F.5.1."""
    engine = Engine()
    asked = requests(engine)
    assert asked.answered(answer(DENIED), WHERE, 0) is None
    (error, abort) = engine.told
    assert abort == ("abort", DENIED)
    assert "IDEMPOTENT_WRITE" in str(error)
    assert asked.delay_ms(0) == NO_LIMIT_MS
    asked.want()
    assert asked.delay_ms(0) == 0


@pytest.mark.parametrize("code", [BAD_REQUEST, NEWER_THAN_US, NOT_AUTHORIZED])
def test_any_other_refusal_is_the_end(code: int) -> None:
    """P-F.5.1."""
    engine = Engine()
    asked = requests(engine)
    error = asked.answered(answer(code), WHERE, 0)
    assert error is not None
    assert isinstance(error, ApiError)
    assert f"({code}): broker {WHERE} refused InitProducerId" in str(error)
    assert not str(error).endswith((":", " "))
    assert [told[0] for told in engine.told] == ["error", "fail"]
    assert engine.told[1] == ("fail", code)
    assert asked.delay_ms(0) == NO_LIMIT_MS


def test_a_broker_that_gives_none_is_the_end() -> None:
    """P-G.2.7."""
    engine = Engine()
    asked = requests(engine)
    asked.unsupported("too old")
    assert engine.told == [("error", "too old"), ("fail", 35)]
    assert asked.delay_ms(0) == NO_LIMIT_MS


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (0, -1)])
def test_an_id_that_cannot_be_is_no_answer(producer_id: int, epoch: int) -> None:
    """P-J.1.5."""
    check_producer_id(answer(LOADING, producer_id, epoch))
    with pytest.raises(SchemaError, match=f"producer id {producer_id} with epoch {epoch}"):
        check_producer_id(answer(0, producer_id, epoch))


def test_the_request_of_version_4_is_the_vector() -> None:
    """P-J.5, P-F.5.1. P-J.4: producer id and epoch from 3 on (KIP-360), flexible from 2 on."""
    assert producer_id_request(4, "fp") == bytes.fromhex(
        "0000001d 0016 0004 00000000 0002 6670 00 00 7fffffff ffffffffffffffff ffff 00"
    )
    assert producer_id_request(2, "fp") == bytes.fromhex(
        "00000013 0016 0002 00000000 0002 6670 00 00 7fffffff 00"
    )
    assert producer_id_request(1, "fp") == bytes.fromhex(
        "00000012 0016 0001 00000000 0002 6670 ffff 7fffffff"
    )
    with pytest.raises(UnsupportedVersionError, match="InitProducerId of version 6"):
        producer_id_request(6, None)


@pytest.mark.parametrize(("version", "header", "end"), [(1, "", ""), (2, "00", "00")])
def test_an_answer_gives_id_epoch_and_error(version: int, header: str, end: str) -> None:
    """P-J.4."""
    payload = bytes.fromhex(f"00000005 {header} 0000000a 0000 0000000000000fa0 0007 {end}")
    assert read_producer_id(version, payload) == InitProducerIdResponse(
        producer_id=4000, producer_epoch=7, throttle_time_ms=10
    )
    with pytest.raises(SchemaError, match=f"InitProducerId response v{version}"):
        read_producer_id(version, payload[:-2])
    with pytest.raises(SchemaError, match="producer id -1 with epoch 7"):
        read_producer_id(version, payload.replace(bytes.fromhex("0000000000000fa0"), b"\xff" * 8))

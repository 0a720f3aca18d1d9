"""ProducerIdRequests: when it asks, and what it tells the engine of what came (F.5.1)."""

from __future__ import annotations

import logging

import pytest

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.connections import NO_LIMIT_MS
from fastprod.client.producer_id import ProducerIdRequests, check_producer_id
from fastprod.errors import ApiError
from fastprod.frames import SchemaError
from fastprod.messages import InitProducerIdResponse

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

    def set_producer_id_trouble(self, text: str) -> None:
        self.told.append(("trouble", text))

    def abort_pending(self, code: int) -> None:
        self.told.append(("abort", code))

    def fail(self, code: int) -> None:
        self.told.append(("fail", code))


def requests(engine: Engine, *, is_wanted: bool = True) -> ProducerIdRequests:
    return ProducerIdRequests(engine, ExponentialBackoff(100, 400, jitter=0), is_wanted=is_wanted)


def answer(code: int = 0, producer_id: int = 7, epoch: int = 2) -> InitProducerIdResponse:
    return InitProducerIdResponse(code, producer_id, epoch, 0)


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
    """F.5.1; an id starts the backoff anew."""
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
        assert kind == "trouble"
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
    """F.5.1."""
    engine = Engine()
    asked = requests(engine)
    assert asked.answered(answer(DENIED), WHERE, 0) is None
    (trouble, abort) = engine.told
    assert abort == ("abort", DENIED)
    assert "IDEMPOTENT_WRITE" in str(trouble)
    assert asked.delay_ms(0) == NO_LIMIT_MS
    asked.want()
    assert asked.delay_ms(0) == 0


@pytest.mark.parametrize("code", [BAD_REQUEST, NEWER_THAN_US, NOT_AUTHORIZED])
def test_any_other_refusal_is_the_end(code: int) -> None:
    """F.5.1."""
    engine = Engine()
    asked = requests(engine)
    error = asked.answered(answer(code), WHERE, 0)
    assert error is not None
    assert isinstance(error, ApiError)
    assert f"({code}): broker {WHERE} refused InitProducerId" in str(error)
    assert not str(error).endswith((":", " "))
    assert [told[0] for told in engine.told] == ["trouble", "fail"]
    assert engine.told[1] == ("fail", code)
    assert asked.delay_ms(0) == NO_LIMIT_MS


def test_a_broker_that_gives_none_is_the_end() -> None:
    """G.2.7."""
    engine = Engine()
    asked = requests(engine)
    asked.unsupported("too old")
    assert engine.told == [("trouble", "too old"), ("fail", 35)]
    assert asked.delay_ms(0) == NO_LIMIT_MS


@pytest.mark.parametrize(("producer_id", "epoch"), [(-1, 0), (0, -1)])
def test_an_id_that_cannot_be_is_no_answer(producer_id: int, epoch: int) -> None:
    """J.1.5."""
    check_producer_id(answer(LOADING, producer_id, epoch))
    with pytest.raises(SchemaError, match=f"producer id {producer_id} with epoch {epoch}"):
        check_producer_id(answer(0, producer_id, epoch))

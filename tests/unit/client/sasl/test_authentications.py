"""Authentications: exchanges of several connections, and what comes before a session ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from fastprod.client.sasl.authentications import Authentications
from fastprod.client.sasl.authenticator import Frame
from fastprod.client.sasl.bearer_token import read_token
from fastprod.client.sasl.login import LoginPendingError
from fastprod.client.sasl.mechanism import MechanismError
from fastprod.client.sasl.oauthbearer import OAuthBearerMechanism
from fastprod.client.sasl.plain import PlainMechanism
from fastprod.errors import AuthenticationError, KafkaError, NetworkError
from fastprod.protocol.api_keys import API_VERSIONS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from fastprod.protocol.field_types import SchemaError
from support.engine.thread_refusal import no_thread
from support.security.sasl_answers import authenticate_answer, handshake_answer, versions_answer

OFFERED = {SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)}
KEYS = [API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE]
PATIENCE_MS = 5_000
SPARE = 101


class FakeCredentials:
    """PLAIN, or the numbered tokens of a login."""

    mechanism = "PLAIN"
    token_name = "the access token from a test"

    def __init__(self) -> None:
        self.generation = 0
        self.make: Callable[[], Any] = lambda: (PlainMechanism("ada", "hush"), 0)
        self.asked: list[tuple[int, float]] = []
        self.refusals: list[int] = []

    def new_mechanism(self, host: str, *, after: int, least_life_s: float) -> Any:
        self.asked.append((after, least_life_s))
        return self.make()

    def refused(self, number: int) -> None:
        self.refusals.append(number)


class World:
    """Takes down what is sent, held, told and refused."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.credentials = FakeCredentials()
        self.sent: list[tuple[int, Frame, object]] = []
        self.told: list[tuple[Any, ...]] = []
        self.wakes = 0
        self.may_have_spares = False
        self.all = Authentications(
            cast(Any, self.credentials),
            "me",
            self,
            lambda: self.now_ms,
            self,
            PATIENCE_MS,
            lambda low, high: low,
        )

    def where(self, slot: int) -> str:
        return f"b{slot % 100}:9092"

    def host(self, slot: int) -> str:
        return f"b{slot % 100}"

    def send(self, slot: int, frame: Frame, exchange: object) -> None:
        self.sent.append((slot, frame, exchange))

    def hold(self, slot: int, is_held: bool) -> None:
        self.told.append(("hold", slot, is_held))

    def authenticated(self, slot: int, again_after_ms: int | None) -> None:
        self.told.append(("authenticated", slot, again_after_ms))

    def refuse(self, slot: int, error: KafkaError, *, was_ready: bool) -> None:
        self.told.append(("refuse", slot, error, was_ready))

    def open_spare(self, slot: int) -> int | None:
        self.told.append(("open", slot))
        return slot + 100 if self.may_have_spares else None

    def close_spare(self, slot: int) -> None:
        self.told.append(("close", slot))

    def post(self, kind: int) -> None:
        self.wakes += 1

    def take(self) -> list[Any]:
        found, self.told = self.told, []
        return found

    def frames(self) -> list[int]:
        """API keys of the frames since this was last asked; `answer` is for the last ones."""
        self.last, self.sent = self.sent, []
        return [frame.api_key for _, frame, _ in self.last]

    def answer(self, payload: bytes, place: int = -1) -> None:
        _, frame, exchange = self.last[place]
        self.all.on_answer(exchange, frame.api_key, payload)

    def authenticate(self, slot: int = 1, lifetime_ms: int = 0) -> None:
        self.all.begin(slot)
        self.exchange(lifetime_ms)
        assert self.take() == [("authenticated", slot, None)]

    def exchange(self, lifetime_ms: int) -> None:
        """Every step of a first one."""
        for key, payload in zip(
            KEYS,
            (
                versions_answer(OFFERED),
                handshake_answer(0, "PLAIN"),
                authenticate_answer(2, lifetime_ms=lifetime_ms),
            ),
            strict=True,
        ):
            assert self.frames() == [key]
            self.answer(payload)

    def refusal(self) -> tuple[KafkaError, bool]:
        ((what, _, error, was_ready),) = self.take()
        assert what == "refuse"
        return error, was_ready


@pytest.fixture
def world() -> World:
    return World()


def test_a_first_exchange_goes_step_by_step(world: World) -> None:
    """P-G.10.1: the password is not sent before the broker has agreed to the mechanism."""
    world.all.begin(1)
    assert world.all.is_busy(1)
    assert world.all.step(1) == "ApiVersions"
    world.all.forget(1)
    world.frames()
    world.authenticate()
    assert not world.all.is_busy(1)
    assert world.all.do_due(world.now_ms) > 10**9, "no session end, no repetition"


def test_a_session_is_prolonged_before_it_ends(world: World) -> None:
    """P-G.10.7: handshake and token back to back, nothing else meanwhile, if no spare connection
    can be had; idle or not."""
    world.authenticate(lifetime_ms=10_000)
    assert world.all.do_due(world.now_ms) == 7_000
    world.now_ms += 7_000
    world.all.do_due(world.now_ms)
    assert world.frames() == [SASL_HANDSHAKE, SASL_AUTHENTICATE]
    assert world.take() == [("open", 1), ("hold", 1, True)]
    assert [bool(frame.releases) for _, frame, _ in world.last] == [False, True]
    assert world.all.is_busy(1)
    world.answer(handshake_answer(0, "PLAIN"), 0)
    assert world.all.step(1) == "SaslAuthenticate"
    world.now_ms += 3
    world.answer(authenticate_answer(2, lifetime_ms=10_000), 1)
    assert world.take() == [("hold", 1, False), ("authenticated", 1, 3)]
    assert world.all.do_due(world.now_ms) == 7_000 - 3
    assert world.credentials.asked == [(0, 0.0), (0, 6.0)], "twice what is left of the session"


def begin_spare(world: World, lifetime_ms: int = 10_000) -> None:
    """The session of slot 1 is 70 % over."""
    world.may_have_spares = True
    world.authenticate(lifetime_ms=lifetime_ms)
    world.now_ms += lifetime_ms * 7 // 10
    world.all.do_due(world.now_ms)
    assert world.take() == [("open", 1)]
    assert world.frames() == []


def test_a_spare_connection_renews_a_session(world: World) -> None:
    """P-G.10.7: it authenticates as any other does, and nothing is held up on the first one."""
    begin_spare(world)
    assert not world.all.is_busy(1)
    world.all.begin(SPARE)
    world.now_ms += 100
    world.exchange(10_000)
    assert {slot for slot, *_ in world.last} == {SPARE}
    assert world.take() == [("authenticated", SPARE, None)]
    assert not world.all.is_busy(1)
    world.all.wait_for_spare(SPARE)
    assert world.all.is_busy(1), "a request would wait for those in flight"
    world.now_ms += 20_000
    world.all.do_due(world.now_ms)
    assert world.take() == [], "the swap is certain: whatever the time"
    world.now_ms -= 20_000
    world.all.swapped(SPARE)
    assert not world.all.is_busy(1)
    assert world.all.do_due(world.now_ms) == 7_000 - 100
    world.now_ms += 7_000 - 100
    world.all.do_due(world.now_ms)
    assert world.take() == [("open", 1)], "and so on"
    assert world.credentials.asked == [(0, 0.0), (0, 6.0), (0, 6.0)]


@pytest.mark.parametrize("steps", range(4))
def test_without_a_spare_connection_the_first_one_authenticates_again(
    world: World, steps: int
) -> None:
    """P-G.10.7: before it is connected, and after each step of its exchange."""
    begin_spare(world)
    payloads = (versions_answer(OFFERED), handshake_answer(0, "PLAIN"))
    if steps:
        world.all.begin(SPARE)
    for payload in payloads[: max(steps - 1, 0)]:
        world.frames()
        world.answer(payload)
    world.frames()
    world.all.lose_spare(SPARE, "it was cut")
    assert world.take() == [("close", SPARE), ("hold", 1, True)]
    assert world.frames() == [SASL_HANDSHAKE, SASL_AUTHENTICATE]
    assert {slot for slot, *_ in world.last} == {1}
    world.answer(authenticate_answer(2, lifetime_ms=10_000), 1)
    assert world.take() == [("hold", 1, False), ("authenticated", 1, 0)]
    world.now_ms += 7_000
    world.all.do_due(world.now_ms)
    assert world.take() == [("open", 1)], "the next time it is tried again"


def test_a_spare_connection_that_is_refused_is_no_end(world: World) -> None:
    """P-G.10.7: the token is used no more, and the first connection hears for itself."""
    begin_spare(world)
    world.all.begin(SPARE)
    world.frames()
    world.answer(versions_answer(OFFERED))
    world.frames()
    world.answer(handshake_answer(34))
    assert world.take() == [("close", SPARE), ("hold", 1, True)]
    assert world.credentials.refusals == [0]


@pytest.mark.parametrize(("lifetime_ms", "after_ms"), [(10_000, 2_000), (100_000, PATIENCE_MS)])
def test_a_spare_connection_that_is_slow_is_not_waited_for(
    world: World, lifetime_ms: int, after_ms: int
) -> None:
    """P-G.10.7, P-G.4.4: there is time left for the first one."""
    begin_spare(world, lifetime_ms)
    assert world.all.do_due(world.now_ms) == after_ms
    world.now_ms += after_ms
    world.all.do_due(world.now_ms)
    assert world.take() == [("close", SPARE), ("hold", 1, True)]


def test_a_spare_connection_goes_with_the_first_one(world: World) -> None:
    """P-G.10.7: whatever it has come to."""
    begin_spare(world)
    world.all.begin(SPARE)
    world.frames()
    assert world.all.forget(1) == ""
    assert world.take() == [("close", SPARE)]
    world.answer(versions_answer(OFFERED))
    assert world.frames() == []
    world.all.lose_spare(SPARE, "closed")
    assert world.take() == []
    assert world.all.do_due(world.now_ms) > 10**9


def test_a_new_token_that_comes_late_is_not_for_a_spare_connection(world: World) -> None:
    """P-G.10.5, P-G.10.7"""
    world.may_have_spares = True
    world.authenticate(lifetime_ms=10_000)
    world.credentials.make = pending
    world.now_ms += 7_000
    world.all.do_due(world.now_ms)
    world.now_ms += 2_000
    world.credentials.make = lambda: (PlainMechanism("ada", "hush"), 2)
    world.all.do_due(world.now_ms)
    assert world.take() == [("hold", 1, True)]
    assert world.frames() == [SASL_HANDSHAKE, SASL_AUTHENTICATE]


def test_however_short_sessions_are_connections_do_not_come_faster(world: World) -> None:
    world.may_have_spares = True
    world.authenticate(lifetime_ms=10)
    assert world.all.do_due(world.now_ms) == 200


def test_repetitions_are_a_second_apart(world: World) -> None:
    """P-G.10.7: brokers refuse them else; however late this one came to the last one."""
    world.authenticate(lifetime_ms=500)
    world.now_ms += 425
    world.all.do_due(world.now_ms)
    world.frames()
    world.now_ms += 800
    world.answer(authenticate_answer(2, lifetime_ms=500), 1)
    assert world.all.do_due(world.now_ms) == 1_050


def test_a_refusal_closes_the_connection_and_is_told(world: World) -> None:
    """P-G.10.2, P-G.10.7"""
    world.authenticate(lifetime_ms=10_000)
    world.now_ms += 9_000
    world.all.do_due(world.now_ms)
    world.frames()
    world.take()
    world.answer(handshake_answer(34), 0)
    error, was_ready = world.refusal()
    assert isinstance(error, AuthenticationError)
    assert was_ready
    world.answer(authenticate_answer(2, 34), 1)
    assert world.take() == [], "the rest of the exchange is of no interest"
    assert not world.all.is_busy(1)
    assert world.all.forget(1) == ""


def test_a_refusal_of_a_user_who_was_replaced_is_none_of_the_next(world: World) -> None:
    world.all.begin(1)
    world.frames()
    world.credentials.generation += 1
    world.answer(versions_answer({}))
    error, was_ready = world.refusal()
    assert isinstance(error, NetworkError)
    assert "replaced meanwhile" in str(error)
    assert not was_ready


def pending() -> Any:
    raise LoginPendingError


def failing() -> Any:
    raise AuthenticationError("no access token: HTTP 401")


def test_a_connection_waits_for_the_token(world: World) -> None:
    world.credentials.make = pending
    world.all.begin(1)
    assert world.frames() == []
    assert world.all.step(1) == "the access token from a test"
    assert world.all.is_busy(1)
    world.credentials.make = lambda: (OAuthBearerMechanism(read_token("t", 0.0)), 1)
    world.all.do_due(world.now_ms)
    assert world.frames() == [API_VERSIONS]


@pytest.mark.parametrize(
    "raised", [AuthenticationError("no access token"), MechanismError("no access token")]
)
def test_a_token_that_cannot_be_had_is_told_with_the_broker(
    world: World, raised: Exception
) -> None:
    def fail() -> Any:
        raise raised

    world.credentials.make = fail
    world.all.begin(1)
    error, was_ready = world.refusal()
    assert isinstance(error, AuthenticationError)
    assert str(error) == "broker b1:9092: no access token"
    assert not was_ready


@pytest.mark.parametrize(
    ("make", "kind"), [(failing, AuthenticationError), (pending, NetworkError)]
)
def test_a_session_waits_for_a_new_token_until_its_end(
    world: World, make: Callable[[], Any], kind: type[KafkaError]
) -> None:
    """Records go on meanwhile; after the end the broker would hang up on them."""
    world.authenticate(lifetime_ms=10_000)
    world.credentials.make = make
    world.now_ms += 9_000
    assert world.all.do_due(world.now_ms) == 1_000
    assert world.take() == []
    assert not world.all.is_busy(1)
    world.now_ms += 1_000
    world.all.do_due(world.now_ms)
    error, was_ready = world.refusal()
    assert type(error) is kind
    assert was_ready


def test_a_refused_token_is_fetched_anew(world: World) -> None:
    world.credentials.make = lambda: (OAuthBearerMechanism(read_token("t", 0.0)), 7)
    world.all.begin(1)
    world.frames()
    world.answer(versions_answer({}))
    assert world.credentials.refusals == [7]


class Slow(PlainMechanism):
    """Waits for a KDC, and may fail in ways of its own."""

    may_block = True
    error: Exception | None = None

    def next(self, challenge: bytes) -> bytes | None:
        if self.error is not None:
            raise self.error
        return super().next(challenge)


def step_aside(world: World) -> None:
    before = world.wakes
    world.answer(handshake_answer(0, "PLAIN"))
    while world.wakes == before:
        pass
    world.all.do_due(world.now_ms)
    assert world.frames() == [SASL_AUTHENTICATE]
    before = world.wakes
    world.answer(authenticate_answer(2))
    while world.wakes == before:
        pass


@pytest.mark.parametrize("error", [None, ZeroDivisionError("hush")])
def test_a_mechanism_that_may_block_has_a_thread(world: World, error: Exception | None) -> None:
    slow = Slow("ada", "hush")
    slow.error = error
    world.credentials.make = lambda: (slow, 0)
    world.all.begin(1)
    world.frames()
    world.answer(versions_answer(OFFERED))
    world.frames()
    step_aside(world)
    assert world.take() == [], "only the control thread goes on"
    world.all.do_due(world.now_ms)
    ((what, node_id, *rest),) = world.take()
    if error is None:
        assert (what, node_id, rest) == ("authenticated", 1, [None])
    else:
        assert isinstance(rest[0], AuthenticationError)
        assert "ZeroDivisionError" in str(rest[0])
        assert "hush" not in str(rest[0])


def test_a_mechanism_that_may_block_and_gets_no_thread_ends_the_connection(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.credentials.make = lambda: (Slow("ada", "hush"), 0)
    world.all.begin(1)
    world.frames()
    world.answer(versions_answer(OFFERED))
    world.frames()
    with no_thread(monkeypatch, "sasl"):
        world.answer(handshake_answer(0, "PLAIN"))
    error, _ = world.refusal()
    assert isinstance(error, NetworkError), "the next connection may have a thread"
    assert "can't start new thread" in str(error)


def test_what_a_thread_found_out_too_late_is_dropped(world: World) -> None:
    world.credentials.make = lambda: (Slow("ada", "hush"), 0)
    world.all.begin(1)
    world.frames()
    world.answer(versions_answer(OFFERED))
    world.frames()
    step_aside(world)
    assert world.all.forget(1) == "the mechanism's next message"
    world.all.do_due(world.now_ms)
    assert world.take() == []


def test_an_answer_that_does_not_parse_ends_the_connection(world: World) -> None:
    world.all.begin(2)
    world.frames()
    with pytest.raises(SchemaError):
        world.answer(b"")
    world.all.begin(1)
    world.frames()
    world.answer(versions_answer(OFFERED))
    world.frames()
    world.answer(handshake_answer(0, "PLAIN"))
    world.frames()
    world.answer(b"\0\0\0\0\0")
    error, _ = world.refusal()
    assert isinstance(error, NetworkError)
    assert "b1:9092 sent an answer to SaslAuthenticate that does not parse" in str(error)

"""Authentications: exchanges of several connections, and repetitions before a session ends."""

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
from support.security.sasl_answers import authenticate_answer, handshake_answer, versions_answer

OFFERED = {SASL_HANDSHAKE: (0, 1), SASL_AUTHENTICATE: (0, 2)}
KEYS = [API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE]


class FakeCredentials:
    """PLAIN, or the numbered tokens of a login."""

    mechanism = "PLAIN"

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
        self.all = Authentications(
            cast(Any, self.credentials),
            "me",
            self,
            lambda: self.now_ms,
            self,
            lambda low, high: low,
        )

    def where(self, node_id: int) -> str:
        return f"b{node_id}:9092"

    def host(self, node_id: int) -> str:
        return f"b{node_id}"

    def send_sasl(self, node_id: int, frame: Frame, exchange: object) -> None:
        self.sent.append((node_id, frame, exchange))

    def hold(self, node_id: int, is_held: bool) -> None:
        self.told.append(("hold", node_id, is_held))

    def authenticated(self, node_id: int, again_after_ms: int | None) -> None:
        self.told.append(("authenticated", node_id, again_after_ms))

    def refuse(self, node_id: int, error: KafkaError, *, was_ready: bool) -> None:
        self.told.append(("refuse", node_id, error, was_ready))

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

    def authenticate(self, node_id: int = 1, lifetime_ms: int = 0) -> None:
        self.all.begin(node_id)
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
        assert self.take() == [("authenticated", node_id, None)]

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
    """P-G.10.7: handshake and token back to back, nothing else meanwhile; idle or not."""
    world.authenticate(lifetime_ms=10_000)
    assert world.all.do_due(world.now_ms) == 8_500
    world.now_ms += 8_500
    world.all.do_due(world.now_ms)
    assert world.frames() == [SASL_HANDSHAKE, SASL_AUTHENTICATE]
    assert world.take() == [("hold", 1, True)]
    assert [bool(frame.releases) for _, frame, _ in world.last] == [False, True]
    assert world.all.is_busy(1)
    world.answer(handshake_answer(0, "PLAIN"), 0)
    assert world.all.step(1) == "SaslAuthenticate"
    world.now_ms += 3
    world.answer(authenticate_answer(2, lifetime_ms=10_000), 1)
    assert world.take() == [("hold", 1, False), ("authenticated", 1, 3)]
    assert world.all.do_due(world.now_ms) == 8_500 - 3
    assert world.credentials.asked == [(0, 0.0), (0, 3.0)], "twice what is left of the session"


def test_repetitions_are_a_second_apart(world: World) -> None:
    """P-G.10.7: brokers refuse them else."""
    world.authenticate(lifetime_ms=500)
    world.now_ms += 425
    world.all.do_due(world.now_ms)
    world.frames()
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
    assert world.all.step(1) == "the access token"
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

"""Login: tokens are fetched at once, renewed before their end, and tried for again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.sasl.bearer_token import BearerToken
from fastprod.client.sasl.login import Login, LoginPendingError, renewal_delay_s
from fastprod.client.sasl.login_error import SHORT_PATIENCE_S, LoginError
from fastprod.errors import AuthenticationError
from fastprod.security.sasl_settings import RefreshSettings
from fastprod.security.secret import Secret
from support.processes.between_lines import interrupted_in_each_line_of_threading

WAIT_S = 20.0
REFRESH = RefreshSettings()


class Source:
    """Gives what it was told to, and a numbered token of 100 s when it was told nothing.

    An event in the script is waited for; a token of a day follows.
    """

    name = "a test"

    def __init__(self) -> None:
        self.is_asked = threading.Event()
        self.script: list[Exception | float | threading.Event] = []
        self.fetched = 0
        self.gate = threading.Event()
        self.gate.set()
        self.is_closed = False

    def fetch(self) -> BearerToken:
        self.is_asked.set()
        assert self.gate.wait(WAIT_S)
        self.fetched += 1
        step = self.script.pop(0) if self.script else 100.0
        if isinstance(step, Exception):
            raise step
        if isinstance(step, threading.Event):
            assert step.wait(WAIT_S)
            step = 86_400.0
        return BearerToken(Secret(f"token{self.fetched}"), time.time() + step)

    def close(self) -> None:
        self.is_closed = True


class World:
    def __init__(self, refresh: RefreshSettings = REFRESH, backoff_ms: int = 1) -> None:
        self.source = Source()
        self.changes = 0
        backoff = ExponentialBackoff(backoff_ms, 10_000)
        self.login = Login(self.source, refresh, backoff, self.changed, "login")

    def changed(self) -> None:
        self.changes += 1

    def until(self, is_so: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < deadline_s
            time.sleep(0.001)

    def token(self, after: int = 0, least_life_s: float = 0.0) -> str:
        while True:
            try:
                token, _ = self.login.token(after=after, least_life_s=least_life_s)
            except LoginPendingError:
                time.sleep(0.001)
            else:
                return token.value.reveal()


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.source.gate.set()
    made.login.close()
    made.until(lambda: made.source.is_closed or made.login._thread.ident is None)


def test_the_first_token_is_fetched_at_once_and_told(world: World) -> None:
    with pytest.raises(LoginPendingError):
        world.login.token()
    world.login.start()
    assert world.token() == "token1"
    world.until(lambda: world.changes == 1)
    assert world.login.token()[1] == 1
    assert world.source.fetched == 1


def test_a_token_is_renewed_before_its_end() -> None:
    """P-G.10.5: in the background, also one of some seconds."""
    world = World(RefreshSettings(window_factor=0.003, window_jitter=0.0))
    comes = threading.Event()
    world.source.script = [100.0, comes]
    world.login.start()
    world.until(lambda: world.source.fetched == 2)
    assert world.token() == "token1"
    comes.set()
    world.until(lambda: world.changes == 2)
    world.login.close()
    assert world.source.fetched == 2


def test_a_token_that_would_end_too_soon_is_fetched_anew_once(world: World) -> None:
    """KIP-368: for a connection that authenticates again."""
    world.source.script = [100.0, 50.0]
    world.login.start()
    assert world.token() == "token1"
    assert world.token(after=1, least_life_s=70.0) == "token1"
    assert world.token(after=1, least_life_s=101.0) == "token2"
    assert world.source.fetched == 2


def test_a_refused_token_is_not_given_again(world: World) -> None:
    world.login.start()
    assert world.token() == "token1"
    world.login.refused(7)
    assert world.token() == "token1"
    world.login.refused(1)
    assert world.token() == "token2"


def test_a_lasting_failure_is_told_at_once_and_tried_again(world: World) -> None:
    """P-G.10.5, P-G.10.8"""
    cause = RuntimeError("hush")
    failure = LoginError("the endpoint answered HTTP 401")
    failure.__cause__ = cause
    told_of = threading.Event()
    world.source.script = [failure, told_of]
    world.login.start()
    world.until(lambda: world.changes == 1)
    with pytest.raises(AuthenticationError, match=r"no access token: .*HTTP 401") as told:
        world.login.token()
    assert told.value.__cause__ is not None
    told_of.set()
    world.until(lambda: world.changes == 2)
    assert world.token() == "token2"


def test_a_failure_that_may_pass_is_tried_again_before_it_is_told(world: World) -> None:
    world.source.script = [LoginError("busy", patience_s=WAIT_S)] * 3
    world.login.start()
    assert world.token() == "token4"
    world.until(lambda: world.changes == 1)


def test_a_failure_that_does_not_pass_is_told() -> None:
    world = World(backoff_ms=700)
    world.source.script = [LoginError("busy", patience_s=SHORT_PATIENCE_S)] * 30
    began_s = time.monotonic()
    world.login.start()
    world.until(lambda: world.changes >= 1)
    with pytest.raises(AuthenticationError, match="busy"):
        world.login.token()
    assert world.source.fetched <= 1 + (time.monotonic() - began_s) / 0.5, "no storm"
    world.login.close()


def test_a_failed_renewal_leaves_the_token(world: World) -> None:
    world.source.script = [100.0, LoginError("gone")]
    world.login.start()
    assert world.token() == "token1"
    with pytest.raises(LoginPendingError):
        world.login.token(after=1, least_life_s=101.0)
    world.until(lambda: world.source.fetched >= 2)
    assert world.login.token()[0].value.reveal() in ("token1", "token3")


def test_a_fault_of_a_source_leaves_nobody_waiting(world: World) -> None:
    world.source.script = [ZeroDivisionError()]
    world.login.start()
    world.until(lambda: world.changes == 2)
    assert world.token() == "token2"


def test_closing_does_not_wait_for_a_fetch_for_long(world: World) -> None:
    world.source.gate.clear()
    world.login.start()
    began_s = time.monotonic()
    world.login.close()
    assert time.monotonic() - began_s < WAIT_S
    assert world.changes == 0
    world.source.gate.set()
    world.until(lambda: world.source.is_closed)
    assert world.changes == 0, "nobody hears of it any more"


def test_closing_waits_for_a_fetch_no_longer_than_its_caller_does(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P-A.9: close(timeout) is over by then."""
    world.source.gate.clear()
    world.login.start()
    assert world.source.is_asked.wait(WAIT_S)
    waits: list[float] = []
    now_s = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr(world.login._thread, "join", waits.append)
        for deadline_s in (now_s - 1, now_s, now_s + 0.5, now_s + 3_600, None):
            world.login.close(deadline_s)
    assert waits[:2] == [0.0, 0.0]
    assert 0 <= waits[2] <= 0.5
    assert waits[3:] == [1.0, 1.0]


def test_a_thread_that_fetches_nothing_is_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends at once: who looks for threads that are left finds none."""
    monkeypatch.setattr("fastprod.client.sasl.login._LONGEST_WAIT_S", WAIT_S)
    world.login.start()
    assert world.token() == "token1"
    world.until(lambda: world.changes == 1)
    world.until(lambda: not world.login._is_fetching)
    world.login.close(time.monotonic())
    assert not world.login._thread.is_alive()


def test_a_token_is_awaited_until_there_is_one_or_an_error(world: World) -> None:
    world.source.gate.clear()
    world.source.script = [0.05, LoginError("gone")]
    world.login.start()
    assert world.login.is_awaited
    world.source.gate.set()
    world.until(lambda: world.changes >= 2)
    assert not world.login.is_awaited, "it has ended, and the next one cannot be had"
    world.until(lambda: world.changes == 3)
    assert not world.login.is_awaited
    assert world.token() == "token3"


@pytest.mark.parametrize(
    ("life_s", "refresh", "share", "delay_s"),
    [
        (3_600, REFRESH, 0.0, 2_880),
        (3_600, REFRESH, 0.999_999, 3_060),
        (1_000, REFRESH, 0.0, 700),
        (365, RefreshSettings(0.5, 0.0, 60, 300), 0.0, 65),
        (361, RefreshSettings(0.8, 0.0, 100, 200), 0.0, 161),
        (310, RefreshSettings(0.5, 0.0, 200, 10), 0.0, 200),
        (359, REFRESH, 0.0, 287.2),
        (5, REFRESH, 0.0, 4),
        (5, RefreshSettings(1.0, 0.25), 0.9, 5),
        (0.001, REFRESH, 0.0, 0.2),
    ],
)
def test_when_a_token_is_renewed(
    life_s: float, refresh: RefreshSettings, share: float, delay_s: float
) -> None:
    """P-G.10.5: minimum and buffer count only if its life has room for both."""
    assert renewal_delay_s(life_s, refresh, lambda: share) == pytest.approx(delay_s, rel=1e-3)


def test_ctrl_c_leaves_no_lock_behind() -> None:
    def call() -> None:
        assert login.is_awaited

    login = World().login
    interrupted_in_each_line_of_threading(call, call)

"""CallbackTokens: functions, objects and coroutines that give tokens."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable

import pytest

from fastprod.client.sasl.callback_tokens import CallbackTokens
from fastprod.client.sasl.login_error import LoginError


class Provider:
    """As kafka-python and aiokafka have it."""

    def token(self) -> str:
        return "sync"

    def extensions(self) -> dict[str, str]:
        return {"b": "2"}


class AsyncProvider:
    def __init__(self) -> None:
        self.loops: set[int] = set()

    async def token(self) -> tuple[str, float]:
        await asyncio.sleep(0)
        self.loops.add(id(asyncio.get_running_loop()))
        return "async", time.time() + 5


def fetch(callback: object) -> str:
    tokens = CallbackTokens(callback, {"a": "1"})
    try:
        return tokens.fetch().value.reveal()
    finally:
        tokens.close()


def test_functions_and_objects_sync_and_async() -> None:
    """P-G.10.5"""

    def later() -> Awaitable[str]:
        return asyncio.sleep(0, "later")

    assert fetch(lambda: "plain") == "plain"
    assert fetch(later) == "later"
    assert fetch(Provider()) == "sync"
    assert CallbackTokens(Provider(), {"a": "1"}).fetch().extensions == {"a": "1", "b": "2"}


def test_coroutines_run_in_one_event_loop() -> None:
    """What the callback keeps open stays usable."""
    provider = AsyncProvider()
    tokens = CallbackTokens(provider, {})
    assert {tokens.fetch().value.reveal() for _ in range(3)} == {"async"}
    assert len(provider.loops) == 1
    tokens.close()


def raises() -> str:
    raise RuntimeError("hush hush")


def test_what_it_raises_is_the_cause() -> None:
    """P-G.10.8: and not in the text, which goes into logs."""
    with pytest.raises(LoginError, match="callback raises raised RuntimeError") as caught:
        fetch(raises)
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("callback", "words"),
    [
        (lambda: None, "NoneType where a token is due"),
        (lambda: ("x", 5), "has expired"),
        (5, "int raised TypeError"),
    ],
)
def test_what_is_no_token_is_told_with_the_callbacks_name(callback: object, words: str) -> None:
    with pytest.raises(LoginError, match=words):
        fetch(callback)


@pytest.mark.parametrize("kind", [asyncio.CancelledError, SystemExit])
def test_what_would_end_a_thread_is_told_like_any_other_error(kind: type[BaseException]) -> None:
    def raises_at_once() -> str:
        raise kind

    async def raises_later() -> str:
        raise kind

    for callback in (raises_at_once, raises_later):
        with pytest.raises(LoginError, match=f"raised {kind.__name__}"):
            fetch(callback)

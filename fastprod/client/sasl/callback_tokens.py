"""CallbackTokens: access tokens from a callback of the user's, sync or async."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping
from typing import Any

from fastprod.client.sasl.bearer_token import BearerToken, read_token
from fastprod.client.sasl.login_error import LoginError
from fastprod.client.sasl.mechanism import MechanismError


class CallbackTokens:
    """Calls a function, or the method `token` of an object, for each new token.

    What it returns is read by `read_token`. A coroutine runs in an event loop of ours, always the
    same one, so that connections that the callback keeps stay usable.

    Args:
        callback: the function, or an object with a method `token`, and maybe one `extensions`.
        extensions: sent with every token.

    Threads: the login's, which runs the callback too.
    """

    def __init__(self, callback: object, extensions: Mapping[str, str]) -> None:
        self._callback = callback
        self._extensions = extensions
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def name(self) -> str:
        """What it is, for errors."""
        callback = self._callback
        name = getattr(callback, "__qualname__", None)
        if not isinstance(name, str):
            name = type(callback).__qualname__
        return f"the token callback {name}"

    def fetch(self) -> BearerToken:
        """Call it.  Blocks as long as it does.

        Raises:
            LoginError: it raised, or returned no token.
        """
        try:
            answer = self._call(self._function())
            more = self._more_extensions()
        except BaseException as error:  # CancelledError and SystemExit are none of this thread's
            raise LoginError(f"{self.name} raised {type(error).__name__}") from error
        try:
            return read_token(answer, time.time(), {**self._extensions, **more})
        except MechanismError as error:
            raise LoginError(f"{self.name}: {error}") from None

    def close(self) -> None:
        """End the event loop, if there was one."""
        if self._loop is not None:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
            self._loop = None

    def _function(self) -> Callable[[], Any]:
        method = getattr(self._callback, "token", None)
        if callable(method):
            return lambda: method()
        if not callable(self._callback):
            raise TypeError("neither a function nor an object with a method token")
        return self._callback

    def _more_extensions(self) -> Mapping[str, str]:
        method = getattr(self._callback, "extensions", None)
        found = self._call(method) if callable(method) else None
        return found if isinstance(found, Mapping) else {}

    def _call(self, function: Callable[[], Any]) -> Any:
        answer = function()
        if not inspect.isawaitable(answer):
            return answer
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        return self._loop.run_until_complete(_awaited(answer))


async def _awaited(answer: Any) -> Any:
    return await answer

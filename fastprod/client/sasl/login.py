"""Login: one producer's access token, renewed in the background before it ends (P-G.10.5)."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

from fastprod.client.backoff import ExponentialBackoff
from fastprod.client.fork_lock import fork_lock
from fastprod.client.log_thread import LOG_THREAD
from fastprod.client.sasl.bearer_token import BearerToken
from fastprod.client.sasl.login_error import LoginError
from fastprod.client.system_threads import threads
from fastprod.errors import AuthenticationError
from fastprod.log import Log
from fastprod.security.sasl_settings import RefreshSettings

_LOG = Log(__name__)

_MOST_FAILURES: Final = 30
_LEAST_DELAY_S: Final = 0.2
_LONGEST_WAIT_S: Final = 1.0


class TokenSource(Protocol):
    """Where tokens come from."""

    @property
    def name(self) -> str:
        """What it is, for errors; no secret."""

    def fetch(self) -> BearerToken:
        """Fetch a new one; may block.

        Raises:
            LoginError: there is none, and why.
        """

    def close(self) -> None:
        """No more will be fetched."""


class LoginPendingError(Exception):
    """The token is on its way."""


class Login:
    """Fetches a token at once and again before it ends, on a thread of its own.

    Args:
        source: fetches.
        refresh: when a token is renewed.
        backoff: between tries that failed.
        on_change: called on the login's thread after a token came or could not be had.
        name: of the thread.

    Threads: any. Nothing but `close` waits.
    Source: Kafka's ExpiringCredentialRefreshingLogin.
    """

    def __init__(
        self,
        source: TokenSource,
        refresh: RefreshSettings,
        backoff: ExponentialBackoff,
        on_change: Callable[[], None],
        name: str,
    ) -> None:
        self._source = source
        self._refresh = refresh
        self._backoff = backoff
        self._on_change = on_change
        # It is entered, not the condition, whose methods are Python: Ctrl-C would leave it locked.
        self._lock = fork_lock()
        self._changed = threads().Condition(self._lock)
        self._token: BearerToken | None = None
        self._error: AuthenticationError | None = None
        self._failure = ""
        self._number = 0
        self._wanted = 1
        self._failures = 0
        self._first_failure_s = 0.0
        self._fetched_s = 0.0
        self._due_s = 0.0
        self._is_closed = False
        self._is_fetching = False
        self._thread = threads().Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Fetch the first token."""
        self._thread.start()

    @property
    def is_awaited(self) -> bool:
        """Whether there is no good token, and no error that callers hear of either."""
        with self._lock:
            if self._is_closed or self._error is not None:
                return False
            return self._token is None or self._token.expires_s <= time.time()

    @property
    def failure(self) -> str:
        """Why the latest token could not be had; "": it could, or is not there yet."""
        return self._failure

    def end(self) -> None:
        """Fetch no more.  Does not wait for a fetch under way."""
        with self._lock:
            self._is_closed = True
            self._changed.notify_all()

    def close(self, deadline_s: float | None = None) -> None:
        """Fetch no more, and wait for the thread; not for long for a fetch under way.

        Args:
            deadline_s: by when such a fetch is left to itself, in seconds of the monotonic clock;
                never later than in a second.
        """
        self.end()
        if self._thread.ident is None or self._thread is threads().current_thread():
            return
        wait_s = _LONGEST_WAIT_S
        if deadline_s is not None and self._is_fetching:  # else the thread ends at once
            wait_s = min(max(deadline_s - time.monotonic(), 0.0), wait_s)
        self._thread.join(wait_s)

    def token(self, *, after: int = 0, least_life_s: float = 0.0) -> tuple[BearerToken, int]:
        """Return a token and its number; they count from 1.

        Args:
            after: one with a larger number will do.
            least_life_s: so will one that is good for so many seconds more.

        Raises:
            LoginPendingError: it is on its way; `on_change` tells.
            AuthenticationError: it cannot be had, and why; it is tried for again all the same.
        """
        with self._lock:
            token = self._token
            if token is not None:
                life_s = token.expires_s - time.time()
                if life_s > 0 and (self._number > after or life_s >= least_life_s):
                    return token, self._number
            if self._wanted <= self._number:
                self._wanted = self._number + 1
                self._changed.notify_all()
            if self._error is not None:
                raise AuthenticationError(str(self._error)) from self._error.__cause__
            raise LoginPendingError

    def refused(self, number: int) -> None:
        """A broker did not accept the token with that number: the next one is fetched anew."""
        with self._lock:
            if number == self._number:
                self._token = None

    def _run(self) -> None:
        LOG_THREAD.serve()
        while self._wait_until_due():
            try:
                token = self._source.fetch()
            except LoginError as error:
                self._failed(error)
            except BaseException as error:  # a source of ours has a fault: nobody may wait for ever
                _LOG.exception("uncaught error in the login thread")
                self._failed(LoginError(f"the login failed: {type(error).__name__}"))
            else:
                self._succeeded(token)
        self._source.close()

    def _wait_until_due(self) -> bool:
        """Wait for the next fetch; False: there is none, the login is closed."""
        with self._lock:
            self._is_fetching = False
            while not self._is_closed:
                left_s = self._due_s - time.monotonic()
                if left_s <= 0 or (self._wanted > self._number and not self._failures):
                    self._is_fetching = True
                    return True
                self._changed.wait(min(left_s, threading.TIMEOUT_MAX))
            return False

    def _succeeded(self, token: BearerToken) -> None:
        with self._lock:
            self._token = token
            self._error = None
            self._failure = ""
            self._failures = 0
            self._number += 1
            self._wanted = min(self._wanted, self._number)
            life_s = token.expires_s - time.time()
            self._due_s = time.monotonic() + renewal_delay_s(life_s, self._refresh)
        _LOG.debug("the login has a token for %.1f s", life_s)
        self._tell()

    def _failed(self, error: LoginError) -> None:
        now_s = time.monotonic()
        with self._lock:
            if self._failures == 0:
                self._first_failure_s = now_s
            delay_ms = self._backoff.backoff_ms(min(self._failures, _MOST_FAILURES))
            self._failures += 1
            self._failure = str(error)
            self._due_s = now_s + delay_ms / 1000
            ends_s = self._due_s - self._first_failure_s
            has_token = self._token is not None and self._token.expires_s > time.time()
            is_told = ends_s >= error.patience_s
            if is_told and not has_token:
                self._error = AuthenticationError(f"no access token: {error}")
                self._error.__cause__ = error.__cause__ or error
        _LOG.warning("%s; it is tried again in %d ms", error, delay_ms)
        if is_told:
            self._tell()

    def _tell(self) -> None:
        with self._lock:
            if self._is_closed:
                return
        self._on_change()


def renewal_delay_s(
    life_s: float,
    refresh: RefreshSettings,
    random_share: Callable[[], float] = random.random,
) -> float:
    """How long after a token came the next one is fetched, in seconds (P-G.10.5).

    Args:
        life_s: time that the token has left.
        refresh: the share of its life; and a shortest period and a buffer before its end, which are
            left out of account if both together are longer than its life.
        random_share: 0 <= share < 1.
    """
    share = refresh.window_factor + refresh.window_jitter * random_share()
    delay_s = life_s * min(share, 1.0)
    if refresh.min_period_s + refresh.buffer_s <= life_s:
        delay_s = max(min(delay_s, life_s - refresh.buffer_s), refresh.min_period_s)
    return max(delay_s, _LEAST_DELAY_S)

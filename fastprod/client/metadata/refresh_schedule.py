"""RefreshSchedule: when the next metadata request is due (contract P-H.2.1 to P-H.2.5, KIP-580)."""

from __future__ import annotations

from fastprod.client.backoff import ExponentialBackoff


class RefreshSchedule:
    """What has been asked for, and which backoff keeps it from being asked at once.

    Two backoffs apply: one grows with failed requests, one with answers that held nothing new, so
    that neither an outage nor a stuck partition makes the client ask in a tight loop. A new topic
    passes both. Not locked: its owner, ``Metadata``, is. Times are ms of one clock.

    Args:
        backoff: ``retry.backoff.ms`` and its max.
        max_age_ms: age at which everything is asked for again.
    """

    __slots__ = (
        "_attempts",
        "_attempts_backoff_ms",
        "_backoff",
        "_equivalent_backoff_ms",
        "_equivalent_count",
        "_last_refresh_ms",
        "_last_successful_refresh_ms",
        "_max_age_ms",
        "_need_full",
        "_need_partial",
        "_request_version",
    )

    def __init__(self, backoff: ExponentialBackoff, max_age_ms: int) -> None:
        self._backoff = backoff
        self._max_age_ms = max_age_ms
        self._need_full = False
        self._need_partial = False
        self._request_version = 0
        # None: there was no refresh from which a backoff would count.
        self._last_refresh_ms: int | None = None
        self._last_successful_refresh_ms: int | None = None
        self._attempts = 0
        self._equivalent_count = 0
        # Drawn once for each refresh: every question until the next one gets the same answer.
        self._attempts_backoff_ms = 0
        self._equivalent_backoff_ms = 0

    @property
    def is_requested(self) -> bool:
        """Something asked for an update."""
        return self._need_full or self._need_partial

    @property
    def request_version(self) -> int:
        """Grows with every request for new topics (P-H.2.3)."""
        return self._request_version

    @property
    def last_successful_refresh_ms(self) -> int | None:
        """When all topics were last asked for and answered; None: never."""
        return self._last_successful_refresh_ms

    def request_full(self, *, reset_equivalent_backoff: bool = False) -> None:
        """Ask for all topics."""
        self._need_full = True
        if reset_equivalent_backoff:
            self._equivalent_count = 0

    def request_new_topics(self) -> None:
        """Ask for new topics, without regard to any backoff (P-H.2.2)."""
        self._last_refresh_ms = None
        self._need_partial = True
        self._equivalent_count = 0
        self._request_version += 1

    def is_partial_enough(self, now_ms: int) -> bool:
        """Whether asking for the new topics alone will do now (P-H.2.2)."""
        return not self._need_full and self._time_to_expiry_ms(now_ms) > 0

    def time_to_next_ms(self, now_ms: int) -> int:
        """How long until a request should be sent, 0 for now (P-H.2.1)."""
        to_expiry_ms = self._time_to_expiry_ms(now_ms)
        if to_expiry_ms == 0:
            # A periodic refresh is not one more fruitless question.
            self._equivalent_count = 0
        if self.is_requested:
            to_expiry_ms = 0
        return max(to_expiry_ms, self._time_to_allow_ms(now_ms))

    def succeeded(
        self, now_ms: int, answered_version: int, *, is_partial: bool, has_news: bool
    ) -> None:
        """An answer was applied (P-H.2.2 to P-H.2.4).

        Args:
            now_ms: the time.
            answered_version: ``request_version`` when the request was made.
            is_partial: it asked for new topics only: what is known did not get younger.
            has_news: it told something that was not known.
        """
        self._need_partial = answered_version < self._request_version
        self._last_refresh_ms = now_ms
        if not is_partial:
            self._need_full = False
            self._last_successful_refresh_ms = now_ms
        self._attempts = 0
        self._attempts_backoff_ms = self._backoff.backoff_ms(0)
        self._equivalent_count = 0 if has_news else self._equivalent_count + 1
        if self._equivalent_count:
            self._equivalent_backoff_ms = self._backoff.backoff_ms(self._equivalent_count - 1)

    def failed(self, now_ms: int) -> None:
        """A request got no usable answer (P-H.2.5)."""
        self._last_refresh_ms = now_ms
        self._attempts_backoff_ms = self._backoff.backoff_ms(self._attempts)
        self._attempts += 1
        self._equivalent_count = 0

    def forget_failures(self) -> None:
        """What made requests fail is no longer so: the next one need not wait."""
        self._attempts = 0
        self._attempts_backoff_ms = 0

    def _time_to_expiry_ms(self, now_ms: int) -> int:
        if self._last_successful_refresh_ms is None:
            return 0
        return max(self._last_successful_refresh_ms + self._max_age_ms - now_ms, 0)

    def _time_to_allow_ms(self, now_ms: int) -> int:
        if self._last_refresh_ms is None:
            return 0
        backoff_ms = self._attempts_backoff_ms
        if self._equivalent_count:
            backoff_ms = max(backoff_ms, self._equivalent_backoff_ms)
        return max(self._last_refresh_ms + backoff_ms - now_ms, 0)
